"""What a report says of several scales, on trials whose optimum moves, or stays, by a known law."""

import math
import random
from dataclasses import replace

import pytest
from pydantic import TypeAdapter

from hpo.config.goals import SCALE
from hpo.report.part import is_missing
from hpo.report.sections.report import ReportJson
from hpo.report.sections.scale_table import scale_table, table_text
from hpo.report.sections.scales import describe_scales
from hpo.report.transfer import ScaleResults
from hpo.report.write import write_checklist
from hpo.trials.goal import Goal, finished
from hpo.trials.space.reader import space_from_dict
from hpo.trials.trial import Outcome, Trial
from tests.hpo.report.made_up import COSTS, TOY_SPACE, climbed, reported
from tests.studies import prepared, shipped, toy_config


@pytest.mark.parametrize("factor", [0.5, 1.0, 1.4])
def test_whether_an_optimum_moves_is_reported_with_an_interval_that_holds_its_shift(factor):
    found = {each["key"]: each["shift"] for each in describe_scales(climbed(factor).scale_results, "score")["transfer"]}
    assert found["lr"]["is_known"]
    for key, moved, stays in (("lr", factor, 1.0), ("dropout", 0.0, 0.0), ("layers", 0.0, 0.0)):
        low, high = found[key]["interval"]
        assert low <= moved <= high
        assert found[key]["moves"] == (moved != stays)


def scored_again(subject, change):
    """Describe how the best moves where `change` makes the losses from the numbers and losses of the trials."""
    scored = [(trial, {0: Outcome({"score": change(trial.number, trial.loss)})}) for trial in subject.trials]
    trials = [finished(trial, ran, subject.goal) for trial, ran in scored]
    results = ScaleResults(subject.space, subject.scale_results.changes, trials, COSTS)
    return describe_scales(results, "score")["transfer"]


def test_trials_that_diverged_say_nothing_of_where_the_best_is():
    subject = climbed(0.5, (24, 12, 3, 3))
    diverged = {len(subject.trials) - 1, 38, 20}
    shift = scored_again(subject, lambda number, loss: 1e4 if number in diverged else loss)[0]["shift"]
    assert shift["interval"][0] <= 0.5 <= shift["interval"][1]
    assert shift["moves"]


def test_of_what_does_not_matter_nobody_knows_whether_it_moves():
    for each in scored_again(climbed(1.0), lambda number, _: 1 + random.Random(number).random()):
        assert not each["shift"]["is_known"], each


def test_each_scale_has_its_own_best_and_its_share():
    subject = climbed(0.7)
    found, each = subject.scale_results, describe_scales(subject.scale_results, "score")["each"]
    assert math.fsum(one["share_of_cost"] for one in each) == pytest.approx(1)
    for one, cost in zip(each, COSTS, strict=True):
        those = [trial for trial in subject.trials if trial.scale == one["number"]]
        best = min(those, key=lambda trial: trial.score)
        assert one["best"] == {"number": best.number, "score": best.score}
        assert (one["complete"], one["failed"], one["cost"]) == (len(those), 0, cost)
        # Seconds are as the costs here.
        assert one["share_of_cost"] == pytest.approx(one["share_of_seconds"])
    # Costs are those of the trials where none are given.
    imported = [replace(t, number=-1 - t.number, outcomes={}, cost=0.0) for t in climbed(0.7, seed=1).trials]
    assert ScaleResults(found.space, found.changes, [*imported, *found.trials]).costs == pytest.approx(COSTS)


@pytest.mark.parametrize("has_target", [True, False])
def test_a_power_law_predicts_the_loss_at_the_target(has_target):
    law = climbed(1.0, (24, 12, 8, 6 * has_target)).scale_results.law
    assert law.exponent == pytest.approx(0.1, abs=0.005)
    assert law.low < 3 * 64**-0.1 < law.high
    assert law.low < law.predicted < law.high


def test_a_power_law_is_refused_below_four_scales_and_of_what_is_no_loss():
    for subject, word in (
        (climbed(1.0, (12, 6, 3)), "needs at least 4 scales"),
        (climbed(1.0, (12, 6, 0, 3)), "complete trials at 3 or more scales below the target"),
        (climbed(1.0, direction="maximize"), "above 0 and minimized"),
    ):
        assert subject.scale_results.law is None
        assert word in describe_scales(subject.scale_results, "score")["law"]["missing"]


