"""Small scales first, or searching at the target: the loss of a wide network over what the search has cost.

    python -m benchmarks.ladder.loss_over_cost --data-dir DIR --results FOLDER --seeds 3 --jobs 2   # hours
    python -m benchmarks.ladder.loss_over_cost --results FOLDER --only-print        # the tables of what is there
    python -m benchmarks.ladder.loss_over_cost --data-dir DIR --results ANOTHER --target 512 --device cuda --jobs 8

A character model of DIR/tinyshakespeare/input.txt.gz (3 layers, 198 steps of 16 x 64 characters), five ordered
hyperparameters; loss on the last tenth of the text after the last step, in nats per character. `random`,
`evolutionary`, `tpe` (Optuna's) and `asha` (most trainings end after 22 steps) train at the target alone, with
`standard`, and once more with `mup`; `ladder` climbs over widths 32, 64, 128 and so on; `ladder, two scales` goes from
32 to the target at once; `halving` and `asha` train by amounts at width 32; `zero-shot` has the ladder's trials at
width 32 and trains the best of them at the target. What a ladder trains at which width follows from `--budget`
(`strategy.budget`).
Every search goes through the loop of `hpo search`, with its published settings, one training after the other. Cost is
counted from the configuration (`describe_cost`), in trainings at the target; seconds are those of one core, and say
nothing where several processes share a GPU.

Every finished training is a row of FOLDER/METHOD-SEED.csv, so that a stopped search continues where it stopped.
"""

import argparse
import contextlib
import tempfile
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import process_time
from typing import Any, Literal

import numpy as np
import yaml

from benchmarks.ladder.curves import NEAR, tables
from benchmarks.scale.rates import CASES, configuration
from benchmarks.shared.places import strategy_settings
from benchmarks.shared.printing import conditions
from benchmarks.shared.rows import append, read
from benchmarks.shared.workers import Enough
from hpo.config.goals import SCALE
from hpo.engine.loop import search
from hpo.engine.schedule.rules import Rules
from hpo.engine.strategies import make_strategy
from hpo.engine.strategies.ladder import Ladder, LadderSettings
from hpo.trials.goal import Goal
from hpo.trials.history import History
from hpo.trials.record.record import memory_record
from hpo.trials.space.reader import space_from_dict
from hpo.trials.space.space import Point, point_key
from hpo.trials.trial import Outcome, TaskLayout, Trial
from hpo.workers.dispatch.dispatcher import Gpus, TaskReport
from hpo.workers.training.tasks import Payload, Task
from model import objective

WIDTHS = (32, 64, 128, 256, 512)
LAYERS = 3
# A whole training, in steps, and in the amounts of asha: its rungs are 1, 3 and 9.
STEPS, AMOUNTS = 198, 9
SPACE = {
    "training": {
        "lr": {"low": 0.0005, "high": 0.064, "log": True},
        "weight_decay": {"low": 0.001, "high": 1.0, "log": True},
        "warmup_fraction": {"low": 0.02, "high": 0.4},
    },
    "model": {"dropout": [0.0, 0.05, 0.1, 0.2, 0.3], "head_scale": [1.0, 2.0, 4.0, 8.0]},
}
KEYS = tuple(f"{section}.{key}" for section, keys in SPACE.items() for key in keys)
FIELDS = ("number", "parametrization", "width", "steps", *KEYS, "loss", "cost", "seconds")


@dataclass(frozen=True)
class Method:
    """A strategy, at the target alone, from every width, or from the smallest one; `first` of a ladder's."""

    strategy: str
    parametrization: str = "standard"
    scales: Literal["target", "all", "two"] = "target"
    first: str = "tpe"

    def widths(self, target: int) -> list[int]:
        """Return the widths that it trains at."""
        smaller = {"target": [], "all": [width for width in WIDTHS if width < target], "two": [WIDTHS[0]]}
        return [*smaller[self.scales], target]


