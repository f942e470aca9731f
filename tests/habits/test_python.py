"""Habits of Python's users: their own words in a configuration, and values and keys that JSON does not have."""

import argparse
import dataclasses
import datetime
import enum
import hashlib
import json
import threading
from pathlib import Path

import numpy as np
import pytest

import hpo
from hpo.cli.main import main
from hpo.config.keys import flatten, plain_own, replaced, without
from hpo.config.study_config import config_from_dict
from hpo.engine.objective.function_parts import digest_of
from hpo.engine.space.reader import space_from_dict
from hpo.interface.given.settings import plain_space, search_tree, with_settings
from tests.hpo.interface.searched import found, note, noted

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
    report = json.loads((study.report().parent / "report.json").read_text())
    assert set(report["winner"]["point"]) == {*WORDS, *(f"searched.{word}" for word in WORDS)}
    assert study.reproduce()["holds"].all()
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
        ({"net": {"lr": {"valuse": [1], "default": 1}}}, "unknown field 'valuse'"),
        ({"lr": [1, 2], "first": [{"lrr": 1}]}, "'lrr' is not searched"),
        ({"lr": [1, 2], "first": {"lrr": 1}}, "'lrr' is not searched"),
        ({"lr": [1, 2], "require": ["lrr > 1"]}, "names 'lrr', which is not a key"),
        ({"lr": [1, 2], "first": ["defualt"]}, "must be a point"),
        ({"a.b": [1, 2], "a": {"b": [1, 2]}}, "space.a.b: stands there twice"),
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


def test_a_dotted_name_is_one_key_unless_the_configuration_has_it_nested():
    def train(config):
        note(config)
        return config["x"]

    def last(space, config):
        found(train, space=space, config=config, trials=1)
        return noted()[-1]

    assert set(last({"optim.lr": hpo.log(1e-5, 1e-2), "x": [1]}, None)) == {"optim.lr", "x"}
    assert list(last({"optim.lr": [1, 2], "x": [1]}, {"optim": {"lr": 2}})["optim"]) == ["lr"]
    assert last({"optim": {"lr": [1]}, "x": [1]}, {"optim.lr": 2}) == {"optim.lr": 1, "x": 1}
    with pytest.raises(hpo.HpoError, match=r"config: 'optim\.lr' stands there twice"):
        last({"x": [1]}, {"optim.lr": 2, "optim": {"lr": 2}})
    with pytest.raises(hpo.HpoError, match=r"config\.optim: must be a dict, as in the space, given 3"):
        last({"optim": {"lr": [1]}}, {"optim": 3})


def test_a_study_that_an_earlier_version_nested_goes_on_as_it_was(monkeypatch):
    def train(config):
        note(config)
        return 1.0

    with monkeypatch.context() as earlier:
        earlier.setattr(
            "hpo.interface.given.settings.own_tree", lambda space, config: replaced({}, dict.fromkeys(space))
        )
        found(train, space={"optim.lr": [1, 2]}, trials=1)
    assert found(train, space={"optim.lr": [1, 2]}, trials=2).name == "train"
    assert [list(config) for config in noted()] == [["optim"], ["optim"]]


def test_keys_with_dots_are_found_changed_and_removed_where_they_stand():
    tree = {"a.b": {"c": 1}, "a": {"b": {"d": 2}, "e.f": 3}}
    assert replaced(tree, {"a.b.c": 5, "a.b.d": 6, "a.e.f": 7, "x.y": 8}) == {
        **{"a.b": {"c": 5}, "a": {"b": {"d": 6}, "e.f": 7}, "x": {"y": 8}}
    }
    assert without(without(tree, "a.b.c"), "a.e.f") == {"a.b": {}, "a": {"b": {"d": 2}}}
    assert without(tree, "a.x") == tree
    assert list(flatten(tree)) == ["a.b.c", "a.b.d", "a.e.f"]


