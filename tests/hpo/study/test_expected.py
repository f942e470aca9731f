"""What the winner is expected to score: right on average, honest in its interval, the same wherever it is read."""

import json
import statistics
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from hpo.config.study_config import config_from_dict
from hpo.study.files.folder import StudyFolder
from hpo.study.notes import Notes
from hpo.study.results.after_search import fresh_indices
from hpo.study.results.expected import bounded, expected_of
from hpo.study.results.noise import noise_of
from hpo.study.results.optimism import true_values
from hpo.study.results.run import StudyRun
from hpo.trials.goal import finished, goal_of
from hpo.trials.record.record import memory_record
from hpo.trials.space.reader import space_from_dict
from hpo.trials.trial import Outcome, TaskLayout, Trial
from tests.hpo.cli.commands import hpo
from tests.hpo.commands.searched import found
from tests.studies import toy_config

SPACE = {"x": {"low": 0.0, "high": 1.0}}


def run_of(scores, folds=3, amounts=None, fresh=(), **study):
    """Return a study whose trials have these scores, (trials, tasks) or with metrics (trials, tasks, metrics)."""
    values = np.asarray(scores, dtype=float)
    tree = toy_config(trials=len(values))
    tree["study"] |= {"repeats": values.shape[1] // folds, "direction": "maximize"} | study
    config = config_from_dict(tree)
    goal, layout = goal_of(config.study), TaskLayout(folds, config.study.repeats)

    def outcome(value):
        return Outcome(dict(zip(goal.names, map(float, np.atleast_1d(value)), strict=True)), units=1.0)

    trials = []
    for number, row in enumerate(values):
        trial = Trial(number, 0, {"x": number / len(values)}, amount=amounts[number] if amounts else None)
        trials.append(finished(trial, {index: outcome(value) for index, value in enumerate(row)}, goal))
    record = memory_record(goal, layout, trials)
    run = StudyRun(StudyFolder(Path("nowhere")), config, space_from_dict(SPACE, {}, None), record, None)
    for number, row in fresh:
        for index, value in zip(fresh_indices(config.study, layout), row, strict=True):
            Notes(record).write_finalist_outcome(number, index, outcome(value))
    return replace(run)


def drawn(rng, trials=16, folds=3, spread=0.05, of_folds=0.03):
    return rng.normal(0, of_folds, folds) + rng.normal(0, spread, (trials, folds))


def test_of_equal_trials_it_is_what_they_are_worth_where_the_best_score_is_not():
    """Over 60 searches whose true scores are all 0."""
    held, errors, optimism = 0, [], []
    for seed in range(60):
        expected = expected_of(run := run_of(drawn(np.random.default_rng(seed)))).score("score")
        held += expected.low <= 0 <= expected.high
        errors.append(expected.value)
        optimism.append(run.winner.score - expected.value)
        assert expected.best_of == 16
    assert held >= 55
    assert abs(statistics.fmean(errors)) < 0.02 < 0.035 < statistics.fmean(optimism)


def test_a_trial_that_stands_out_keeps_its_score():
    scores = drawn(np.random.default_rng(1), spread=0.001)
    scores[5] += 1.0
    expected = expected_of(run := run_of(scores)).score("score")
    assert run.winner.number == 5
    assert expected.value == pytest.approx(run.winner.score, abs=1e-4)


def test_without_noise_it_is_the_score():
    expected = expected_of(run_of([[0.5] * 3, [0.7] * 3])).score("score")
    assert (expected.value, expected.low, expected.high) == pytest.approx((0.7, 0.7, 0.7), abs=1e-12)


def test_of_a_single_trial_it_is_the_score_with_the_interval_of_student():
    values = [0.5, 0.6, 0.8]
    expected = expected_of(run_of([values])).score("score")
    interval = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    assert expected.value == pytest.approx(np.mean(values))
    assert (expected.low, expected.high) == pytest.approx((interval.low, interval.high), rel=0.1)


def test_one_training_a_trial_says_nothing_but_of_a_share():
    run = run_of([[0.8], [0.9]], folds=1)
    assert expected_of(run) is None
    described = SimpleNamespace(method={"shares": ["score"]}, parts={"validation": {"size": 100}})
    expected = expected_of(replace(run, described=described)).score("score")
    # A hundred examples of which nine in ten are right: its standard error is .03.
    assert 0.8 < expected.low < expected.value < 0.9 < expected.high < 1


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_the_direction_only_turns_it(direction):
    scores = drawn(np.random.default_rng(2))
    one = expected_of(run_of(scores)).score("score")
    sign = 1 if direction == "maximize" else -1
    other = expected_of(run_of(sign * scores, direction=direction)).score("score")
    assert [other.value, *sorted((sign * other.low, sign * other.high))] == pytest.approx(
        [sign * one.value, one.low, one.high]
    )


def test_of_few_that_were_trained_as_far_the_noise_is_that_of_all():
    scores = drawn(np.random.default_rng(3), trials=12)
    amounts = [1] * 9 + [3] * 3
    expected = expected_of(run_of(scores, amounts=amounts)).score("score")
    assert (expected.of_all, expected.best_of) == (True, 3)
    assert not expected_of(run_of(scores)).score("score").of_all


def test_the_best_of_three_equal_finalists_is_too_good_by_85_hundredths_of_a_standard_error():
    """The mean of the largest of three normal values (the search has many trials, so that the noise is known)."""
    excess = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        scores = drawn(rng, trials=40, of_folds=0.0)
        best = np.argsort(-scores.mean(axis=1))[:3]
        fresh = [(int(number), rng.normal(0, 0.05, 3)) for number in best]
        run = run_of(scores, fresh=fresh, finalists=3, finalist_repeats=1)
        expected = expected_of(run).score("score")
        assert expected.best_of == 3
        excess.append(run.fresh_winner.score - expected.value)
    assert statistics.fmean(excess) / (0.05 / 3**0.5) == pytest.approx(0.85, abs=0.2)


def test_several_metrics_are_drawn_together_and_chosen_by_the_rule_of_the_study():
    rng = np.random.default_rng(4)
    quality, sizes = drawn(rng, trials=20, of_folds=0.0), np.repeat(np.arange(20.0)[:, None], 3, axis=1)
    study = {"metrics": {"score": "maximize", "size": "minimize"}, "choose": {"score": 1.0}}
    both = expected_of(run_of(np.stack([quality, sizes], axis=2), **study))
    alone = expected_of(run_of(quality))
    # By weights of the score alone it is the best score, and the number of parameters has no noise.
    assert both.score("score").value == pytest.approx(alone.score("score").value, abs=0.02)
    size = both.score("size")
    assert size.value == size.low == size.high


def test_beyond_a_limit_no_trial_is_a_rival():
    """Half of the trials are better and not allowed: the best of the others was not chosen from these."""
    scores = drawn(np.random.default_rng(5), trials=20, spread=0.001)
    scores[10:] += 1.0
    seconds = np.where(np.arange(20) < 10, 1.0, 9.0)[:, None].repeat(3, axis=1)
    run = run_of(np.stack([scores, seconds], axis=2), limits={"seconds": 2.0})
    assert run.winner.number < 10
    assert expected_of(run).score("score").value == pytest.approx(run.winner.score, abs=0.01)


def test_the_gain_over_another_trial_has_no_fold_effects_and_less_than_the_scores_say():
    scores = drawn(np.random.default_rng(6), of_folds=5.0)
    run = run_of(scores)
    other = next(trial for trial in run.history if trial.number != run.winner.number)
    gain = expected_of(run).gain_over(other)
    assert gain.value < run.winner.score - other.score
    assert gain.high - gain.low < 0.5
    shorter = run_of(scores, amounts=[3] * 15 + [1])
    assert expected_of(shorter).gain_over(shorter.history[15]) is None


def test_variances_of_alike_trials_become_alike():
    rng = np.random.default_rng(7)
    scores = rng.normal(0, 0.1, (200, 3))
    noise, own = noise_of(scores, are_folds=True), scores.var(axis=1, ddof=1)
    assert np.log(noise.variances).std() < np.log(own).std() / 3
    assert noise.variances.mean() == pytest.approx(0.01, rel=0.4)
    assert (noise.freedom > 2).all()
    rising = np.linspace(0, 10, 200)[:, None] + rng.normal(0, 1, (200, 3)) * np.geomspace(0.01, 1, 200)[:, None]
    growing = noise_of(rising, are_folds=True)
    assert growing.variances[:20].mean() < growing.variances[-20:].mean() / 100


def test_true_values_lie_nearer_together_than_the_means_with_noise():
    means = np.random.default_rng(8).normal(0, 1, 100)
    assert true_values(means, np.full(100, 1.0)).std() < 0.5 * means.std()
    assert true_values(means, np.full(100, 1e-3)) == pytest.approx(means, abs=0.01)


@pytest.mark.parametrize("value", [0.02, 0.5, 0.97])
@pytest.mark.parametrize("half", [0.0, 0.01, 0.1])
def test_an_interval_within_bounds_holds_the_value_and_keeps_them(value, half):
    low, high = bounded(value, half, (0.0, 1.0))
    assert 0 <= low <= value <= high <= 1
    assert low <= max(value - half, 0)
    assert high >= min(value + half, 1)
    assert bounded(value, half, (None, None)) == (value - half, value + half)
    assert bounded(value, half, (0.0, None)) == (max(value - half, 0), value + half)


def by_seed(config, trial):
    return config["x"] / 100 + trial.seed % 97 / 1000


def test_it_is_worked_out_once_and_said_everywhere(capsys):
    study = found(by_seed, space={"x": [*range(6)]}, name="said", trials=6, settings={"study.repeats": 3})
    expected = study.best.expected
    reported = json.loads((study.folder / "report.json").read_text())["winner"]["expected"]
    assert (expected.value, expected.low, expected.high) == (reported["value"], reported["low"], reported["high"])
    assert reported["low"] < reported["value"] < study.best.score
    words = f"score {expected.value:.4f} expected (95 % {expected.low:.4f} to {expected.high:.4f}); "
    for says in (str(study), hpo(capsys, "show", "said")[1], (study.folder / "report.md").read_text()):
        assert words in says
    (listed,) = json.loads(hpo(capsys, "list", "--json")[1])["studies"]
    assert listed["best"]["expected"] == vars(expected)
