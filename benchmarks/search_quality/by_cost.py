"""The regret of halving after the cost of 2, 4, 8 and 16 full trainings, beside random search, TPE and BOHB.

Cost is counted in checkpoints, the points of a learning curve; a continuation costs what it adds. A full training has
`max_amount` checkpoints, or as many as its curve has. All train one point at a time. Regret is the score at the best
checkpoint so far, also of trainings under way, minus the best of all curves; lower is better.

Sets of curves: the development perplexities of Transformer translation systems (../shared/data/tables), one set a
language pair, `max_amount` = the median length of its curves; and two families of made-up losses that need no data and
are never exhausted, with another problem for every seed: see `made_up`.

Halving has eta 3 and goes from a 27th of `max_amount`, rounded up. `random` and `evolutionary` train all points fully.
Optuna's TPE reports every checkpoint and asks its pruner, except after the last. BOHB is HpBandSter's, in an
environment of its own: see bohb.py. The peers are helped: a proposal that is absent or a repeat costs nothing, after 20
in a row an untried row is trained, and BOHB continues trainings from where they are.
"""

import argparse
import contextlib
import itertools
import json
import math
import statistics
import subprocess
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.shared.peers import PATIENCE
from benchmarks.shared.places import strategy_settings
from benchmarks.shared.printing import conditions, interval, markdown
from benchmarks.shared.rows import read, run
from benchmarks.shared.tables import DATA, NMT_KEYS, learning_curves
from benchmarks.shared.workers import Enough
from hpo.engine.schedule.proposer import propose
from hpo.engine.strategies import make_strategy
from hpo.trials.goal import Goal, finished
from hpo.trials.history import History
from hpo.trials.space.dimensions import Choices, Range, Values
from hpo.trials.space.reader import space_from_dict
from hpo.trials.space.space import Point, Space, point_key
from hpo.trials.trial import Outcome, Trial, training_seed

BUDGETS = (2, 4, 8, 16)  # in full trainings
ETA, HALVINGS = 3, 3
GOAL = Goal({"loss": "minimize"})
FULL = 27
SPACE = {
    "lr": {"low": 1e-4, "high": 1e-1, "log": True},
    "weight_decay": {"low": 1e-4, "high": 1.0, "log": True},
    "warmup": {"low": 10.0, "high": 1000.0, "log": True},
    "dropout": [0.0, 0.1, 0.2, 0.3, 0.4, 0.5],
    "layers": [1, 2, 4, 8, 12],
    "optimizer": {"choices": ["adam", "lion", "sgd"]},
}

Losses = Sequence[float]


@dataclass(frozen=True)
class Curves:
    """A set of curves.

    Attributes:
        space: of its points.
        full: checkpoints of a full training.
        optimum: the lowest loss of all curves.
        of: by a point, the losses that a training reports, and those without noise; None where it is absent.
        rows: its points, where they are finitely many.
    """

    space: Space
    full: int
    optimum: float
    of: Callable[[Point], tuple[Losses, Losses] | None]
    rows: Sequence[Point] = ()

    @property
    def least(self) -> int:
        """The amount of the first rung."""
        return math.ceil(self.full / ETA**HALVINGS)


@cache
def measured(pair: str) -> Curves:
    """Return the curves of a language pair, over its configurations that have one."""
    found = learning_curves(pair)
    table = pd.read_csv(DATA / "nmt_hpo.csv")
    rows = table[(table["task"] == pair) & table["row"].isin(found)].set_index("row")
    # On zh-en two have a single value.
    rows = rows[[key for key in NMT_KEYS if rows[key].nunique() > 1]]
    points = {number: dict(row) for number, row in rows.to_dict("index").items()}
    by_key = {point_key(point): found[number] for number, point in points.items()}
    dimensions = tuple(Values(key, tuple(sorted(rows[key].unique().tolist()))) for key in rows)

    def of(point: Point) -> tuple[Losses, Losses] | None:
        curve = by_key.get(point_key(point))
        return None if curve is None else (curve, curve)

    members = tuple(points.values())
    full = int(statistics.median(map(len, found.values())))
    return Curves(Space(dimensions, members=members), full, min(map(min, found.values())), of, members)


