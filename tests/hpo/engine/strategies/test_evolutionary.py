"""Evolutionary search: who survives, what children look like."""

import numpy as np
import pytest

from hpo.engine.strategies import make_strategy
from hpo.engine.strategies.drawing import preselection
from hpo.engine.strategies.drawing.children import Breeding
from hpo.engine.strategies.drawing.preselection import Preselection
from hpo.trials.goal import Goal, Limit, finished
from hpo.trials.history import History
from hpo.trials.space.reader import space_from_dict
from hpo.trials.trial import Outcome, Trial
from tests.studies import shipped

TREE = {"a": [1, 2, 3, 4, 5], "b": {"choices": ["x", "y", "z"]}, "c": {"low": 1e-4, "high": 1.0, "log": True}}


def make(tree=TREE, **changes):
    """Return the plain method of the lecture."""
    return make_strategy(shipped("evolutionary_plain") | changes, space_from_dict(tree), 0)


def history_of(points, losses):
    trials = []
    for number, (point, loss) in enumerate(zip(points, losses, strict=True)):
        outcome = Outcome(error="failed") if loss is None else Outcome({"score": loss})
        trials.append(finished(Trial(number, 0, point), {0: outcome}, Goal({"score": "minimize"})))
    return History(trials)


def test_the_first_generation_is_the_population_and_later_ones_are_its_children():
    strategy = make(population=8, surviving=0.25)
    first = strategy.propose(History(), [])
    assert len(first) == 8
    assert len(strategy.propose(history_of(first, range(8)), [])) == 6


def test_without_mutation_children_mix_the_best_and_nothing_else():
    """Values of the worst parent never come again."""
    points = [{"a": 1, "b": "x", "c": 0.1}, {"a": 2, "b": "y", "c": 0.2}, {"a": 5, "b": "z", "c": 0.9}]
    strategy = make(mutation=0.0)
    rng = np.random.default_rng(0)
    children = [strategy.breeding.child(points[:2], rng) for _ in range(200)]
    assert {child["a"] for child in children} == {1, 2}
    assert {(child["a"], child["b"]) for child in children} == {(1, "x"), (1, "y"), (2, "x"), (2, "y")}


def test_without_crossover_a_child_is_one_parent_mutated():
    parents = [{"a": 1, "b": "x", "c": 0.1}, {"a": 5, "b": "z", "c": 0.9}]
    rng = np.random.default_rng(0)
    strategy = make(mutation=0.0, crossover=0.0)
    assert all(strategy.breeding.child(parents, rng) in parents for _ in range(50))


@pytest.mark.parametrize(("steps", "expected"), [(1, {2, 4}), (2, {1, 2, 4, 5})])
def test_an_ordered_value_moves_to_a_neighbour(steps, expected):
    strategy = make(mutation_steps=steps)
    rng = np.random.default_rng(0)
    assert {strategy.breeding.mutated(strategy.space["a"], 3, rng) for _ in range(100)} == expected
    assert strategy.breeding.mutated(strategy.space["a"], 1, rng) in {2, 3}


def test_a_choice_becomes_any_other():
    strategy, rng = make(), np.random.default_rng(0)
    assert {strategy.breeding.mutated(strategy.space["b"], "y", rng) for _ in range(100)} == {"x", "z"}


def test_a_range_moves_by_a_gaussian_step_on_its_log_scale():
    strategy, rng = make(mutation_scale=0.05), np.random.default_rng(0)
    steps = [(np.log10(strategy.breeding.mutated(strategy.space["c"], 0.01, rng)) + 2) / 4 for _ in range(2000)]
    assert np.mean(steps) == pytest.approx(0.0, abs=0.005)
    assert np.std(steps) == pytest.approx(0.05, rel=0.1)


def test_the_default_probability_changes_one_dimension_on_average():
    parent = {"a": 3, "b": "x", "c": 0.1}
    strategy, rng = make(mutation=None), np.random.default_rng(0)
    changed = [sum(strategy.breeding.child([parent], rng)[key] != parent[key] for key in parent) for _ in range(2000)]
    assert np.mean(changed) == pytest.approx(1.0, abs=0.07)


def test_it_finds_the_best_point_of_a_bowl_sooner_than_it_could_try_them_all():
    tree = {"a": list(range(10)), "b": list(range(10)), "c": list(range(10))}
    strategy = make(tree, population=10, surviving=0.3)
    history = History()
    while len(history) < 150:
        points = [*(t.point for t in history), *strategy.propose(history, [])]
        history = history_of(points, [sum((v - 7) ** 2 for v in p.values()) for p in points])
    assert history.best().loss == 0


