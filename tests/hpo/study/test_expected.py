"""What noise allows to say: the winner's expected score, the overlap of a front, the rule of one standard error."""

import json
import statistics
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from hpo.report.sections.expected_score import describe_expected_score
from hpo.study.results.after_search import fresh_indices
from hpo.study.results.choosing import as_good_as, cheapest
from hpo.study.results.expected import expected_of
from hpo.study.winner.overlap import overlapping
from hpo.trials.goal import Goal, Limit, finished, goal_of
from hpo.trials.ranking import front
from hpo.trials.record.record import memory_record
from hpo.trials.space.reader import space_from_dict
from hpo.trials.trial import Outcome, TaskLayout, Trial
from tests.hpo.cli.commands import hpo
from tests.hpo.commands.searched import found
from tests.studies import Notes, StudyFolder, StudyRun, config_from_dict, toy_config


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
    record, space = memory_record(goal, layout, trials), space_from_dict({"x": {"low": 0.0, "high": 1.0}})
    run = StudyRun(StudyFolder(Path("nowhere")), config, space, record, None)
    for number, row in fresh:
        for index, value in zip(fresh_indices(config.study, layout), row, strict=True):
            Notes(record).write_finalist_outcome(number, index, outcome(value))
    return run


def expected_score(scores, **given):
    return expected_of(run_of(scores, **given)).score("score")


def drawn(rng, trials=16, folds=3, spread=0.05, of_folds=0.03):
    return rng.normal(0, of_folds, folds) + rng.normal(0, spread, (trials, folds))


def test_the_best_of_three_equal_finalists_is_too_good_by_85_hundredths_of_a_standard_error():
    """The mean of the largest of three normal values (the search has many trials, so that the noise is known)."""
    excess = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        scores = drawn(rng, trials=40, of_folds=0.0)
        fresh = [(int(number), rng.normal(0, 0.05, 3)) for number in np.argsort(-scores.mean(axis=1))[:3]]
        expected = expected_of(run := run_of(scores, fresh=fresh, finalists=3, finalist_repeats=1)).score("score")
        excess.append(run.fresh_winner.score - expected.value)
    assert (expected.best_of, statistics.fmean(excess) / (0.05 / 3**0.5)) == (3, pytest.approx(0.85, abs=0.2))


def test_for_equal_trials_it_is_their_value_while_the_best_score_is_too_good():
    held, errors, optimism = 0, [], []
    for seed in range(60):
        expected = expected_of(run := run_of(drawn(np.random.default_rng(seed)))).score("score")
        held += expected.low <= 0 <= expected.high
        errors.append(expected.value)
        optimism.append(run.winner.score - expected.value)
        assert expected.best_of == 16
    assert held >= 55
    assert abs(statistics.fmean(errors)) < 0.02 < 0.035 < statistics.fmean(optimism)


def test_a_trial_that_stands_out_or_has_no_noise_keeps_its_score_and_a_single_one_students_interval():
    scores = drawn(np.random.default_rng(1), spread=0.001)
    scores[5] += 1.0
    expected = expected_of(run := run_of(scores)).score("score")
    assert (run.winner.number, expected.value) == (5, pytest.approx(run.winner.score, abs=1e-4))
    expected = expected_score([[0.5] * 3, [0.7] * 3])
    assert (expected.value, expected.low, expected.high) == pytest.approx((0.7, 0.7, 0.7), abs=1e-12)
    expected = expected_score([[0.5, 0.6, 0.8]])
    interval = stats.ttest_1samp([0.5, 0.6, 0.8], 0.0).confidence_interval(0.95)
    assert expected.value == pytest.approx(1.9 / 3)
    assert (expected.low, expected.high) == pytest.approx((interval.low, interval.high), rel=0.1)


