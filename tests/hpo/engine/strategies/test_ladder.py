"""The ladder: how many trials a scale gets, where the best is expected, and how wide it looks."""

import math
import random
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpo.config.goals import SCALE
from hpo.engine.strategies import make_strategy
from hpo.engine.strategies.drawing.expected import expect
from hpo.engine.strategies.ladder import LadderSettings
from hpo.errors import ConfigError
from hpo.testing.strategies import play
from hpo.trials.goal import Goal, finished
from hpo.trials.space.reader import space_from_dict
from hpo.trials.trial import Outcome, Trial
from tests.studies import STRATEGIES

TREE = {
    "lr": {"low": 1e-5, "high": 1.0, "log": True},
    "decay": [0.0, 0.01, 0.1, 0.3, 1.0],
    "act": {"choices": ["relu", "gelu", "tanh"]},
}
COSTS = [1.0, 4.0, 16.0, 64.0]


def ladder(costs=COSTS, seed=0, trials=24, first="evolutionary", tree=TREE, cost_ratio=1.0):
    scales = {"study": {"scale": {"values": list(range(1, len(costs) + 1))}}}
    settings = STRATEGIES["ladder"] | {"costs": costs, "trials": trials, "first": STRATEGIES[first]}
    settings |= {"cost_ratio": cost_ratio}
    return make_strategy(settings, space_from_dict(tree | scales), seed)


def loss(drift, noise=0.02):
    """The best rate is .01 at the first scale, and is multiplied by `drift` from scale to scale; tanh is worse."""

    def of(point):
        best = 0.01 * drift ** (point[SCALE] - 1)
        blurred = random.Random(str(sorted(point.items()))).gauss(0, noise)
        return math.log10(point["lr"] / best) ** 2 + 0.1 * point["decay"] + (point["act"] == "tanh") + blurred

    return of


def complete(point, value):
    return finished(Trial(0, 0, point), {0: Outcome({"loss": value})}, Goal({"loss": "minimize"}))


def by_scale(history):
    return {scale: [trial for trial in history if trial.scale == scale] for scale in (1, 2, 3, 4)}


def test_each_scale_costs_its_share_of_the_one_before_and_the_target_gets_what_is_left():
    assert ladder([1.0, 4.0, 16.0]).counts == (24, 6, 2)
    assert ladder([1.0, 2.0, 4.0], trials=32, cost_ratio=0.5).counts == (32, 8, 2)
    history = play(ladder(), 40, loss(1.0))
    trials = by_scale(history)
    assert [len(trials[scale]) for scale in (1, 2, 3)] == [24, 6, 2]
    # In order: no scale begins before the one below has its trials.
    assert [trial.scale for trial in history] == sorted(trial.scale for trial in history)
    assert len(trials[4]) > 1


@pytest.mark.parametrize("seed", range(3))
def test_the_first_at_a_scale_is_among_the_best_of_the_one_below_while_nothing_moves(seed):
    trials = by_scale(play(ladder(seed=seed), 33, loss(1.0, noise=0.0)))
    best = sorted(trials[1], key=lambda trial: trial.loss)[:6]
    first, rates = trials[2][0].point, [trial.point["lr"] for trial in best]
    assert min(rates) <= first["lr"] <= max(rates)
    assert first["act"] == best[0].point["act"]
    assert abs(math.log10(trials[4][0].point["lr"] / 0.01)) < 0.5


def test_what_moves_is_followed_and_what_is_clearly_worse_is_left():
    away = []
    for seed in range(4):
        trials = by_scale(play(ladder(seed=seed, trials=60), 100, loss(1 / 3)))
        best = min(trials[3], key=lambda trial: trial.loss).point["lr"]
        expected, target = trials[4][0].point["lr"], 0.01 / 27
        away.append([abs(math.log10(each / target)) for each in (expected, best)])
        assert all(trial.point["act"] != "tanh" for scale in (2, 3, 4) for trial in trials[scale])
    assert fmean(one for one, _ in away) < fmean(other for _, other in away)


def test_a_scale_of_failures_says_nothing():
    history = play(ladder(), 33, lambda point: None if point[SCALE] == 1 else loss(1.0)(point))
    rates = [trial.point["lr"] for trial in history if trial.scale == 2]
    assert len(rates) == 6
    assert max(rates) / min(rates) > 100


