"""Evolutionary search: who survives and is trained; and shifting windows: where they go, and when the search ends."""

import numpy as np
import pytest

from hpo.engine.strategies import make_strategy
from hpo.engine.strategies.drawing.preselection import Preselection
from hpo.errors import ConfigError
from hpo.testing.strategies import play
from hpo.trials.goal import Goal
from hpo.trials.history import History
from hpo.trials.space.reader import space_from_dict
from hpo.trials.trial import Trial
from tests.hpo.engine.made import ended, history_of
from tests.studies import refuses, shipped

LOG = {"low": 1e-4, "high": 1.0, "log": True}
TREE = {"a": [1, 2, 3, 4, 5], "b": {"choices": ["x", "y", "z"]}, "c": LOG}
WIDTHS = [4, 8, 16, 32, 64, 128, 256]
DEFAULT = {"values": WIDTHS, "default": 128}
CREDITED = [(64, 0.0), (64, 9.0), (64, 9.0), (16, 2.0), (16, 2.0), (32, 1.0), (32, 1.0), (32, 30.0)]


def make(tree=TREE, **changes):
    return make_strategy(shipped("evolutionary_plain") | changes, space_from_dict(tree), 0)


def mutated(dimension, value, count=100, **changes):
    strategy, rng = make({"d": dimension}, **changes), np.random.default_rng(0)
    return [strategy.breeding.mutated(strategy.space["d"], value, rng) for _ in range(count)]


def children(parents, count, **changes):
    strategy, rng = make(**changes), np.random.default_rng(0)
    return [tuple(strategy.breeding.child(parents, rng).values()) for _ in range(count)]


def test_the_first_generation_is_the_population_and_later_ones_are_its_children_up_to_the_last():
    strategy = make(population=8, surviving=0.25, generations=2)
    first = strategy.propose(History(), [])
    assert (len(first), len(strategy.propose(history_of(first, range(8)), []))) == (8, 6)
    assert not make(population=8, generations=1).propose(history_of(first, range(8)), [])
    assert "1 generations" in strategy.announcement
    with pytest.raises(ValueError, match="must leave room for children"):
        make(population=2, surviving=0.9)


def test_children_mix_their_parents_by_crossover_and_change_one_dimension_on_average_by_mutation():
    parents = [{"a": 1, "b": "x", "c": 0.1}, {"a": 2, "b": "y", "c": 0.2}]
    assert {child[:2] for child in children(parents, 200, mutation=0.0)} == {(1, "x"), (1, "y"), (2, "x"), (2, "y")}
    assert {*children(parents, 50, mutation=0.0, crossover=0.0)} == {tuple(parent.values()) for parent in parents}
    changed = [np.sum(np.array(child) != (1, "x", 0.1)) for child in children(parents[:1], 2000, mutation=None)]
    assert np.mean(changed) == pytest.approx(1.0, abs=0.07)


@pytest.mark.parametrize(("dimension", "value", "steps", "expected"), [
    ([1, 2, 3, 4, 5], 3, 1, {2, 4}), ([1, 2, 3, 4, 5], 3, 2, {1, 2, 4, 5}), ([1, 2, 3, 4, 5], 1, 1, {2}),
    ({"choices": ["x", "y", "z"]}, "y", 1, {"x", "z"})
])  # fmt: skip
def test_an_ordered_value_moves_to_a_neighbour_and_a_choice_becomes_any_other(dimension, value, steps, expected):
    assert {*mutated(dimension, value, mutation_steps=steps)} == expected


def test_steps_are_gaussian_in_a_range_and_otherwise_mostly_short():
    steps = (np.log10(mutated(LOG, 0.01, 2000, mutation_scale=0.05)) + 2) / 4
    assert (np.mean(steps), np.std(steps)) == (pytest.approx(0.0, abs=0.005), pytest.approx(0.05, rel=0.1))
    lengths = np.abs(np.array(mutated([*range(21)], 10, 4000, mutation_steps=None)) - 10)
    assert [np.mean(lengths == length) for length in (1, 2)] == pytest.approx([0.5, 0.25], abs=0.03)
    assert {*mutated([*range(21)], 0, mutation_steps=None)} <= set(range(1, 21))