def made_up(seed: int, misleads: bool) -> Curves:
    """Return made-up losses by point and checkpoint t up to T = 27: floor + gap * t^-rate + noise.

    The floor is such that a full training reaches 2 + a bowl around the best point, which is 0 there: steep along the
    learning rate, whose best depends on the optimizer, and less along the others. Gaps (1 on average) and rates (.7)
    differ between points by log-normal factors (sigma .2); a seed's noise has a standard deviation of .01. Where rungs
    agree, gaps grow with the bowl; where they mislead, with a bowl around another point, of a higher rate.
    """
    rng = np.random.default_rng((seed, 1))
    space = space_from_dict(SPACE)
    *ordered, choice = space.dimensions
    steepness = np.array([2.0, *np.exp(rng.uniform(np.log(0.05), np.log(0.5), len(ordered) - 1))])
    # The best is a point of the space.
    best = np.array([d.to_unit(d.from_unit(rng.uniform(0.2, 0.8))) for d in ordered])
    early = np.array([best[0] + 0.4, *rng.uniform(0.2, 0.8, len(ordered) - 1)])
    levels, moves = rng.permutation([0.0, 0.1, 0.2]), rng.permutation([0.0, -0.15, 0.15])

    def of(point: Point) -> tuple[Losses, Losses]:
        units = np.array([d.to_unit(point[d.key]) for d in ordered])
        units[0] -= moves[place := choice.values.index(point[choice.key])]
        bowl, other = (steepness @ ((units - centre) ** 2 / (0.2 + np.abs(units - centre))) for centre in (best, early))
        own = np.random.default_rng(training_seed(seed, point_key(point), 0))
        gap, rate = np.exp(0.2 * own.normal(size=2)) * (1.0, 0.7)
        gap *= 0.5 + (3 * other if misleads else bowl)
        falls = np.arange(1.0, FULL + 1) ** -rate
        clean = 2 + levels[place] + bowl + gap * (falls - falls[-1])
        return (clean + 0.01 * own.normal(size=FULL)).tolist(), clean.tolist()

    return Curves(space, FULL, 2.0, of)


class Trainings:
    """Trains points, and keeps the regret after each checkpoint; raises Enough when the largest budget is spent."""

    def __init__(self, curves: Curves) -> None:
        self._curves, self._best = curves, math.inf
        self._reached: dict[str, int] = {}
        self.regrets: list[float] = []

    def train(self, point: Point, amount: int) -> Losses:
        """Train a point, from where it is, up to an amount or its end; return its losses from the first checkpoint."""
        losses, clean = self._curves.of(point) or ([], [])
        reached = self._reached.setdefault(point_key(point), 0)
        for place in range(reached, min(amount, len(losses))):
            regret = clean[place] - self._curves.optimum if losses[place] < self._best else self.regrets[-1]
            self._best = min(self._best, losses[place])
            self.regrets.append(regret)
            if len(self.regrets) == max(BUDGETS) * self._curves.full:
                raise Enough
        self._reached[point_key(point)] = max(reached, amount)
        return losses[:amount]

    @property
    def num_points(self) -> int:
        """The number of points that were trained."""
        return len(self._reached)

    def is_new(self, point: Point) -> bool:
        """Return whether the point can be trained and was not."""
        return point_key(point) not in self._reached and self._curves.of(point) is not None

    def untried(self, rng: np.random.Generator) -> Point:
        """Return one of the rows that were not trained; raise Enough where there is none."""
        rows = [row for row in self._curves.rows if point_key(row) not in self._reached]
        if not rows:
            raise Enough
        return rows[int(rng.integers(len(rows)))]


def with_ours(name: str, changes: dict[str, Any], curves: Curves, seed: int, trainings: Trainings) -> None:
    """Let a strategy of ours search, with its published settings except for these."""
    settings = strategy_settings(name) | changes
    if "max_amount" in settings:
        settings |= {"min_amount": curves.least, "max_amount": curves.full, "eta": ETA}
    strategy, known, rounds = make_strategy(settings, curves.space, seed), History(), 0
    while proposals := propose(strategy, known):
        ended = list[Trial]()
        for proposal in proposals:
            losses = trainings.train(proposal.point, proposal.amount or curves.full)
            points = [{"epoch": place, "loss": loss} for place, loss in enumerate(losses, 1)]
            outcome = Outcome({"loss": min(losses)}, points)
            ended.append(finished(Trial(len(known) + len(ended), rounds, **vars(proposal)), {0: outcome}, GOAL))
        known, rounds = known.extended(ended), rounds + 1


