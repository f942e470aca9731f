"""Shapley values: by their definition, and where the truth is known."""

import itertools
import math
import random

import numpy as np
import pytest

from hpo.report.importance import shapley_values, shapley_weights
from hpo.report.part import Absent
from hpo.trials.space.reader import space_from_dict
from tests.hpo.report.made_up import SPACE, trial


def test_the_weights_are_those_of_the_mean_over_all_orders():
    sets = list(itertools.product((False, True), repeat=4))
    worth = dict(zip(sets, np.random.default_rng(1).normal(size=16), strict=True))
    found = np.array([worth[members] for members in sets]) @ shapley_weights(sets)
    wanted = np.zeros(4)
    for order in itertools.permutations(range(4)):
        members = [False] * 4
        for player in order:
            before = worth[tuple(members)]
            members[player] = True
            wanted[player] += (worth[tuple(members)] - before) / math.factorial(4)
    assert found == pytest.approx(wanted)


def made(direction, count=300):
    """Trials whose scores are the sum of what three hyperparameters give; nothing else matters."""
    rng, sign = random.Random(0), 1 if direction == "maximize" else -1
    trials = []
    for number in range(count):
        at = {"lr": 10 ** rng.uniform(-5, 0), "layers": rng.randint(1, 4), "optimizer": rng.choice(["adamw", "sgd"])}
        at |= {"momentum": rng.choice([0.0, 0.9])} if at["optimizer"] == "sgd" else {}
        score = 0.1 * at["layers"] - 0.05 * abs(math.log10(at["lr"]) + 2) + 0.2 * (at["optimizer"] == "adamw")
        trials.append(trial(number, [sign * score], at=at, direction=direction))
    return trials


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_what_each_hyperparameter_adds_is_found_in_the_units_of_the_metric(direction):
    trials = made(direction)
    sign = 1 if direction == "maximize" else -1
    winner = trial(300, [sign * 0.6], at={"lr": 0.01, "layers": 4, "optimizer": "adamw"}, direction=direction)
    trials = [*trials, winner]
    default = {"lr": 0.0001, "layers": 1, "optimizer": "sgd", "momentum": 0.0}
    found = shapley_values(SPACE, trials, default, winner)
    gains = {key: part.gain for key, part in found.items()}
    assert gains["layers"] == pytest.approx(0.3, abs=0.04)
    assert gains["lr"] == pytest.approx(0.1, abs=0.04)
    # A momentum exists beside sgd only, so its absence is part of the optimizer.
    assert gains["optimizer"] == pytest.approx(0.2, abs=0.04)
    assert "momentum" not in gains
    assert all(part.low <= part.gain <= part.high for part in found.values())
    assert list(found) == sorted(found, key=lambda key: -found[key].gain)
    assert found == shapley_values(SPACE, trials, default, winner)


def test_the_parts_sum_to_the_gain_where_both_ends_were_tried():
    trials = made("maximize", 40)
    default, winner = trials[0], max(trials, key=lambda t: t.score)
    found = shapley_values(SPACE, trials, default.point, winner)
    assert sum(part.gain for part in found.values()) == pytest.approx(winner.score - default.score)


def test_a_boolean_and_a_number_are_two_values():
    space = space_from_dict({"flag": {"choices": [True, 1]}, "x": {"low": 0.0, "high": 1.0}})
    rng = random.Random(0)
    trials = [trial(k, [5.0 * (k % 2)], at={"flag": [True, 1][k % 2], "x": rng.random()}) for k in range(30)]
    found = shapley_values(space, trials, trials[0].point, trials[1])
    assert found["flag"].gain == pytest.approx(5.0, abs=0.3)


def test_only_what_differs_takes_part_and_what_cannot_be_said_is_not():
    trials = made("maximize", 40)
    winner = trials[0]
    assert set(shapley_values(SPACE, trials, winner.point | {"layers": 5 - winner.point["layers"]}, winner)) == {
        "layers"
    }
    for default, words in ((winner.point, "is the default"), (None, "outside of the space")):
        reason = shapley_values(SPACE, trials, default, winner)
        assert isinstance(reason, Absent)
        assert words in reason.reason
    assert "10 complete trials" in shapley_values(SPACE, trials[:9], None, winner).reason
