"""Several metrics and limits: which trials are better, in what order, and what a strategy is told."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpo.engine.strategies.drawing.preselection import Preselection
from hpo.trials.fronts import as_one_loss, best_first, contributions, front_numbers, hypervolume, scale_of
from hpo.trials.goal import Goal, Limit, finished
from hpo.trials.history import History
from hpo.trials.ranking import front, leaders, one_loss
from hpo.trials.reported_values import LARGEST, result
from hpo.trials.space.reader import space_from_dict
from hpo.trials.table import trials_table
from hpo.trials.trial import Outcome, TaskLayout, Trial

TWO = Goal({"quality": "maximize", "size": "minimize"})
# Few different numbers, so that many are equal.
LOSSES = st.integers(2, 3).flatmap(
    lambda width: st.lists(st.tuples(*[st.integers(0, 4)] * width), min_size=1, max_size=25)
)


def trial(number: int, *losses: float, excess: float = 0.0, **others) -> Trial:
    first, *rest = map(float, losses)
    fields = {"state": "complete", "score": first, "loss": first, "other_losses": tuple(rest), "excess": excess}
    return Trial(number, number, {"x": number}, **{**fields, **others})


def dominates(one, other) -> bool:
    return one != other and all(mine <= its for mine, its in zip(one, other, strict=True))


def layers(losses) -> list[int]:
    """Return the front of each by the definition: remove what none dominates, again and again."""
    numbers, left, number = {}, set(range(len(losses))), 0
    while left:
        free = {i for i in left if not any(dominates(losses[j], losses[i]) for j in left)}
        numbers |= dict.fromkeys(free, number)
        left, number = left - free, number + 1
    return [numbers[i] for i in range(len(losses))]


@given(LOSSES)
def test_fronts_are_those_of_the_definition(losses):
    assert front_numbers(np.array(losses, dtype=float)).tolist() == layers(losses)


@given(LOSSES)
def test_the_order_is_by_front_then_by_what_each_adds_and_equal_trials_stay_in_their_order(losses):
    rows, numbers = np.array(losses, dtype=float), layers(losses)
    order = best_first(rows).tolist()
    assert sorted(order) == list(range(len(losses)))
    assert [numbers[i] for i in order] == sorted(numbers)
    for number in set(numbers):
        members = [i for i in order if numbers[i] == number]
        different = sorted({losses[i] for i in members})
        added = dict(zip(different, contributions(np.array(different, dtype=float), scale_of(rows)), strict=True))
        keys = [(-added[losses[i]], losses[i], i) for i in members]
        assert [key[0] for key in keys] == sorted(key[0] for key in keys)
        for (_, mine, i), (_, its, j) in itertools.pairwise(keys):
            assert mine != its or i < j
    for count in (1, 3):
        assert best_first(rows, count).tolist() == order[:count]


@given(LOSSES)
def test_as_one_loss_no_trial_is_better_than_one_that_dominates_it(losses):
    one = as_one_loss(np.array(losses, dtype=float))
    for (mine, loss), (its, other) in itertools.product(zip(losses, one, strict=True), repeat=2):
        assert (mine != its) or loss == other
        assert not dominates(mine, its) or loss < other


@pytest.mark.parametrize("count", [1, 7, 390])
def test_the_best_of_a_large_front_of_four_metrics_are_those_of_its_whole_order(count):
    rng = np.random.default_rng(count)
    front = rng.dirichlet(np.ones(4), size=380)
    losses = np.vstack((front, front[:9], front[:30] + 0.1))
    assert best_first(losses, count).tolist() == best_first(losses).tolist()[:count]


def test_hypervolume_and_contributions_are_those_by_hand():
    # Up to 3, 3: rectangles of 1 x 1 and of 2 x 1, which share none, and one of 1 x 1 beside them.
    losses = np.array([[0.0, 2.0], [1.0, 1.0], [2.0, 0.0]])
    assert hypervolume(losses, np.array([3.0, 3.0])) == pytest.approx(3 * 1 + 2 * 1 + 1 * 1)
    # Scaled to 0, .5, 1 with the reference 1.1: the middle has .5 x .5, each end .5 x .1.
    assert contributions(losses, scale_of(losses)).tolist() == pytest.approx([0.05, 0.25, 0.05])
    assert hypervolume(np.empty((0, 2))) == 0


@settings(max_examples=60)
@given(LOSSES, st.integers(1, 6), st.randoms(use_true_random=False))
def test_a_history_ranks_as_all_of_it_is_ranked_however_it_grew(losses, count, random):
    trials = [trial(number, *each) for number, each in enumerate(losses)]
    random.shuffle(trials)
    known = History()
    for place in range(len(trials)):
        known = known.extended(trials[place : place + 1])
        by_number = sorted(known, key=lambda t: t.number)
        expected = [by_number[i] for i in best_first(np.array([t.losses for t in by_number]))]
        assert known.ranked(count) == expected[:count]
    for length in range(len(trials)):
        earlier = known.first(length)
        assert earlier.ranked(count) == History(trials[:length]).ranked(count)
        assert {t.number for t in earlier.front} == {t.number for t in front(trials[:length])}


@given(st.lists(st.integers(0, 5), min_size=1, max_size=20), st.integers(1, 5))
def test_a_second_metric_in_which_all_are_equal_changes_nothing(losses, count):
    one, two = (History(trial(n, loss, *more) for n, loss in enumerate(losses)) for more in ((), (7.0,)))
    rng = np.random.default_rng(0)
    assert [t.number for t in one.ranked(count)] == [t.number for t in two.ranked(count)]
    assert [t.number for t in two.ranked(count, two.draw_weights(rng))] == [t.number for t in one.ranked(count)]
    assert rng.random() == np.random.default_rng(0).random()
    assert [t.number for t in leaders(one, count)] == [t.number for t in leaders(two, count)]
    assert one.num_without_gain == two.num_without_gain
    ranks = [np.unique(one_loss(list(known)), return_inverse=True)[1].tolist() for known in (one, two)]
    assert ranks[0] == ranks[1]


@pytest.mark.parametrize("others", [(), (0.0,)])
def test_within_the_limits_comes_before_beyond_them_by_the_least_excess_and_failures_last(others):
    trials = [
        trial(0, 0.1, *others, excess=0.5),
        trial(1, 0.2, *others, excess=0.1),
        trial(2, math.inf, state="failed", score=None),
        trial(3, 0.9, *others),
        trial(4, 0.8, *others),
    ]
    assert [t.number for t in History(trials).ranked()] == [4, 3, 1, 0, 2]
    assert [t.number for t in leaders(trials, 9)] == [4, 3, 1, 0]
    assert [t.number for t in front(trials)] == [4]
    assert front(trials[:3]) == []


def test_a_trial_that_enters_the_front_is_a_gain_and_one_that_is_dominated_or_equal_is_none():
    def since(*trials):
        return History(trials).num_without_gain

    assert since(trial(0, 1, 5), trial(1, 5, 1)) == 0
    assert since(trial(0, 1, 5), trial(1, 1, 5)) == 1
    assert since(trial(0, 1, 5), trial(1, 2, 5)) == 1
    assert since(trial(0, 1, 5, excess=1.0), trial(1, 9, 9, excess=0.5), trial(2, 9, 9)) == 0
    assert since(trial(0, 9, 9), trial(1, 1, 1, excess=0.1)) == 1


def test_a_limit_is_the_most_or_the_least_and_its_excess_a_share_of_it():
    most, least = Limit("size", 200.0), Limit("quality", 0.5, is_least=True)
    assert [most.excess(value) for value in (100.0, 200.0, 300.0)] == [0, 0, 0.5]
    assert [least.excess(value) for value in (0.9, 0.5, 0.25)] == [0, 0, 0.5]
    assert Limit("balance", 0.0).excess(2.0) == 2.0
    goal = Goal(TWO.metrics, (most, least))
    done = finished(Trial(0, 0, {}), {0: Outcome({"quality": 0.25, "size": 300.0})}, goal)
    assert (done.losses, done.excess, done.keeps_limits) == ((-0.25, 300.0), 1.0, False)


def test_metrics_are_means_over_the_folds_and_a_tuple_has_them_in_their_order():
    outcomes = {fold: Outcome({"quality": 0.5 + fold, "size": 10.0 * fold}) for fold in range(2)}
    done = finished(Trial(0, 0, {}), outcomes, TWO)
    assert (done.score, TWO.scores(done.losses)) == (1.0, {"quality": 1.0, "size": 5.0})
    assert result((0.5, 3), ("quality", "size"), 2) == {"quality": 0.5, "size": 3}
    for returned, text in (
        ((0.5,), "one number for each of quality, size, given 1 values"),
        ({"quality": 0.5}, "returned no 'size'"),
        ({"quality": 0.5, "size": math.nan}, "'size' is nan"),
    ):
        with pytest.raises(ValueError, match=text):
            result(returned, ("quality", "size"), 2)


def test_a_trial_within_the_limits_is_a_gain_also_after_one_beyond_them_that_was_trained_further():
    trials = [
        trial(0, 1, amount=3),
        trial(1, 1, excess=0.5, amount=9),
        trial(2, 0.5, amount=3),
        trial(3, 0.2, amount=3),
    ]
    assert History(trials).num_without_gain == 0
    assert [t.number for t in History(trials).front] == [3]


def test_columns_of_the_table_of_trials_are_not_taken_by_metrics_of_their_names():
    goal = Goal({"a": "maximize", "excess": "minimize", "is_on_front": "minimize"}, (Limit("score", 1.0),))
    done = finished(Trial(0, 0, {}), {0: Outcome({"a": 1.0, "excess": 2.0, "is_on_front": 3.0, "score": 4.0})}, goal)
    (row,) = trials_table([done], [], goal, TaskLayout()).to_dict("records")
    assert [row[f"metric.{name}"] for name in ("excess", "is_on_front", "score")] == [2.0, 3.0, 4.0]
    assert (row["is_on_front"], row["excess"]) == (False, 3.0)


def test_a_bound_near_zero_has_an_excess_that_can_be_written():
    assert Limit("b", 1e-310).excess(1.0) == pytest.approx(LARGEST)


def test_the_model_of_limits_is_the_same_whether_there_are_more_values_or_more_trials():
    space = space_from_dict({"a": {"choices": [f"v{n}" for n in range(40)]}, "b": {"low": 0.0, "high": 1.0}})
    rng = np.random.default_rng(0)
    points = [space.draw(rng) for _ in range(60)]
    over = [replace(trial(n, 1.0, excess=float(p["b"] > 0.5)), point=p, key=str(n)) for n, p in enumerate(points)]
    few, many = (Preselection(space).share_within_limits(points[:5], over[:count]) for count in (30, 60))
    for within in (few, many):
        assert [bool(share > 0.5) for share in within] == [p["b"] <= 0.5 for p in points[:5]]


def test_a_point_that_exceeds_a_limit_when_it_is_trained_further_is_not_on_the_front_for_less():
    short, long = (trial(n, 0.1, amount=amount, key="k") for n, amount in ((0, 3), (1, 9)))
    other = trial(2, 0.5, amount=3)
    assert [t.number for t in front([short, replace(long, excess=0.5), other])] == [2]
    assert [t.number for t in front([short, long, other])] == [1]
