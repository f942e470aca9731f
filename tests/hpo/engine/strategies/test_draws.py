"""Drawing untried points: what it promises, and what it may cost."""

import numpy as np

from hpo.engine.strategies.drawing.draws import draw_untried
from hpo.trials.space.dimensions import Values
from hpo.trials.space.space import Space, point_key

SPACE = Space((Values("a", tuple(range(40))), Values("b", tuple(range(40)))))


def test_a_proposal_that_finds_nothing_new_is_not_asked_again_in_the_same_round():
    calls = []

    def propose():
        calls.append(1)
        return {"a": 0, "b": 0}

    points = draw_untried(SPACE, np.random.default_rng(0), (), 200, propose)
    assert len({point_key(point) for point in points}) == 200
    # One success, and then a bounded number of vain calls, not 64 for each of the other 199 points.
    assert len(calls) < 5 * 200


def test_untried_points_are_all_found_however_few_are_left():
    tried = [point_key(point) for point in SPACE.points()][:-3]
    points = draw_untried(SPACE, np.random.default_rng(0), tried, 10, lambda: {"a": 0, "b": 0})
    assert [sorted((p["a"], p["b"]) for p in points)] == [[(39, 37), (39, 38), (39, 39)]]


def test_patience_counts_unusable_candidates_in_a_row():
    def made_until_it_is_out(usable_at):
        calls = []

        def propose():
            calls.append(1)
            return {"a": len(calls), "b": 0} if len(calls) in usable_at else {"a": 0, "b": 0}

        points = draw_untried(SPACE, np.random.default_rng(0), [point_key({"a": 0, "b": 0})], 4, propose, patience=5)
        assert len({point_key(point) for point in points}) == 4
        return len(calls)

    assert made_until_it_is_out(()) == 5
    assert made_until_it_is_out((3, 8)) == 13
    assert made_until_it_is_out((5, 10, 15, 20)) == 20
