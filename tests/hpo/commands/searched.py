"""Small searches of functions."""

import contextlib
import functools
import json
from pathlib import Path

import hpo
from hpo.study.preparing.preparation import known_study
from tests import studies

SPACE = {"lr": hpo.log(1e-4, 1.0), "net": {"layers": [1, 2, 3], "act": ["relu", "tanh"]}, "dropout": (0.0, 0.5)}
HERE = {"dispatch": "local", "track": "none", "report.figures": False}
refuses = functools.partial(studies.refuses, hpo.HpoError)


def note(value):
    """Keep what a function saw, which is a copy of what is written here."""
    with Path("noted").open("a") as file:
        file.write(json.dumps(value) + "\n")


def noted():
    return [json.loads(line) for line in Path("noted").read_text().splitlines()]


def score(config):
    return -abs(config["lr"] - 0.01) - config["net"]["layers"] - config["dropout"]


def found(objective, **arguments):
    settings = HERE | arguments.pop("settings", {})
    arguments = {"space": SPACE, "trials": 4, "direction": "maximize", "progress": False} | arguments
    return hpo.search(objective, **arguments, settings=settings)


def outcome_of(study):
    with contextlib.closing(studies.read_study(known_study(study.name))) as record:
        return record.history()[0].outcomes[0]
