"""Spaces: sizes, conditions, points to try first; rules, of which nothing is ever executed; and every refusal."""

from collections import Counter

import numpy as np
import pytest

from hpo.engine.strategies import make_strategy
from hpo.errors import SpaceError
from hpo.testing.strategies import play
from hpo.trials.space.constraints import read_constraint
from hpo.trials.space.reader import space_from_dict
from hpo.trials.space.space import point_key
from tests.studies import STRATEGIES, refuses, searched_by

CONDITIONAL = {
    "kind": {"choices": ["small", "big"]},
    "width": {"values": [8, 16], "when": {"kind": ["big"]}},
    "depth": {"values": [1, 2, 3], "when": {"width": [16]}},
}
TREE = {"model": {"width": [8, 12, 16, 24, 32], "heads": {"values": [1, 2, 3, 4], "default": 2}}, "lr": [0.1, 0.01]}
RULE = "model.width % model.heads == 0"
FIXED = {"model.width": 16, "model.heads": 4, "lr": 0.1, "model.layers": 2}
KEYS = ("model.d_model", "model.num_heads", "training.optimizer", "training.lr")
GIVEN = {"model.num_layers": 2, "data.name": "digits"}


def dimension(**fields):
    return space_from_dict({"x": fields})["x"]


def test_draws_are_uniform_in_a_range_or_on_its_logarithm_and_reach_both_ends():
    rng, whole = np.random.default_rng(0), dimension(low=2, high=5, integer=True, log=True)
    assert {whole.draw(rng) for _ in range(500)} == {2, 3, 4, 5}
    log = dimension(low=1e-4, high=1.0, log=True)
    units = np.log10([log.draw(rng) for _ in range(4000)]) / 4 + 1
    assert np.allclose(np.quantile(units, [0.25, 0.5, 0.75]), [0.25, 0.5, 0.75], atol=0.03)


@pytest.mark.parametrize(("low", "high", "kind"), [(0.5, 8, {}), (1e-5, 1, {"log": True}), (1, 9, {"integer": True})])
def test_the_unit_scale_goes_there_and_back(low, high, kind):
    given = dimension(low=low, high=high, **kind)
    values = [given.from_unit(u) for u in (0, 0.3, 1)]
    assert [given.from_unit(given.to_unit(v)) for v in values] == pytest.approx(values)
    assert (values[0], values[-1]) == (low, high)


def test_points_and_steps_divide_a_range_and_whole_numbers_cost_nothing():
    assert dimension(low=1e-4, high=1e-1, log=True, points=4).values == (1e-4, 1e-3, 1e-2, 1e-1)
    assert len(dimension(low=0, high=1, step=0.00001).values) == 100_001
    space = space_from_dict({"n": {"low": 1, "high": 10**9, "integer": True}})
    assert space.size == 10**9
    assert space.contains(space.draw(np.random.default_rng(0)))
    many = space_from_dict({f"x{place}": [*range(10)] for place in range(310)} | {"y": {"low": 0.0, "high": 1.0}})
    assert many.contains(many.draw(np.random.default_rng(0)))


def test_conditions_size_enumeration_and_draws_agree():
    space, rng = space_from_dict(CONDITIONAL), np.random.default_rng(1)
    points = list(space.points())
    assert space.size == len(points) == len({point_key(p) for p in points}) == 5
    assert all(space.contains(point) for point in points)
    assert not space.contains({"kind": "small", "width": 8})
    many = {name: {"low": 1, "high": 1000, "integer": True, "when": {"kind": ["big"]}} for name in "abc"}
    assert space_from_dict(CONDITIONAL | many).size == 1 + 4 * 1000**3
    of_false = {"a": {"choices": [False, 0]}, "b": {"values": [1, 2], "when": {"a": [False]}}}
    assert (space_from_dict(of_false).size, space_from_dict(of_false).contains({"a": 0})) == (3, True)
    assert {point_key(space.draw(rng)) for _ in range(200)} == {point_key(p) for p in points}


def test_identity_ignores_the_order_of_keys_but_not_types():
    assert point_key({"a": 1, "b": 2}) == point_key({"b": 2, "a": 1})
    assert point_key({"a": 1}) != point_key({"a": True})


