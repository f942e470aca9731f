"""Habits of Python's users: values that JSON does not have, functions without a name, and names that are our words."""

import argparse
import dataclasses
import datetime
import enum
import json
import re
import threading
from pathlib import Path

import numpy as np
import pytest

import hpo
from tests.hpo.cli.commands import refused
from tests.hpo.commands.searched import found, note, noted
from tests.studies import refuses


class Color(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Adam:
    lr: float = 0.1
    betas: tuple = (0.9, 0.99)


class Relu:
    pass


# Each value, and what is written down for it.
CONSTANTS = {
    "sizes": ((64, (32, 16)), (64, (32, 16))),
    "path": (Path("a/b"), "a/b"),
    "color": (Color.RED, "Color.RED"),
    "optimizer": (Adam(), {"lr": 0.1, "betas": [0.9, 0.99]}),
    "names": ({0: "a", 1: "b"}, {0: "a", 1: "b"}),
    "day": (datetime.date(2026, 1, 2), "2026-01-02"),
    "rows": ([(1, 2), (3, 4)], [(1, 2), (3, 4)]),
    "range": (range(3), [0, 1, 2]),
    "set": ({2, 1}, [1, 2]),
    "none": (None, None),
    "dtype": (np.dtype("float32"), "float32"),
}
CYCLIC = {"itself": None}
CYCLIC["itself"] = CYCLIC
# The names of sections, of what the toolkit's own objectives have, and of a dimension's fields.
WORDS = (
    *("training", "split", "strategy", "objective", "space", "report", "track", "dispatch", "study", "data", "model"),
    *("default", "when", "low", "values", "first", "require", "choices", "objective_config", "seed", "config", "notes"),
)


@pytest.mark.slow
def test_values_that_json_does_not_have_are_written_down_and_given_back():
    constants = {key: value for key, (value, _) in CONSTANTS.items()}

    def train(config):
        assert ({key: config[key] for key in CONSTANTS}, config["array"].tolist()) == (constants, [1, 2])
        assert (type(config["one"]), config["one"]) == (float, 1.0)
        config["names"][2] = "a training may change what it gets"
        return config["one"] + (config["act"] is Relu)

    config = constants | {"array": np.array([1, 2]), "one": np.float64(1.0)}
    space = {"act": hpo.choices("none", relu=Relu, adam=Adam())}
    study = found(train, space=space, config=config, strategy="grid", trials=3)
    assert study.trials["error"].isna().all()
    written = {key: text for key, (_, text) in CONSTANTS.items()}
    assert study.best.config == written | {"array": [1, 2], "one": 1.0, "act": "relu"}
    assert study.reproduce().is_reproduced
    assert found(train, space=space, config=config, strategy="grid", trials=3).name == study.name
    with pytest.raises(hpo.HpoError, match=r"path: must be 'a/b', given 'c'; the original value is a PosixPath"):
        study.extend({"path": "c"}, progress=False)


def test_a_dataclass_is_rebuilt_with_what_is_changed_or_searched():
    def train(config):
        return config["optimizer"].lr + config["optimizer"].betas[0]

    study = found(train, space={"optimizer": {"lr": [1.0, 2.0]}}, config={"optimizer": Adam()}, trials=2)
    assert study.best.score == 2.9


@pytest.mark.slow
def test_an_importable_function_gets_objects_too_with_what_its_module_gives(monkeypatch):
    monkeypatch.syspath_prepend(Path.cwd())
    Path("importable.py").write_text(
        "def train(config):\n    return config['sizes'][0] + len(config['act'].__name__)\n"
        "def check(config):\n    assert isinstance(config['sizes'], tuple)\n"
    )
    import importable

    space = {"act": hpo.choices(relu=Relu), "net.units": [({1: 2}, 3)]}
    study = found(importable.train, space=space, config={"sizes": (1, 2), "net": {"depth": 1}}, trials=1)
    config = {"sizes": (1, 2), "act": "relu", "net": {"depth": 1, "units": ({1: 2}, 3)}}
    assert (study.best.score, study.best.config, hpo.load(study.name).best) == (5, config, study.best)
    assert study.extend({"sizes": [4, 5, 6]}, progress=False).trials["score"].tolist() == [8]


@pytest.mark.parametrize(("arguments", "says"), [
    ({"config": {"a": {"model": Relu()}}}, "config.a.model: must be made of numbers"),
    ({"config": {"x": np.zeros((100, 100))}}, "at most 1,000 values, given 10,000"),
    ({"config": {"x": {0: 1, "0": 2}}}, "config.x: cannot be written as JSON: two keys become"),
    ({"config": {"v": {"w": CYCLIC}}}, "config.v: contains itself, and cannot be written as JSON"),
    ({"config": Adam(0.1)}, "config: must be a dict, given a Adam; use dataclasses.asdict(...)"),
    ({"config": argparse.Namespace(lr=0.1)}, "config: must be a dict, given a Namespace; use vars(...)"),
    ({"space": {"x": hpo.choices(lock=threading.Lock())}}, "space.x: lock: a lock cannot be sent to workers"),
])  # fmt: skip
def test_what_cannot_be_written_down_is_refused_by_its_key_before_the_first_trial(arguments, says):
    refuses(hpo.HpoError, re.escape(says), found, lambda config: 1.0, **({"space": {"lr": [1, 2]}} | arguments))
    assert not Path("runs").exists()


@pytest.mark.parametrize(("space", "config", "first"), [
    ({"b": hpo.log(1e-6, 0.1)}, {"b": "1e-5"}, {"b": 1e-5}),
    ({"b": [1, 2, 3]}, {"b": "2"}, {"b": 2}),
    ({"b": ["2", "a"]}, {"b": "2", "constant": "2"}, {"b": "2", "constant": "2"}),
])  # fmt: skip
def test_a_default_that_is_a_text_of_a_number_is_tried_first_as_the_number(space, config, first):
    def train(given):
        note(given)
        return 1.0

    found(train, space=space, config=config, trials=1)
    assert noted() == [first]


@pytest.mark.slow
def test_all_words_of_the_toolkit_go_through_report_reproduction_and_resumption():
    def train(config):
        note(config)
        return sum(config["searched"][word] + config[word] for word in WORDS)

    space = {"searched": dict.fromkeys(WORDS, (1, 9))} | {word: [1, 2, 3] for word in WORDS}
    study = found(train, space=space, trials=3)
    assert study.best.score == train(study.best.config)
    report = json.loads((study.report().page.parent / "report.json").read_text())
    assert set(report["winner"]["point"]) == {*WORDS, *(f"searched.{word}" for word in WORDS)}
    assert study.reproduce().is_reproduced
    assert len(study.resume(4, progress=False).trials) == 4


def test_all_words_of_the_toolkit_are_constants_like_any_other():
    def train(config):
        note(config)
        return config["x"]

    constants = {word: {"test": 5, "seed": 7, "values": [1, 2]} for word in WORDS}
    study = found(train, space={"x": [1.0, 2.0]}, config=constants, trials=2)
    assert [config | {"x": 0} for config in noted()] == [constants | {"x": 0}] * 2
    assert study.best.config == constants | {"x": max(config["x"] for config in noted())}
    keys = ("objective_config.split.seed", "objective_config.data.test", "objective_config.training.seed")
    longer = study.extend(dict.fromkeys(keys, 6), best=1, progress=False)
    seen = noted()[-1]
    assert (seen["split"]["seed"], seen["data"]["test"], seen["training"]["seed"]) == (6, 6, 6)
    assert seen == longer.best.config


def searched(**given):
    def trained(config, trial):
        trial.report(epoch=1, score=config["lr"] / 2)
        note(config)
        return {"score": config["lr"], "other": 3.0}

    return found(trained, space={"lr": [0.5, 0.25]}, name="mine", trials=2, **given)


@pytest.mark.slow
def test_the_winner_of_a_function_is_trained_once_more_as_the_report_says(capsys):
    text = (searched(config={"width": 8}).folder / "report.md").read_text()
    assert 'hpo.load("mine").train()' in text
    assert "hpo train --config" not in text
    capsys.readouterr()
    assert hpo.load("mine").train() == {"score": 0.5, "other": 3.0}
    assert "epoch 1  score 0.25" in capsys.readouterr().out
    assert noted()[-1] == {"lr": 0.5, "width": 8}


def test_what_a_function_cannot_do_names_what_works_instead(capsys):
    study = searched()
    best = str(study.folder / "best.yaml")
    with pytest.raises(hpo.HpoError) as refusal:
        hpo.train(config_file=best)
    for says in (refused(capsys, "train", "--config", best), str(refusal.value)):
        assert "objective: 'trained' was given from Python" in says
        assert 'train the winner in Python with `hpo.load("mine").train()`' in says
    refuses(hpo.HpoError, r'fully trained.*hpo\.load\("mine"\)\.train\(\)', study.extend, best=1)
    assert [path.name for path in Path("runs").iterdir()] == ["mine"]


def test_points_to_try_first_may_be_given_next_to_a_dimension_called_first():
    study = found(
        lambda config: config["first"], space={"first": (1, 500)}, config={"first": 77, "epochs": 1}, trials=1
    )
    assert study.best.point == {"first": 77}
    longer = study.extend({"epochs": 2}, best=1, progress=False)
    assert (longer.best.point, longer.best.config["epochs"]) == ({"first": 77}, 2)