def test_it_finds_the_best_point_of_a_bowl_sooner_than_it_could_try_them_all():
    strategy = make({key: [*range(10)] for key in "abc"}, population=10, surviving=0.3)
    history = play(strategy, 21, lambda point: float(sum((value - 7) ** 2 for value in point.values())))
    assert (len(history) <= 150, history.best().loss) == (True, 0)


def test_of_many_candidates_those_are_trained_that_the_trials_near_them_speak_for():
    space = space_from_dict({"a": [*range(9)], "b": [*range(9)]})
    points = [{"a": a, "b": b} for a in range(0, 9, 2) for b in range(0, 9, 2)]
    candidates = [{"a": 1, "b": 1}, {"a": 7, "b": 7}, {"a": 7, "b": 1}, {"a": 3, "b": 7}]
    history = history_of(points, [abs(p["a"] - 8) + abs(p["b"] - 8) for p in points])
    assert Preselection(space).most_promising(history, [], candidates, 2) == [candidates[1], candidates[3]]
    equal = history_of(points, [1.0] * len(points))
    assert Preselection(space).most_promising(equal, [], candidates, 2) == candidates[:2]


def test_with_several_metrics_the_candidate_comes_first_that_is_expected_to_add_most_to_the_front():
    space = space_from_dict({"a": [*range(21)], "b": [*range(21)]})
    points = [{"a": a, "b": 0} for a in (0, 1, 2, 3, 20)]
    values = [{"loss": 20 - point["a"], "size": point["a"]} for point in points]
    history = history_of(points, values, Goal({"loss": "minimize", "size": "minimize"}))
    crowded, middle, end = {"a": 2, "b": 1}, {"a": 11, "b": 1}, {"a": 19, "b": 1}
    assert Preselection(space).most_promising(history, [], [crowded, end, middle], 3) == [middle, end, crowded]


def test_a_stopped_trial_is_no_parent_though_it_has_a_score():
    points, goal = [{"a": number, "b": "x", "c": 0.1} for number in (1, 2, 3)], Goal(dict.fromkeys("xy", "minimize"))
    known = history_of(points[:2], [{"x": 1.0, "y": 2.0}, {"x": 2.0, "y": 1.0}], goal)
    stopped = Trial(2, 2, points[2], state="stopped", score=0.0)
    assert make(population=3, surviving=0.67).propose(known.extended([stopped]), [])


@pytest.mark.parametrize("name", ["evolutionary", "shifting_window"])
def test_fewer_trials_fail_than_at_random(name):
    space = space_from_dict({"a": {"low": 0.0, "high": 1.0}, "b": {"low": 0.0, "high": 1.0}})

    def loss_of(point):
        return None if sum(point.values()) > 1 else -sum(point.values())

    histories = [play(make_strategy(shipped(name), space, seed), 50, loss_of) for seed in range(5)]
    assert np.mean([trial.state == "failed" for history in histories for trial in history]) < 0.5 / 1.5


