"""Spaces as people write them in YAML, on a command line and in Python: each line is one habit."""

import pytest
import yaml

import hpo
from hpo.cli.main import main
from hpo.commands.given.settings import plain_space
from hpo.errors import SpaceError
from hpo.trials.space.reader import space_from_dict
from hpo.trials.space.written import as_meant

QUIET = {"track": "none", "dispatch": "local"}
OPTIMIZER = {"name": "adam", "betas": [0.9, 0.99]}


def read(text):
    """Return the space that this YAML means, as PyYAML reads it."""
    return space_from_dict(as_meant(yaml.safe_load(text)))


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def searched(objective, space, **given):
    asked = {"trials": 4, "direction": "minimize", "strategy": "grid", "settings": QUIET, "progress": False} | given
    return hpo.search(objective, space, **asked)


# Any JSON value is a choice.


@pytest.mark.nightly
def test_rows_per_layer_and_an_optimizer_are_one_value_each():
    def objective(config):
        assert type(config["layers"]) is list
        config["layers"].append(0)  # A trial may change what it gets.
        return len(config["layers"]) + (config["optimizer"] is None)

    space = {"layers": [[64, 32], [128]], "optimizer": {"choices": [OPTIMIZER, None]}}
    study = searched(objective, space, config={"layers": [64, 32], "optimizer": OPTIMIZER}, name="rows")
    assert set(study.trials["state"]) == {"complete"}
    assert study.best.config == {"layers": [128], "optimizer": OPTIMIZER}
    assert {tuple(layers) for layers in study.trials["layers"]} == {(64, 32), (128,)}
    assert '"[64,32]","{""betas"":[0.9,0.99],""name"":""adam""}"' in (study.folder / "trials.csv").read_text()
    assert yaml.safe_load((study.folder / "best.yaml").read_text())["optimizer"] == OPTIMIZER
    assert main(["reproduce", "rows"]) == 0
    assert hpo.load("rows").best == study.best


def test_a_default_that_is_a_mapping_is_replaced_and_not_merged():
    study = searched(
        lambda config: float(len(config["optimizer"])),
        {"optimizer": {"choices": [{"name": "sgd"}, OPTIMIZER]}},
        config={"optimizer": OPTIMIZER},
        name="whole",
    )
    assert study.trials["optimizer"][0] == OPTIMIZER, "the default is tried first"
    assert study.best.config["optimizer"] == {"name": "sgd"}


def test_true_and_1_differ_also_inside():
    space = read("{x: {choices: [[1], [true], [1.0]]}}")
    assert space.size == 3
    assert len({*space["x"].values}) == 3


def test_a_condition_and_a_default_may_be_structured():
    text = "{optimizer: {choices: [{name: adam}, sgd], default: {name: adam}}, "
    space = read(text + "beta: {values: [0.9, 0.99], when: {optimizer: [{name: adam}]}}}")
    assert [dict(point) for point in space.points()][-1] == {"optimizer": "sgd"}
    assert space.size == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{x: {values: [[1], [2]]}}", "use 'choices'"),
        ("{x: {choices: [[1, 2], '[1,2]']}}", r"the text '\[1,2\]' is the JSON of another choice"),
        ("{x: {choices: [[.inf]]}}", "finite numbers"),
        ("{x: {choices: [{1: a}]}}", "keys of a mapping must be texts"),
    ],
)
def test_what_is_no_json_value_is_refused_by_name(text, words):
    with pytest.raises(SpaceError, match=rf"space\.x\.(choices|values): .*{words}"):
        read(text)


def test_on_a_command_line(capsys):
    tree = hpo.compose(
        "data=table", "space=none", "+space.layers.choices=[[64,32],[128]]", "data.path=t", "data.metric=score"
    )
    assert tree["space"] == {"layers": {"choices": [[64, 32], [128]]}}


# Whole numbers.


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("{x: {low: 1, high: 8}}", list(range(1, 9))),
        ("{x: {low: 1, high: 4, log: true}}", [1, 2, 3, 4]),
        ("{x: {low: 1.0, high: 8}}", []),
        ("{x: {low: 1, high: 8, integer: false}}", []),
        ("{x: {low: 0, high: 1, points: 3}}", [0.0, 0.5, 1.0]),
        ("{x: {low: 1, high: 8, step: 3}}", [1, 4, 7]),
        ("{x: {low: 8, high: 64, step: 8}}", list(range(8, 65, 8))),
        ("{x: {low: 0, high: 0.3, step: 0.1}}", [0.0, 0.1, 0.2, 0.3]),
        ("{x: {low: 1, high: 3, step: 1, integer: false}}", [1.0, 2.0, 3.0]),
    ],
)
def test_whole_numbers_and_steps(text, values):
    found = list(read(text)["x"].values)
    assert found == values
    assert list(map(type, found)) == list(map(type, values))


