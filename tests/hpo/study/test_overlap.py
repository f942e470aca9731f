"""Which trials of a front, and near it, noise alone may set apart."""

from hpo.study.winner.overlap import overlapping
from hpo.trials.goal import Goal, Limit, finished
from hpo.trials.ranking import front
from hpo.trials.trial import Outcome, Trial

GOAL = Goal({"accuracy": "maximize", "size": "minimize"}, (Limit("size", 9),))


def trial(number, accuracies, size, amount=None):
    outcomes = {index: Outcome({"accuracy": each, "size": size}) for index, each in enumerate(accuracies)}
    return finished(Trial(number, number, {"x": number}, amount=amount), outcomes, GOAL)


def found(*trials):
    return overlapping(front(trials), trials, GOAL)


def test_members_overlap_where_their_intervals_do_in_every_metric():
    # Sizes are counted, without spread: only equal ones overlap.
    best, as_large, small = trial(0, (0.7, 0.9), 5), trial(1, (0.7, 0.9), 5), trial(2, (0.69, 0.89), 4)
    assert found(best, as_large, small).members == {0: [1], 1: [0], 2: []}
    sharp, apart = trial(3, (0.8, 0.8001), 5), trial(4, (0.6, 0.6001), 4)
    assert found(sharp, apart).members == {3: [], 4: []}


def test_a_dominated_trial_may_belong_to_the_front_if_no_member_is_better_with_certainty():
    member, noisy, worse = trial(0, (0.89, 0.91), 5), trial(1, (0.8, 0.95), 6), trial(2, (0.4, 0.41), 6)
    assert found(member, noisy, worse).near == [1]
    assert found(member, trial(1, (0.4, 0.41), 5)).near == []


def test_what_cannot_belong_to_the_front_is_not_near():
    member = trial(0, (0.89, 0.91), 5, amount=4)
    beyond, shorter = trial(1, (0.8, 0.95), 10, amount=4), trial(2, (0.8, 0.95), 6, amount=2)
    failed = finished(Trial(3, 3, {"x": 3}, amount=4), {0: Outcome(error="x")}, GOAL)
    assert found(member, beyond, shorter, failed).near == []


def test_a_single_task_has_no_interval():
    result = found(trial(0, (0.9,), 5), trial(1, (0.8,), 4), trial(2, (0.7,), 6))
    assert (result.members, result.near) == ({}, ())
