"""Quality of the front: how much hypervolume each method lacks after 30, 60 and 100 trials on measured tables.

The tables are the four grids of Transformer translation systems of ../shared/data/tables, each by BLEU against seconds,
parameters or memory, and against seconds and one of the others. Losses are scaled by the best and worst of the whole
table, the reference point is 1.1; regret is 1 - hypervolume of what was found / hypervolume of the table's own front,
lower is better. Every method gets the same tables and budgets in one run. Ours search the rows that exist; Optuna's
samplers are helped as search_quality/regret.py says: a repeated or absent point is not counted.

    python -m benchmarks.fronts.regret --results fronts.csv --jobs 2
    python -m benchmarks.fronts.regret limits      (trials over a limit, and regret within it)
    python -m benchmarks.fronts.regret workers     (8 and 32 at equal time: by the clock, in free order, Optuna's)
    python -m benchmarks.fronts.regret proposals   (milliseconds of a proposal after 10,000 trials)

Every finished search is a row of `--results`, so that a stopped run continues where it stopped.
"""

import argparse
import itertools
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.fronts.cases import BUDGETS, CASES, METHODS, METRICS, OURS, PEERS, case, with_ours, within_limit
from benchmarks.fronts.workers import by_workers
from benchmarks.shared.places import strategy_settings
from benchmarks.shared.printing import conditions, difference, markdown, with_interval
from benchmarks.shared.rows import read, run
from benchmarks.shared.tables import NMT_TASKS
from hpo.engine.strategies import make_strategy
from hpo.trials.fronts import Array
from hpo.trials.goal import Goal, Limit, finished
from hpo.trials.history import History
from hpo.trials.space.reader import space_from_dict
from hpo.trials.trial import Outcome, Proposal, Trial

FIELDS = ("method", "task", "metrics", "seed", *(f"regret_{budget}" for budget in BUDGETS), "seconds")


def run_search(method: str, task: str, metrics: tuple[str, ...], seed: int, trials: int) -> dict[str, Any]:
    """Run one search of so many trials and return its row of the results; without regrets at larger budgets."""
    of, start = case(task, metrics), time.process_time()
    found = METHODS[method](of, seed, trials)
    seconds = time.process_time() - start
    regrets = [of.regret(found[:budget]) if budget <= trials else "" for budget in BUDGETS]
    return dict(zip(FIELDS, [method, task, "+".join(metrics), seed, *regrets, round(seconds, 3)], strict=True))


def run_missing(path: Path, methods: Sequence[str], searches: int, jobs: int, trials: int) -> None:
    """Run every search that is missing in the results."""
    done = {(row["method"], row["task"], row["metrics"], int(row["seed"])) for row in read(path)}
    wanted = [(method, *of, seed) for seed in range(searches) for method in methods for of in CASES]
    missing = [(*each, trials) for each in wanted if (each[0], each[1], "+".join(each[2]), each[3]) not in done]
    run(path, FIELDS, run_search, missing, jobs)


def summary(rows: Sequence[Mapping[str, str]]) -> str:
    """Return the regrets by metrics and pooled, and the differences of ours to the best peer at each budget."""
    methods = [name for name in METHODS if any(row["method"] == name for row in rows)]

    def regrets(method: str, budget: int, metrics: str | None = None) -> Array:
        """Return the regrets of the searches that were as long."""
        chosen = [row for row in rows if row["method"] == method and metrics in (None, row["metrics"])]
        return np.array([float(text) for row in chosen if (text := row[f"regret_{budget}"])])

    lines = [conditions(), ""]
    for metrics in (None, *("+".join(each) for each in METRICS)):
        table = []
        for method in methods:
            columns = [regrets(method, budget, metrics) for budget in BUDGETS]
            whole = [float(row["seconds"]) for row in rows if row["method"] == method and row[FIELDS[-2]]]
            counts = "/".join(dict.fromkeys(str(len(values)) for values in columns))
            table.append([method, counts, *map(with_interval, columns), f"{np.mean(whole):.2f}"])
        lines += ["", f"{metrics or 'pooled'}: regret of hypervolume, mean (95 % bootstrap interval)", ""]
        lines += [markdown(["method", "searches", *(f"at {budget}" for budget in BUDGETS), "CPU s"], table)]
    for mine, budget in itertools.product(OURS, BUDGETS):
        theirs = [name for name in methods if name in PEERS]
        if mine in methods and theirs:
            best = min(theirs, key=lambda name: regrets(name, budget).mean())
            gap = difference(regrets(mine, budget), regrets(best, budget))
            lines.append(f"{mine} - {best} at {budget}: {gap[0]:+.4f} ({gap[1]:+.4f} to {gap[2]:+.4f})")
    return "\n".join(lines)


