"""Fronts by halving on real learning curves: asha and successive halving with two metrics, against random search.

The curves are the development perplexities of Transformer translation systems (../shared/data/tables); the metrics are
the least perplexity up to the amount, and the number of parameters. Cost is counted in checkpoints, of which a full
training has the median length of the pair's curves. Regret is the share of the pair's hypervolume, in logarithms of
both, that the full trainings lack; lower is better. A training that crosses the budget does not count, for anybody, nor
does what follows a search. `asha, one metric` goes by perplexity alone.

    python -m benchmarks.fronts.halving    (a minute)
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.shared.places import strategy_settings
from benchmarks.shared.printing import conditions
from benchmarks.shared.tables import DATA, learning_curves
from hpo.engine.schedule.proposer import propose
from hpo.engine.strategies import make_strategy
from hpo.trials.fronts import hypervolume, scale_of, scaled
from hpo.trials.goal import Goal, finished
from hpo.trials.history import History
from hpo.trials.space.reader import space_from_dict
from hpo.trials.trial import Outcome, Trial

PAIRS = ("ru-en", "ja-en", "en-ja")
SEARCHES = 40
# In full trainings.
BUDGETS = (8, 16)
TWO = Goal({"perplexity": "minimize", "parameters": "minimize"})
ETA, HALVINGS = 3, 3


class Pair:
    """The curves of a language pair by configuration, and the number of parameters of each."""

    def __init__(self, name: str) -> None:
        self.curves = learning_curves(name)
        table = pd.read_csv(DATA / "nmt_hpo.csv")
        rows = table[(table["task"] == name) & table["row"].isin(self.curves)]
        self.parameters = dict(zip(rows["row"], rows["num_param"].astype(float), strict=True))
        self.full = int(np.median([len(curve) for curve in self.curves.values()]))
        self.space = space_from_dict({"row": {"choices": sorted(self.parameters)}})
        self._all = np.log([self.losses(row, self.full) for row in self.parameters])

    def losses(self, row: int, amount: int) -> tuple[float, float]:
        """Return the perplexity after so many checkpoints, and the number of parameters."""
        return min(self.curves[row][:amount]), self.parameters[row]

    def cost(self, row: int, trained: int, amount: int) -> int:
        """Return the number of checkpoints between two amounts."""
        length = len(self.curves[row])
        return min(amount, length) - min(trained, length)

    def regret(self, rows: list[int]) -> float:
        """Return the share of the hypervolume that the full trainings of these lack."""
        scale = scale_of(self._all)
        found = np.log([self.losses(row, self.full) for row in rows]) if rows else np.empty((0, 2))
        return 1 - hypervolume(scaled(found, scale)) / hypervolume(scaled(self._all, scale))


def run(pair: Pair, settings: Mapping[str, Any], goal: Goal, seed: int) -> list[float]:
    """Return the regrets of one search at each budget."""
    strategy = make_strategy(settings, pair.space, seed)
    known, spent, num_rounds, full, regrets = History(), 0, 0, list[int](), list[float]()
    while proposals := propose(strategy, known):
        ended = []
        for proposal in proposals:
            row: Any = proposal.point["row"]
            amount = proposal.amount or pair.full
            spent += pair.cost(row, proposal.trained, amount)
            while len(regrets) < len(BUDGETS) and spent > BUDGETS[len(regrets)] * pair.full:
                regrets.append(pair.regret(full))
            if amount == pair.full:
                full.append(row)
            trial = Trial(len(known) + len(ended), num_rounds, **vars(proposal))
            outcome = Outcome(dict(zip(TWO.metrics, pair.losses(row, amount), strict=True)))
            ended.append(finished(trial, {0: outcome}, goal))
        if len(regrets) == len(BUDGETS):
            break
        known, num_rounds = known.extended(ended), num_rounds + 1
    return regrets + [pair.regret(full)] * (len(BUDGETS) - len(regrets))


def methods(full: int) -> dict[str, tuple[dict[str, Any], Goal]]:
    """Return the strategies and what each goes by."""
    halving = {"min_amount": max(1, full // ETA**HALVINGS), "max_amount": full, "eta": ETA}
    return {
        "random": ({"name": "random", "round_size": 1}, TWO),
        "asha": (strategy_settings("asha") | halving, TWO),
        "asha, one metric": (strategy_settings("asha") | halving, Goal({"perplexity": "minimize"})),
        "successive_halving": (strategy_settings("successive_halving") | halving, TWO),
        "hyperband": (strategy_settings("hyperband") | halving, TWO),
    }


def main() -> None:
    """Print the regrets in percent, with 1.96 standard errors."""
    print(conditions())
    print(f"| pair | curves | strategy | {' | '.join(f'after {budget} full trainings' for budget in BUDGETS)} |")
    print(f"|{'---|' * (3 + len(BUDGETS))}")
    for name in PAIRS:
        pair = Pair(name)
        for method, (settings, goal) in methods(pair.full).items():
            regrets = 100 * np.array([run(pair, settings, goal, seed) for seed in range(SEARCHES)])
            errors = 1.96 * regrets.std(axis=0, ddof=1) / SEARCHES**0.5
            cells = " | ".join(f"{mean:.1f} ± {error:.1f}" for mean, error in zip(regrets.mean(0), errors, strict=True))
            print(f"| {name} | {len(pair.curves)} | {method} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
