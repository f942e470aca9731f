"""Trains one configuration without a search, in this process."""

import datetime
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from hpo.config import SplitSection, explain
from hpo.environment import describe_environment
from hpo.errors import ConfigError
from hpo.folder import RUNS, write_atomically
from hpo.objective import resolve
from hpo.splits import make_plan
from hpo.tasks import without_sources
from hpo.trials import Outcome
from hpo.worker import run_task

_SECTIONS = ("objective", "study", "split", "dispatch")


def train_once(tree: Mapping[str, Any], show: Callable[[dict[str, Any]], None]) -> tuple[Path, Outcome]:
    """Train the configuration and return the folder of its files and the outcome.

    Args:
        tree: as `conf/train.yaml` composes it, or a study's best.yaml.
        show: is given each point of the learning curve.

    Raises:
        HpoError: when the configuration or the data is refused; nothing has been created then.
    """
    config, seed = _without_seed({k: v for k, v in tree.items() if k not in _SECTIONS})
    objective = resolve(tree["objective"], str(Path.cwd()))
    objective.refuse_bad_config(config)
    try:
        split = SplitSection.model_validate(tree["split"])
    except ValidationError as error:
        raise ConfigError(explain(error, "split.")) from error
    examples = objective.examples(config)
    plan = make_plan(examples, split) if examples else None
    folder = _new_folder(tree["study"]["name"])
    write_atomically(folder / "config.yaml", yaml.safe_dump(dict(tree), sort_keys=False, allow_unicode=True))
    write_atomically(folder / "environment.json", json.dumps(describe_environment(), indent=2))
    task = {
        "objective": tree["objective"],
        "config": config,
        "train": None,
        "validation": None,
        "data_dir": None,
        "metric": tree["study"]["metric"],
        "direction": tree["study"]["direction"],
        "seed": seed,
        "threads": tree["dispatch"]["threads"],
        "epochs": None,
        "checkpoint_dir": str((folder / "checkpoint").absolute()) if objective.run_test else None,
    }
    if plan is not None:
        fold = plan.folds[0]
        train, validation = list(fold.train), list(fold.validation)
        data_dir = (folder / "data").absolute()
        if objective.write_development_data(config, plan.development, data_dir):
            place = {index: position for position, index in enumerate(plan.development)}
            train, validation = [place[i] for i in train], [place[i] for i in validation]
            task |= {"data_dir": str(data_dir)}
        task |= {
            "train": train,
            "validation": validation,
            "config": without_sources(config, task["data_dir"] is not None),
        }
    outcome = Outcome()
    for message in run_task(task):
        if "point" in message:
            show(message["point"])
        else:
            outcome = Outcome.from_dict(message["outcome"])
    write_atomically(folder / "outcome.json", json.dumps(outcome.to_dict(), indent=2))
    return folder, outcome


def _without_seed(tree: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """Return the objective's own tree, and the seed that only a single training has in it."""
    training = dict(tree.get("training", {}))
    seed = training.pop("seed", 0)
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ConfigError(f"training.seed: must be a whole number of at least 0, given {seed!r}")
    return {**tree, **({"training": training} if training else {})}, seed


def _new_folder(name: str) -> Path:
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    folder = RUNS / f"train-{name}-{stamp}"
    folder.mkdir(parents=True, mode=0o700)
    return folder
