"""Drawing untried points, the new points of halvings, and the orders of a grid: what they promise and may cost."""

import numpy as np
import pytest

from hpo.engine.strategies import make_strategy
from hpo.engine.strategies.drawing.draws import draw_untried
from hpo.engine.strategies.drawing.new_points import NewPoints
from hpo.errors import SpaceError
from hpo.testing.strategies import play
from hpo.trials.history import History
from hpo.trials.space.reader import space_from_dict
from hpo.trials.space.space import point_key
from hpo.trials.trial import Trial
from tests.hpo.engine.made import ended
from tests.studies import STRATEGIES, refuses

PLANE = space_from_dict({"a": [*range(40)], "b": [*range(40)]})
RANGE = space_from_dict({"x": {"low": 0.0, "high": 1.0}})
TREE = {"a": [1, 2], "b": {"choices": ["x", "y", "z"]}}


def test_untried_points_are_all_found_however_few_are_left():
    tried = [point_key(point) for point in PLANE.points()][:-3]
    points = draw_untried(PLANE, np.random.default_rng(0), tried, 10, lambda: {"a": 0, "b": 0})
    assert sorted((p["a"], p["b"]) for p in points) == [(39, 37), (39, 38), (39, 39)]
    calls = []
    points = draw_untried(PLANE, np.random.default_rng(0), (), 200, lambda: calls.append(1) or {"a": 0, "b": 0})
    assert (len(points), len(calls) < 5 * 200) == (200, True), "what is known is proposed a bounded number of times"


def known(count, best=0.9):
    """Points all over the space, better the nearer they are to the best; four of these have gone further."""
    xs = np.linspace(0.0, 1.0, count).tolist()
    trials = [ended(number, {"x": x}, abs(x - best), amount=1) for number, x in enumerate(xs)]
    furthest = sorted(trials, key=lambda each: each.loss)[:4]
    return History([*trials, *(ended(count + k, each.point, 5.0, amount=3) for k, each in enumerate(furthest))])


def drawn(history, count=400, learned=True, pending=()):
    return np.array([p["x"] for p in NewPoints(RANGE, learned).draw(history, pending, np.random.default_rng(0), count)])


@pytest.mark.parametrize(("history", "learned"), [(known(14), True), (known(30), False)])
def test_before_15_points_are_known_and_on_demand_all_new_points_are_random(history, learned):
    points = draw_untried(RANGE, np.random.default_rng(0), history.keys, 50)
    assert drawn(history, 50, learned).tolist() == [point["x"] for point in points]


def test_three_in_four_are_near_what_went_furthest_though_its_loss_is_higher_there():
    assert 0.65 < np.mean(abs(drawn(known(30)) - 0.9) < 0.15) < 0.9


def test_what_failed_and_what_is_running_is_kept_away_from():
    history = known(30)
    failures = [ended(100 + k, {"x": x}, None, amount=1) for k, x in enumerate(np.linspace(0.91, 0.99, 9).tolist())]
    assert np.mean(drawn(history.extended(failures), 100) > 0.905) < np.mean(drawn(history, 100) > 0.905)
    assert min(abs(drawn(history, 20, pending=[Trial(200, 0, {"x": 0.93})]) - 0.93)) > 0.001


def grid(tree=TREE, **changes):
    return make_strategy(STRATEGIES["grid"] | {"round_size": 100} | changes, space_from_dict(tree), 0)


@pytest.mark.parametrize(("tree", "points"), [
    (TREE, [(1, "x"), (1, "y"), (1, "z"), (2, "x"), (2, "y"), (2, "z")]),
    ({"n": {"low": 3, "high": 5, "integer": True}}, [(3,), (4,), (5,)]),
])  # fmt: skip
def test_lexicographic_order_runs_the_last_dimension_fastest(tree, points):
    assert [tuple(p.values()) for p in grid(tree, order="lexicographic").propose(History(), [])] == points


def test_rounds_of_any_size_give_the_same_order():
    assert [trial.point for trial in play(grid(round_size=2), 9)] == grid().propose(History(), [])


def test_the_size_is_said_and_bounded():
    assert "6 points" in grid().announcement
    refuses(SpaceError, r"at most 5 points, given 6.*max_points", grid, max_points=5)
    tree = {"a": [*range(1001)], "b": [*range(1000)], "require": "a < b"}
    refuses(SpaceError, r"space\.require: .* at most 1,000,000 combinations", grid, tree)
