"""Evolutionary search: who survives, what children look like, and which candidates are trained."""

import numpy as np
import pytest

from hpo.engine.strategies import make_strategy
from hpo.engine.strategies.drawing.preselection import Preselection
from hpo.testing.strategies import play
from hpo.trials.goal import Goal
from hpo.trials.history import History
from hpo.trials.space.reader import space_from_dict
from tests.hpo.engine.made import history_of
from tests.studies import shipped

LOG = {"low": 1e-4, "high": 1.0, "log": True}
TREE = {"a": [1, 2, 3, 4, 5], "b": {"choices": ["x", "y", "z"]}, "c": LOG}


def make(tree=TREE, **changes):
    """Return the plain method of the lecture."""
    return make_strategy(shipped("evolutionary_plain") | changes, space_from_dict(tree), 0)


def mutated(dimension, value, count=100, **changes):
    """Return mutations of a value."""
    strategy, rng = make({"d": dimension}, **changes), np.random.default_rng(0)
    return [strategy.breeding.mutated(strategy.space["d"], value, rng) for _ in range(count)]


def children(parents, count, **changes):
    """Return children as pairs of the values of the first two dimensions."""
    strategy, rng = make(**changes), np.random.default_rng(0)
    return [tuple(strategy.breeding.child(parents, rng).values()) for _ in range(count)]


def test_the_first_generation_is_the_population_and_later_ones_are_its_children_up_to_the_last():
    strategy = make(population=8, surviving=0.25, generations=2)
    first = strategy.propose(History(), [])
    assert len(first) == 8
    assert len(strategy.propose(history_of(first, range(8)), [])) == 6
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


@pytest.mark.parametrize(
    ("dimension", "value", "steps", "expected"),
    [
        ([1, 2, 3, 4, 5], 3, 1, {2, 4}),
        ([1, 2, 3, 4, 5], 3, 2, {1, 2, 4, 5}),
        ([1, 2, 3, 4, 5], 1, 1, {2}),
        ({"choices": ["x", "y", "z"]}, "y", 1, {"x", "z"}),
    ],
)
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
    """One end of the front is known well, and the middle is empty; all lie on the same plane."""
    space = space_from_dict({"a": [*range(21)], "b": [*range(21)]})
    points = [{"a": a, "b": 0} for a in (0, 1, 2, 3, 20)]
    values = [{"loss": 20 - point["a"], "size": point["a"]} for point in points]
    history = history_of(points, values, Goal({"loss": "minimize", "size": "minimize"}))
    crowded, middle, end = {"a": 2, "b": 1}, {"a": 11, "b": 1}, {"a": 19, "b": 1}
    assert Preselection(space).most_promising(history, [], [crowded, end, middle], 3) == [middle, end, crowded]


@pytest.mark.parametrize("name", ["evolutionary", "shifting_window"])
def test_fewer_trials_fail_than_at_random(name):
    """A half of the space cannot be trained, and there it would be best."""
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
