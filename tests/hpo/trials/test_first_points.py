"""The space language beyond ranges: rules, points to try first, defaults; and how strategies take them."""

import pytest

from hpo.engine.schedule.proposer import propose
from hpo.engine.strategies import make_strategy
from hpo.errors import SpaceError
from hpo.testing.strategies import play
from hpo.trials.history import History
from hpo.trials.space.reader import space_from_dict
from hpo.trials.space.space import point_key
from tests.studies import STRATEGIES, searched_by

TREE = {"model": {"width": [8, 12, 16, 24, 32], "heads": {"values": [1, 2, 3, 4], "default": 2}}, "lr": [0.1, 0.01]}
RULE = "model.width % model.heads == 0"
FIXED = {"model.width": 16, "model.heads": 4, "lr": 0.1, "model.layers": 2}


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_keeps_the_rules_and_tries_the_first_points_first(name):
    first = [{"lr": 0.01, "model.width": 24, "model.heads": 3}, "default"]
    space = space_from_dict(searched_by(name, TREE | {"require": RULE, "first": first}), FIXED)
    history = play(make_strategy(STRATEGIES[name], space, 0), 6)
    assert all(trial.point["model.width"] % trial.point["model.heads"] == 0 for trial in history)
    # Of scales at the smallest.
    scale = {"study.scale": 1} if name.startswith("ladder") else {}
    assert dict(history[0].point) == {"model.width": 24, "model.heads": 3, "lr": 0.01} | scale
    # The dimension's default before the configuration's own value.
    assert dict(history[1].point) == {"model.width": 16, "model.heads": 2, "lr": 0.1} | scale
    assert len({(trial.key, trial.amount) for trial in history}) == len(history)


def test_first_points_stand_before_the_first_round_alone():
    space = space_from_dict(TREE | {"first": "default"}, FIXED)
    plain = make_strategy(STRATEGIES["evolutionary"], space_from_dict(TREE, FIXED), 0)
    proposed = propose(make_strategy(STRATEGIES["evolutionary"], space, 0), History())
    default = point_key(space.first[0])
    assert [point_key(p.point) for p in proposed][1:] == [
        point_key(p) for p in plain.propose(History(), []) if point_key(p) != default
    ]


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({"require": ["lr > 0.05", "lr < 0.05"]}, "found no point"),
        ({"first": [{"model.wdith": 8}]}, "did you mean 'model.width'"),
        ({"first": [{"lr": 0.1}, "default"]}, "twice"),
        ({"first": 3}, "must be a list of points"),
        ({"first": ["defualt"]}, "must be a point"),
        ({"require": RULE, "first": [{"model.heads": 3}]}, "breaks a rule"),
        ({"lr": {"low": 0.1, "high": 1.0, "default": 2.0}}, "default: must be a value of the dimension, given 2.0"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(tree, words):
    with pytest.raises(SpaceError) as error:
        space_from_dict(TREE | tree, FIXED)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_a_point_that_leaves_a_value_without_default_takes_the_configurations_own_or_is_refused():
    space = space_from_dict(TREE | {"first": [{}]}, FIXED)
    assert space.first[0]["model.width"] == 16
    with pytest.raises(SpaceError, match=r"model\.width is missing and has no default; give it"):
        space_from_dict(TREE | {"first": [{}]}, {})


def test_a_default_outside_of_the_space_is_not_tried_first():
    given = {"first": ["default", {"lr": 0.01}]}
    assert [point["lr"] for point in space_from_dict(TREE | given, FIXED).first] == [0.1, 0.01]
    assert [point["lr"] for point in space_from_dict(TREE | given, FIXED | {"lr": 0.05, "model.width": 8}).first] == [
        0.01
    ]


def test_a_first_point_may_not_name_what_does_not_exist_beside_its_values():
    tree = {"kind": {"choices": ["a", "b"]}, "size": {"values": [1, 2], "when": {"kind": ["a"]}}}
    assert space_from_dict(tree | {"first": [{"kind": "b"}]}).first == ({"kind": "b"},)
    with pytest.raises(SpaceError, match="is inactive with"):
        space_from_dict(tree | {"first": [{"kind": "b", "size": 1}]})


def test_rules_thin_out_the_draws_and_nothing_else():
    import numpy as np

    space = space_from_dict({"a": [1, 2, 3, 4], "b": [1, 2, 3, 4], "require": "a * b == 4"})
    assert space.size == 3
    assert [dict(p) for p in space.points()] == [{"a": 1, "b": 4}, {"a": 2, "b": 2}, {"a": 4, "b": 1}]
    rng = np.random.default_rng(0)
    counts = {}
    for _ in range(3000):
        key = point_key(space.draw(rng))
        counts[key] = counts.get(key, 0) + 1
    assert len(counts) == 3
    assert max(abs(count - 1000) for count in counts.values()) < 5 * (3000 * 2 / 9) ** 0.5
