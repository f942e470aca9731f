"""Builds and runs small studies of the toy objective, for tests."""

import csv
import os
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import yaml

from hpo.config.sections import DispatchSection
from hpo.config.study_config import config_from_dict
from hpo.engine.dispatch.local import LocalDispatcher
from hpo.engine.loop import search
from hpo.engine.trials.table import TIMES
from hpo.report.write import write_report
from hpo.study.folder import StudyFolder
from hpo.study.notes import Notes
from hpo.study.opening import open_study
from hpo.study.preparation import prepare_study
from hpo.study.winner.verdict import read_verdict
from tests.toy import CONFIG

REPOSITORY = Path(__file__).parents[1]

ORDERED = {"toy": {"layers": [1, 2, 3, 4, 5], "width": [8, 16, 32, 64], "lr": [0.001, 0.01, 0.1]}}
SPACES = {
    "all ordered": ORDERED,
    "all unordered": {"toy": {"nonlinearity": {"choices": ["relu", "gelu", "tanh"]}, "layers": {"choices": [4, 1, 9]}}},
    "mixed": {"toy": {**ORDERED["toy"], "nonlinearity": {"choices": ["relu", "gelu", "tanh"]}}},
    "continuous": {
        "toy": {
            "lr": {"low": 1e-5, "high": 1.0, "log": True},
            "momentum": {"low": 0.0, "high": 0.99},
            "width": {"low": 4, "high": 64, "integer": True, "log": True},
        }
    },
    "conditional": {
        "toy": {
            "nonlinearity": {"choices": ["relu", "tanh"]},
            "layers": {"values": [1, 2, 3, 4], "when": {"toy.nonlinearity": ["relu"]}},
            "width": {"values": [8, 16, 32], "when": {"toy.layers": [3, 4]}},
        }
    },
    "one point": {"toy": {"layers": [3]}},
}

STRATEGIES = {
    "grid": {"name": "grid", "order": "shuffled", "max_points": 10_000, "round_size": 5},
    "random": {"name": "random", "round_size": 5},
    "shifting_window": {
        "name": "shifting_window",
        "window": None,
        "windows": {},
        "range_window": None,
        "opening": "space",
        "start": {},
        "first_draws": 5,
        "rounds": None,
        "draws": 3,
        "growth": 0.05,
        "moving": None,
        "credit": "best",
    },
    "evolutionary": {
        "name": "evolutionary",
        "population": 6,
        "opening": "stratified",
        "generations": None,
        "surviving": 0.34,
        "children": 3,
        "growth": 0.05,
        "candidates": 4,
        "crossover": 0.5,
        "mutation": None,
        "mutation_steps": None,
        "mutation_scale": 0.1,
    },
    "successive_halving": {"name": "successive_halving", "min_amount": 1, "max_amount": 4, "eta": 2},
    "hyperband": {"name": "hyperband", "min_amount": 1, "max_amount": 4, "eta": 2},
    "tpe": {"name": "tpe", "round_size": 5, "startup": 5, "candidates": 24, "patience": 3},
    # Half of what the tests ask for is drawn at random: a proposal of the model takes 0.1 s and more.
    "gp": {"name": "gp", "round_size": 6, "startup": 13, "patience": 1},
    "cma_es": {"name": "cma_es", "population": None, "patience": 3},
    "qmc": {"name": "qmc", "sequence": "sobol", "scramble": True, "round_size": 5},
}


def environment():
    """Return the environment of a process that finds this repository's packages, the tests among them."""
    return os.environ | {"PYTHONPATH": os.pathsep.join((os.environ["PYTHONPATH"], str(REPOSITORY)))}


def shipped(name):
    """Return the settings of a file in conf/strategy."""
    settings = yaml.safe_load((REPOSITORY / "conf" / "strategy" / f"{name}.yaml").read_text())
    assert isinstance(settings, dict)
    return settings


def dispatch_section(**changes):
    """Return a dispatch configuration for tests."""
    values = {
        "name": "ray",
        "workers": None,
        "threads": 1,
        "cpus_per_worker": 1.0,
        "gpus_per_worker": 0.0,
        "gpus": None,
        "retries": 2,
        "timeout_seconds": None,
        "address": None,
    }
    return DispatchSection(**(values | changes))


def toy_config(strategy="random", space=None, trials=12, objective="tests.toy:score", **changes):
    """Return a whole study configuration of the toy objective as a plain tree."""
    return {
        **deepcopy(CONFIG),
        "objective": objective,
        "space": space or ORDERED,
        "strategy": STRATEGIES[strategy] if isinstance(strategy, str) else strategy,
        "study": {
            "name": "toy",
            "seed": 0,
            "trials": trials,
            "metric": "score",
            "direction": "maximize",
            "repeats": 1,
            "finalists": 0,
            "finalist_repeats": 2,
            "imports": None,
            "checkpoints": 1,
            "storage": None,
        },
        "split": {
            "folds": None,
            "seed": 0,
            "test_fraction": 0.1,
            "validation_fraction": 0.1,
            "stratify": True,
            "race_after": None,
            "race_level": 0.05,
        },
        "dispatch": dispatch_section(name="local", workers=1).model_dump(),
        "track": {"name": "none", "uri": "sqlite:///mlflow.db", "experiment": "tests"},
    } | changes


def prepared(folder, config):
    """Return the study of a plain configuration tree, to live in this folder."""
    return replace(prepare_study(config_from_dict(config)), folder=StudyFolder(folder))


def run_toy(folder, config, dispatcher=None):
    """Run (or go on with) a study in a folder and return the rows of its trials.csv without the times."""
    study = prepared(folder, config)
    record = open_study(study)
    dispatcher = dispatcher or LocalDispatcher(str(REPOSITORY))
    tasks_of, trials = study.task_builder().tasks_of, study.config.study.trials
    search(study.strategy, record, dispatcher, tasks_of, trials, (), Notes(record).imports, study.race)
    write_report(study, record, read_verdict(study, record), has_page=False)
    record.close()
    return rows(study.folder.trials_path)


def rows(path):
    """Return the rows of a trials.csv without its times, the columns that may differ."""
    with path.open(newline="") as file:
        return [{key: value for key, value in row.items() if key not in TIMES} for row in csv.DictReader(file)]
