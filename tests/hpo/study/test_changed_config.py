"""A study exists with another configuration or processor: the refusal says what the user changed, and nothing else."""

import re

import pytest

import hpo
from hpo.errors import StudyError
from hpo.study.basis.configurations import refuse_other_config
from hpo.study.basis.environment import processor_of
from tests.hpo.cli.commands import TABLE
from tests.studies import config_from_dict, shipped, toy_config

SPACE = {"toy": {"layers": [1, 2, 3], "lr": {"low": 0.1, "high": 1.0, "integer": False}}}
BEFORE = toy_config(space=SPACE)
WIDER = {"toy": {"layers": [1, 2, 3], "lr": {"low": 0.1, "high": 2.0}}}
ANOTHER_OBJECTIVE = toy_config(space={"lr": [1, 2]}, objective="toys:constant", model={"num_layers": 3})


@pytest.mark.parametrize(("before", "now", "said"), [
    (BEFORE, toy_config(space={**SPACE, "x": ["a", "b"]}) | {"x": None}, "space.x was missing and is now ['a', 'b']"),
    # A range in another notation is no change next to a real one.
    (BEFORE, toy_config(space=WIDER), "space.toy.lr was 0.1 to 1.0 and is now 0.1 to 2.0"),
    # Nor is what follows from another strategy or objective; the space comes first.
    (BEFORE, toy_config(shipped("tpe"), SPACE), "strategy.name was 'random' and is now 'tpe'"),
    (BEFORE, ANOTHER_OBJECTIVE, "objective was 'toys:score' and is now 'toys:constant'; space.toy.layers"),
    (BEFORE, toy_config(space={"toy": SPACE["toy"] | {"layers": [1, 2]}}, toy={"layers": 3}),
     "space.toy.layers was [1, 2, 3] and is now [1, 2]; toy.layers was 2 and is now"),
    (BEFORE, BEFORE | {"x": None}, "x was missing and is now None"),
])  # fmt: skip
def test_the_refusal_names_what_the_user_changed(before, now, said):
    with pytest.raises(StudyError) as raised:
        refuse_other_config(config_from_dict(before), config_from_dict(now), "toy")
    line = re.search(r"another configuration: (.*); choose another study.name", str(raised.value)).group(1)
    assert line.startswith(said)
    assert line == said or ";" in said
    assert "num_layers" not in line


def test_where_a_study_runs_may_change():
    cluster = {"environment": {"pip": ["wheel"], "env_vars": {"A": "1"}}, "name": "ray", "address": "10.0.0.1:6379"}
    now = BEFORE | {"dispatch": BEFORE["dispatch"] | cluster}
    refuse_other_config(config_from_dict(now), config_from_dict(BEFORE), "toy")
    refuse_other_config(config_from_dict(BEFORE), config_from_dict(now), "toy")


@pytest.mark.slow
def test_the_same_call_continues_if_the_objective_adds_to_the_space():
    config = {"data": hpo.compose("data=table", f"data.path={TABLE}", "data.metric=accuracy_0")["data"]}
    given = {"trials": 2, "metric": "accuracy_0", "direction": "maximize", "progress": False}
    given |= {"config": config | {"kernel": None, "gamma": None}, "settings": {"dispatch": "local", "track": "none"}}
    names = [hpo.search("hpo.objectives.table:run_fold", {"C": [1.0, 3.0]}, **given).name for _ in range(2)]
    assert names == ["run_fold", "run_fold"]


def test_processors_of_one_name_differ_by_what_libraries_choose_their_code_by():
    milan = "processor\t: 0\ncpu family\t: 25\nmodel\t\t: 1\nmodel name\t: AMD EPYC\nflags\t\t: fpu sse2 avx avx2\n"
    genoa = milan.replace("model\t\t: 1", "model\t\t: 17").replace("avx2", "avx2 avx512f avx512vl")
    for info, name in ((milan, "1, avx2"), (genoa, "17, avx512f"), (milan.replace("avx2", ""), "1, avx")):
        assert processor_of(f"{info}\nprocessor\t: 1\ncpu family\t: 0\n") == f"AMD EPYC (family 25, model {name})"