METHODS = {
    **{name: Method(name) for name in ("random", "evolutionary", "tpe", "asha")},
    **{f"{name}, mup": Method(name, "mup") for name in ("random", "evolutionary", "tpe", "asha")},
    "ladder": Method("ladder", "mup", "all"),
    "ladder, two scales": Method("ladder", "mup", "two"),
    "ladder, halving": Method("ladder", "mup", "all", "successive_halving"),
    "ladder, two scales, halving": Method("ladder", "mup", "two", "successive_halving"),
    "ladder, two scales, asha": Method("ladder", "mup", "two", "asha"),
    "ladder, standard": Method("ladder", "standard", "all"),
    "zero-shot": Method("zero-shot", "mup", "two"),
}


class ZeroShot(Ladder):
    """A ladder that trains at the target what was the best at the smallest scale, the second best, and so on."""

    def _draw(
        self,
        scale: int,
        known: Sequence[Sequence[Trial]],
        rng: np.random.Generator,  # noqa: ARG002 -- the same call
        tried: Collection[str],
        count: int,
    ) -> Sequence[Point]:
        points = [trial.point for trial in History(known[0]).leaders(len(known[0]))]
        return [{SCALE: scale, **point} for point in points if point_key(point) not in tried][:count]


class Trainings:
    """A dispatcher that trains one task after the other in this process, until the budget is spent.

    Attributes:
        rows: those of the trainings so far.
    """

    runs_here = True
    gpus = Gpus()
    slots = 1

    def __init__(self, of: "Searched", budget: float) -> None:
        self._of, self._budget = of, budget
        self._trials: dict[int, Trial] = {}
        self._submitted: list[Task] = []
        self.rows: list[dict[str, Any]] = []
        self.now = 0.0

    def tasks_of(self, trial: Trial) -> list[Task]:
        """Return the trial's only task."""
        self._trials[trial.number] = trial
        return [Task(trial.number, 0, Payload("", {}, "loss", "minimize"))]

    def submit(self, task: Task) -> None:
        """Keep the task until it is waited for."""
        self._submitted.append(task)

    def wait(self, timeout: float | None = None) -> Sequence[TaskReport]:  # noqa: ARG002 -- the protocol's
        """Train, and return the outcome; raise Enough where the budget was spent before."""
        if sum(row["cost"] for row in self.rows) >= self._budget - NEAR:
            raise Enough
        task = self._submitted.pop(0)
        self.rows.append(self._of.train(self._trials[task.trial]))
        return [TaskReport(task, outcome=Outcome({"loss": self.rows[-1]["loss"]}))]

    def close(self) -> None:
        """Nothing runs."""


