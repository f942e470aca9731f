"""The summary of the searches of regret.py: tables in Markdown, and which of the goals hold."""

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from benchmarks.shared.printing import Array, conditions, difference, interval, markdown, with_interval
from benchmarks.shared.tables import NMT_TASKS, TABLES, expected_regret, load

BUDGETS = (10, 30, 100)
# Regrets are printed in thousandths of error for protein, in BLEU points elsewhere.
UNITS = {"protein": 1000.0}
# Fewer searches than this are not shown.
LEAST_SEARCHES = 10

Rows = Sequence[Mapping[str, str]]


class Results:
    """The regrets of all finished searches.

    Attributes:
        regrets: by method and table, in the unit of the metric, shape (searches, budgets), by ascending seed.
    """

    def __init__(self, rows: Rows) -> None:
        """Read the rows of regret.py; a method's seeds count only if all five tables have them."""
        by_seed: dict[tuple[str, str], dict[int, list[float]]] = defaultdict(dict)
        self._seconds: dict[str, list[float]] = defaultdict(list)
        for row in rows:
            by_seed[row["method"], row["table"]][int(row["seed"])] = [float(row[f"regret_{b}"]) for b in BUDGETS]
            self._seconds[row["method"]].append(float(row["seconds"]))
        self.regrets: dict[tuple[str, str], Array] = {}
        for method in self._seconds:
            seeds = sorted(set.intersection(*(set(by_seed[method, name]) for name in TABLES)))
            for name in TABLES if len(seeds) >= LEAST_SEARCHES else ():
                self.regrets[method, name] = np.array([by_seed[method, name][seed] for seed in seeds])

    def __contains__(self, method: str) -> bool:
        return (method, TABLES[0]) in self.regrets

    def normalised(self, method: str) -> Array:
        """Return regrets as shares of the regret of a table's median, mean over tables: (searches, budgets)."""
        means: Array = np.mean([self.regrets[method, name] / load(name).scale for name in TABLES], axis=0)
        return means

    def seconds(self, method: str) -> float:
        """Return the mean CPU seconds of a search."""
        return float(np.mean(self._seconds[method]))


def averages(results: Results, labels: Mapping[str, str]) -> str:
    """Return the table of normalised regrets, averaged over the tables."""
    head = ["method", "searches a table", *(f"at {budget}" for budget in BUDGETS), "CPU s a search"]
    exact = [np.mean([expected_regret(load(n), b) / load(n).scale for n in TABLES]) for b in BUDGETS]
    rows = [["random, exact expectation", "", *(f"{x:.3f}".lstrip("0") for x in exact), ""]]
    for method, label in labels.items():
        if method in results:
            values = results.normalised(method)
            cells = [with_interval(column) for column in values.T]
            rows.append([label, str(len(values)), *cells, f"{results.seconds(method):.2f}"])
    return markdown(head, rows)


def by_table(results: Results, labels: Mapping[str, str]) -> str:
    """Return the table of regrets in the unit of each table's metric; see `UNITS`."""
    exact = [[UNITS.get(name, 1.0) * expected_regret(load(name), budget) for budget in BUDGETS] for name in TABLES]
    rows = [["random, exact expectation", *(" / ".join(f"{x:.2f}" for x in cells) for cells in exact)]]
    for method, label in labels.items():
        if method in results:
            means = [UNITS.get(name, 1.0) * results.regrets[method, name].mean(axis=0) for name in TABLES]
            rows.append([label, *(" / ".join(f"{x:.2f}" for x in cells) for cells in means)])
    return markdown(["method", *(f"{name}, BLEU" for name in NMT_TASKS), "protein, error x 1000"], rows)


def goals(results: Results) -> str:
    """Return which of the goals hold, each with the difference that decides it."""
    rows = [*_random_is_exact(results)]
    for ours, peers, budget, beats in (
        ("shifting_window", ["random"], 30, True),
        ("shifting_window", ["random"], 100, True),
        ("evolutionary", ["random"], 30, True),
        ("evolutionary", ["optuna_tpe"], 100, False),
        ("evolutionary", ["optuna_tpe", "optuna_gp"], 30, False),
        ("evolutionary", ["optuna_tpe", "optuna_gp"], 100, False),
    ):
        if ours in results and all(peer in results for peer in peers):
            rows.append(_compared(results, ours, peers, budget, beats))
    rows += _on_translation(results)
    return markdown(["goal", "measured", "verdict"], rows)


