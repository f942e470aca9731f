"""Builds and runs small studies of the toy objective, for tests."""

import csv
import os
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import yaml
from toys import CONFIG

from hpo.config.composing.compose import compose_config
from hpo.config.sections import DispatchSection
from hpo.config.study_config import config_from_dict
from hpo.engine.loop import search
from hpo.report.write import write_report
from hpo.study.files.folder import StudyFolder
from hpo.study.notes import Notes
from hpo.study.opening import open_study, read_study
from hpo.study.preparing.preparation import prepare_study
from hpo.study.results.run import StudyRun
from hpo.trials.table import TIMES
from hpo.workers.dispatch.local import LocalDispatcher

REPOSITORY = Path(__file__).parents[1]

ORDERED = {"toy": {"layers": [1, 2, 3, 4, 5], "width": [8, 16, 32, 64], "lr": [0.001, 0.01, 0.1]}}
NONLINEARITY = {"nonlinearity": {"choices": ["relu", "gelu", "tanh"]}}
TOY_SPACES = {
    "all ordered": ORDERED["toy"],
    "all unordered": NONLINEARITY | {"layers": {"choices": [4, 1, 9]}},
    "mixed": ORDERED["toy"] | NONLINEARITY,
    "continuous": {
        **{"lr": {"low": 1e-5, "high": 1.0, "log": True}, "momentum": {"low": 0.0, "high": 0.99}},
        "width": {"low": 4, "high": 64, "integer": True, "log": True},
    },
    "conditional": {
        "nonlinearity": {"choices": ["relu", "tanh"]},
        "layers": {"values": [1, 2, 3, 4], "when": {"toy.nonlinearity": ["relu"]}},
        "width": {"values": [8, 16, 32], "when": {"toy.layers": [3, 4]}},
    },
    "structured": {
        **{"layers": {"choices": [[64, 32], [128]]}, "nonlinearity": {"choices": [{"name": "relu"}, "tanh", None]}},
        "width": {"values": [8, 16, 32], "when": {"toy.nonlinearity": [{"name": "relu"}]}},
    },
    "one point": {"layers": [3]},
}
SPACES = {name: {"toy": space} for name, space in TOY_SPACES.items()}


@cache
def _shipped(name, group):
    return yaml.safe_load((REPOSITORY / "conf" / group / f"{name}.yaml").read_text())


def shipped(name, group="strategy"):
    """Return the settings of a file in conf/."""
    return deepcopy(_shipped(name, group))


# In small, where a round is large.
STRATEGIES = {
    "grid": shipped("grid") | {"round_size": 5},
    "random": shipped("random") | {"round_size": 5},
    "shifting_window": shipped("shifting_window") | {"first_draws": 5},
    "shifting_window_literal": shipped("shifting_window_literal") | {"draws": 3},
    "evolutionary": shipped("evolutionary") | {"surviving": 0.34, "candidates": 4},
    "evolutionary_plain": shipped("evolutionary_plain") | {"population": 6},
    "successive_halving": shipped("successive_halving") | {"max_amount": 4, "eta": 2},
    "hyperband": shipped("hyperband") | {"max_amount": 4, "eta": 2},
    "asha": shipped("asha") | {"max_amount": 4, "eta": 2},
    "tpe": shipped("tpe") | {"startup": 5, "patience": 3},
    # Half of what the tests ask for is drawn at random: a proposal of the model takes 0.1 s and more.
    "gp": shipped("gp") | {"startup": 13, "patience": 1},
    "cma_es": shipped("cma_es") | {"patience": 3},
    "qmc": shipped("qmc") | {"round_size": 5},
    "ladder": shipped("ladder")
    | {"first": shipped("evolutionary") | {"population": 4}, "trials": 6, "costs": [1, 2, 5], "max_amount": None},
    "ladder_by_halving": shipped("ladder")
    | {"first": shipped("asha") | {"max_amount": 4, "eta": 2}, "trials": 8, "costs": [1, 2, 5], "max_amount": 4},
}


def searched_by(name, tree):
    """Return a space for a strategy: with three scales for the ladder."""
    return tree | {"study": {"scale": {"values": [1, 2, 3], "default": 1}}} if name.startswith("ladder") else tree


def environment():
    """Return the environment of a process that finds this repository's packages, the tests among them."""
    return os.environ | {"PYTHONPATH": os.pathsep.join((os.environ["PYTHONPATH"], str(REPOSITORY)))}


def dispatch_section(name="ray", **changes):
    """Return a dispatch configuration for tests."""
    return DispatchSection(**(shipped(name, "dispatch") | changes))


def toy_config(strategy="random", space=None, trials=12, objective="toys:score", **changes):
    """Return a whole study configuration of the toy objective as a plain tree; of a ladder with three scales."""
    scales = [{"toy.momentum": size} for size in (0.1, 0.2, 0.3)] if "ladder" in strategy else None
    study = {"name": "toy", "trials": trials, "metric": "score", "direction": "maximize", "scales": scales}
    return {
        **deepcopy(CONFIG),
        "objective": objective,
        "space": space or ORDERED,
        "strategy": STRATEGIES[strategy] if isinstance(strategy, str) else strategy,
        "study": shipped("default", "study") | study | {"finalist_repeats": 2},
        "split": shipped("default", "split"),
        "dispatch": dispatch_section("local").model_dump(),
        "track": {"name": "none", "uri": "sqlite:///mlflow.db", "experiment": "tests"},
        "report": shipped("default", "report"),
    } | changes


def prepared(folder, config):
    """Return the study of a plain configuration tree, to live in this folder."""
    return replace(prepare_study(config_from_dict(config)), folder=StudyFolder(folder))


def composed(*words):
    """Return the study that `hpo search` makes of these words."""
    return prepare_study(config_from_dict(compose_config("search", words)))


def run_toy(folder, config, dispatcher=None):
    """Run (or go on with) a study in a folder and return the rows of its trials.csv without the times."""
    study = prepared(folder, config)
    record = open_study(study)
    dispatcher = dispatcher or LocalDispatcher(str(REPOSITORY))
    search(study.rules(Notes(record).imports), record, dispatcher, study.config.study.trials)
    write_report(study, StudyRun.of(study, record), has_page=False)
    record.close()
    return rows(study.folder.trials_path)


def report_again(folder, config, **options):
    """Write the report of a study that has one and return what was written."""
    study = prepared(folder, config)
    record = read_study(study)
    written = write_report(study, StudyRun.of(study, record), **options)
    record.close()
    return written


def rows(path):
    """Return the rows of a trials.csv without its times and speeds, the columns that may differ."""
    measured = (*TIMES, "examples_per_second")
    with path.open(newline="") as file:
        return [{key: value for key, value in row.items() if key not in measured} for row in csv.DictReader(file)]


def refuses(error, says, call, /, *given, **options):
    """Call what has to raise this error, in one line in which the pattern `says` is found."""
    with pytest.raises(error, match=says) as refused:
        call(*given, **options)
    assert "\n" not in str(refused.value)
