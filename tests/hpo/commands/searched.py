"""Small searches of functions."""

import json
from pathlib import Path

import pytest

import hpo
from hpo.study.opening import read_study
from hpo.study.preparing.preparation import known_study

SPACE = {"lr": hpo.log(1e-4, 1.0), "net": {"layers": [1, 2, 3], "act": ["relu", "tanh"]}, "dropout": (0.0, 0.5)}
HERE = {"dispatch": "local", "track": "none", "report.figures": False}


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


def refuses(says, call, *arguments, **options):
    """The call is refused in one line that matches the pattern."""
    with pytest.raises(hpo.HpoError, match=says) as refusal:
        call(*arguments, **options)
    assert "\n" not in str(refusal.value)


def outcome_of(study):
    """Return what the first training of the first trial gave."""
    record = read_study(known_study(study.name))
    try:
        return record.history()[0].outcomes[0]
    finally:
        record.close()
