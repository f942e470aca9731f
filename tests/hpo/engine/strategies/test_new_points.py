"""New points of halvings: children of what went furthest, and random ones."""

import numpy as np
import pytest

from hpo.engine.strategies.drawing.draws import draw_untried
from hpo.engine.strategies.drawing.new_points import NewPoints
from hpo.trials.goal import Goal, finished
from hpo.trials.history import History
from hpo.trials.space.reader import space_from_dict
from hpo.trials.trial import Outcome, Trial

SPACE = space_from_dict({"x": {"low": 0.0, "high": 1.0}})


def trial(number, x, loss, amount=1):
    outcome = Outcome(error="failed") if loss is None else Outcome({"s": loss})
    return finished(Trial(number, 0, {"x": x}, amount=amount), {0: outcome}, Goal({"s": "minimize"}))


def known(count, best=0.9):
    """Points all over the space, better the nearer they are to the best; four of these have gone further."""
    xs = np.linspace(0.0, 1.0, count)
    trials = [trial(number, float(x), abs(x - best)) for number, x in enumerate(xs)]
    furthest = sorted(trials, key=lambda each: each.loss)[:4]
    return History([*trials, *(trial(count + k, each.point["x"], 5.0, 3) for k, each in enumerate(furthest))])


def drawn(history, count=400, learned=True, pending=()):
    return [p["x"] for p in NewPoints(SPACE, learned).draw(history, pending, np.random.default_rng(0), count)]


@pytest.mark.parametrize(("history", "learned"), [(known(14), True), (known(30), False)])
def test_before_15_points_are_known_and_on_demand_all_are_random(history, learned):
    points = draw_untried(SPACE, np.random.default_rng(0), history.keys, 50)
    assert drawn(history, 50, learned) == [point["x"] for point in points]


def test_three_in_four_are_near_what_went_furthest_though_its_loss_is_higher_there():
    near = np.mean([abs(x - 0.9) < 0.15 for x in drawn(known(30))])
    # Of the random quarter a fourth is there, too.
    assert 0.65 < near < 0.9


def test_what_failed_and_what_is_on_its_way_is_kept_away_from():
    history = known(30)
    failures = [trial(100 + k, x, None) for k, x in enumerate(np.linspace(0.91, 0.99, 9))]
    apart = drawn(history.extended(failures), 100)
    assert np.mean([x > 0.905 for x in apart]) < np.mean([x > 0.905 for x in drawn(history, 100)])
    pending = [Trial(200, 0, {"x": 0.93})]
    assert min(abs(x - 0.93) for x in drawn(history, 20, pending=pending)) > 0.001


def test_a_grown_history_is_read_as_a_new_one():
    new, history = NewPoints(SPACE, is_learned=True), known(20)
    for number in range(5):
        history = history.extended([trial(300 + number, 0.2 + number / 100, 0.1, 9)])
        one, other = (each.draw(history, [], np.random.default_rng(1), 10) for each in (new, NewPoints(SPACE, True)))
        assert one == other


def test_of_an_exhausted_space_there_is_nothing_more():
    space = space_from_dict({"x": list(range(16))})
    history = History(trial(number, number, 1.0) for number in range(15))
    new = NewPoints(space, is_learned=True)
    assert new.draw(history, [], np.random.default_rng(0), 5) == [{"x": 15}]


def test_where_a_low_rung_misleads_a_high_one_with_enough_points_decides():
    low = [trial(number, float(x), abs(x - 0.1)) for number, x in enumerate(np.linspace(0.0, 1.0, 40))]
    high = [trial(100 + k, x, abs(x - 0.9), 9) for k, x in enumerate((0.05, 0.1, 0.3, 0.6, 0.75, 0.85))]
    near = [np.mean([x > 0.5 for x in drawn(History(trials))]) for trials in (low, [*low, *high])]
    assert near[0] < 0.25 < 0.5 < near[1]
