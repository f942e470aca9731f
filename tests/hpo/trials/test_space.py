"""Spaces: reading, sizes, conditions, identity, and every refusal."""

import numpy as np
import pytest

from hpo.errors import SpaceError
from hpo.trials.space.dimensions import Choices, Range, Values
from hpo.trials.space.reader import space_from_dict
from hpo.trials.space.space import point_key


def test_the_three_kinds_and_their_short_form():
    space = space_from_dict(
        {"a": {"b": [1, 2]}, "c": {"choices": ["x", "y"]}, "d": {"low": 0.1, "high": 10, "log": True}}
    )
    assert [type(d) for d in space.dimensions] == [Values, Choices, Range]
    assert space.keys == ("a.b", "c", "d")
    assert space.size is None


def test_points_of_a_log_range_are_log_spaced_with_both_ends():
    dimension = space_from_dict({"lr": {"low": 1e-4, "high": 1e-1, "log": True, "points": 4}})["lr"]
    assert dimension.values == (1e-4, 1e-3, 1e-2, 1e-1)


def test_integer_draws_stay_inside_and_reach_both_ends():
    dimension = space_from_dict({"n": {"low": 2, "high": 5, "integer": True, "log": True}})["n"]
    rng = np.random.default_rng(0)
    assert {dimension.draw(rng) for _ in range(500)} == {2, 3, 4, 5}


def test_log_draws_are_uniform_on_the_logarithm():
    dimension = space_from_dict({"x": {"low": 1e-4, "high": 1.0, "log": True}})["x"]
    rng = np.random.default_rng(0)
    units = np.log10([dimension.draw(rng) for _ in range(4000)]) / 4 + 1
    assert np.allclose(np.quantile(units, [0.25, 0.5, 0.75]), [0.25, 0.5, 0.75], atol=0.03)


def test_unit_scale_goes_there_and_back():
    for fields in (
        {"low": 0.5, "high": 8},
        {"low": 1e-5, "high": 1, "log": True},
        {"low": 1, "high": 9, "integer": True},
    ):
        dimension = space_from_dict({"x": fields})["x"]
        values = [dimension.from_unit(u) for u in (0, 0.3, 1)]
        assert [dimension.from_unit(dimension.to_unit(v)) for v in values] == pytest.approx(values)
        assert values[0] == fields["low"]
        assert values[-1] == fields["high"]


CONDITIONAL = {
    "kind": {"choices": ["small", "big"]},
    "width": {"values": [8, 16], "when": {"kind": ["big"]}},
    "depth": {"values": [1, 2, 3], "when": {"width": [16]}},
}


def test_conditions_size_and_enumeration_agree():
    space = space_from_dict(CONDITIONAL)
    points = list(space.points())
    assert space.size == len(points) == len({point_key(p) for p in points}) == 5
    assert all(space.contains(point) for point in points)
    assert not space.contains({"kind": "small", "width": 8})


def test_draws_of_a_conditional_space_hold_exactly_the_active_dimensions():
    space = space_from_dict(CONDITIONAL)
    rng = np.random.default_rng(1)
    assert {point_key(space.draw(rng)) for _ in range(200)} == {point_key(p) for p in space.points()}


def test_identity_ignores_the_order_of_keys_but_not_types():
    assert point_key({"a": 1, "b": 2}) == point_key({"b": 2, "a": 1})
    assert point_key({"a": 1}) != point_key({"a": True})


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({"a": {"low": 1, "high": 1}}, "low must be below high"),
        ({"a": {"low": 1}}, r"space\.a\.high: must be a finite number"),
        ({"a": {"high": 1}}, "no 'low'"),
        ({"a": {"low": 0.5, "high": 3, "integer": True}}, "whole number"),
        ({"a": {"values": [1, 1.0]}}, "twice"),
        ({"a": {"values": "abc"}}, "must be a list"),
        ({"a": {"values": [1, 2], "log": True}}, "'log' has no effect"),
        ({"a": {"values": [1, 2], "hihg": 2}}, "did you mean 'high'"),
        (
            {"a": {"low": 1, "high": 3, "integer": True, "points": 9}},
            "must be lower, because rounding leaves 3 different values, given 9",
        ),
        ({"b": [1, 2], "a": {"values": [1, 2], "when": {"b": [9]}}}, "must name values of 'b'"),
        (
            {"b": {"low": 0.0, "high": 1}, "a": {"values": [1, 2], "when": {"b": [0.1]}}},
            "'b' must have values or points",
        ),
        (
            {"a": {"low": 0, "high": 2**53 + 1, "integer": True}},
            r"space\.a\.high: .* at most 2\^53 .*, given 9007199254",
        ),
        ({"a": {"low": -(2**53) - 1, "high": 0, "integer": True}}, r"space\.a\.low: .* at most 2\^53"),
        ({"a": {"low": 0, "high": 2**55, "step": 2**50}}, r"space\.a\.high: .* at most 2\^53"),
        ({"a": [1, 2**53 + 1]}, r"space\.a\.values: .* at most 2\^53"),
        ({"a": {"choices": [{"n": [2**53 + 1]}]}}, r"space\.a\.choices: .* at most 2\^53"),
        ({"a": {"low": 0, "high": 2, "step": 1e-5}}, "at most 100,000 steps, given 200,000"),
    ],
)
def test_refusals_name_the_dimension_and_the_way_out(tree, words):
    with pytest.raises(SpaceError, match=words):
        space_from_dict(tree)


def test_a_range_of_a_billion_integers_costs_nothing():
    space = space_from_dict({"n": {"low": 1, "high": 10**9, "integer": True}})
    assert space.size == 10**9
    assert space.contains(space.draw(np.random.default_rng(0)))


def test_a_step_that_divides_a_range_evenly_has_one_value_more_than_steps():
    assert len(space_from_dict({"x": {"low": 0, "high": 1, "step": 0.00001}})["x"].values) == 100_001


def test_more_values_than_anything_is_made_for_are_refused():
    with pytest.raises(SpaceError, match=r"space\.x\.values: must have at most 100,000 values, given 100,001"):
        space_from_dict({"x": list(range(100_001))})
