"""The ladder: how many trials a scale gets, where the best is expected, and how wide it looks."""

import math
import random
from statistics import fmean

import numpy as np
import pytest

from hpo.config.goals import SCALE
from hpo.engine.strategies import make_strategy
from hpo.engine.strategies.ladder import LadderSettings
from hpo.errors import ConfigError
from hpo.testing.strategies import play
from hpo.trials.space.reader import space_from_dict
from tests.studies import STRATEGIES, refuses

TREE = {"lr": {"low": 1e-5, "high": 1.0, "log": True}, "decay": [0.0, 0.01, 0.1, 0.3, 1.0]}
TREE |= {"act": {"choices": ["relu", "gelu", "tanh"]}}
COSTS = [1.0, 4.0, 16.0, 64.0]
HALVING = STRATEGIES["successive_halving"] | {"min_amount": 1, "max_amount": 9, "eta": 3}


def ladder(costs=COSTS, seed=0, trials=24, scales=None, **changes):
    tree = TREE | {"study": {"scale": scales or [*range(1, len(costs) + 1)]}}
    given = STRATEGIES["ladder"] | {"costs": costs, "trials": trials, "cost_ratio": 1.0} | changes
    return make_strategy(given, space_from_dict(tree), seed)


def loss(drift, noise=0.02):
    """The best rate is .01 at the first scale, and is multiplied by `drift` from scale to scale; tanh is worse."""

    def of(point):
        best = 0.01 * drift ** (point[SCALE] - 1)
        blurred = random.Random(str(sorted(point.items()))).gauss(0, noise)
        return math.log10(point["lr"] / best) ** 2 + 0.1 * point["decay"] + (point["act"] == "tanh") + blurred

    return of


def by_scale(history):
    return {scale: [trial for trial in history if trial.scale == scale] for scale in (1, 2, 3, 4)}


def rates(trials):
    return [trial.point["lr"] for trial in trials]


def test_each_scale_costs_its_share_of_the_one_before_and_the_target_gets_what_is_left():
    assert ladder([1.0, 4.0, 16.0]).counts == (24, 6, 2)
    assert ladder([1.0, 2.0, 4.0], trials=32, cost_ratio=0.5).counts == (32, 8, 2)
    history = play(ladder(), 40, loss(1.0))
    trials = by_scale(history)
    assert [len(trials[scale]) for scale in (1, 2, 3)] == [24, 6, 2]
    assert [trial.scale for trial in history] == sorted(trial.scale for trial in history)
    assert len(trials[4]) > 1


@pytest.mark.parametrize("seed", range(3))
def test_the_first_at_a_scale_is_among_the_best_of_the_one_below_while_nothing_moves(seed):
    trials = by_scale(play(ladder(seed=seed), 33, loss(1.0, noise=0.0)))
    best, first = sorted(trials[1], key=lambda trial: trial.loss)[:6], trials[2][0].point
    assert min(rates(best)) <= first["lr"] <= max(rates(best))
    assert first["act"] == best[0].point["act"]
    assert abs(math.log10(trials[4][0].point["lr"] / 0.01)) < 0.5


@pytest.mark.slow
def test_what_moves_is_followed_and_what_is_clearly_worse_is_left():
    away = []
    for seed in range(4):
        trials = by_scale(play(ladder(seed=seed, trials=60), 100, loss(1 / 3)))
        best = min(trials[3], key=lambda trial: trial.loss).point["lr"]
        away.append([abs(math.log10(each / (0.01 / 27))) for each in (trials[4][0].point["lr"], best)])
        assert all(trial.point["act"] != "tanh" for scale in (2, 3, 4) for trial in trials[scale])
    assert fmean(one for one, _ in away) < fmean(other for _, other in away)


def test_a_scale_of_failures_says_nothing():
    second = rates(by_scale(play(ladder(), 33, lambda point: None if point[SCALE] == 1 else loss(1.0)(point)))[2])
    assert (len(second), max(second) / min(second) > 100) == (6, True)


def test_halving_trains_the_best_of_the_smallest_scale_further_and_the_others_are_fully_trained():
    strategy = ladder(trials=27, first=HALVING, max_amount=9)
    assert strategy.settings.costs_of_points[0] == pytest.approx(7 / 27 / 64)
    trials = by_scale(play(strategy, 80, loss(1.0)))
    amounts = [trial.amount for trial in trials[1]]
    assert (amounts.count(1), amounts.count(9)) == (27, 3)
    assert all((trial.amount, trial.continues) == (9, None) for scale in (2, 3, 4) for trial in trials[scale])
    assert len(trials[4]) > 1
    # The quarter of the points that says where the best is has those that were trained the furthest, and then others.
    further = rates(sorted(trials[1], key=lambda trial: (-trial.amount, trial.loss))[:12])
    assert min(further) <= trials[2][0].point["lr"] <= max(further)


@pytest.mark.parametrize("first", [STRATEGIES["random"], HALVING])
def test_a_budget_pays_the_plan_and_not_one_point_more(first):
    given = {"costs": COSTS, "cost_ratio": 0.5, "first": first}
    settings = LadderSettings.model_validate(STRATEGIES["ladder"] | given | {"budget": 50.0})
    plan, trials = settings.within_budget()
    assert 49 < float(np.dot(plan.planned, settings.costs_of_points)) + trials - sum(plan.planned) <= 50 + 1e-9
    assert float(np.dot(plan.model_copy(update={"trials": plan.trials + 1}).planned, settings.costs_of_points)) > 50
    refuses(ConfigError, "to allow a trial at each scale", settings.model_copy(update={"budget": 0.5}).within_budget)


@pytest.mark.parametrize("costs", [[1.0, 1.0], [4.0, 1.0], None])
def test_costs_must_grow(costs):
    refuses(ConfigError, r"strategy\.costs", ladder, costs, scales=[1, 2])


def test_a_space_without_scales_and_a_bad_setting_of_the_first_strategy_are_refused():
    refuses(ConfigError, r"strategy\.first\.round_size", ladder, first=STRATEGIES["random"] | {"round_size": 0})
    refuses(ConfigError, r"study\.scales", make_strategy, STRATEGIES["ladder"], space_from_dict(TREE), 0)
