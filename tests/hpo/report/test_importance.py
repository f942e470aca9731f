"""Importances: Optuna's shares, which of them chance does not explain, and the figure; Shapley values by definition."""

import math
import random
from dataclasses import replace

import optuna
import pytest
from numpy.random import default_rng
from optuna.distributions import CategoricalDistribution
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

from hpo.report.figures.importance import draw_importance
from hpo.report.importance import importances, shapley_values
from hpo.report.part import missing
from hpo.trials.record.rows import distribution
from hpo.trials.space.dimensions import Range, rank_of
from hpo.trials.space.reader import space_from_dict
from tests.hpo.report.made_up import LR, SPACE, subject, trial

UNIT = {"low": 0.0, "high": 1.0}
KINDS = {"lr": LR, "momentum": UNIT, "width": {"low": 8, "high": 512, "log": True}, "layers": {"low": 1, "high": 6}}
KINDS |= {"units": {"low": 1, "high": 900}, "values": [1, True, 2, 4], "one": [3]}
KINDS |= {"optimizer": {"choices": ["adamw", "sgd"]}, "beta": {"values": [0.0, 0.9], "when": {"optimizer": ["sgd"]}}}
EVERY_KIND = space_from_dict(KINDS | {"epsilon": UNIT | {"when": {"optimizer": ["adamw"]}}})
ONE_MATTERS = space_from_dict({"strong": UNIT, "values": [1, 2, 3, 4], "choices": {"choices": ["a", "b"]}})


def drawn_at_random(space, count, score, seed=0, direction="maximize"):
    rng = default_rng(seed)
    points = [dict(space.draw(rng)) for _ in range(count)]
    return [trial(k, [score(point, rng)], at=point, direction=direction) for k, point in enumerate(points)]


def of_one_that_matters(count, seed=0):
    return drawn_at_random(ONE_MATTERS, count, lambda point, rng: point["strong"] + 0.1 * rng.normal(), seed)


def of_noise(count, seed=0):
    return drawn_at_random(ONE_MATTERS, count, lambda _, rng: rng.normal(), seed)


def found_in(trials, space=ONE_MATTERS, direction="maximize"):
    return importances(space, direction, trials, [t.score for t in trials])


@pytest.mark.parametrize(("count", "direction"), [(10, "maximize"), (25, "minimize"), (200, "maximize")])
def test_the_shares_are_optunas_for_every_kind_of_dimension_and_with_ties(count, direction):
    trials = drawn_at_random(EVERY_KIND, count, lambda _, rng: round(rng.random(), 1), direction=direction)
    found = found_in(trials, EVERY_KIND, direction).shares
    kinds = {d.key: distribution(d) for d in EVERY_KIND.dimensions if isinstance(d, Range)}
    others = [d for d in EVERY_KIND.dimensions if d.key not in kinds]
    kinds |= {d.key: CategoricalDistribution(range(len(d.values))) for d in others}
    study = optuna.create_study(direction=direction)
    for each in trials:
        # Optuna takes True for 1.
        ranges = {key for key in each.point if isinstance(EVERY_KIND[key], Range)}
        params = {key: v if key in ranges else rank_of(EVERY_KIND[key].values, v) for key, v in each.point.items()}
        there = {key: kinds[key] for key in params}
        study.add_trial(optuna.trial.create_trial(params=params, distributions=there, value=each.score))
    evaluator = PedAnovaImportanceEvaluator(target_quantile=max(0.1, 5 / count))
    assert found == pytest.approx(get_param_importances(study, evaluator=evaluator), rel=1e-9, abs=1e-12)
    assert list(found.values()) == sorted(found.values(), reverse=True)


@pytest.mark.parametrize("count", [20, 50])
def test_what_matters_much_is_told_apart_and_what_does_nothing_in_one_study_of_twenty(count):
    significant = [key for seed in range(20) for key in found_in(of_one_that_matters(count, seed)).significant]
    assert significant.count("strong") >= 19
    # Three standard deviations above 5 %, of 40 and of 60.
    assert len(significant) - significant.count("strong") <= 6
    assert len([key for seed in range(20) for key in found_in(of_noise(count, seed)).significant]) <= 8


@pytest.mark.parametrize(("count", "is_few"), [(29, True), (30, False)])
def test_with_few_trials_only_what_is_told_apart_is_shown_later_the_others_are_hollow(count, is_few):
    drawn = subject(of_one_that_matters(count), space=ONE_MATTERS)
    known, content = drawn.importances, draw_importance(drawn)
    assert known.significant == ["strong"]
    assert list(content.figure.data[0].y) == (["strong"] if is_few else list(known.shares))
    assert ("With so few trials" in content.caption) == is_few != ("hollow" in content.caption)


def test_where_chance_explains_all_one_sentence_says_so():
    trials = next(those for seed in range(9) if not found_in(those := of_noise(20, seed)).significant)
    sentence = "no hyperparameter is significant after 20 trials"
    assert draw_importance(subject(trials, space=ONE_MATTERS)) == missing(sentence)
    # The gain over the default is another question.
    content = draw_importance(replace(subject(trials, space=ONE_MATTERS), default=trials[1].point))
    assert (len(content.figure.data), sentence in content.caption) == (1, True)


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


@pytest.mark.parametrize(("direction", "sign"), [("maximize", 1), ("minimize", -1)])
def test_what_each_hyperparameter_adds_is_found_in_the_units_of_the_metric(direction, sign):
    winner = trial(300, [sign * 0.6], at={"lr": 0.01, "layers": 4, "optimizer": "adamw"}, direction=direction)
    trials = [*made(direction), winner]
    default = {"lr": 0.0001, "layers": 1, "optimizer": "sgd", "momentum": 0.0}
    found = shapley_values(SPACE, trials, default, winner)
    # A momentum exists beside sgd only, so its absence is part of the optimizer.
    expected = {"layers": 0.3, "optimizer": 0.2, "lr": 0.1}
    assert {key: part.gain for key, part in found.items()} == pytest.approx(expected, abs=0.04)
    assert all(part.low <= part.gain <= part.high for part in found.values())
    assert list(found) == list(expected)
    assert found == shapley_values(SPACE, trials, default, winner)


def test_the_parts_of_what_differs_sum_to_the_gain_and_what_cannot_be_said_is_not():
    trials = made("maximize", 40)
    winner, best = trials[0], max(trials, key=lambda t: t.score)
    found = shapley_values(SPACE, trials, winner.point, best)
    assert sum(part.gain for part in found.values()) == pytest.approx(best.score - winner.score)
    default = winner.point | {"layers": 5 - winner.point["layers"]}
    assert set(shapley_values(SPACE, trials, default, winner)) == {"layers"}
    assert "is the default" in shapley_values(SPACE, trials, winner.point, winner)["missing"]
    assert "outside of the space" in shapley_values(SPACE, trials, None, winner)["missing"]
    assert "10 complete trials" in shapley_values(SPACE, trials[:9], None, winner)["missing"]
    assert shapley_values(SPACE, trials, default, None) == {"missing": "there is no winner"}
    assert replace(subject(trials), no_default="x has no default").contributions == {"missing": "x has no default"}