class Color(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Adam:
    lr: float = 0.1
    betas: tuple = (0.9, 0.99)


class Relu:
    pass


CONSTANTS = {
    **{
        "sizes": (64, (32, 16)),
        "path": Path("a/b"),
        "color": Color.RED,
        "optimizer": Adam(),
        "names": {0: "a", 1: "b"},
    },
    **{"day": datetime.date(2026, 1, 2), "rows": [(1, 2), (3, 4)], "range": range(3), "set": {2, 1}, "none": None},
    "dtype": np.dtype("float32"),
}


CYCLIC = {"itself": None}
CYCLIC["itself"] = CYCLIC


@pytest.mark.nightly
def test_values_that_json_does_not_have_are_written_down_and_given_back():
    def train(config):
        assert {key: config[key] for key in CONSTANTS} == CONSTANTS
        assert config["array"].tolist() == [1, 2]
        assert (type(config["one"]), config["one"]) == (float, 1.0)
        config["names"][2] = "a training may change what it gets"
        return config["x"] + (config["act"] is Relu)

    config = CONSTANTS | {"array": np.array([1, 2]), "one": np.float64(1.0)}
    space = {"x": [0.25, 0.5], "act": hpo.choices("none", relu=Relu, adam=Adam())}
    study = found(train, space=space, config=config, trials=5)
    assert study.trials["error"].isna().all()
    assert study.best.config == {
        **{"sizes": (64, (32, 16)), "path": "a/b", "color": "Color.RED", "names": {0: "a", 1: "b"}, "none": None},
        **{"optimizer": {"lr": 0.1, "betas": [0.9, 0.99]}, "day": "2026-01-02", "rows": [(1, 2), (3, 4)], "one": 1.0},
        **{"range": [0, 1, 2], "set": [1, 2], "dtype": "float32", "array": [1, 2], "x": 0.5, "act": "relu"},
    }
    assert study.report().exists()
    assert study.reproduce()["holds"].all()
    assert len(found(train, space=space, config=config, trials=6).trials) == 6
    with pytest.raises(hpo.HpoError, match=r"path: was given from Python, a PosixPath, and only 'a/b' stands for it"):
        study.extend({"path": "c"}, progress=False)


def test_a_dataclass_is_rebuilt_with_what_is_changed_or_searched():
    def train(config):
        return config["optimizer"].lr + config["optimizer"].betas[0]

    study = found(train, space={"optimizer": {"lr": [1.0, 2.0]}}, config={"optimizer": Adam()}, trials=2)
    assert study.best.score == 2.9


def test_an_importable_function_gets_objects_too_with_what_its_module_gives(monkeypatch):
    monkeypatch.syspath_prepend(Path.cwd())
    Path("importable.py").write_text(
        "def train(config):\n    return config['sizes'][0] + len(config['act'].__name__)\n"
        "def check(config):\n    assert isinstance(config['sizes'], tuple)\n"
    )
    import importable

    space = {"act": hpo.choices(relu=Relu)}
    study = found(importable.train, space=space, config={"sizes": (1, 2)}, trials=1)
    assert (study.best.score, study.best.config) == (5, {"sizes": (1, 2), "act": "relu"})


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"config": {"a": {"model": Relu()}}}, "config.a.model: a Relu cannot be written down; allowed are numbers"),
        ({"config": {"model": Relu}}, "config.model: Relu cannot be written down"),
        ({"config": {"a": [b"x"]}}, "config.a.0: a bytes cannot be written down"),
        ({"config": {"x": np.zeros((100, 100))}}, "at most 1,000 values to be written down, given 10,000"),
        ({"config": {"x": np.array([np.nan])}}, "x.0: must be a finite number"),
        ({"config": {"x": {0: 1, "0": 2}}}, "config.x: cannot be written down: two of its keys are the same text"),
        ({"config": {0: 1}}, "config: its names must be texts, given 0"),
        ({"config": {"v": np.float32}}, "config.v: float32 cannot be written down"),
        ({"config": {"v": {"w": CYCLIC}}}, "config.v: holds itself, and cannot be written down; give it without"),
        ({"config": {"v": [CYCLIC]}}, "config.v: holds itself"),
        ({"space": {"x": [np.float32]}}, "space.x: float32 cannot be written down"),
        ({"space": {"x": [CYCLIC, 1]}}, "space.x: holds itself"),
        ({"space": CYCLIC}, "space: holds itself"),
        ({"space": {"x": np.float32}}, "space.x: cannot hold <class 'numpy.float32'>"),
        ({"space": {"x": (np.float32, np.float64)}}, "space.x: a tuple is a range, (low, high), given"),
        ({"space": {"x": [Relu]}}, "space.x: Relu cannot be written down"),
        ({"space": {"x": hpo.choices(lock=threading.Lock())}}, "space.x: lock: a lock cannot be sent to workers"),
    ],
)
def test_what_cannot_be_written_down_is_refused_by_its_key_before_the_first_trial(arguments, says):
    with pytest.raises(hpo.HpoError) as error:
        found(lambda config: 1.0, **({"space": {"lr": [1, 2]}} | arguments))
    assert says in str(error.value)
    assert not Path("runs").exists()