def test_rules_thin_out_the_draws_and_nothing_else():
    space = space_from_dict({"a": [1, 2, 3, 4], "b": [1, 2, 3, 4], "require": "a * b == 4"})
    points = [{"a": 1, "b": 4}, {"a": 2, "b": 2}, {"a": 4, "b": 1}]
    assert (space.size, [dict(p) for p in space.points()]) == (3, points)
    rng = np.random.default_rng(0)
    counts = Counter(point_key(space.draw(rng)) for _ in range(3000))
    assert counts.keys() == {point_key(point) for point in points}
    assert max(abs(count - 1000) for count in counts.values()) < 5 * (3000 * 2 / 9) ** 0.5


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_keeps_the_rules_and_tries_the_first_points_first(name):
    first = [{"lr": 0.01, "model.width": 24, "model.heads": 3}, "default"]
    space = space_from_dict(searched_by(name, TREE | {"require": RULE, "first": first}), FIXED)
    history = play(make_strategy(STRATEGIES[name], space, 0), 6)
    assert all(trial.point["model.width"] % trial.point["model.heads"] == 0 for trial in history)
    scale = {"study.scale": 1} if name.startswith("ladder") else {}
    assert dict(history[0].point) == {"model.width": 24, "model.heads": 3, "lr": 0.01} | scale
    # The dimension's default before the configuration's own value.
    assert dict(history[1].point) == {"model.width": 16, "model.heads": 2, "lr": 0.1} | scale
    assert len({(trial.key, trial.amount) for trial in history}) == len(history)


def test_first_points_are_completed_by_defaults_or_the_configurations_own_values():
    tree = TREE | {"first": ["default", {"lr": 0.01}]}
    assert [tuple(point.values()) for point in space_from_dict(tree, FIXED).first] == [(16, 2, 0.1), (16, 2, 0.01)]
    outside = FIXED | {"lr": 0.05, "model.width": 8}
    assert [tuple(point.values()) for point in space_from_dict(tree, outside).first] == [(8, 2, 0.01)]


@pytest.mark.parametrize(("tree", "words"), [
    ({"a": {"low": 1, "high": 1}}, "low must be below high"),
    ({"a": {"low": 0, "high": 1, "log": True}}, "above 0"), ({"a": {"low": 1, "high": 2, "values": [1]}}, "one of"),
    ({"a": []}, "empty"), ({"a": [0.1, 0.001, 0.01]}, "must be in order"), ({"a": [[1], [2]]}, r"given \[1\]"),
    ({"a": {"low": float("-inf"), "high": 1.0}}, "finite"),
    ({"a": {"values": [1], "when": {"x": [1]}}}, "'x' is not searched"),
    ({"a": {"low": 0.5, "high": 3, "integer": True}}, "whole number"),
    ({"a": {"low": 1, "high": 3, "log": 1}}, r"a\.log: must be true or false, given 1"),
    ({"a": {"low": 0.5, "high": 1, "integer": "no"}}, r"a\.integer: must be true or false, given 'no'"),
    ({"a": {"low": 0, "high": 10**400}}, r"a\.high: whole numbers must be"),
    ({"a": {"low": 0.0, "high": 1.0}, "first": [{"a": 10**400}]}, "is not in its range"),
    ({"a": {"low": 0, "high": 1e308, "step": 1e-300}}, "at most 100,000 steps"),
    ({"a": {"low": -1e308, "high": 1e308}}, r"must be below 1\.8e308"),
    ({"a": {"low": 1, "high": 2, "points": 1}}, "points: .* at least 2 and at most 100,000"),
    ({"a": {"low": 1, "high": 3, "integer": True, "points": 9}}, "must be lower, given 9; .* 3 different values"),
    ({"a": {"low": 1, "high": 1.0000001, "step": 1e-11}}, "rounding makes some values equal"),
    ({"a": {"values": "abc"}}, "must be a list"), ({"a": {"choices": [b"x"]}}, "must hold numbers, texts"),
    ({"a": {"values": [1], "when": 3}}, r"a\.when: must be \{other\.key"),
    ({"b": {"low": 0.0, "high": 1}, "a": {"values": [1], "when": {"b": [0.1]}}}, "'b' must have 'values'"),
    ({"a": {"values": [1], "when": {"b": [2]}}, "b": [2]}, "'b' must come before 'a'"),
    ({"a": {"values": [1], "when": {"b": [2]}}, "b": {"values": [2], "when": {"a": [1]}}}, "form a cycle: a -> b"),
    ({"a.b": [1], "a": {"b": [2]}}, r"space\.a\.b: is given twice"),
    (TREE | {"require": 3}, "require: must be an expression .*, given 3"),
    (TREE | {"first": [{"lr": 0.1}, "default"]}, "twice"), (TREE | {"first": 3}, "must be a list of points"),
    (TREE | {"first": ["defualt"]}, "must be a point"), ({"a": {"values": [1, 1.0]}}, "twice"),
    ({"a": {"values": [1, 2], "log": True}}, "'log' has no effect"),
    ({"a": {"values": [1, 2], "hihg": 2}}, "did you mean 'high'"),
    ({"b": [1, 2], "a": {"values": [1, 2], "when": {"b": [9]}}}, "must name values of 'b'"),
    ({"a": {"low": 0, "high": 2**53 + 1, "integer": True}}, r"a\.high: .* -2\^53 and 2\^53 .*, given 9007"),
    ({"a": {"low": 0, "high": 2, "step": 1e-5}}, "at most 100,000 steps, given 200,000"),
    ({"x": list(range(100_001))}, r"space\.x\.values: must have at most 100,000 values, given 100,001"),
    (TREE | {"require": ["lr > 0.05", "lr < 0.05"]}, "found no point"),
    (TREE | {"first": [{"model.wdith": 8}]}, "did you mean 'model.width'"),
    (TREE | {"require": RULE, "first": [{"model.heads": 3}]}, "breaks a rule"),
    (TREE | {"lr": {"low": 0.1, "high": 1.0, "default": 2.0}}, "default: must be .*, given 2.0"),
    ({"n": [1, 2], "first": [{}]}, "n is missing and has no default; give it"),
    (CONDITIONAL | {"first": [{"kind": "small", "width": 8}]}, "is inactive with"),
])  # fmt: skip
def test_refusals_name_the_dimension_and_the_way_out_in_one_line(tree, words):
    refuses(SpaceError, words, space_from_dict, tree, FIXED)