def test_what_compares_trials_has_those_of_the_largest_scale_only():
    subject = climbed(0.7)
    assert {trial.scale for trial in subject.scored} == {4}
    assert "at scale 4 of 4, the target" in subject.scored_text
    assert SCALE not in subject.keys
    few = climbed(0.7, (12, 0, 11, 0))
    assert not is_missing(few.importances)
    assert SCALE not in few.importances.shares
    assert "at scale 3 of 4, below the target" in few.scored_text


def scaled(trials=16):
    ladder = shipped("ladder") | {"first": shipped("evolutionary"), "trials": 10, "costs": [1, 2, 4]}
    tree = toy_config(ladder, {"toy": {key: TOY_SPACE["toy"][key] for key in ("lr", "layers", "nonlinearity")}}, trials)
    return tree | {"study": tree["study"] | {"scales": [{"toy.width": 8}, {"toy.width": 16}, {"toy.width": 32}]}}


def test_a_report_has_it_in_numbers_and_in_words(tmp_path):
    report, text, page = reported(tmp_path / "toy", scaled())
    TypeAdapter(ReportJson).validate_python(report)
    each = report["scales"]["each"]
    assert sum(one["complete"] + one["failed"] for one in each) == 16
    assert report["winner"]["number"] == each[-1]["best"]["number"]
    # Ten are planned at the first scale.
    assert all(one["trial"] >= 10 for one in report["best_so_far"]["trials"])
    assert not any(end["key"] == SCALE for end in report["at_the_end"])
    assert "could not be made" not in text + page
    for words in ("toy.width=32", "Do the best values transfer?", "Loss over cost"):
        assert words in text
    assert all(f"id='{name}-data'" in page for name in ("transfer", "loss-over-cost"))
    checklist = write_checklist(prepared(tmp_path / "toy", scaled()), report).read_text()
    assert f"{each[-1]['complete']} at toy.width=32" in checklist


def test_a_budget_that_ends_before_the_target_is_said(tmp_path):
    report, text, _ = reported(tmp_path / "toy", scaled(6))
    assert "**No trial is complete at the target**" in text
    assert "**Expected best point at the target**, from the scales below it: toy.lr=" in text
    assert "could not be made" not in text
    assert report["scales"]["expected"].keys() == {"toy.lr", "toy.layers", "toy.nonlinearity"}


ONE, OTHER = [[1.0], [2.0], [3.0]], [[1.5], [1.2], [1.0]]
# One value suits a seed where the other does not.
NOISY = [[[low + s, low, low - s], [mid - s, mid, mid + s]] for s, low, mid in ((0.2, 1.0, 2.0), (0.2, 1.3, 1.0))]


@pytest.mark.parametrize(("by_scale", "words"), [
    ([ONE, ONE], "is the same at every scale"),
    ([ONE, OTHER], "moves by up to 2 places in its list of values; if other scales used the smallest scale's best"),
    ([ONE, OTHER], "one training per trial, this difference may be chance: set study.repeats=3"),
    (NOISY, "(standard error 0.23; the difference may be chance)"),
    ([ONE[::-1], [[2.0], [1.5]]], "the smallest scale's best value failed, or was not tried, at 1"),
    ([[], []], "no value of rate has a score"),
])  # fmt: skip
def test_a_table_of_values_and_scales_says_what_moves_and_whether_it_may_be_chance(by_scale, words):
    values, trials, goal = ["low", "mid", "high"], [], Goal({"score": "minimize"}, target=2)
    for scale, losses in enumerate(by_scale, start=1):
        for value, of_seeds in zip(values, losses, strict=False):
            ran = {seed: Outcome({"score": loss}, seconds=1.0) for seed, loss in enumerate(of_seeds)}
            trials.append(finished(Trial(len(trials), 0, {"rate": value, SCALE: scale}), ran, goal))
    space = space_from_dict({"rate": values, "study": {"scale": {"values": [1, 2], "default": 1}}})
    results = ScaleResults(space, [{"width": 8}, {"width": 16}], trials, is_grid=True)
    assert words in table_text(scale_table(results, "score"), "score")