def test_a_choice_is_a_value_or_a_name():
    with pytest.raises(hpo.HpoError, match="'relu' as a value and as a name"):
        hpo.choices("relu", relu=Relu)


@pytest.mark.parametrize(
    ("config", "way"), [(Adam(0.1), "dataclasses.asdict"), (argparse.Namespace(lr=0.1), "vars"), ([1], None)]
)
def test_a_configuration_that_is_no_dict_says_what_makes_one_of_it(config, way):
    with pytest.raises(hpo.HpoError) as refused:
        found(lambda config: config["lr"], space={"lr": [1, 2]}, config=config)
    said = f"config: must be a dict, given a {type(config).__name__}"
    assert str(refused.value) == said + (f"; {way}(...) makes one" if way else "")


HERE = {"direction": "minimize", "settings": {"dispatch": "local", "track": "none"}, "progress": False}


@pytest.mark.nightly
def test_two_lambdas_on_one_line_are_two_functions():
    # fmt: off
    a = hpo.search(lambda c: c["x"], {"x": [1, 2]}, trials=2, **HERE); b = hpo.search(lambda c: -c["x"] * 100, {"x": [1, 2]}, trials=2, **HERE)  # noqa: E501, E702
    fs = {"é": lambda c: c["x"] ** 2, "neg": lambda c: -c["x"]}
    # fmt: on
    assert (a.best.score, b.best.score, b.name) == (1, -200, "objective-2")
    assert [hpo.search(f, {"x": [2, 3]}, trials=2, **HERE).best.score for f in fs.values()] == [4, -3]
    hpo.search(fs["neg"], {"x": [2, 3]}, trials=2, name="named", **HERE)
    with pytest.raises(hpo.HpoError, match="since it was started: the code of the function changed"):
        hpo.search(fs["é"], {"x": [2, 3]}, trials=2, name="named", **HERE)
    assert hpo.search(fs["neg"], {"x": [2, 3]}, trials=2, name="named", **HERE).best.score == -3


def test_a_lambda_alone_on_its_line_or_with_those_inside_of_it_is_known_as_before():
    # fmt: off
    alone = lambda c: sorted(c, key=lambda name: c[name])[0]  # noqa: E731
    made = (lambda k: lambda c: c["x"] * k)(2)
    # fmt: on
    texts = ("alone = lambda c: sorted(c, key=lambda name: c[name])[0]", "made = (lambda k: lambda c: c['x'] * k)(2)")
    assert (digest_of([("f", alone)]), digest_of([("f", made)])) == tuple(
        hashlib.sha256(text.encode()).hexdigest()[:16] for text in texts
    )


@pytest.mark.parametrize("space", [{"layers.0.w": [0.1, 0.2]}, {"layers": {"0": {"w": [0.1, 0.2]}}}])
def test_a_part_of_a_list_is_not_searched_and_made_a_key_beside_it(space):
    says = r"^space\.layers\.0\.w: is inside of a list; search 'layers' as a whole with choices$"
    with pytest.raises(hpo.HpoError, match=says):
        hpo.search(lambda c: 1.0, space, config={"layers": [{"w": 5}]}, trials=2, **HERE)
    assert not Path("runs").exists()


