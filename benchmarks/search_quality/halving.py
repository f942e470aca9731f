"""Successive halving and Hyperband on real learning curves, against random search at equal cost.

The curves are the development perplexities of Transformer translation systems, recorded every 2,000 updates
(../shared/data/tables; lower is better). Cost is counted in these checkpoints. Every search goes through the same loop,
strategies and table objective as `hpo search`. Regret = the best perplexity that a search has seen, minus the best in
the curves of the pair. For each seed random search trains configurations to their ends until it has spent what
the other search spent; a training that crosses that line is finished, which favours random search.

Successive halving is one bracket: 27 configurations, eta 3. `max_amount` is the median length of the pair's curves, or
the longest; `min_amount` a 27th of it. Hyperband is one turn of all its brackets, asha as many trials as a bracket of
successive halving. One epoch is the baseline that the others must beat (Egele et al. 2023): 27 configurations for
`min_amount`, the best 3 of them to the end.
"""

import argparse
import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.shared.places import strategy_settings
from benchmarks.shared.printing import conditions, interval, markdown
from benchmarks.shared.tables import CURVES, DATA, NMT_KEYS, learning_curves
from hpo.config.composing.compose import compose_config
from hpo.config.study_config import config_from_dict
from hpo.engine.loop import search
from hpo.engine.strategies import make_strategy
from hpo.study.preparing.preparation import prepare_study
from hpo.study.study import PreparedStudy
from hpo.trials.record.record import memory_record
from hpo.trials.trial import Trial
from hpo.workers.dispatch.simulated import SimulatedDispatcher

PAIRS = ("ru-en", "ja-en", "en-ja", "zh-en")
ETA = 3
POINTS = ETA**3
# The goal: at most a third of random's regret.
GOAL = 1 / 3
# ../shared/data/README.md: perplexity regret of successive halving, of random search, and the checkpoints spent.
REFERENCES = {"ru-en": (0.52, 7.4, 76), "ja-en": (0.52, 3.8, 452), "en-ja": (0.45, 4.5, 483)}


def study_of(pair: str) -> PreparedStudy:
    """Return a study over the configurations of a pair that have a curve."""
    overrides = [
        f"data.path={DATA / 'nmt_hpo.csv'}",
        f"data.where={{task: {pair}}}",
        f"data.columns=[{','.join(NMT_KEYS)}]",
        "data.metric=dev_ppl",
        "data.absent=exclude",
        f"data.curves={CURVES}",
        "data.curve=ppl_curve",
        "study.direction=minimize",
        "track=none",
    ]
    return prepare_study(config_from_dict(compose_config("search", ["data=table", "strategy=random", *overrides])))


def run(study: PreparedStudy, settings: dict[str, Any], seed: int, num_trials: int) -> Sequence[Trial]:
    """Return the trials of one search; their `seconds` are checkpoints."""
    rules = replace(study.rules(), strategy=make_strategy(settings, study.space, seed))
    record = memory_record(study.goal, study.layout)
    return list(search(rules, record, SimulatedDispatcher(1), num_trials))


def halving_settings(name: str, longest: int) -> dict[str, Any]:
    """Return the settings of a strategy that trains up to an amount."""
    amounts = {"min_amount": math.ceil(longest / POINTS), "max_amount": longest, "eta": ETA}
    return strategy_settings(name) | amounts | ({"points": POINTS, "keep": 3} if name == "one_epoch" else {})


def num_trials(study: PreparedStudy, settings: dict[str, Any]) -> int:
    """Return how many trials one bracket (Hyperband: one turn of all brackets) has."""
    strategy: Any = make_strategy(settings, study.space, 0)
    halvings = [strategy.settings.num_halvings]
    if settings["name"] == "hyperband":
        halvings = list(range(halvings[0] + 1))
    return sum(
        strategy.settings.survivors(s, rung) if rung else strategy.settings.first_points(s)
        for s in halvings
        for rung in range(len(strategy.settings.amounts(s)))
    )


def best_within(trials: Sequence[Trial], cost: float) -> float:
    """Return the best score of the trials that begin before the cost is spent."""
    spent, best = 0.0, math.inf
    for trial in trials:
        if spent >= cost:
            break
        spent, best = spent + trial.seconds, min(best, trial.loss)
    return best


def compared(pair: str, name: str, reach: str, repeats: int) -> list[str]:
    """Return one row: a strategy against random search at equal cost, over many seeds."""
    study, of_pair = study_of(pair), list(learning_curves(pair).values())
    lengths = [len(curve) for curve in of_pair]
    settings = halving_settings(name, int(statistics.median(lengths)) if reach == "median" else max(lengths))
    optimum = min(map(min, of_pair))
    trials = num_trials(study, settings)
    costs, ours, randoms = [], [], []
    for seed in range(repeats):
        found = run(study, settings, seed, trials)
        cost = sum(trial.seconds for trial in found)
        enough = math.ceil(cost / min(lengths))
        at_random = run(study, {"name": "random", "round_size": enough}, seed, enough)
        costs.append(cost)
        ours.append(min(trial.loss for trial in found) - optimum)
        randoms.append(best_within(at_random, cost) - optimum)
    share, is_goal = np.mean(ours) / np.mean(randoms), name == "successive_halving" and pair in REFERENCES
    reference = "{:.2f} / {:.1f} at {}".format(*REFERENCES[pair]) if is_goal else ""
    cells = ["{:.2f} ({:.2f}-{:.2f})".format(*interval(np.array(values))) for values in (ours, randoms)]
    verdict = ("holds" if share <= GOAL else "fails") if is_goal else ""
    amounts = f"{settings['min_amount']}-{settings['max_amount']} ({reach})"
    return [pair, str(len(of_pair)), name, amounts, f"{np.mean(costs):.0f}", *cells, f"{share:.2f}", reference, verdict]


def main() -> None:
    """Run and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=200, help="searches a row; default 200")
    arguments = parser.parse_args()
    print(conditions())
    print(f"\nPerplexity regret, mean of {arguments.repeats} searches with its 95 % bootstrap interval.\n")
    rows = [
        compared(pair, name, reach, arguments.repeats)
        for name, reach in (
            ("successive_halving", "median"),
            ("successive_halving", "longest"),
            ("hyperband", "median"),
            ("asha", "median"),
            ("one_epoch", "median"),
        )
        for pair in PAIRS
    ]
    head = ["pair", "curves", "strategy", "amounts", "checkpoints", "regret", "random at equal cost"]
    print(markdown([*head, "share of random's", "reference", "at most a third"], rows))


if __name__ == "__main__":
    main()