def _random_is_exact(results: Results) -> Iterator[list[str]]:
    for place, budget in enumerate(BUDGETS) if "random" in results else ():
        exact = float(np.mean([expected_regret(load(n), budget) / load(n).scale for n in TABLES]))
        mean, low, high = interval(results.normalised("random")[:, place])
        text = f"{mean:.4f} ({low:.4f} to {high:.4f}), exact {exact:.4f}"
        verdict = "holds" if low <= exact <= high else "fails"
        yield [f"random is the exact expectation of drawing without replacement, at {budget}", text, verdict]


def _compared(results: Results, ours: str, peers: Sequence[str], budget: int, beats: bool) -> list[str]:
    """Return the row of a goal: our mean regret against that of the best peer."""
    place = BUDGETS.index(budget)
    peer = min(peers, key=lambda name: float(results.normalised(name)[:, place].mean()))
    mine, theirs = results.normalised(ours)[:, place], results.normalised(peer)[:, place]
    mean, low, high = difference(mine, theirs)
    holds = high < 0 if beats else mine.mean() <= theirs.mean()
    doubt = "" if high < 0 or low > 0 else "; not distinguishable"
    words = "beats" if beats else "is at or below"
    others = peer if len(peers) == 1 else f"the better of {' and '.join(peers)} ({peer})"
    text = f"{mine.mean():.4f} against {theirs.mean():.4f}; difference {mean:+.4f} ({low:+.4f} to {high:+.4f})"
    return [f"{ours} {words} {others} at {budget}", text, ("holds" if holds else "fails") + doubt]


def _on_translation(results: Results) -> Iterator[list[str]]:
    """Yield the rows on the reference: 0.00 BLEU at 100 and 0.06-0.40 at 30 on the four pairs, by a plain version."""
    for method in ("evolutionary", "evolutionary_plain"):
        if method in results:
            means = np.array([results.regrets[method, name].mean(axis=0) for name in NMT_TASKS])
            text = "; ".join(f"at {b}: {means[:, i].min():.2f}-{means[:, i].max():.2f}" for i, b in enumerate(BUDGETS))
            is_zero = bool((means[:, -1] < 0.005).all())
            goal = f"{method} gets 0.00 BLEU at 100 on all four pairs (reference: a plain version, 0.06-0.40 at 30)"
            yield [goal, text, "holds" if is_zero else "fails"]


def losses(results: Results) -> str:
    """Return where our defaults are worse on a table at 30 or 100 trials, and whether that is significant."""
    rows: list[list[str]] = []
    for ours, name, budget in itertools.product(("shifting_window", "evolutionary"), TABLES, (30, 100)):
        for peer in ("random", "optuna_tpe", "optuna_gp"):
            if ours in results and peer in results:
                rows += _behind(results, ours, peer, name, budget)
    return markdown(["strategy", "table", "at", "is behind", "regrets", "difference"], rows)


def _behind(results: Results, ours: str, peer: str, name: str, budget: int) -> Iterator[list[str]]:
    place, unit = BUDGETS.index(budget), UNITS.get(name, 1.0)
    mine, theirs = (unit * results.regrets[method, name][:, place] for method in (ours, peer))
    other = unit * expected_regret(load(name), budget) if peer == "random" else float(theirs.mean())
    if mine.mean() <= other:
        return
    mean, low, high = interval(mine - other) if peer == "random" else difference(mine, theirs)
    sure = "" if low > 0 else ": not distinguishable"
    text = f"{mean:+.3f} ({low:+.3f} to {high:+.3f}){sure}"
    yield [ours, name, str(budget), peer, f"{mine.mean():.3f} against {other:.3f}", text]


def report(rows: Rows, labels: Mapping[str, str]) -> str:
    """Return the complete report; `labels` gives the methods, in order, and their names."""
    results = Results(rows)
    parts = [
        conditions(),
        "Normalised regret, mean over the five tables, with its 95 % bootstrap interval; lower is better.",
        averages(results, labels),
        f"Mean regret a table after {' / '.join(map(str, BUDGETS))} trials, in the unit of its metric.",
        by_table(results, labels),
        "Goals. Differences of the means with their 95 % bootstrap intervals; negative = ours is better.",
        goals(results),
        "Where our defaults are behind on a table (random: its exact expectation), in the unit of the table above.",
        losses(results),
    ]
    return "\n\n".join(parts)