def test_the_command_line_says_the_same_of_a_part_of_a_list(capsys):
    Path("obj.py").write_text("def f(config):\n    return 1.0\n")
    arguments = ["objective=obj:f", "+layers=[{w: 5}]", "space.layers.0.w=[0.1,0.2]", "study.direction=minimize"]
    assert main(["search", *arguments, "dispatch=local", "track=none"]) == 2
    assert "space.layers.0.w: is inside of a list; search 'layers' as a whole with choices" in capsys.readouterr().err
    assert not Path("runs").exists()


def test_a_key_with_dots_beside_a_list_is_one_key_of_the_users():
    study = hpo.search(lambda c: c["optim.lr"], {"optim.lr": [1, 2]}, config={"optim": [1]}, trials=2, **HERE)
    assert study.best.config == {"optim": [1], "optim.lr": 1}


@pytest.mark.parametrize(
    ("space", "says"),
    [
        ({"layers": {1: [2, 3], 2: [4, 5]}}, "space.layers: its names must be texts, given 1; write '1'"),
        ({1: [2, 3]}, "space: its names must be texts, given 1; write '1'"),
        ({"a": {"b": {None: hpo.log(1, 2)}}}, "space.a.b: its names must be texts, given None; write 'None'"),
    ],
)
def test_a_number_as_a_name_in_a_space_is_refused_as_the_function_would_get_a_text(space, says):
    with pytest.raises(hpo.HpoError) as error:
        hpo.search(lambda c: 1.0, space, trials=2, **HERE)
    assert str(error.value) == says
    assert not Path("runs").exists()


def test_numbers_stay_keys_of_a_mapping_that_is_a_choice_or_a_constant():
    def train(config):
        return config["x"][1] + config["y"][2]

    study = hpo.search(train, {"x": [{1: 2}, {1: 3}]}, config={"y": {2: 3}}, trials=2, **HERE)
    assert study.best.score == 5


def test_the_winner_has_the_tuples_and_numbers_as_keys_that_the_function_got():
    def train(config):
        return config["v"][1] * config["net"]["units"].index(2)

    space, config = {"net.units": [(1, 2), (2, 1)], "x": [1, 2]}, {"v": {1: 2}, "net": {"act": "relu"}}
    best = hpo.search(train, space, config=config, trials=4, name="named", **HERE).best
    assert best.config == {"v": {1: 2}, "net": {"act": "relu", "units": (2, 1)}, "x": best.point["x"]}
    assert (best.point["net.units"], train(best.config)) == ((2, 1), best.score)
    assert hpo.load("named").best == best


@pytest.mark.parametrize(
    ("space", "config", "first"),
    [
        ({"b": hpo.log(1e-6, 0.1)}, {"b": "1e-5"}, {"b": 1e-5}),
        ({"m": {"b": (1, 9)}}, {"m": {"b": "3"}}, {"m": {"b": 3}}),
        ({"o.b": (0.0, 1.0)}, {"o.b": "1e-2"}, {"o.b": 0.01}),
        ({"b": [1, 2, 3]}, {"b": "2"}, {"b": 2}),
        ({"b": ["2", "a"]}, {"b": "2", "constant": "2"}, {"b": "2", "constant": "2"}),
    ],
)
def test_a_default_that_is_a_text_of_a_number_is_tried_first_as_the_number(space, config, first):
    def train(given):
        note(given)
        return 1.0

    hpo.search(train, space, config=config, trials=1, **HERE)
    assert noted() == [first]


@pytest.mark.slow
def test_a_study_that_an_earlier_version_began_with_such_a_text_goes_on_as_it_was(monkeypatch):
    def train(given):
        return given["b"]

    arguments = {"space": {"b": hpo.log(1e-6, 0.1)}, "config": {"b": "1e-5"}, "name": "before", **HERE}
    with monkeypatch.context() as before:
        before.setattr("hpo.interface.given.settings.default_as_meant", lambda value, dimension: value)
        begun = list(hpo.search(train, trials=1, **arguments).trials["b"])
    study = hpo.search(train, trials=2, **arguments)
    assert (list(study.trials["b"])[:1], study.config["b"]) == (begun, "1e-5")
    assert begun != [1e-5]
