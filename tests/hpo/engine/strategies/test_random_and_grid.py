"""Grid search: documented orders, and a bounded size."""

import pytest

from hpo.engine.strategies import make_strategy
from hpo.errors import SpaceError
from hpo.testing.strategies import play
from hpo.trials.history import History
from hpo.trials.space.reader import space_from_dict
from tests.studies import STRATEGIES

TREE = {"a": [1, 2], "b": {"choices": ["x", "y", "z"]}}


def grid(tree=TREE, **changes):
    return make_strategy(STRATEGIES["grid"] | {"round_size": 100} | changes, space_from_dict(tree), 0)


@pytest.mark.parametrize(
    ("tree", "points"),
    [
        (TREE, [(1, "x"), (1, "y"), (1, "z"), (2, "x"), (2, "y"), (2, "z")]),
        ({"n": {"low": 3, "high": 5, "integer": True}}, [(3,), (4,), (5,)]),
    ],
)
def test_lexicographic_order_runs_the_last_dimension_fastest(tree, points):
    assert [tuple(p.values()) for p in grid(tree, order="lexicographic").propose(History(), [])] == points


def test_rounds_of_any_size_give_the_same_order():
    assert [trial.point for trial in play(grid(round_size=2), 9)] == grid().propose(History(), [])


def test_the_size_is_said_and_bounded():
    assert "6 points" in grid().announcement
    with pytest.raises(SpaceError, match=r"at most 5 points, given 6.*max_points"):
        grid(max_points=5)
