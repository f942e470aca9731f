"""The toolkit's own words are hyperparameters and constants like any other."""

import json
from pathlib import Path

import pytest

import hpo
from hpo.cli.main import main
from hpo.commands.given.settings import plain_space
from hpo.trials.space.reader import space_from_dict
from tests.hpo.commands.searched import found, note, noted

# The names of sections, of what the toolkit's own objectives have, and of a dimension's fields.
WORDS = (
    *("training", "split", "strategy", "objective", "space", "report", "track", "dispatch", "study", "data", "model"),
    *("default", "when", "low", "values", "first", "require", "choices", "objective_config", "seed", "config", "notes"),
)


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


OBJECTIVE = """
import json

def train(config, trial):
    with open("noted", "a") as file:
        file.write(json.dumps(config) + "\\n")
    return config["training"]
"""


def test_hpo_train_takes_the_winners_training_section_as_it_is():
    Path("owns.py").write_text(OBJECTIVE)
    study = found("owns:train(config, trial)", space={"training": [3, 5]}, trials=2)
    study.report()
    assert main(["train", "--config", str(study.folder / "best.yaml")]) == 0
    assert noted()[-1] == study.best.config == {"training": max(config["training"] for config in noted())}


@pytest.mark.parametrize(
    ("space", "keys"),
    [
        ({"values": [1, 2]}, ["values"]),
        ({"default": [1, 2], "when": ["a", "b"], "log": [1, 2]}, ["default", "when", "log"]),
        ({"net": {"values": ["a", "b"], "units": (1, 5)}}, ["net.values", "net.units"]),
        ({"net": {"default": hpo.log(1, 5)}, "x": [1]}, ["net.default", "x"]),
        ({"require": (0.0, 1.0), "first": (1, 5)}, ["require", "first"]),
        ({"first": {"a": [1, 2], "first": [3, 4]}}, ["first.a", "first.first"]),
        ({"lr": [1, 2], "require": ["lr > 0"], "first": [{"lr": 2}]}, ["lr"]),
        ({"lr": [1, 2], "require": [], "first": "default"}, ["lr"]),
        ({"net": {"lr": [1, 2]}, "first": ["default", {"net": {"lr": 1}}], "require": ["net.lr"]}, ["net.lr"]),
    ],
)
def test_names_in_a_space_that_are_words_are_read_the_same_from_the_frozen_form(space, keys):
    plain = plain_space(space, {})
    read = space_from_dict(json.loads(json.dumps(plain)))
    assert list(read.keys) == keys


def test_points_to_try_first_may_be_given_next_to_a_dimension_called_first():
    def train(config):
        return config["first"]

    study = found(train, space={"first": (1, 500)}, config={"first": 77, "epochs": 1}, trials=1)
    assert study.best.point == {"first": 77}
    longer = study.extend({"epochs": 2}, best=1, progress=False)
    assert (longer.best.point, longer.best.config["epochs"]) == ({"first": 77}, 2)
