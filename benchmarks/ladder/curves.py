"""The searches of loss_over_cost.py as curves of the lowest loss over cost, and their tables."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

from benchmarks.shared.printing import markdown
from benchmarks.shared.rows import read

# Sums of shares are not exact.
NEAR = 1e-6


@dataclass(frozen=True)
class Curve:
    """The lowest loss at the target so far, after each training of a search, and what the search has cost by then."""

    count: np.ndarray
    seconds: np.ndarray
    best: np.ndarray

    def at(self, budget: float, by: str) -> float | None:
        """Return the loss when a budget is spent; the training that crosses the line counts.

        None = the search ended before, or nothing was trained at the target by then.
        """
        cost = getattr(self, by)
        if cost[-1] < budget - NEAR:
            return None
        loss = float(self.best[np.searchsorted(cost, budget - NEAR)])
        return loss if np.isfinite(loss) else None

    def until(self, loss: float, by: str) -> float | None:
        """Return the cost at which a loss is reached; None = never."""
        reached = np.flatnonzero(self.best <= loss)
        return float(getattr(self, by)[reached[0]]) if len(reached) else None

    @property
    def first(self) -> tuple[float, float, float] | None:
        """The loss of the first training at the target, and its cost by count and seconds; None = there is none yet."""
        reached = np.flatnonzero(np.isfinite(self.best))
        if not len(reached):
            return None
        place = reached[0]
        return float(self.best[place]), float(self.count[place]), float(self.seconds[place])


def curves(
    results: Path, methods: Iterable[str], target: int, steps: int
) -> tuple[dict[str, list[Curve]], dict[int, tuple[float, float]]]:
    """Return the searches of each method, and of each width a whole training's median seconds and its cost by count."""
    found = {
        name: [read(path) for path in sorted(results.glob(f"{name.replace(', ', '_')}-[0-9]*.csv"))] for name in methods
    }
    every = [row for searches in found.values() for rows in searches for row in rows]
    whole = [row for row in every if row["steps"] == str(steps)]
    trained = {
        width: (
            float(np.median([float(row["seconds"]) for row in whole if row["width"] == str(width)])),
            max(float(row["cost"]) for row in whole if row["width"] == str(width)),
        )
        for width in sorted({int(row["width"]) for row in whole})
    }

    def curve(rows: Sequence[Mapping[str, str]]) -> Curve:
        count = np.array([float(row["cost"]) for row in rows])
        # A training that goes on costs its share; each width as much as its median, since the machine is noisy.
        seconds_of_count = {width: seconds / cost / trained[target][0] for width, (seconds, cost) in trained.items()}
        losses = [
            float(row["loss"]) if row["width"] == str(target) and row["steps"] == str(steps) else np.inf for row in rows
        ]
        seconds = count * [seconds_of_count[int(row["width"])] for row in rows]
        return Curve(np.cumsum(count), np.cumsum(seconds), np.minimum.accumulate(losses))

    return {name: [curve(rows) for rows in searches] for name, searches in found.items() if searches}, trained


def tables(
    results: Path, methods: Iterable[str], direct: Collection[str], target: int, steps: int, budget: float
) -> Iterator[str]:
    """Yield the best losses at parts of a budget, by method, and what each pays for the end of each direct one.

    The intervals are Student's, 95 %, over searches.
    """
    found, trained = curves(results, methods, target, steps)
    yield "A whole training by width:\n"
    rows = [
        [str(width), f"{seconds:.1f}", f"{cost:.3f}", f"{seconds / trained[target][0]:.3f}"]
        for width, (seconds, cost) in trained.items()
    ]
    yield markdown(["width", "median seconds", f"cost by count, in trainings at {target}", "by seconds"], rows)
    yield f"\nThe first training at width {target}\n"
    rows = []
    for name in (each for each in found if each not in direct):
        firsts = np.array([first for each in found[name] if (first := each.first) is not None])
        if len(firsts):
            loss, count, spent = firsts.T
            rows.append([name, _cell(loss.tolist()), f"{count.mean():.1f}", f"{spent.mean():.1f}"])
    yield markdown(["method", "loss", "cost by count", "by seconds"], rows)
    for by in ("count", "seconds"):
        budgets = [budget / 6, budget / 3, budget / 2, budget]
        rows = [
            [name, *(_cell([loss for each in searches if (loss := each.at(part, by)) is not None]) for part in budgets)]
            for name, searches in found.items()
        ]
        yield f"\nCost by {by}, in trainings at width {target}; mean loss (95 %; searches)\n"
        yield markdown(["method", *(f"at {part:.3g}" for part in budgets)], rows)
        ends = {
            name: float(np.mean(losses))
            for name in found
            if name in direct
            and (losses := [loss for each in found[name] if (loss := each.at(budget, by)) is not None])
        }
        if ends:
            yield "\nSearches that are as good as the mean end of each direct one, and their mean cost by then\n"
            rows = [[name, *(_until(searches, loss, by) for loss in ends.values())] for name, searches in found.items()]
            yield markdown(["method", *(f"{name}: {loss:.3f}" for name, loss in ends.items())], rows)


def _cell(losses: Sequence[float]) -> str:
    if not losses:
        return ""
    mean, count = float(np.mean(losses)), len(losses)
    if count == 1:
        return f"{mean:.3f} (1)"
    half = float(stats.t.ppf(0.975, count - 1) * np.std(losses, ddof=1) / count**0.5)
    return f"{mean:.3f} ({mean - half:.3f} to {mean + half:.3f}; {count})"


def _until(searches: Sequence[Curve], loss: float, by: str) -> str:
    costs = [cost for each in searches if (cost := each.until(loss, by)) is not None]
    return f"{len(costs)} of {len(searches)}{f', {np.mean(costs):.1f}' if costs else ''}"