def test_python_and_the_command_line_follow_the_same_rule():
    wide = {"low": 1, "high": 1_000_000_000, "log": True}
    assert read(yaml.safe_dump({"n": wide}))["n"].integer
    assert as_meant({"n": wide}) == {"n": {**wide, "integer": True}}
    tree = hpo.compose("space.model.d_model={low: 1, high: 8}", "space.training.lr={low: 1.0, high: 8}")
    assert tree["space"]["model"]["d_model"]["integer"] is True
    assert "integer" not in tree["space"]["training"]["lr"]
    study = searched(lambda config: config["n"], {"n": wide, "m": (1, 8)}, strategy="random", name="n")
    assert all(isinstance(n, int) for key in "nm" for n in study.trials[key])


@pytest.mark.parametrize(
    ("value", "is_whole"), [(0.5, False), (0.0, True), (3.0, True), (1, True), (None, True), ("off", True)]
)
def test_whole_ends_around_a_fraction_are_a_range_of_fractions(value, is_whole):
    config = {"net": {"x": value}}
    meant = as_meant({"net": {"x": {"low": 0, "high": 1}}}, config)["net"]["x"]
    given = plain_space({"net": {"x": (0, 1)}}, config)["net"]["x"]
    logarithmic = plain_space({"net": {"x": hpo.log(1, 8)}}, config)["net"]["x"]
    assert {fields.get("integer", False) for fields in (meant, given, logarithmic)} == {is_whole}
    assert as_meant({"x": {"low": 0, "high": 1, "default": value}})["x"].get("integer", False) is is_whole
    assert as_meant({"net": {"x": {"low": 0, "high": 1, "integer": True}}}, config)["net"]["x"]["integer"]


def test_a_fraction_outside_of_whole_numbers_is_told_that_they_are_whole():
    space = {"x": {"low": 0, "high": 1, "integer": True}}
    with pytest.raises(SpaceError, match=r"x=0.77 is not in its range \(whole numbers 0 to 1\)"):
        space_from_dict({**space, "first": [{"x": 0.77}]})


def test_overrides_as_one_list_are_told_apart():
    with pytest.raises(hpo.HpoError, match=r"overrides: must be separate strings, .* hpo\.compose\(\*overrides\)"):
        hpo.compose(["study.trials=3"])


def test_the_command_line_reads_whole_ends_around_a_fraction_so_too():
    assert (
        "integer"
        not in hpo.compose("space=none", "space.model.dropout={low: 0, high: 1}", "model.dropout=0.5")["space"][
            "model"
        ]["dropout"]
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{x: {low: 1, high: 8, step: 0}}", r"step: must be a number above 0 and at most high - low, given 0"),
        ("{x: {low: 1, high: 8, step: 9}}", "at most high - low"),
        ("{x: {low: 1, high: 8, step: 1, log: true}}", "cannot be combined with 'log'"),
        ("{x: {low: 1, high: 8, step: 1, points: 2}}", "cannot be combined with 'points'"),
        ("{x: {low: 1, high: 8, step: 0.5, integer: true}}", "whole number with integer: true"),
        ("{x: {low: 0, high: 1000000, step: 1}}", "at most 100,000 steps, given 1,000,000"),
        ("{x: {choices: [1, 2], step: 1}}", "'step' has no effect"),
    ],
)
def test_a_step_that_cannot_be_is_refused(text, words):
    with pytest.raises(SpaceError, match=words):
        read(text)


# Texts that are numbers, and values that are listed twice.


def test_what_yaml_takes_for_a_text_is_a_number_where_one_belongs():
    assert yaml.safe_load("1e-5") == "1e-5"
    space = read(
        "{lr: {low: 1e-5, high: 1e-1, log: true, default: 1e-3}, x: [1e-5, 0.001, 0.1], "
        "y: {low: 0, high: 1e-1, step: 5e-2}}"
    )
    assert (space["lr"].low, space["lr"].high, space["lr"].default) == (1e-5, 0.1, 0.001)
    assert space["x"].values == (1e-5, 0.001, 0.1)
    assert space["y"].values == (0.0, 0.05, 0.1)
    assert read("{x: {choices: [1e-5, 0.1, adam], default: 1e-5}}")["x"].default == 1e-5


@pytest.mark.parametrize("text", ["{lr: [1e-5, 1e-4]}", "{lr: {choices: [1e-5, 1e-4]}}", "{lr: {values: ['1', '2']}}"])
def test_a_list_of_texts_that_all_look_like_numbers_is_refused(text):
    with pytest.raises(SpaceError, match=r"space\.lr.*only texts that look like numbers.*1\.0e-5.*v1"):
        read(text)


def test_a_value_listed_twice_is_said_once_and_kept_once(caplog):
    assert read("{x: [1, 2, 2, 4, 2.0]}")["x"].values == (1, 2, 4)
    (record,) = caplog.records
    assert record.getMessage() == "space.x: values are listed twice and count once: 2"
    assert read("{x: {choices: [[1], [1], a]}}")["x"].values == ([1], "a")


def test_a_key_with_blanks_around_it_is_refused():
    with pytest.raises(SpaceError, match="the key ' lr' must not begin or end with blanks; write 'lr'"):
        read("{' lr': [1, 2]}")
    with pytest.raises(SpaceError, match="blanks"):
        searched(lambda config: 0.0, {"lr ": [1, 2]})


def test_a_refusal_on_the_command_line_is_one_line(capsys):
    assert main(["search", "space.model.num_layers={low: 1, high: 3, step: 1, log: true}", "--cfg", "job"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
