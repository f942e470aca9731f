"""What people of NNI type."""

import pytest

import hpo
from hpo.config.composing.compose import compose_config
from hpo.config.documents import parse_yaml
from hpo.trials.space.peers import of_peer
from hpo.trials.space.written import as_meant
from tests.hpo.cli.commands import refused
from tests.hpo.commands.searched import found


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        ("choice", ["relu", "gelu"], {"choices": ["relu", "gelu"]}),
        ("uniform", [0, 1], {"low": 0.0, "high": 1.0}),
        ("loguniform", [1e-5, 1e-1], {"low": 1e-5, "high": 0.1, "log": True}),
        ("quniform", [0, 10, 2], {"low": 0, "high": 10, "step": 2}),
        ("quniform", [0.5, 2, 0.5], {"low": 0.5, "high": 2.0, "step": 0.5}),
        ("randint", [1, 9], {"low": 1, "high": 8, "integer": True}),
    ],
)
def test_a_typed_dict_is_a_dimension(kind, value, read):
    assert of_peer({"_type": kind, "_value": value}, "space.lr") == read


@pytest.mark.parametrize(
    ("kind", "value", "says"),
    [
        ("normal", [0, 1], "cannot be NNI's normal; give hpo.log"),
        ("qloguniform", [1, 10, 1], "cannot be a step on a logarithmic scale; give hpo.log"),
        ("quniform", [1, 10, 2], "a step 2 from 1 to 10, because both ends must be multiples of the step; give a list"),
        ("uniform", [1], "NNI's uniform must have 2 numbers as _value"),
        ("choice", 3, "must have a list of values"),
        ("choice", [{"_name": "conv"}], "cannot be a choice with nested dimensions"),
    ],
)
def test_what_no_space_says_is_refused(kind, value, says):
    with pytest.raises(hpo.HpoError, match=f"^space.lr: {says}"):
        found(lambda config: 1.0, space={"lr": {"_type": kind, "_value": value}})


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("{_type: loguniform, _value: [1e-5, 1e-1]}", {"low": 1e-5, "high": 0.1, "log": True}),
        ("{_type: choice, _value: [16, 32]}", {"choices": [16, 32]}),
        ("{_type: randint, _value: [1, 9]}", {"low": 1, "high": 8, "integer": True}),
    ],
)
def test_a_typed_dict_in_yaml_or_on_the_command_line_is_a_dimension(typed, read):
    composed = compose_config("search", ["space=none", f"space.training.lr={typed}"])["space"]
    assert as_meant(composed) == as_meant(parse_yaml(f"training: {{lr: {typed}}}", "space"))
    assert as_meant(composed) == {"training": {"lr": read}}


def test_one_that_no_space_says_is_refused_as_it_was_typed(capsys):
    said = refused(capsys, "search", "space.training.lr={_type: normal, _value: [0, 1]}")
    assert said.startswith("error: space.training.lr: cannot be NNI's normal; give ")


def test_tuples_of_a_choice_stay_tuples():
    study = found(lambda config: sum(config["x"] + ()), space={"x": {"_type": "choice", "_value": [(1, 2), (3, 4)]}})
    assert (study.best.score, study.best.config) == (7, {"x": (3, 4)})