def test_one_training_a_trial_gives_an_expectation_only_for_a_share():
    run = run_of([[0.8], [0.9]], folds=1)
    assert expected_of(run) is None
    described = SimpleNamespace(method={"shares": ["score"]}, parts={"validation": {"size": 100}})
    expected = expected_of(replace(run, described=described)).score("score")
    # The standard error of nine in ten of a hundred examples is 0.03.
    assert 0.8 < expected.low < expected.value < 0.9 < expected.high < 1
    measuring = replace(run_of([[[0.8, 40]], [[0.9, 42]]], folds=1, measured=["memory"]), described=described)
    assert expected_of(measuring).score("score") == expected
    # Fresh seeds have a noise of their own.
    fresh = [(0, [0.8, 0.82]), (1, [0.9, 0.91])]
    run = run_of([[0.8], [0.9]], folds=1, fresh=fresh, finalists=2, finalist_repeats=2)
    expected = expected_of(replace(run, described=described)).score("score")
    assert expected.low <= expected.value <= expected.high
    # The second finalist is not trained yet.
    reason = describe_expected_score(None, run_of([[0.8], [0.9]], folds=1, fresh=fresh[:1], finalists=2))
    assert reason == {"missing": "not all finalists are trained on fresh seeds yet"}


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_the_direction_only_turns_it(direction):
    scores, sign = drawn(np.random.default_rng(2)), 1 if direction == "maximize" else -1
    one, other = expected_score(scores), expected_score(sign * scores, direction=direction)
    turned = [other.value, *sorted((sign * other.low, sign * other.high))]
    assert turned == pytest.approx([sign * one.value, one.low, one.high])


def test_several_metrics_are_drawn_together_and_chosen_by_the_studys_rule():
    rng = np.random.default_rng(4)
    quality, sizes = drawn(rng, trials=20, of_folds=0.0), np.repeat(np.arange(20.0)[:, None], 3, axis=1)
    study = {"metrics": {"score": "maximize", "size": "minimize"}, "choose": {"score": 1.0}}
    both = expected_of(run_of(np.stack([quality, sizes], axis=2), **study))
    assert both.score("score").value == pytest.approx(expected_score(quality).value, abs=0.02)
    assert both.score("size").value == both.score("size").low == both.score("size").high


def test_the_winner_is_a_candidate_though_it_is_far_from_the_best_score():
    values = np.repeat([[0.9, 1.0, 1.0]] * 6 + [[0.1, 0.0, 1.0], [0.1, -0.1, 9.0]], 2, axis=0).reshape(8, 2, 3)
    study = {"metrics": {"score": "maximize", "size": "minimize"}, "choose": {"size": 1.0}, "limits": {"seconds": 2.0}}
    run = run_of(values, folds=2, **study)
    assert (run.winner.number, expected_of(run).score("size").value) == (6, 0.0)


def test_trials_beyond_a_limit_are_no_rivals():
    scores = drawn(np.random.default_rng(5), trials=20, spread=0.001)
    scores[10:] += 1.0
    seconds = np.where(np.arange(20) < 10, 1.0, 9.0)[:, None].repeat(3, axis=1)
    run = run_of(np.stack([scores, seconds], axis=2), limits={"seconds": 2.0})
    assert run.winner.number < 10
    assert expected_of(run).score("score").value == pytest.approx(run.winner.score, abs=0.01)


def test_the_gain_over_another_trial_has_no_fold_effects_and_is_less_than_the_scores_say():
    run = run_of(drawn(np.random.default_rng(6), of_folds=5.0))
    other = next(trial for trial in run.history if trial.number != run.winner.number)
    gain = expected_of(run).gain_over(other)
    assert gain.value < run.winner.score - other.score
    assert gain.high - gain.low < 0.5
    shorter = run_of(drawn(np.random.default_rng(6)), amounts=[3] * 15 + [1])
    assert expected_of(shorter).gain_over(shorter.history[15]) is None, "trained less far"
    assert expected_of(run).gain_over(run.winner) is None, "it is the winner itself"


