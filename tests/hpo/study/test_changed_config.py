"""What is said where a study exists with another configuration: what somebody changed, and not what follows from it."""

import re

import pytest

import hpo
from hpo.config.study_config import config_from_dict
from hpo.errors import StudyError
from hpo.study.basis.configurations import refuse_other_config
from tests.hpo.cli.commands import TABLE
from tests.studies import shipped, toy_config

SPACE = {"toy": {"layers": [1, 2, 3], "lr": {"low": 0.1, "high": 1.0, "integer": False}}}


def said(before, now):
    with pytest.raises(StudyError) as raised:
        refuse_other_config(config_from_dict(before), config_from_dict(now), "toy")
    return re.search(r"another configuration: (.*); choose another study.name", str(raised.value)).group(1)


def test_a_key_that_is_new_in_the_space_is_said_once():
    before = toy_config(space=SPACE)
    now = toy_config(space={**SPACE, "x": ["a", "b"]}) | {"x": None}
    assert said(before, now) == "space.x was missing and is now ['a', 'b']"
    assert said(now, before) == "space.x was ['a', 'b'] and is now missing"


def test_a_range_in_another_notation_is_no_change_beside_a_real_one():
    now = toy_config(space={"toy": {"layers": [1, 2, 3], "lr": {"low": 0.1, "high": 2.0}}})
    assert said(toy_config(space=SPACE), now) == "space.toy.lr was 0.1 to 1.0 and is now 0.1 to 2.0"


def test_what_follows_from_another_strategy_or_objective_is_not_said_and_the_space_comes_first():
    before = toy_config(space=SPACE)
    assert said(before, toy_config(shipped("tpe"), SPACE)) == "strategy.name was 'random' and is now 'tpe'"
    now = toy_config(space={"lr": [1, 2]}, objective="tests.toy:constant", model={"num_layers": 3})
    said_of_another = said(before, now)
    assert said_of_another.startswith("objective was 'tests.toy:score' and is now 'tests.toy:constant'; space.toy.lay")
    assert "num_layers" not in said_of_another
    now = toy_config(space={"toy": SPACE["toy"] | {"layers": [1, 2]}}, toy={"layers": 3})
    assert said(before, now).startswith("space.toy.layers was [1, 2, 3] and is now [1, 2]; toy.layers was 2 and is no")


def test_where_a_study_runs_may_change_as_a_whole():
    before = toy_config(space=SPACE)
    environment = {"pip": ["wheel"], "env_vars": {"A": "1"}}
    cluster = {"name": "ray", "address": "10.0.0.1:6379", "environment": environment}
    now = before | {"dispatch": before["dispatch"] | cluster}
    refuse_other_config(config_from_dict(now), config_from_dict(before), "toy")
    refuse_other_config(config_from_dict(before), config_from_dict(now), "toy")


def test_a_key_of_the_objective_that_becomes_null_is_said_where_nothing_else_changed():
    before = toy_config(space=SPACE)
    assert said(before | {"x": 1}, before | {"x": None}) == "x was 1 and is now None"
    assert said(before, before | {"x": None}) == "x was missing and is now None"


def test_the_same_call_goes_on_where_the_objective_adds_to_the_space():
    data = hpo.compose("data=table", f"data.path={TABLE}", "data.metric=accuracy_0")["data"]
    names = [
        hpo.search(
            "hpo.objectives.table:run_fold",
            {"C": [1.0, 3.0]},
            config={"data": data, "kernel": None, "gamma": None},
            trials=2,
            metric="accuracy_0",
            direction="maximize",
            settings={"dispatch": "local", "track": "none"},
            progress=False,
        ).name
        for _ in range(2)
    ]
    assert names == ["run_fold", "run_fold"]