@pytest.mark.parametrize("drift", [1.0, 1 / 3])
def test_that_the_best_stays_is_believed_until_trials_tell_otherwise(drift):
    space = space_from_dict(TREE)

    def expected(count):
        rng, known = np.random.default_rng(1), []
        for scale in (1, 2, 3):
            points = [space.draw(rng) for _ in range(count)]
            known.append([complete(point, loss(drift)({**point, SCALE: scale})) for point in points])
        best = min(known[-1], key=lambda trial: trial.loss).point["lr"]
        found = expect(space, known, [0.0, 2.0, 4.0], 6.0, 6.0, 0.25)
        assert space.contains(found.point)
        assert found.space["lr"].low <= found.point["lr"] <= found.space["lr"].high
        return math.log10(found.point["lr"] / best), math.log10(found.point["lr"] / (0.01 * drift**3))

    # In powers of ten, of which the range has five.
    moved, _ = expected(4)
    assert abs(moved) < 1
    _, away = expected(200)
    assert abs(away) < 0.5


HALVING = STRATEGIES["successive_halving"] | {"min_amount": 1, "max_amount": 9, "eta": 3}


def test_halving_trains_the_best_of_the_smallest_scale_further_and_the_others_are_trained_in_full():
    first, scale = (
        {"first": HALVING, "max_amount": 9, "trials": 27, "costs": COSTS},
        {"scale": {"values": [1, 2, 3, 4]}},
    )
    strategy = make_strategy(STRATEGIES["ladder"] | first, space_from_dict(TREE | {"study": scale}), 0)
    assert strategy.settings.costs_of_points[0] == pytest.approx(7 / 27 / 64)
    trials = by_scale(play(strategy, 80, loss(1.0)))
    amounts = [trial.amount for trial in trials[1]]
    assert (amounts.count(1), amounts.count(9)) == (27, 3)
    assert all((trial.amount, trial.continues) == (9, None) for scale in (2, 3, 4) for trial in trials[scale])
    assert len(trials[4]) > 1
    # The quarter of the points that says where the best lie has those that were trained the furthest, and then others.
    further = sorted(trials[1], key=lambda trial: (-trial.amount, trial.loss))
    rates = [trial.point["lr"] for trial in further[:12]]
    assert min(rates) <= trials[2][0].point["lr"] <= max(rates)


@given(
    costs=st.lists(st.floats(1.1, 8), min_size=1, max_size=4).map(np.cumprod),
    ratio=st.floats(0.05, 1),
    budget=st.floats(0.5, 50),
    first=st.sampled_from([STRATEGIES["random"], HALVING]),
)
def test_a_budget_pays_the_plan_and_not_one_point_more(costs, ratio, budget, first):
    """In trainings at the target; what the plan leaves over is less than one of these."""
    given = {"costs": [1.0, *costs.tolist()], "cost_ratio": ratio, "first": first, "budget": budget}
    settings = LadderSettings.model_validate(STRATEGIES["ladder"] | given)
    shares = settings.costs_of_points
    if sum(shares) > budget:
        with pytest.raises(ConfigError, match="must allow a trial at each scale"):
            settings.within_budget()
        return
    plan, trials = settings.within_budget()
    more = trials - sum(plan.planned)
    spent = float(np.dot(plan.planned, shares)) + more
    assert budget - 1 < spent <= budget + 1e-9
    larger = plan.model_copy(update={"trials": plan.trials + 1})
    assert float(np.dot(larger.planned, shares)) > budget


@pytest.mark.parametrize("costs", [[1.0, 1.0], [4.0, 1.0], None])
def test_costs_must_grow(costs):
    with pytest.raises(ConfigError, match=r"strategy\.costs"):
        make_strategy(STRATEGIES["ladder"] | {"costs": costs}, space_from_dict(TREE | {"study": {"scale": [1, 2]}}), 0)


def test_it_climbs_scales_only():
    with pytest.raises(ConfigError, match=r"study\.scales"):
        make_strategy(STRATEGIES["ladder"], space_from_dict(TREE), 0)
