"""Shifting-window search: where the window goes, and when the search ends."""

import pytest

from hpo.engine.strategies import make_strategy
from hpo.errors import ConfigError
from hpo.trials.goal import Goal, finished
from hpo.trials.history import History
from hpo.trials.space.reader import space_from_dict
from hpo.trials.trial import Outcome, Trial
from tests.studies import shipped

WIDTHS = [4, 8, 16, 32, 64, 128, 256]


def make(tree, **changes):
    """Return the lecture's method."""
    return make_strategy(shipped("shifting_window_literal") | changes, space_from_dict(tree), 0)


def make_default(tree, **changes):
    """Return the method as it is by default."""
    return make_strategy(shipped("shifting_window") | changes, space_from_dict(tree), 0)


def history_of(pairs, key="width", round_number=0):
    """Return a history of (value, loss) pairs; a loss of None is a failure."""
    trials = []
    for number, (value, loss) in enumerate(pairs):
        outcome = Outcome(error="failed") if loss is None else Outcome({"score": loss})
        trials.append(finished(Trial(number, round_number, {key: value}), {0: outcome}, Goal({"score": "minimize"})))
    return History(trials)


def window(strategy, history, key="width"):
    return narrowed(strategy, history, key).values


def narrowed(strategy, history, key="width"):
    return strategy.window(strategy.space[key], strategy.centres(history), 1.0)


def test_the_worked_example_of_the_lecture():
    strategy = make({"width": WIDTHS})
    assert window(strategy, History()) == (16, 32, 64)
    assert window(strategy, history_of([(16, 3.0), (64, 1.0), (32, 2.0)])) == (32, 64, 128)


@pytest.mark.parametrize(("best", "expected"), [(4, (4, 8, 16)), (256, (64, 128, 256)), (128, (64, 128, 256))])
def test_the_window_is_clipped_to_the_range(best, expected):
    assert window(make({"width": WIDTHS}), history_of([(best, 0.0), (32, 1.0)])) == expected


def test_an_even_range_starts_at_the_lower_middle_and_a_start_moves_it():
    assert window(make({"width": [1, 2, 3, 4, 5, 6]}), History()) == (2, 3, 4)
    assert window(make({"width": WIDTHS}, start={"width": 128}), History()) == (64, 128, 256)


def test_a_window_of_its_own_per_dimension():
    strategy = make({"width": WIDTHS, "layers": [1, 2, 3]}, windows={"width": 5})
    assert len(window(strategy, History())) == 5
    assert len(window(strategy, History(), "layers")) == 3


def test_credit_is_read_in_three_ways():
    """64 holds the best trial; 16 has the best mean; 32 has the best median."""
    pairs = [(64, 0.0), (64, 9.0), (64, 9.0), (16, 2.0), (16, 2.0), (32, 1.0), (32, 1.0), (32, 30.0)]
    expected = {"best": (32, 64, 128), "mean": (8, 16, 32), "median": (16, 32, 64)}
    for credit, values in expected.items():
        assert window(make({"width": WIDTHS}, credit=credit), history_of(pairs)) == values


def test_failures_count_as_worst_and_ties_go_to_the_earlier_trial():
    strategy = make({"width": WIDTHS})
    assert window(strategy, history_of([(16, None), (64, 5.0)])) == (32, 64, 128)
    assert window(strategy, history_of([(64, 1.0), (16, 1.0)])) == (32, 64, 128)
    assert window(strategy, history_of([(16, None), (64, None)])) == (16, 32, 64)


def test_draws_lie_in_the_windows_and_choices_come_from_all_their_values():
    strategy = make({"width": WIDTHS, "kind": {"choices": list("abcdefgh")}}, draws=24)
    points = strategy.propose(History(), [])
    assert {point["width"] for point in points} == {16, 32, 64}
    assert len({point["kind"] for point in points}) > 3


def test_a_range_without_points_has_a_window_on_its_scale():
    strategy = make({"lr": {"low": 1e-4, "high": 1.0, "log": True}}, range_window=0.25)
    first = narrowed(strategy, History(), "lr")
    assert (first.low, first.high) == pytest.approx((10**-2.5, 10**-1.5))
    clipped = narrowed(strategy, history_of([(1.0, 0.0)], key="lr"), "lr")
    assert (clipped.low, clipped.high) == pytest.approx((0.1, 1.0))


def test_it_ends_after_its_rounds():
    strategy = make({"width": WIDTHS}, rounds=2, draws=1)
    assert strategy.propose(history_of([(32, 1.0)]), [])
    assert not strategy.propose(history_of([(32, 1.0)], round_number=1), [])


def test_where_the_windows_hold_nothing_new_a_point_comes_from_the_whole_space():
    points = make({"width": WIDTHS}, draws=1).propose(history_of([(16, 2.0), (32, 1.0), (64, 3.0)]), [])
    assert points[0]["width"] in {4, 8, 128, 256}


def test_a_dimensions_default_is_the_centre_of_its_first_window():
    strategy = make({"width": {"values": WIDTHS, "default": 128}})
    assert window(strategy, History()) == (64, 128, 256)
    assert window(make({"width": {"values": WIDTHS, "default": 128}}, start={"width": 8}), History()) == (4, 8, 16)
    assert window(strategy, history_of([(16, 1.0)])) == (8, 16, 32)


def test_by_default_the_first_round_spreads_over_every_dimension():
    tree = {"width": WIDTHS[:6], "lr": {"low": 1e-4, "high": 1.0, "log": True}, "kind": {"choices": ["a", "b", "c"]}}
    points = make_default(tree).propose(History(), [])
    assert sorted(point["width"] for point in points) == WIDTHS[:6]
    assert sorted(point["kind"] for point in points) == ["a", "a", "b", "b", "c", "c"]


def test_by_default_a_draw_changes_one_dimension_on_average_and_keeps_the_best_elsewhere():
    tree = {name: list(range(20)) for name in "abcdef"}
    strategy = make_default(tree, draws=200)
    best = dict.fromkeys("abcdef", 9)
    trials = [
        finished(Trial(n, 0, {**best, "a": n}), {0: Outcome({"s": abs(n - 9)})}, Goal({"s": "minimize"}))
        for n in range(20)
    ]
    points = strategy.propose(History(trials), [])
    changed = [sum(point[name] != 9 for name in "abcdef") for point in points]
    # Draws that change nothing are the best itself, and drawn again.
    assert 1 <= sum(changed) / len(changed) < 2
    far = [abs(point[name] - 9) for point in points for name in "abcdef" if point[name] != 9]
    assert max(far) > 6
    assert sorted(far)[len(far) // 2] <= 4


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"windows": {"width": 9}}, r"windows\.width: must be an odd number up to 7"),
        ({"windows": {"widht": 3}}, "did you mean 'width'"),
        ({"start": {"width": 8}, "opening": "space"}, "no effect with opening=space"),
    ],
)
def test_settings_that_do_not_fit_the_space_are_refused(changes, words):
    with pytest.raises(ConfigError, match=words):
        make({"width": WIDTHS}, **changes)