def over_limits(searches: int, kept: float) -> str:
    """Return the shares of trials over a limit, and what BLEU lacks within it, in searches by BLEU.

    The limit is that of a table's seconds or parameters which this share of its rows keep. A search that has found none
    of these lacks as much as the worst row would.
    """
    head = ["method", *(f"over at {b}" for b in BUDGETS), *(f"regret of BLEU at {b}" for b in BUDGETS)]
    rows = []
    for method in ("random", *OURS, "Optuna TPESampler"):
        searched = []
        for task, name, seed in itertools.product(NMT_TASKS, ("seconds", "parameters"), range(searches)):
            of = case(task, ("bleu", name))
            limit = float(np.quantile(of.all[:, 1], kept))
            if method in PEERS:
                found = np.array(within_limit(of, limit, seed, max(BUDGETS)))
            else:
                goal = Goal({"bleu": "maximize"}, (Limit(name, limit),))
                found = np.array(with_ours(method, of, seed, max(BUDGETS), goal))
            within = np.where(found[:, 1] <= limit, found[:, 0], of.all[:, 0].max())
            best = np.minimum.accumulate(within) - of.all[of.all[:, 1] <= limit, 0].min()
            shares = [float((found[:budget, 1] > limit).mean()) for budget in BUDGETS]
            searched.append([*shares, *(best[budget - 1] for budget in BUDGETS)])
        rows.append([method, *map(with_interval, np.array(searched).T)])
    return f"{conditions()}\n\n{markdown(head, rows)}"


def milliseconds(trials: int = 10_000, asked: int = 50) -> str:
    """Return the milliseconds of a proposal after so many trials, in six ranges, fastest of five turns."""
    space = space_from_dict({f"x{place}": {"low": 1e-5, "high": 1.0, "log": place < 3} for place in range(6)})
    rows = []
    for name, count in itertools.product(OURS, (1, 2, 3)):
        goal = Goal({f"m{place}": "minimize" for place in range(count)})
        rng = np.random.default_rng(0)

        def ended(number: int, point: Mapping[str, Any], goal: Goal = goal) -> Trial:
            x = np.array(list(point.values()))
            values = {metric: float(((x - place / 3) ** 2).sum()) for place, metric in enumerate(goal.metrics)}
            return finished(Trial(number, number, point), {0: Outcome(values)}, goal)

        first = History(ended(number, space.draw(rng)) for number in range(trials))
        settings = strategy_settings(name)
        fastest = np.inf
        for _ in range(5):
            strategy: Any = make_strategy(settings, space, 0)
            known, spent = History(first), 0.0
            strategy.propose(known, ())
            for _ in range(asked):
                start = time.process_time()
                (proposed,) = strategy.propose(known, ())
                spent += time.process_time() - start
                point = proposed.point if isinstance(proposed, Proposal) else proposed
                known = known.extended([ended(len(known), point)])
            fastest = min(fastest, 1000 * spent / asked)
        rows.append([name, str(count), f"{fastest:.2f}"])
    return f"{conditions()}\n\n{markdown(['strategy', 'metrics', f'ms a proposal after {trials:,} trials'], rows)}"


def main() -> None:
    """Run what is asked for, and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", nargs="?", choices=["regret", "limits", "workers", "proposals"], default="regret")
    parser.add_argument("--results", type=Path, help="with regret: CSV file that collects the finished searches")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), help="default: all")
    parser.add_argument("--searches", type=int, default=30, help="searches a method and case; default 30")
    parser.add_argument("--kept", type=float, default=0.2, help="with limits: share of rows that keep it; default .2")
    what = "of the searches that are missing; default 100"
    parser.add_argument("--trials", type=int, choices=BUDGETS, default=max(BUDGETS), help=what)
    parser.add_argument("--jobs", type=int, default=1, help="processes; default 1")
    given = parser.parse_args()
    if given.part == "limits":
        print(over_limits(given.searches, given.kept))
    elif given.part == "workers":
        print(by_workers(given.searches))
    elif given.part == "proposals":
        print(milliseconds())
    elif given.results is None:
        parser.error("--results: is missing")
    else:
        run_missing(given.results, given.methods, given.searches, given.jobs, given.trials)
        print(summary(read(given.results)))


if __name__ == "__main__":
    main()