def test_the_first_points_of_a_dimension_with_a_default_are_around_it():
    tree = {"a": {"values": [*range(20)], "default": 15}, "b": [*range(20)]}
    strategy = make_strategy(shipped("evolutionary") | {"population": 10}, space_from_dict(tree), 0)
    points = strategy.propose(History(), [])
    assert {p["a"] for p in points} <= set(range(10, 20))
    assert len({p["b"] // 2 for p in points}) == 10


def windows(tree, name="shifting_window_literal", **changes):
    return make_strategy(shipped(name) | changes, space_from_dict(tree), 0)


def narrowed(strategy, history, key="width"):
    return strategy.window(strategy.space[key], strategy.centres(history), 1.0)


def known(*pairs, key="width"):
    return history_of([{key: value} for value, _ in pairs], [loss for _, loss in pairs])


@pytest.mark.parametrize(("leaf", "changes", "pairs", "expected"), [
    (WIDTHS, {}, [], (16, 32, 64)), (WIDTHS, {}, [(16, 3.0), (64, 1.0), (32, 2.0)], (32, 64, 128)),
    (WIDTHS, {}, [(4, 0.0), (32, 1.0)], (4, 8, 16)), (WIDTHS, {}, [(128, 0.0), (32, 1.0)], (64, 128, 256)),
    # The lower middle first, or the default, or `start`.
    ([1, 2, 3, 4, 5, 6], {}, [], (2, 3, 4)), (DEFAULT, {}, [], (64, 128, 256)),
    (DEFAULT, {"start": {"width": 8}}, [], (4, 8, 16)), (DEFAULT, {}, [(16, 1.0)], (8, 16, 32)),
    (WIDTHS, {"windows": {"width": 5}}, [], (8, 16, 32, 64, 128)),
    # 64 has the best trial, 16 the best mean, 32 the best median.
    (WIDTHS, {"credit": "best"}, CREDITED, (32, 64, 128)), (WIDTHS, {"credit": "mean"}, CREDITED, (8, 16, 32)),
    (WIDTHS, {"credit": "median"}, CREDITED, (16, 32, 64)),
    # Failures are the worst, and the earlier of equal trials counts.
    (WIDTHS, {}, [(16, None), (64, 5.0)], (32, 64, 128)), (WIDTHS, {}, [(64, 1.0), (16, 1.0)], (32, 64, 128)),
    (WIDTHS, {}, [(16, None), (64, None)], (16, 32, 64))
])  # fmt: skip
def test_the_window_is_around_the_best_value(leaf, changes, pairs, expected):
    strategy = windows({"width": leaf, "layers": [1, 2, 3]}, **changes)
    points = [{"width": width, "layers": 1} for width, _ in pairs]
    assert narrowed(strategy, history_of(points, [loss for _, loss in pairs])).values == expected
    assert len(narrowed(strategy, History(), "layers").values) == 3


def test_a_range_without_points_has_a_window_on_its_scale():
    strategy = windows({"lr": LOG}, range_window=0.25)
    first, clipped = (narrowed(strategy, history, "lr") for history in (History(), known((1.0, 0.0), key="lr")))
    assert (first.low, first.high, clipped.low, clipped.high) == pytest.approx((10**-2.5, 10**-1.5, 0.1, 1.0))


def test_draws_are_in_the_windows_choices_come_from_all_their_values_and_then_from_the_whole_space():
    points = windows({"width": WIDTHS, "kind": {"choices": list("abcdefgh")}}, draws=24).propose(History(), [])
    assert {point["width"] for point in points} == {16, 32, 64}
    assert len({point["kind"] for point in points}) > 3
    (point,) = windows({"width": WIDTHS}, draws=1).propose(known((16, 2.0), (32, 1.0), (64, 3.0)), [])
    assert point["width"] in {4, 8, 128, 256}


def test_it_ends_after_its_rounds():
    strategy = windows({"width": WIDTHS}, rounds=2, draws=1)
    first, second = (History([ended(0, {"width": 32}, 1.0, round=number)]) for number in (0, 1))
    assert strategy.propose(first, [])
    assert not strategy.propose(second, [])


def test_by_default_the_first_round_spreads_over_every_dimension():
    tree = {"width": WIDTHS[:6], "lr": LOG, "kind": {"choices": ["a", "b", "c"]}}
    points = windows(tree, "shifting_window").propose(History(), [])
    assert sorted(point["width"] for point in points) == WIDTHS[:6]
    assert sorted(point["kind"] for point in points) == ["a", "a", "b", "b", "c", "c"]


def test_by_default_a_draw_changes_one_dimension_on_average_and_keeps_the_best_elsewhere():
    best = dict.fromkeys("abcdef", 9)
    history = history_of([best | {"a": value} for value in range(20)], [abs(value - 9) for value in range(20)])
    points = windows({key: [*range(20)] for key in best}, "shifting_window", draws=200).propose(history, [])
    far = sorted(abs(value - 9) for point in points for value in point.values() if value != 9)
    # Draws that change nothing are the best itself, and drawn again.
    assert 1 <= len(far) / len(points) < 2
    assert far[-1] > 6
    assert far[len(far) // 2] <= 4


@pytest.mark.parametrize(("changes", "words"), [
    ({"windows": {"width": 9}}, r"windows\.width: must be an odd number up to 7"),
    ({"windows": {"widht": 3}}, "did you mean 'width'"),
    ({"windows": {"lr": 3}}, r"windows\.lr: has no effect on a range; set strategy\.range_window or space\.lr\.points"),
    ({"window": 9}, r"strategy\.window: must be an odd number up to 7, .* given 9"),
    ({"start": {"width": 8}, "opening": "space"}, "no effect with opening=space"),
])  # fmt: skip
def test_settings_that_do_not_fit_the_space_are_refused(changes, words):
    refuses(ConfigError, words, windows, {"width": WIDTHS, "lr": LOG}, **changes)
