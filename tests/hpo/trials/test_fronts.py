"""Which trials are better, in what order: of one metric or several, within limits; and the history that ranks them."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpo.trials.fronts import as_one_loss, best_first, contributions, front_numbers, hypervolume, scale_of
from hpo.trials.goal import Goal, Limit, finished, goal_of
from hpo.trials.history import History
from hpo.trials.ranking import front, leaders
from hpo.trials.reported_values import LARGEST, result
from hpo.trials.trial import Outcome, Trial
from tests.studies import config_from_dict, refuses, toy_config

TWO = Goal({"quality": "maximize", "size": "minimize"})
# Few different numbers, so that many are equal.
LOSSES = st.integers(2, 3).flatmap(lambda n: st.lists(st.tuples(*[st.integers(0, 4)] * n), min_size=1, max_size=25))
ONE_LOSS = st.lists(st.floats(-5, 5) | st.just(math.inf), max_size=12)


def trial(number, *losses, excess=0.0, **others):
    first, *rest = map(float, losses)
    fields = {"state": "complete", "score": first, "loss": first, "other_losses": tuple(rest), "excess": excess}
    return Trial(number, number, {"x": number}, **{**fields, **others})


def numbers(trials):
    return [trial.number for trial in trials]


def dominates(one, other):
    return one != other and all(mine <= its for mine, its in zip(one, other, strict=True))


def layers(losses):
    """Return the front of each by the definition: remove what none dominates, again and again."""
    found, left, number = {}, set(range(len(losses))), 0
    while left:
        free = {i for i in left if not any(dominates(losses[j], losses[i]) for j in left)}
        found |= dict.fromkeys(free, number)
        left, number = left - free, number + 1
    return [found[i] for i in range(len(losses))]


@given(LOSSES)
def test_the_order_is_by_front_then_by_what_each_adds_and_equal_trials_stay_in_their_order(losses):
    rows, fronts = np.array(losses, dtype=float), layers(losses)
    assert front_numbers(rows).tolist() == fronts
    order = best_first(rows).tolist()
    assert (sorted(order), [fronts[i] for i in order]) == (list(range(len(losses))), sorted(fronts))
    for number in set(fronts):
        members = [i for i in order if fronts[i] == number]
        different = sorted({losses[i] for i in members})
        added = dict(zip(different, contributions(np.array(different, dtype=float), scale_of(rows)), strict=True))
        assert [-added[losses[i]] for i in members] == sorted(-added[losses[i]] for i in members)
        assert all(losses[i] != losses[j] or i < j for i, j in itertools.pairwise(members))
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
    members = np.random.default_rng(count).dirichlet(np.ones(4), size=380)
    losses = np.vstack((members, members[:9], members[:30] + 0.1))
    assert best_first(losses, count).tolist() == best_first(losses).tolist()[:count]


def test_hypervolume_and_contributions_are_those_of_a_worked_example():
    # Up to 3, 3: rectangles of 1 x 1 and of 2 x 1, which share none, and one of 1 x 1 next to them.
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
        assert {*numbers(earlier.front)} == {*numbers(front(trials[:length]))}


def of_one(losses, first=0):
    states = ["complete" if math.isfinite(loss) else "failed" for loss in losses]
    numbered = enumerate(zip(states, losses, strict=True), start=first)
    return [Trial(number, 0, {"x": number // 2}, state=state, loss=loss) for number, (state, loss) in numbered]


@given(ONE_LOSS, ONE_LOSS, ONE_LOSS)
def test_a_history_never_changes_and_one_that_was_extended_is_as_one_made_at_once(first, second, other):
    history = History(of_one(first))
    longer, branch = (history.extended(of_one(more, len(first))) for more in (second, other))
    for made, values in ((history, first), (longer, [*first, *second]), (branch, [*first, *other])):
        anew = History(of_one(values))
        assert list(made) == list(anew) == of_one(values) == [made[i] for i in range(len(made))]
        assert made.ranked() == anew.ranked() == sorted(of_one(values), key=lambda t: (t.loss, t.number))
        assert made.ranked(3) == anew.ranked()[:3]
        assert (set(made.keys), len(made.keys)) == (set(anew.keys), len({t.key for t in made}))
        assert made.best() == anew.best() == next((t for t in anew.ranked() if math.isfinite(t.loss)), None)
        assert list(made[1:]) == list(made)[1:]
    assert (longer.since(history), history.since(longer) is None) == (of_one(second, len(first)), bool(second))
    assert longer.since(History(of_one(first))) is None


@pytest.mark.parametrize("others", [(), (0.0,)])
def test_within_the_limits_comes_before_beyond_them_by_the_least_excess_and_failures_last(others):
    failed = trial(2, math.inf, state="failed", score=None)
    beyond = [trial(0, 0.1, *others, excess=0.5), trial(1, 0.2, *others, excess=0.1), failed]
    trials = [*beyond, trial(3, 0.9, *others), trial(4, 0.8, *others)]
    assert (numbers(History(trials).ranked()), numbers(leaders(trials, 9))) == ([4, 3, 1, 0, 2], [4, 3, 1, 0])
    assert (numbers(front(trials)), front(beyond)) == ([4], [])


def test_trials_compete_with_those_that_were_trained_as_far():
    short, long = trial(0, 0.0, amount=1), trial(1, 1.0, amount=3)
    assert History([short, long]).best() is long
    assert History([short, long]).leaders(5) == [long, short]
    beyond = trial(1, 1, excess=0.5, amount=9)
    history = History([trial(0, 1, amount=3), beyond, trial(2, 0.5, amount=3), trial(3, 0.2, amount=3)])
    assert (history.num_without_gain, numbers(history.front)) == (0, [3])


def test_a_point_that_exceeds_a_limit_when_it_is_trained_further_is_not_on_the_front_for_less():
    short, long = (trial(n, 0.1, amount=amount, key="k") for n, amount in ((0, 3), (1, 9)))
    other = trial(2, 0.5, amount=3)
    assert numbers(front([short, replace(long, excess=0.5), other])) == [2]
    assert numbers(front([short, long, other])) == [1]


def test_a_limit_is_the_most_or_the_least_and_its_excess_a_share_of_it():
    most, least = Limit("size", 200.0), Limit("quality", 0.5, is_least=True)
    assert [most.excess(value) for value in (100.0, 200.0, 300.0)] == [0, 0, 0.5]
    assert [least.excess(value) for value in (0.9, 0.5, 0.25)] == [0, 0, 0.5]
    assert (Limit("balance", 0.0).excess(2.0), Limit("b", 1e-310).excess(1.0)) == (2.0, pytest.approx(LARGEST))
    done = finished(Trial(0, 0, {}), {0: Outcome({"quality": 0.25, "size": 300.0})}, Goal(TWO.metrics, (most, least)))
    assert (done.losses, done.excess, done.keeps_limits) == ((-0.25, 300.0), 1.0, False)


def test_a_single_number_is_the_least_of_a_metric_that_is_maximized_or_known_to_be_better_if_higher():
    limited = {"quality": 0.5, "val_accuracy": 0.7, "latency": 5, "balance": {"min": 1, "max": 2}}
    config = toy_config()
    config["study"] |= {"metric": "quality", "limits": limited}
    texts = ["quality >= 0.5", "val_accuracy >= 0.7", "latency <= 5", "balance >= 1", "balance <= 2"]
    assert [str(limit) for limit in goal_of(config_from_dict(config).study).limits] == texts


def test_metrics_are_means_over_the_folds_and_a_tuple_has_them_in_their_order():
    outcomes = {fold: Outcome({"quality": 0.5 + fold, "size": 10.0 * fold}) for fold in range(2)}
    done = finished(Trial(0, 0, {}), outcomes, TWO)
    assert (done.score, TWO.scores(done.losses)) == (1.0, {"quality": 1.0, "size": 5.0})
    assert result((0.5, 3), ("quality", "size"), 2) == {"quality": 0.5, "size": 3}


def test_a_result_without_each_metric_is_refused():
    says, names = "one number for each of quality, size, but it returned 1 values", ("quality", "size")
    refuses(ValueError, says, result, (0.5,), names, 2)
    refuses(ValueError, "returned no 'size'", result, {"quality": 0.5}, names, 2)
    refuses(ValueError, "'size' is nan", result, {"quality": 0.5, "size": math.nan}, names, 2)