def test_trials_that_the_same_seeds_chose_in_another_study_have_none_without_fresh_seeds():
    scores = drawn(np.random.default_rng(7))
    run = run_of(scores, extends={"study": "parent", "changes": {}, "trials": []})
    assert "by their scores on the same seeds" in describe_expected_score(expected_of(run), run)["missing"]


def test_if_few_trials_were_trained_as_far_the_noise_is_that_of_all():
    scores = drawn(np.random.default_rng(3), trials=12)
    expected = expected_score(scores, amounts=[1] * 9 + [3] * 3)
    assert (expected.of_all, expected.best_of, expected_score(scores).of_all) == (True, 3, False)


def test_every_command_and_page_prints_the_same_expectation(capsys):
    def by_seed(config, trial):
        return config["x"] / 100 + trial.seed % 97 / 1000

    study = found(by_seed, space={"x": [*range(6)]}, name="said", trials=6, settings={"study.repeats": 3})
    expected = study.best.expected
    reported = json.loads((study.folder / "report.json").read_text())["winner"]["expected"]
    assert {name: reported[name] for name in ("value", "low", "high")}.items() <= vars(expected).items()
    assert reported["low"] < reported["value"] < study.best.score
    for says in (str(study), hpo(capsys, "show", "said")[1], (study.folder / "report.md").read_text()):
        assert f"score {expected.value:.4f} expected (95 % {expected.low:.4f} to {expected.high:.4f}); " in says
    (listed,) = json.loads(hpo(capsys, "list", "--json")[1])["studies"]
    assert listed["best"]["expected"] == vars(expected)


TWO = Goal({"accuracy": "maximize", "size": "minimize"}, (Limit("size", 9),))


def trial(number, accuracies, size=1, **of_trial):
    outcomes = {index: Outcome({"accuracy": each, "size": size}) for index, each in enumerate(accuracies)}
    return finished(Trial(number, number, {"x": number}, **of_trial), outcomes, TWO)


def overlap(*trials):
    return overlapping(front(trials), trials, TWO)


def test_members_overlap_where_their_intervals_do_in_every_metric():
    # Sizes are counted, without spread: only equal ones overlap.
    best, as_large, small = trial(0, (0.7, 0.9), 5), trial(1, (0.7, 0.9), 5), trial(2, (0.69, 0.89), 4)
    assert overlap(best, as_large, small)[0] == {0: [1], 1: [0], 2: []}
    single = overlap(trial(0, (0.9,), 5), trial(1, (0.8,), 4), trial(2, (0.7,), 6))
    assert single == ({}, []), "one training has no interval"


def test_a_dominated_trial_may_belong_to_the_front_if_no_member_is_better_with_certainty():
    member, noisy, worse = trial(0, (0.89, 0.91), 5), trial(1, (0.8, 0.95), 6), trial(2, (0.4, 0.41), 6)
    assert overlap(member, noisy, worse)[1] == [1]
    further, beyond = trial(0, (0.89, 0.91), 5, amount=4), trial(1, (0.8, 0.95), 10, amount=4)
    assert overlap(further, beyond, trial(2, (0.8, 0.95), 6, amount=2))[1] == []


def test_within_one_standard_error_are_trials_that_were_trained_as_far_and_the_cheapest_of_them_wins():
    best, near, far = trial(0, (0.8, 0.9, 1.0)), trial(1, (0.85, 0.85, 0.86)), trial(2, (0.8, 0.8, 0.8))
    assert as_good_as(best, [best, near, far, trial(3, (0.9, 0.9, 0.9), amount=1)], "accuracy") == [near]
    assert as_good_as(trial(0, (0.9,)), [trial(1, (0.9,))], "accuracy") == [], "of one training there is no error"
    dear, cheap, same = trial(1, (0.9, 0.9), cost=3.0), trial(2, (0.8, 0.8), cost=1.0), trial(3, (0.85, 0.85), cost=1.0)
    assert cheapest([dear, cheap]) is cheap
    assert cheapest([cheap, same]) is same, "of equal cost the better score"