def test_it_ends_after_its_generations():
    """The first population is the first generation."""
    first = make(generations=2).propose(History(), [])
    assert make(generations=2).propose(history_of(first, range(10)), [])
    assert not make(generations=1).propose(history_of(first, range(10)), [])
    assert "1 generations" in make(generations=2).announcement


def test_steps_of_random_length_are_mostly_short_and_stay_in_the_range():
    strategy, rng = make({"a": list(range(21))}, mutation_steps=None), np.random.default_rng(0)
    steps = [abs(strategy.breeding.mutated(strategy.space["a"], 10, rng) - 10) for _ in range(4000)]
    assert np.mean([step == 1 for step in steps]) == pytest.approx(0.5, abs=0.03)
    assert np.mean([step == 2 for step in steps]) == pytest.approx(0.25, abs=0.03)
    assert {strategy.breeding.mutated(strategy.space["a"], 0, rng) for _ in range(100)} <= set(range(1, 21))


def test_of_many_candidates_those_are_trained_that_the_trials_near_them_speak_for():
    tree = {"a": list(range(9)), "b": list(range(9))}
    space = space_from_dict(tree)
    points = [{"a": a, "b": b} for a in range(0, 9, 2) for b in range(0, 9, 2)]
    history = history_of(points, [abs(p["a"] - 8) + abs(p["b"] - 8) for p in points])
    candidates = [{"a": 1, "b": 1}, {"a": 7, "b": 7}, {"a": 7, "b": 1}, {"a": 3, "b": 7}]
    preselection = Preselection(space)
    assert preselection.most_promising(history, [], candidates, 2) == [candidates[1], candidates[3]]
    assert preselection.most_promising(history_of(points, [1.0] * len(points)), [], candidates, 2) == candidates[:2]


def test_points_near_failed_ones_are_proposed_less():
    space = space_from_dict({"a": list(range(9)), "b": {"choices": ["x", "y"]}})
    points = [{"a": a, "b": b} for a in range(0, 9, 2) for b in "xy"]
    # Better where it fails.
    history = history_of(points, [None if p["a"] > 4 else float(-p["a"]) for p in points])
    candidates = [{"a": 7, "b": "x"}, {"a": 3, "b": "x"}, {"a": 1, "b": "y"}]
    preselection = Preselection(space)
    assert preselection.most_promising(history, [], candidates, 3) == [candidates[1], candidates[2], candidates[0]]
    assert preselection.most_feasible(history, candidates, 3) == [candidates[1], candidates[2], candidates[0]]
    assert preselection.most_feasible(history_of(points, [1.0] * len(points)), candidates, 3) == candidates


def test_candidates_near_pending_points_count_for_less():
    space = space_from_dict({"a": list(range(33)), "b": {"choices": ["x", "y"]}})
    plain, spreads = Preselection(space), Preselection(space, penalizes_pending=True)
    history = history_of([{"a": 16, "b": "x"}, {"a": 0, "b": "x"}], [0.0, 1.0])
    near, far = {"a": 15, "b": "x"}, {"a": 9, "b": "x"}
    beside, elsewhere = [Trial(2, 0, {"a": 14, "b": "x"})], [Trial(2, 0, {"a": 14, "b": "y"})]
    assert plain.most_promising(history, beside, [near, far], 2) == [near, far]
    assert spreads.most_promising(history, beside, [near, far], 2) == [far, near]
    assert spreads.most_promising(history, elsewhere, [near, far], 2) == [near, far]
    # While nothing is known, the farthest first.
    assert spreads.most_promising(History(), beside, [near, far, {"a": 14, "b": "y"}], 2) == [{"a": 14, "b": "y"}, far]


def test_what_trials_beyond_a_limit_say_of_the_loss_counts():
    """All that is known of small `b`, where the limit is kept, is that one value of `a`."""
    space = space_from_dict({"a": list(range(9)), "b": list(range(9))})
    points = [{"a": 4, "b": 0}, *({"a": a, "b": 6} for a in range(9))]
    goal = Goal({"loss": "minimize"}, (Limit("size", 5),))
    outcomes = [Outcome({"loss": float(abs(point["a"] - 7)), "size": point["b"]}) for point in points]
    history = History(
        finished(Trial(n, n, point), {0: outcome}, goal)
        for n, (point, outcome) in enumerate(zip(points, outcomes, strict=True))
    )
    worse, better = {"a": 1, "b": 2}, {"a": 7, "b": 2}
    assert Preselection(space).most_promising(history, [], [worse, better], 1) == [better]


