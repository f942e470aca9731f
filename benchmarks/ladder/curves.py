"""The searches of loss_over_cost.py as curves of the lowest loss over cost, and their tables."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.shared.printing import markdown
from benchmarks.shared.rows import read

# Sums of shares are not exact.
_NEAR = 1e-6


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
        if cost[-1] < budget - _NEAR:
            return None
        loss = float(self.best[np.searchsorted(cost, budget - _NEAR)])
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
) -> tuple[dict[str, list[Curve]], dict[int, float]]:
    """Return the searches of each method, and the median seconds of a whole training at each width."""
    found = {
        name: [read(path) for path in sorted(results.glob(f"{name.replace(', ', '_')}-[0-9]*.csv"))] for name in methods
    }
    every = [row for searches in found.values() for rows in searches for row in rows]
    whole = [row for row in every if row["steps"] == str(steps)]
    seconds = {
        width: float(np.median([float(row["seconds"]) for row in whole if row["width"] == str(width)]))
        for width in sorted({int(row["width"]) for row in whole})
    }
    counted = {width: max(float(row["cost"]) for row in whole if row["width"] == str(width)) for width in seconds}

    def curve(rows: Sequence[Mapping[str, str]]) -> Curve:
        count = np.array([float(row["cost"]) for row in rows])
        # A training that goes on costs its share; each width as much as its median, since the machine is noisy.
        relative = [seconds[int(row["width"])] / counted[int(row["width"])] / seconds[target] for row in rows]
        losses = [
            float(row["loss"]) if row["width"] == str(target) and row["steps"] == str(steps) else np.inf for row in rows
        ]
        return Curve(np.cumsum(count), np.cumsum(count * relative), np.minimum.accumulate(losses))

    return {name: [curve(rows) for rows in searches] for name, searches in found.items() if searches}, seconds


def tables(
    results: Path, methods: Iterable[str], direct: Collection[str], target: int, steps: int, budget: float
) -> Iterator[str]:
    """Yield the best losses at parts of a budget, by method, and at which cost the others reach the best direct one."""
    found, seconds = curves(results, methods, target, steps)
    text = ", ".join(f"{width}: {each:.1f}" for width, each in seconds.items())
    yield f"Median seconds of a training by width: {text}."
    yield f"\nThe first training at width {target}; means ± standard deviation (searches)\n"
    rows = []
    for name in (each for each in found if each not in direct):
        firsts = np.array([first for each in found[name] if (first := each.first) is not None])
        if len(firsts):
            loss, count, spent = firsts.T
            cells = [
                f"{loss.mean():.3f} ± {loss.std():.3f} ({len(loss)})",
                f"{count.mean():.1f}",
                f"{spent.mean():.1f}",
            ]
            rows.append([name, *cells])
    yield markdown(["method", "loss", "cost by count", "by seconds"], rows)
    for by in ("count", "seconds"):
        budgets = [budget / 6, budget / 3, budget / 2, budget]
        rows = []
        for name, searches in found.items():
            ended = [[loss for each in searches if (loss := each.at(part, by)) is not None] for part in budgets]
            cells = [
                f"{np.mean(losses):.3f} ± {np.std(losses):.3f} ({len(losses)})" if losses else "" for losses in ended
            ]
            rows.append([name, *cells])
        yield f"\nCost by {by}, in trainings at width {target}; mean loss ± standard deviation (searches)\n"
        yield markdown(["method", *(f"at {part:.3g}" for part in budgets)], rows)
        ends = {
            name: [loss for each in found[name] if (loss := each.at(budget, by)) is not None]
            for name in found
            if name in direct
        }
        if not any(ends.values()):
            continue
        best = min((name for name in ends if ends[name]), key=lambda name: float(np.mean(ends[name])))
        loss = float(np.mean(ends[best]))
        yield f"\nThe best direct search, {best}, ends at {loss:.3f}. As good, and at which cost:\n"
        for name, searches in found.items():
            costs = [cost for each in searches if (cost := each.until(loss, by)) is not None]
            yield f"- {name}: {len(costs)} of {len(searches)}{f', mean {np.mean(costs):.1f}' if costs else ''}"
