"""How often a hyperparameter is called significant: one with a strong effect, and some without effect.

A study searches five hyperparameters. `strong` causes 80 % of the variance of the loss over the space, and noise the
rest: the loss falls with its logarithm (monotone), or is a parabola over it with the best value at .4 of its range
(inside). A range, four ordered values, three choices and a range under one of the choices have no effect. In studies
of noise, `strong` has no effect, either.
"""

import argparse
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.shared.places import strategy_settings
from benchmarks.shared.printing import conditions, markdown
from benchmarks.shared.workers import Times, Workers, run
from hpo.engine.strategies import make_strategy
from hpo.report.importance import importances
from hpo.report.part import is_missing
from hpo.trials.space.reader import space_from_dict

SPACE = space_from_dict(
    {
        "strong": {"low": 1e-4, "high": 1.0, "log": True},
        "range": {"low": 0.0, "high": 1.0},
        "values": [8, 16, 32, 64],
        "choices": {"choices": ["a", "b", "c"]},
        "conditional": {"low": 0.0, "high": 1.0, "when": {"choices": ["a"]}},
    }
)
NOTHING = [key for key in SPACE.keys if key != "strong"]
EFFECTS: dict[str, Callable[[Any], Any]] = {
    "monotone": lambda place: -place,
    "inside": lambda place: (place - 0.4) ** 2,
    "noise": lambda place: 0.0 * place,
}
TRIALS = (20, 50, 100)
STRATEGIES = ("random", "evolutionary", "tpe")


def significant(strategy: str, trials: int, seed: int, effect: Callable[[Any], Any]) -> list[str]:
    """Return the hyperparameters that are told apart in one study."""
    rng = np.random.default_rng(seed)
    deviation = np.std(effect(np.linspace(0, 1, 10_001))) or 1.0

    def loss(point: Mapping[str, Any]) -> float:
        place = np.log10(point["strong"]) / 4 + 1
        return float(np.sqrt(0.8) * effect(place) / deviation + np.sqrt(0.2) * rng.normal())

    times = Times(seed, 0.0, 0.0)
    proposed: Any = make_strategy(strategy_settings(strategy), SPACE, seed)
    done = run(proposed, Workers(1, times.seconds, loss), times, 1, trials).trials()
    found = importances(SPACE, "minimize", done, [trial.loss for trial in done])
    return [] if is_missing(found) else found.significant


def row(strategy: str, trials: int, studies: int) -> list[str]:
    """Return how often hyperparameters are told apart."""
    found = {name: [significant(strategy, trials, k, f) for k in range(studies)] for name, f in EFFECTS.items()}

    def share(those: list[list[str]], keys: list[str]) -> str:
        return f"{100 * np.mean([key in each for each in those for key in keys]):.0f} %"

    strong = [share(found[name], ["strong"]) for name in ("monotone", "inside")]
    return [
        strategy,
        str(trials),
        *strong,
        share(found["monotone"] + found["inside"], NOTHING),
        share(found["noise"], NOTHING),
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=400, help="a cell")
    studies = parser.parse_args().studies
    print(f"{conditions(('numpy', 'scipy', 'optuna'))}\n")
    head = (
        "strategy",
        "trials",
        "strong, monotone",
        "strong, best inside",
        "no effect, with a strong one",
        "no effect, like all others",
    )
    print(markdown(head, [row(name, trials, studies) for name in STRATEGIES for trials in TRIALS]))


if __name__ == "__main__":
    main()