def holds(text, point):
    values = {key: point[name] for key in KEYS if (name := key.rpartition(".")[2]) in point}
    return read_constraint(text, KEYS, GIVEN).holds(values)


@pytest.mark.parametrize(("text", "point", "expected"), [
    ("model.d_model % model.num_heads == 0", {"d_model": 64, "num_heads": 4}, True),
    ("model.d_model % model.num_heads == 0", {"d_model": 64, "num_heads": 3}, False),
    ("0 < training.lr <= 0.1", {"lr": 0.2}, False),
    ("training.optimizer in ['adam', 'adamw'] or training.lr > 0.01", {"optimizer": "sgd", "lr": 0.1}, True),
    ("not (training.optimizer == 'sgd' and training.lr < 0.01)", {"optimizer": "sgd", "lr": 0.001}, False),
    ("model.d_model * model.num_layers <= 128", {"d_model": 64}, True), ("-training.lr // 1 == -1", {"lr": 0.5}, True),
    ("training.optimizer != None", {"optimizer": "sgd"}, True),
    # About a dimension that does not exist.
    ("model.d_model % model.num_heads == 0", {"d_model": 64}, True),
])  # fmt: skip
def test_a_rule_means_what_it_says(text, point, expected):
    assert holds(text, point) is expected


@pytest.mark.parametrize(("text", "word"), [
    ("model.d_model.__class__ == 1", "unknown key"), ("(lambda: 1)() == 1", "is not allowed in a rule"),
    ("model.d_model >", "cannot be read"), ("model.d_modle > 3", "did you mean 'model.d_model'"),
    ("model.num_layers > 1", "must name a searched key"), ("1 + " * 400 + "1 == model.d_model", "expression"),
    ("(" * 300 + "model.d_model" + ")" * 300 + " > 1", "cannot be read"),
])  # fmt: skip
def test_what_is_not_a_rule_is_refused_in_one_line(text, word):
    refuses(SpaceError, rf"space\.require.*{word}", read_constraint, text, KEYS, GIVEN)


@pytest.mark.parametrize(("text", "point"), [
    ("training.optimizer * 1000000000 == 'a'", {"optimizer": "a"}),
    ("model.d_model % model.num_heads == 0", {"d_model": 4, "num_heads": 0}),
    (f"model.d_model * 1{'0' * 400} < 1", {"d_model": 1.5}),
])  # fmt: skip
def test_what_cannot_be_computed_says_for_which_values(text, point):
    refuses(SpaceError, r"space\.require: .* cannot be computed for (model|training)\.", holds, text, point)
