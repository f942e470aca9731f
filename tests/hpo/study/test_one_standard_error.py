"""The rule of one standard error: the cheapest of those that are as good as the best, up to noise."""

import math

from hpo.study.results.choosing import as_good_as, cheapest, standard_error
from hpo.trials.goal import Goal, finished
from hpo.trials.trial import Outcome, Trial


def trial(number, *scores, cost=1.0, amount=None):
    outcomes = {index: Outcome({"s": score}) for index, score in enumerate(scores)}
    return finished(Trial(number, number, {"x": number}, amount=amount, cost=cost), outcomes, Goal({"s": "maximize"}))


BEST = trial(0, 0.8, 0.9, 1.0, cost=5.0)


def test_the_standard_error_is_that_of_the_mean_over_folds():
    assert math.isclose(standard_error(BEST, "s"), 0.1 / math.sqrt(3))
    assert standard_error(trial(0, 0.9), "s") is None


def test_as_good_are_those_within_it_that_were_trained_as_far():
    near, far = trial(1, 0.85, 0.85, 0.86), trial(2, 0.8, 0.8, 0.8)
    shorter = trial(3, 0.9, 0.9, 0.9, amount=1)
    lost = finished(Trial(4, 4, {"x": 4}), {0: Outcome(error="x")}, Goal({"s": "maximize"}))
    assert as_good_as(BEST, [BEST, near, far, shorter, lost], "s") == [near]
    assert as_good_as(trial(0, 0.9), [trial(1, 0.9)], "s") == []


def test_the_cheapest_has_the_least_cost_and_then_the_better_score():
    dear, cheap, same = trial(1, 0.9, 0.9, cost=3.0), trial(2, 0.8, 0.8), trial(3, 0.85, 0.85)
    assert cheapest([dear, cheap]) is cheap
    assert cheapest([cheap, same]) is same