def test_with_several_metrics_the_candidate_comes_first_that_is_expected_to_add_most_to_the_front():
    """One end of the front is known well, and the middle is empty; all lie on the same plane."""
    space = space_from_dict({"a": list(range(21)), "b": list(range(21))})
    points = [{"a": a, "b": 0} for a in (0, 1, 2, 3, 20)]
    goal = Goal({"loss": "minimize", "size": "minimize"})
    history = History(
        finished(Trial(n, n, point), {0: Outcome({"loss": float(20 - point["a"]), "size": float(point["a"])})}, goal)
        for n, point in enumerate(points)
    )
    crowded, middle, end = {"a": 2, "b": 1}, {"a": 11, "b": 1}, {"a": 19, "b": 1}
    assert Preselection(space).most_promising(history, [], [crowded, end, middle], 3) == [middle, end, crowded]


@pytest.mark.parametrize(("patience", "made"), [(7, 7), (None, 64 + 4 * 8)])
def test_after_its_patience_it_draws_at_random(patience, made, monkeypatch):
    """Without mutation and crossover each child is a parent, and so was tried before."""
    children, breed = [], Breeding.child
    monkeypatch.setattr(Breeding, "child", lambda *given: children.append(breed(*given)) or children[-1])
    strategy = make(population=2, children=1, candidates=8, mutation=0.0, crossover=0.0, patience=patience)
    history = history_of([{"a": 1, "b": "x", "c": 0.1}, {"a": 2, "b": "y", "c": 0.2}], [0.0, 1.0])
    (point,) = strategy.propose(history, [])
    assert len(children) == made
    assert point not in history


def test_the_coordinates_that_are_kept_change_no_answer(monkeypatch):
    """Even where they are dropped in between, and where more trials are pending than are kept."""
    monkeypatch.setattr(preselection, "MOST_ROWS", 8)
    space = space_from_dict(TREE)
    rng = np.random.default_rng(0)
    points = [space.draw(rng) for _ in range(60)]
    keeps = Preselection(space, penalizes_pending=True)
    for known, pending in [(3, 2), (6, 3), (7, 30), (20, 1), (3, 2)]:
        history = history_of(points[:known], range(known))
        trials = [Trial(number, 0, point) for number, point in enumerate(points[known : known + pending], start=known)]
        fresh = Preselection(space, penalizes_pending=True)
        answer = keeps.most_promising(history, trials, points[50:], 10)
        assert answer == fresh.most_promising(history, trials, points[50:], 10)


@pytest.mark.parametrize("name", ["evolutionary", "shifting_window"])
def test_fewer_trials_fail_than_at_random(name):
    """A half of the space cannot be trained, and there it would be best."""
    space = space_from_dict({"a": {"low": 0.0, "high": 1.0}, "b": {"low": 0.0, "high": 1.0}})

    def failed(settings, seed):
        strategy, trials = make_strategy(settings, space, seed), []
        while len(trials) < 60:
            for point in strategy.propose(History(trials), []):
                lost = point["a"] + point["b"] > 1
                outcome = Outcome(error="x") if lost else Outcome({"s": -point["a"] - point["b"]})
                trials.append(finished(Trial(len(trials), 0, point), {0: outcome}, Goal({"s": "minimize"})))
        return sum(trial.state == "failed" for trial in trials)

    ours = sum(failed(shipped(name), seed) for seed in range(5))
    assert ours < sum(failed(shipped("random"), seed) for seed in range(5)) / 1.5


def test_the_first_points_of_a_dimension_with_a_default_lie_around_it():
    tree = {"a": {"values": list(range(20)), "default": 15}, "b": list(range(20))}
    points = make_strategy(shipped("evolutionary") | {"population": 10}, space_from_dict(tree), 0).propose(
        History(), []
    )
    assert {p["a"] for p in points} <= set(range(10, 20))
    assert len({p["b"] // 2 for p in points}) == 10


def test_no_room_for_children_is_refused():
    with pytest.raises(ValueError, match="must leave room for children"):
        make(population=2, surviving=0.9)