class Searched:
    """One search: its trainings, which those in the folder are not repeated of."""

    def __init__(self, data_dir: str, results: str, name: str, seed: int, target: int, device: str) -> None:
        self.method, self._seed, self._data_dir, self._device = METHODS[name], seed, data_dir, device
        self._widths = self.method.widths(target)
        self._path = Path(results) / f"{name.replace(', ', '_')}-{seed}.csv"
        self._known = {_key(row): row for path in Path(results).glob(f"*-{seed}.csv") for row in read(path)}
        self._own = {_key(row) for row in read(self._path)}
        self._prepared: Path | None = None
        self._kept = contextlib.ExitStack()

    def run(self, budget: float) -> None:
        """Search until the budget is spent, in trainings at the target."""
        space = dict(SPACE)
        name = "ladder" if self.method.strategy == "zero-shot" else self.method.strategy
        settings = strategy_settings(name)
        if self.method.strategy == "asha":
            settings |= {"max_amount": AMOUNTS}
        if len(self._widths) > 1:
            space |= {"study": {"scale": {"values": list(range(1, len(self._widths) + 1)), "default": 1}}}
            first = strategy_settings(self.method.first)
            settings["max_amount"] = None
            if self.method.first != "tpe":
                settings["max_amount"] = first["max_amount"] = AMOUNTS
            settings |= {"first": first, "costs": [self._cost(width) for width in self._widths], "budget": budget}
            settings = LadderSettings.model_validate(settings).within_budget()[0].model_dump()
        strategy: Any = make_strategy(settings, space_from_dict(space), self._seed)
        if self.method.strategy == "zero-shot":
            strategy = ZeroShot(strategy.settings, strategy.space, strategy.seed)
        trainings = Trainings(self, budget)
        rules = Rules(strategy=strategy, tasks_of=trainings.tasks_of, cost_of=lambda _: 1.0, lanes=1)
        with self._kept, contextlib.suppress(Enough):
            search(rules, memory_record(Goal({"loss": "minimize"}), TaskLayout()), trainings, 10_000)

    def train(self, trial: Trial) -> dict[str, Any]:
        """Return the row of a trial, which is trained unless that was done before."""
        width = self._widths[int(trial.point.get(SCALE, 1)) - 1]
        steps = STEPS * (trial.amount or AMOUNTS) // AMOUNTS
        row = {"number": trial.number, "parametrization": self.method.parametrization, "width": width, "steps": steps}
        row |= {key: trial.point[key] for key in KEYS}
        found = self._known.get(_key(row))
        if found is None:
            loss, seconds = self._trained(row)
        else:
            loss, seconds = float(found["loss"]), float(found["seconds"])
        share = ((trial.amount or AMOUNTS) - trial.trained) / AMOUNTS
        row |= {"loss": loss, "cost": share * self._cost(width) / self._cost(self._widths[-1]), "seconds": seconds}
        if _key(row) not in self._own:
            append(self._path, FIELDS, row)
        return row

    def _cost(self, width: int) -> float:
        return objective.describe_cost(_config(self._data_dir, self.method.parametrization, width))

    def _trained(self, row: Mapping[str, Any]) -> tuple[float, float]:
        config = _config(self._data_dir, row["parametrization"], row["width"])
        for key in KEYS:
            section, _, name = key.partition(".")
            config[section][name] = row[key]
        config["training"] |= {"evaluate_every_steps": row["steps"], "device": self._device}
        parts = objective.describe_data(config)["parts"]
        cut, indices = parts["train"], list(range(parts["train"] + parts["validation"]))
        if self._prepared is None:
            self._prepared = Path(self._kept.enter_context(tempfile.TemporaryDirectory()))
            objective.prepare_data(config, indices, str(self._prepared))
        began = process_time()
        steps = objective.run_fold({
            "config": config, "data_dir": str(self._prepared), "checkpoint_dir": None, "seed": self._seed,
            "amount": None, "train": indices[:cut], "validation": indices[cut:], "metric": "loss",
            "direction": "minimize", "threads": 1,
        })  # fmt: skip
        point = next(steps)
        steps.close()
        return point["loss"], process_time() - began


@cache
def _published(data_dir: str, parametrization: str, width: int) -> str:
    config = configuration(data_dir, CASES["characters"], parametrization, width, LAYERS, 0.004)
    if parametrization == "mup":
        # So that a residual branch counts in full, as with `standard`.
        config["model"]["base"]["num_layers"] = LAYERS
    config["training"]["max_steps"] = STEPS
    return yaml.safe_dump(config)


def _config(data_dir: str, parametrization: str, width: int) -> dict[str, dict[str, Any]]:
    return yaml.safe_load(_published(data_dir, parametrization, width))


def _key(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(row[key]) for key in ("parametrization", "width", "steps", *KEYS))


def run(data_dir: str, results: str, name: str, seed: int, target: int, device: str, budget: float) -> None:
    """Run one search, or what is missing of it."""
    Searched(data_dir, results, name, seed, target, device).run(budget)


def main() -> None:
    """Search what is missing, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--methods", choices=METHODS, nargs="+", default=list(METHODS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--budget", type=float, default=20, help="in trainings at the target; default 20")
    parser.add_argument(
        "--target", type=int, choices=WIDTHS[1:], default=256, help="the width that is meant; each its own results"
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="each its own results")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only-print", action="store_true")
    given = parser.parse_args()
    if not given.only_print:
        if given.data_dir is None:
            parser.error("--data-dir: give the folder of the data")
        wanted = [(name, seed) for seed in given.seeds for name in given.methods]
        with ProcessPoolExecutor(given.jobs) as pool:
            tasks = [
                pool.submit(
                    run, str(given.data_dir), str(given.results), name, seed, given.target, given.device, given.budget
                )
                for name, seed in wanted
            ]
            for task in tasks:
                task.result()
    print(conditions())
    direct = [name for name, method in METHODS.items() if method.scales == "target"]
    print("\n".join(tables(given.results, METHODS, direct, given.target, STEPS, given.budget)))


if __name__ == "__main__":
    main()
