"""Shifting-window search: where the window goes, and when the search ends."""

import pytest

from hpo.engine.strategies import make_strategy
from hpo.errors import ConfigError
from hpo.trials.history import History
from hpo.trials.space.reader import space_from_dict
from tests.hpo.engine.made import ended, history_of
from tests.studies import shipped

WIDTHS = [4, 8, 16, 32, 64, 128, 256]
DEFAULT = {"values": WIDTHS, "default": 128}
LOG = {"low": 1e-4, "high": 1.0, "log": True}
CREDITED = [(64, 0.0), (64, 9.0), (64, 9.0), (16, 2.0), (16, 2.0), (32, 1.0), (32, 1.0), (32, 30.0)]


def make(tree, name="shifting_window_literal", **changes):
    """Return the lecture's method, unless another is named."""
    return make_strategy(shipped(name) | changes, space_from_dict(tree), 0)


def narrowed(strategy, history, key="width"):
    return strategy.window(strategy.space[key], strategy.centres(history), 1.0)


def known(*pairs, key="width"):
    """Return a history of values with their losses."""
    return history_of([{key: value} for value, _ in pairs], [loss for _, loss in pairs])


@pytest.mark.parametrize(
    ("leaf", "changes", "pairs", "expected"),
    [
        # The worked example of the lecture.
        (WIDTHS, {}, [], (16, 32, 64)),
        (WIDTHS, {}, [(16, 3.0), (64, 1.0), (32, 2.0)], (32, 64, 128)),
        # Clipped to the range.
        (WIDTHS, {}, [(4, 0.0), (32, 1.0)], (4, 8, 16)),
        (WIDTHS, {}, [(128, 0.0), (32, 1.0)], (64, 128, 256)),
        # The lower middle first, or the default, or `start`.
        ([1, 2, 3, 4, 5, 6], {}, [], (2, 3, 4)),
        (DEFAULT, {}, [], (64, 128, 256)),
        (DEFAULT, {"start": {"width": 8}}, [], (4, 8, 16)),
        (DEFAULT, {}, [(16, 1.0)], (8, 16, 32)),
        # A length of its own.
        (WIDTHS, {"windows": {"width": 5}}, [], (8, 16, 32, 64, 128)),
        # 64 has the best trial, 16 the best mean, 32 the best median.
        (WIDTHS, {"credit": "best"}, CREDITED, (32, 64, 128)),
        (WIDTHS, {"credit": "mean"}, CREDITED, (8, 16, 32)),
        (WIDTHS, {"credit": "median"}, CREDITED, (16, 32, 64)),
        # Failures are the worst, and the earlier of equal trials counts.
        (WIDTHS, {}, [(16, None), (64, 5.0)], (32, 64, 128)),
        (WIDTHS, {}, [(64, 1.0), (16, 1.0)], (32, 64, 128)),
        (WIDTHS, {}, [(16, None), (64, None)], (16, 32, 64)),
    ],
)
def test_the_window_is_around_the_best_value(leaf, changes, pairs, expected):
    strategy = make({"width": leaf, "layers": [1, 2, 3]}, **changes)
    points = [{"width": width, "layers": 1} for width, _ in pairs]
    assert narrowed(strategy, history_of(points, [loss for _, loss in pairs])).values == expected
    assert len(narrowed(strategy, History(), "layers").values) == 3


def test_a_range_without_points_has_a_window_on_its_scale():
    strategy = make({"lr": LOG}, range_window=0.25)
    first, clipped = (narrowed(strategy, history, "lr") for history in (History(), known((1.0, 0.0), key="lr")))
    assert (first.low, first.high, clipped.low, clipped.high) == pytest.approx((10**-2.5, 10**-1.5, 0.1, 1.0))


def test_draws_are_in_the_windows_choices_come_from_all_their_values_and_then_from_the_whole_space():
    points = make({"width": WIDTHS, "kind": {"choices": list("abcdefgh")}}, draws=24).propose(History(), [])
    assert {point["width"] for point in points} == {16, 32, 64}
    assert len({point["kind"] for point in points}) > 3
    (point,) = make({"width": WIDTHS}, draws=1).propose(known((16, 2.0), (32, 1.0), (64, 3.0)), [])
    assert point["width"] in {4, 8, 128, 256}


def test_it_ends_after_its_rounds():
    strategy = make({"width": WIDTHS}, rounds=2, draws=1)
    first, second = (History([ended(0, {"width": 32}, 1.0, round=number)]) for number in (0, 1))
    assert strategy.propose(first, [])
    assert not strategy.propose(second, [])


def test_by_default_the_first_round_spreads_over_every_dimension():
    tree = {"width": WIDTHS[:6], "lr": LOG, "kind": {"choices": ["a", "b", "c"]}}
    points = make(tree, "shifting_window").propose(History(), [])
    assert sorted(point["width"] for point in points) == WIDTHS[:6]
    assert sorted(point["kind"] for point in points) == ["a", "a", "b", "b", "c", "c"]


def test_by_default_a_draw_changes_one_dimension_on_average_and_keeps_the_best_elsewhere():
    best = dict.fromkeys("abcdef", 9)
    history = history_of([best | {"a": value} for value in range(20)], [abs(value - 9) for value in range(20)])
    points = make({key: [*range(20)] for key in best}, "shifting_window", draws=200).propose(history, [])
    far = sorted(abs(value - 9) for point in points for value in point.values() if value != 9)
    # Draws that change nothing are the best itself, and drawn again.
    assert 1 <= len(far) / len(points) < 2
    assert far[-1] > 6
    assert far[len(far) // 2] <= 4


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
