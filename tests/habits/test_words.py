"""The toolkit's own words are hyperparameters and constants like any other."""

import json
from pathlib import Path

import pytest

import hpo
from hpo.cli.main import main
from hpo.commands.given.settings import plain_space, search_tree, with_settings
from hpo.config.keys import plain_own
from hpo.config.study_config import config_from_dict
from hpo.trials.space.reader import space_from_dict
from tests.hpo.commands.searched import found, note, noted

# The names of sections, of what the toolkit's own objectives have, and of a dimension's fields.
WORDS = (
    *("training", "split", "strategy", "objective", "space", "report", "track", "dispatch", "study", "data", "model"),
    *("default", "when", "low", "values", "first", "require", "choices", "objective_config", "seed", "config", "notes"),
)


@pytest.mark.quick("default", "first")
@pytest.mark.nightly
@pytest.mark.parametrize("word", ["training", "split", "data", "values", "first", "require", "default", "study.name"])
def test_a_word_of_the_toolkit_is_a_hyperparameter_like_any_other(word):
    def train(config):
        note(config)
        return config[word]

    study = found(train, space={word: [1, 2, 3]}, trials=2)
    assert study.best.config == study.best.point == {word: max(config[word] for config in noted())}
    assert len(found(train, space={word: [1, 2, 3]}, trials=3).trials) == len(noted()) == 3


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


@pytest.mark.parametrize("form", ["config", "config, trial"])
def test_hpo_train_takes_the_winners_training_section_as_it_is(form):
    name = f"owns_{len(form)}"
    Path(f"{name}.py").write_text(
        f"import json\ndef train({form}):\n    with open('noted', 'a') as file:\n"
        "        file.write(json.dumps(config) + '\\n')\n    return config['training']\n"
    )
    study = found(f"{name}:train({form})", space={"training": [3, 5]}, trials=2)
    study.report()
    assert main(["train", "--config", str(study.folder / "best.yaml")]) == 0
    assert noted()[-1] == study.best.config == {"training": max(config["training"] for config in noted())}


def test_a_frozen_tree_with_a_sections_name_is_read_as_it_was_written():
    for own in ({"lr": 1}, {"split": 2, "lr": 1}, {"objective_config": {"lr": 1}}, {"objective_config": 3, "x": 1}):
        config = _frozen(own)
        assert config.objective_config == own
        assert config_from_dict(config.to_dict()) == config


def _frozen(own):
    tree = search_tree("own:train(config)", {"x": [1, 2]}, own, "random")
    given = {"study.name": "a", "study.metric": "m", "study.direction": "minimize"}
    assert (plain_own(own) == own) == ("split" not in own and "objective_config" not in own)
    return config_from_dict(with_settings(tree, given))


@pytest.mark.parametrize(
    ("space", "keys"),
    [
        ({"values": [1, 2]}, ["values"]),
        ({"low": (1, 5), "high": (2, 6)}, ["low", "high"]),
        ({"default": [1, 2], "when": ["a", "b"], "log": [1, 2]}, ["default", "when", "log"]),
        ({"net": {"values": ["a", "b"], "units": (1, 5)}}, ["net.values", "net.units"]),
        ({"net": {"values": [1, 2], "units": [3, 4]}}, ["net.values", "net.units"]),
        ({"net": {"default": hpo.log(1, 5)}, "x": [1]}, ["net.default", "x"]),
        ({"require": ["a", "b"]}, ["require"]),
        ({"require": (0.0, 1.0), "first": (1, 5)}, ["require", "first"]),
        ({"first": ["a", "b"], "choices": [1, 2]}, ["first", "choices"]),
        ({"first": {"a": [1, 2], "first": [3, 4]}}, ["first.a", "first.first"]),
        ({"first": [1, 2], "require": [3, 4], "x": [1]}, ["first", "require", "x"]),
        ({"lr": [1, 2], "require": ["lr > 0"], "first": [{"lr": 2}]}, ["lr"]),
        ({"lr": [1, 2], "require": "lr > 0", "first": {"lr": 2}}, ["lr"]),
        ({"lr": [1, 2], "require": [], "first": "default"}, ["lr"]),
        ({"net": {"lr": [1, 2]}, "first": ["default", {"net": {"lr": 1}}], "require": ["net.lr"]}, ["net.lr"]),
    ],
)
def test_names_in_a_space_that_are_words_are_read_the_same_from_the_frozen_form(space, keys):
    plain = plain_space(space, {})
    read = space_from_dict(json.loads(json.dumps(plain)))
    assert list(read.keys) == keys


@pytest.mark.parametrize(
    ("space", "says"),
    [
        ({"net": {"lr": {"valuse": [1], "default": 1}}}, "has the unknown field 'valuse'"),
        ({"lr": [1, 2], "first": [{"lrr": 1}]}, "'lrr' is not searched"),
        ({"lr": [1, 2], "first": {"lrr": 1}}, "'lrr' is not searched"),
        ({"lr": [1, 2], "require": ["lrr > 1"]}, "unknown key 'lrr'"),
        ({"lr": [1, 2], "first": ["defualt"]}, "must be a point"),
        ({"a.b": [1, 2], "a": {"b": [1, 2]}}, "space.a.b: is given twice"),
    ],
)
def test_a_mistyped_space_is_refused_with_its_name(space, says):
    with pytest.raises(hpo.HpoError, match=says):
        space_from_dict(plain_space(space, {}))


def test_points_to_try_first_stand_beside_a_dimension_of_that_name():
    def train(config):
        return config["first"]

    study = found(train, space={"first": (1, 500)}, config={"first": 77, "epochs": 1}, trials=1)
    assert study.best.point == {"first": 77}
    longer = study.extend({"epochs": 2}, best=1, progress=False)
    assert (longer.best.point, longer.best.config["epochs"]) == ({"first": 77}, 2)