def dimensions_of(curves: Curves) -> dict[str, tuple[str, float, float, bool]]:
    """Return the dimensions as the peers have them: kind, ends, and whether logarithmic; values are their ranks."""
    return {
        d.key: ("float", d.low, d.high, d.log)
        if isinstance(d, Range)
        else ("choice" if isinstance(d, Choices) else "integer", 0, len(d.values) - 1, False)
        for d in curves.space.dimensions
    }


def encoded(curves: Curves, point: Point) -> dict[str, Any]:
    """Return a point as the peers have it."""
    dimensions = curves.space.dimensions
    return {d.key: point[d.key] if isinstance(d, Range) else d.values.index(point[d.key]) for d in dimensions}


def decoded(curves: Curves, values: Mapping[str, Any]) -> Point:
    """Return the point of a peer's values."""
    return {d.key: values[d.key] if isinstance(d, Range) else d.values[values[d.key]] for d in curves.space.dimensions}


def with_optuna(pruner: str, curves: Curves, seed: int, trainings: Trainings) -> None:
    """Let Optuna's TPE search; to it an absent row has failed, and a repeat ends as before."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    states = optuna.trial.TrialState
    kinds: Mapping[str, Callable[..., Any]] = {
        "float": lambda low, high, log: optuna.distributions.FloatDistribution(low, high, log=log),
        "integer": lambda low, high, _: optuna.distributions.IntDistribution(low, high),
        "choice": lambda _, high, __: optuna.distributions.CategoricalDistribution(range(high + 1)),
    }
    space = {key: kinds[kind](*ends) for key, (kind, *ends) in dimensions_of(curves).items()}
    amounts = {"max_resource": curves.full} if pruner == "HyperbandPruner" else {}
    pruning = getattr(optuna.pruners, pruner)(min_resource=curves.least, reduction_factor=ETA, **amounts)
    sampler = optuna.samplers.TPESampler(seed=seed)
    study = optuna.create_study(study_name=str(seed), sampler=sampler, pruner=pruning)
    rng, results = np.random.default_rng(seed), dict[str, tuple[int, float, Any]]()

    def tell(trial: optuna.Trial, place: int, loss: float, state: Any) -> None:
        trial.report(loss, place)  # Optuna ignores it where the place was reported.
        study.tell(trial, loss if state == states.COMPLETE else None, state)

    def next_trial() -> tuple[optuna.Trial, Point]:
        for _ in range(PATIENCE):
            trial = study.ask(space)
            point = decoded(curves, trial.params)
            if trainings.is_new(point):
                return trial, point
            tell(trial, *results.get(point_key(point), (0, 0.0, states.FAIL)))
        point = trainings.untried(rng)
        study.enqueue_trial(encoded(curves, point))
        return study.ask(space), point

    while True:
        trial, point = next_trial()
        state = states.COMPLETE
        for place in range(1, curves.full + 1):
            losses = trainings.train(point, place)
            if len(losses) < place:
                break
            trial.report(losses[-1], place)
            if place < curves.full and trial.should_prune():
                state = states.PRUNED
                break
        loss = min(losses) if state == states.COMPLETE else losses[-1]
        results[point_key(point)] = len(losses), loss, state
        tell(trial, len(losses), loss, state)


def with_bohb(python: str, curves: Curves, seed: int, trainings: Trainings) -> None:
    """Let BOHB search, in its own environment; see bohb.py."""
    amounts = [max(curves.least, curves.full // ETA**halvings) for halvings in range(HALVINGS, -1, -1)]
    setup = {"seed": seed, "space": dimensions_of(curves), "amounts": amounts, "eta": ETA}
    command = [python, str(Path(__file__).with_name("bohb.py"))]
    rng, vain = np.random.default_rng(seed), 0
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as peer:
        assert peer.stdin is not None
        assert peer.stdout is not None
        try:
            for question, *values in map(json.loads, peer.stdout):
                answer: Any = None
                if question == "begin":
                    answer = setup
                elif question == "train":
                    answer = min(trainings.train(decoded(curves, values[0]), values[1]))
                elif trainings.is_new(decoded(curves, values[0])):
                    vain, answer = 0, values[0]
                else:
                    vain += 1
                    if vain == PATIENCE:
                        vain, answer = 0, encoded(curves, trainings.untried(rng))
                print(json.dumps(answer), file=peer.stdin, flush=True)
        finally:
            peer.kill()
    raise RuntimeError(f"{' '.join(command)} has ended by itself")


Method = Callable[[Curves, int, Trainings], None]
HALVING = ("asha", "successive_halving", "hyperband")
# Without the key all new points are random.
HAS_LEARNED = "new_points" in strategy_settings("asha")
NEW_POINTS = {new: {"new_points": new} for new in ("random", "learned")} if HAS_LEARNED else {"random": {}}
METHODS: Mapping[str, Method] = {
    **{name: partial(with_ours, name, {}) for name in ("random", "evolutionary")},
    **{f"{name}, {new}": partial(with_ours, name, NEW_POINTS[new]) for name in HALVING for new in NEW_POINTS},
    **{f"tpe, {pruner}": partial(with_optuna, pruner) for pruner in ("SuccessiveHalvingPruner", "HyperbandPruner")},
}
ALL = (*METHODS, "bohb")
MADE_UP = ("agreeing", "misleading")
SETS = ("ja-en", "en-ja", "ru-en", "zh-en", *MADE_UP)
FIELDS = ("set", "method", "seed", *(f"regret_{budget}" for budget in BUDGETS), "points")


def run_search(name: str, method: str, seed: int, python: str | None) -> dict[str, Any]:
    """Run one search; return its row of the results."""
    curves = made_up(seed, name == "misleading") if name in MADE_UP else measured(name)
    trainings = Trainings(curves)
    with contextlib.suppress(Enough):
        if method == "bohb":
            assert python is not None
            with_bohb(python, curves, seed, trainings)
        else:
            METHODS[method](curves, seed, trainings)
    spent = [min(budget * curves.full, len(trainings.regrets)) for budget in BUDGETS]
    regrets = [trainings.regrets[checkpoints - 1] for checkpoints in spent]
    return dict(zip(FIELDS, [name, method, seed, *regrets, trainings.num_points], strict=True))


def table(rows: Sequence[Mapping[str, str]], name: str) -> str:
    """Return the mean regrets on one set, and what learning changes seed by seed, with 95 % bootstrap intervals."""
    found = {method: {r["seed"]: r for r in rows if (r["set"], r["method"]) == (name, method)} for method in ALL}
    number = "{:.3f}" if name in MADE_UP else "{:.2f}"

    def regrets(method: str, seeds: Collection[str]) -> NDArray[np.float64]:
        return np.array([[float(found[method][seed][f"regret_{budget}"]) for budget in BUDGETS] for seed in seeds])

    def line(label: str, values: NDArray[np.float64], points: str) -> list[str]:
        cells = [f"{number} ({number} to {number})".format(*interval(column)) for column in values.T]
        return [label, str(len(values)), *cells, points]

    lines = []
    for method, of_seeds in found.items():
        if of_seeds:
            points = statistics.mean(float(row["points"]) for row in of_seeds.values())
            lines.append(line(method, regrets(method, of_seeds), f"{points:.0f}"))
    for strategy in HALVING:
        learned, at_random = f"{strategy}, learned", f"{strategy}, random"
        if seeds := sorted(found.get(learned, {}).keys() & found[at_random].keys()):
            change = regrets(learned, seeds) - regrets(at_random, seeds)
            lines.append(line(f"{strategy}: learned - random", change, ""))
    return markdown([name, "searches", *(f"after {budget}" for budget in BUDGETS), "points"], lines)


def main() -> None:
    """Run what is missing and print a table for each set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--searches", type=int, default=40, help="searches a method and set; default 40")
    parser.add_argument("--methods", nargs="+", choices=ALL, help="default: all; bohb with --python")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=["ja-en", "en-ja", "agreeing", "misleading"])
    parser.add_argument("--results", type=Path, default=Path("by_cost.csv"), help="finished searches; by_cost.csv")
    parser.add_argument("--python", help="the Python of BOHB's environment: see bohb.py")
    arguments = parser.parse_args()
    methods = arguments.methods or [*METHODS, *(["bohb"] if arguments.python else [])]
    done = {(row["set"], row["method"], int(row["seed"])) for row in read(arguments.results)}
    wanted = itertools.product(range(arguments.searches), arguments.sets, methods)
    missing = ((*each, seed, arguments.python) for seed, *each in wanted if (*each, seed) not in done)
    run(arguments.results, FIELDS, run_search, missing, jobs=1)
    print(conditions())
    for name in arguments.sets:
        print("\n" + table(read(arguments.results), name))


if __name__ == "__main__":
    main()
