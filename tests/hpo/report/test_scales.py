"""What a report says of several scales, on trials whose optimum moves, or stays, by a known law."""

import json
import math
import random

import pytest
from pydantic import TypeAdapter

from hpo.config.goals import SCALE
from hpo.report.figures import draw_figures
from hpo.report.figures.style import Drawn
from hpo.report.pages.picture import draw_png
from hpo.report.part import Absent, is_missing
from hpo.report.sections.report import ReportJson
from hpo.report.sections.scale_table import scale_table, table_rows, table_text
from hpo.report.sections.scales import describe_scales
from hpo.report.subject import Subject
from hpo.report.transfer import ScaleResults
from hpo.report.write import write_checklist
from hpo.trials.goal import Goal, finished
from hpo.trials.space.reader import space_from_dict
from hpo.trials.trial import Outcome, TaskLayout, Trial
from tests.hpo.report.made_up import TOY_SPACE
from tests.studies import prepared, report_again, run_toy, shipped, toy_config

COSTS = (1.0, 4.0, 16.0, 64.0)


def searched(num_scales=4):
    return space_from_dict(
        {
            "lr": {"low": 1e-5, "high": 1.0, "log": True},
            "dropout": {"low": 0.0, "high": 0.5},
            "layers": [1, 2, 3, 4],
            "act": {"choices": ["gelu", "relu"]},
            "study": {"scale": {"values": list(range(1, num_scales + 1)), "default": 1}},
        }
    )


def climbed(factor, counts=(24, 12, 8, 6), seed=0, exponent=0.1, direction="minimize"):
    """Return what figures are drawn from: the best rate moves by a factor with each doubling of cost."""
    rng, goal = random.Random(seed), Goal({"score": direction}, target=len(counts))
    space, trials = searched(len(counts)), []
    for scale, count in enumerate(counts, start=1):
        cost = COSTS[scale - 1]
        best = 0.01 * factor ** math.log2(cost)
        for place in range(count):
            # The first one is the best there is.
            lr = best * (10 ** rng.uniform(-1.5, 1.5) if place else 1)
            at = {"lr": min(max(lr, 1e-5), 1.0), "dropout": rng.uniform(0, 0.5) if place else 0.1}
            at |= {"layers": rng.choice([1, 2, 3, 4]) if place else 3, "act": rng.choice(["gelu", "relu"])}
            away = 0.2 * math.log10(lr / best) ** 2 + 4 * (at["dropout"] - 0.1) ** 2 + 0.1 * (at["layers"] - 3) ** 2
            loss = 3 * cost**-exponent + away + 0.001 * rng.random()
            sign = 1 if direction == "minimize" else -1
            number = len(trials)
            ran = {0: Outcome({"score": sign * loss}, seconds=cost, started=10.0 * number, worker=1)}
            trials.append(finished(Trial(number, 0, at | {SCALE: scale}, cost=cost), ran, goal))
    changes = [{"width": 2**scale} for scale in range(len(counts))]
    scale_results = ScaleResults(space, changes, trials, COSTS[: len(counts)])
    at_target = [trial for trial in trials if trial.scale == len(counts)]
    winner = min(at_target, key=lambda trial: trial.loss, default=None)
    return Subject(space, goal, TaskLayout(), "ladder", trials, winner, workers=1, scale_results=scale_results)


@pytest.mark.parametrize("factor", [0.5, 0.71, 1.4])
def test_an_optimum_that_moves_is_reported_with_an_interval_that_holds_its_shift(factor):
    found = {each["key"]: each for each in describe_scales(climbed(factor).scale_results, "score")["transfer"]}
    shift = found["lr"]["shift"]
    low, high = shift["interval"]
    assert low <= factor <= high
    assert low < shift["value"] < high
    assert shift["moves"]
    assert shift["is_known"]
    for key, nothing in (("dropout", 0.0), ("layers", 0.0)):
        low, high = found[key]["shift"]["interval"]
        assert low <= nothing <= high
        assert not found[key]["shift"]["moves"]


def test_trials_that_diverged_say_nothing_of_where_the_best_lies():
    subject = climbed(0.5, (24, 12, 3, 3))
    diverged = {len(subject.trials) - 1, 38, 20}
    trials = [
        finished(t, {0: Outcome({"score": 1e4})}, subject.goal) if t.number in diverged else t for t in subject.trials
    ]
    scale_results = ScaleResults(subject.space, subject.scale_results.changes, trials, COSTS)
    shift = describe_scales(scale_results, "score")["transfer"][0]["shift"]
    assert shift["interval"][0] <= 0.5 <= shift["interval"][1]
    assert shift["moves"]


def test_an_optimum_that_stays_is_reported_to_stay():
    shift = describe_scales(climbed(1.0).scale_results, "score")["transfer"][0]["shift"]
    assert shift["is_known"]
    assert not shift["moves"]
    assert shift["interval"][0] <= 1 <= shift["interval"][1]


def test_of_what_does_not_matter_nobody_knows_whether_it_moves():
    subject = climbed(1.0)
    blind = {trial.number: random.Random(trial.number).random() for trial in subject.trials}
    trials = [finished(t, {0: Outcome({"score": 1 + blind[t.number]})}, subject.goal) for t in subject.trials]
    scale_results = ScaleResults(subject.space, subject.scale_results.changes, trials, COSTS)
    for each in describe_scales(scale_results, "score")["transfer"]:
        assert not each["shift"]["is_known"], each


def test_each_scale_has_its_own_best_and_its_share():
    subject = climbed(0.7)
    each = describe_scales(subject.scale_results, "score")["each"]
    for share in ("share_of_cost", "share_of_seconds"):
        assert math.fsum(one[share] for one in each) == pytest.approx(1)
    for one in each:
        those = [trial for trial in subject.trials if trial.point[SCALE] == one["number"]]
        best = min(those, key=lambda trial: trial.score)
        assert one["best"] == {"number": best.number, "score": best.score}
        assert (one["complete"], one["failed"]) == (len(those), 0)
        assert one["cost"] == COSTS[one["number"] - 1]
        # Seconds are as the costs here.
        assert one["share_of_cost"] == pytest.approx(one["share_of_seconds"])


def test_costs_are_those_of_the_trials_where_none_are_given():
    scale_results = climbed(1.0).scale_results
    assert ScaleResults(scale_results.space, scale_results.changes, scale_results.trials).costs == pytest.approx(COSTS)


@pytest.mark.parametrize("has_target", [True, False])
def test_a_power_law_predicts_the_loss_at_the_target(has_target):
    law = climbed(1.0, (24, 12, 8, 6 * has_target)).scale_results.law
    assert law.exponent == pytest.approx(0.1, abs=0.005)
    assert law.low < 3 * 64**-0.1 < law.high
    assert law.low < law.predicted < law.high


def test_a_power_law_is_refused_below_four_scales_and_of_what_is_no_loss():
    for subject, word in (
        (climbed(1.0, (12, 6, 3)), "needs at least 4 scales"),
        (climbed(1.0, (12, 6, 0, 3)), "needs at least 4 scales"),
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
    assert not isinstance(few.importances, Absent)
    assert SCALE not in few.importances.shares
    assert "at scale 3 of 4, below the target" in few.scored_text


@pytest.mark.parametrize("counts", [(1, 0, 0, 0), (0, 0), pytest.param((24, 12, 8, 6), marks=pytest.mark.slow)])
def test_figures_are_drawn_with_however_few_trials(counts):
    drawn = {each.name: each.content for each in draw_figures(climbed(0.7, counts))}
    for name in ("transfer", "loss-over-cost", "best-so-far", "parallel-coordinates"):
        content = drawn[name]
        assert isinstance(content, Drawn) == any(counts)
        if any(counts):
            assert draw_png(content.figure) is not None
    if counts[-1] and len(counts) == 4:
        # The winner stands where its own values are.
        stars = [trace for trace in drawn["transfer"].figure.data if trace.name == "winner"]
        subject = climbed(0.7, counts)
        assert [star.x[0] for star in stars[:2]] == [subject.winner.point["lr"], subject.winner.point["dropout"]]


def scaled(**study):
    space = {"toy": {key: TOY_SPACE["toy"][key] for key in ("lr", "layers", "nonlinearity")}}
    ladder = shipped("ladder") | {"first": shipped("evolutionary"), "trials": 10, "costs": [1, 2, 4]}
    tree = toy_config(ladder, space, 16)
    scales = [{"toy.width": 8}, {"toy.width": 16}, {"toy.width": 32}]
    return tree | {"study": tree["study"] | {"scales": scales} | study}


def test_a_report_has_it_in_numbers_and_in_words(tmp_path):
    run_toy(tmp_path / "toy", scaled())
    report = json.loads((tmp_path / "toy" / "report.json").read_text())
    TypeAdapter(ReportJson).validate_python(report)
    each = report["scales"]["each"]
    assert sum(one["complete"] + one["failed"] for one in each) == 16
    assert report["winner"]["number"] == each[-1]["best"]["number"]
    # Ten are planned at the first scale.
    assert all(one["trial"] >= 10 for one in report["best_so_far"]["trials"])
    assert not any(end["key"] == SCALE for end in report["at_the_end"])
    assert "scales.each" in next(field["keys"] for field in report["fields"] if field["number"] == 11)
    text = (tmp_path / "toy" / "report.md").read_text()
    assert "| `study.scale` | values | 1, 2, 3 |" in text
    assert text.index("## Winner") < text.index("## Scales") < text.index("## Cautions")
    assert "could not be made" not in text
    for said in ("toy.width=32", "Does it transfer?", "Loss over cost"):
        assert said in text
    checklist = write_checklist(prepared(tmp_path / "toy", scaled()), report).read_text()
    assert f"{each[-1]['complete']} at toy.width=32" in checklist


@pytest.mark.parametrize(
    ("losses", "moves", "words"),
    [
        ({"a": [1.0, 2.0, 3.0], "b": [2.0, 3.0, 4.0]}, 0, "is the same at every scale"),
        ({"a": [1.0, 2.0, 3.0], "b": [1.5, 1.2, 1.0]}, 2, "moves by 2 places of its list; that of the smallest scale"),
        ({"a": [1.0, 2.0, 3.0], "b": []}, 0, "is the same at every scale, as far as there are scores"),
        (
            {"a": [3.0, 2.0, 1.0], "b": [2.0, 1.5]},
            1,
            "that of the smallest scale failed, or was not tried, at 1 of the o",
        ),
        ({"a": [], "b": [1.0]}, 0, "as far as there are scores"),
        ({"a": [], "b": []}, None, "no value of rate has a score"),
    ],
)
def test_a_table_of_values_and_scales_says_what_moves(losses, moves, words):
    space = space_from_dict({"rate": ["low", "mid", "high"], "study": {"scale": {"values": [1, 2], "default": 1}}})
    trials = []
    for scale, of in enumerate(losses.values(), start=1):
        for value, loss in zip(["low", "mid", "high"], of, strict=False):
            point, ran = {"rate": value, SCALE: scale}, {0: Outcome({"score": loss}, seconds=1.0)}
            trials.append(finished(Trial(len(trials), 0, point), ran, Goal({"score": "minimize"}, target=2)))
    scale_results = ScaleResults(space, [{"width": 8}, {"width": 16}], trials, is_grid=True)
    table = scale_table(scale_results, "score")
    assert table["moves"] == moves
    assert words in table_text(table, "score")
    assert [sum(score is not None for score in row) for row in table["scores"]] == [len(of) for of in losses.values()]
    assert len(table_rows(table, scale_results.changes, "{} *").rows) == 2


@pytest.mark.parametrize(
    ("seeds", "words"),
    [
        ((0.0,), "one training each, which may be chance; set study.repeats=3"),
        ((-0.02, 0.0, 0.02), "(standard error 0.023)"),
        ((-0.2, 0.0, 0.2), "(standard error 0.23, which may be chance)"),
    ],
)
def test_a_table_says_whether_what_the_best_value_costs_may_be_chance(seeds, words):
    space = space_from_dict({"rate": ["low", "mid"], "study": {"scale": {"values": [1, 2], "default": 1}}})
    trials = []
    for scale, of in enumerate(({"low": 1.0, "mid": 2.0}, {"low": 1.3, "mid": 1.0}), start=1):
        for value, loss in of.items():
            # One value suits a seed where the other does not.
            ran = {k: Outcome({"score": loss + (seed if value == "low" else -seed)}) for k, seed in enumerate(seeds)}
            point = {"rate": value, SCALE: scale}
            trials.append(finished(Trial(len(trials), 0, point), ran, Goal({"score": "minimize"}, target=2)))
    scale_results = ScaleResults(space, [{"width": 8}, {"width": 16}], trials, is_grid=True)
    assert words in table_text(scale_table(scale_results, "score"), "score")


@pytest.mark.slow
def test_the_page_has_it_too(tmp_path):
    run_toy(tmp_path / "toy", scaled())
    report_again(tmp_path / "toy", scaled())
    page = (tmp_path / "toy" / "report.html").read_text()
    assert "could not be made" not in page.partition("<script>")[0]
    assert page.index("Does it transfer?") < page.index("<h2>Best so far")
    for name in ("transfer", "loss-over-cost"):
        assert f"id='{name}-data'" in page


def test_the_winner_is_compared_with_the_default_configuration_at_the_target(tmp_path):
    tree = scaled() | {
        "strategy": shipped("grid"),
        "space": {"toy": {"lr": [0.001, 0.01, 0.1], "layers": [1, 2, 3]}},
    }
    tree["study"] |= {"trials": 27}
    rows = {int(row["number"]): row for row in run_toy(tmp_path / "toy", tree)}
    report = json.loads((tmp_path / "toy" / "report.json").read_text())
    TypeAdapter(ReportJson).validate_python(report)
    default, winner = (rows[part["number"]] for part in (report["baselines"]["default"], report["winner"]))
    assert default["study.scale"] == winner["study.scale"] == "3"
    assert "expected" not in report["scales"]
    # That is of one hyperparameter.
    assert "table" not in report["scales"]


def test_without_scales_there_is_nothing_of_it(tmp_path):
    run_toy(tmp_path / "toy", toy_config(trials=3))
    report = json.loads((tmp_path / "toy" / "report.json").read_text())
    assert "scales" not in report
    assert not any(key.startswith("scales") for field in report["fields"] for key in field["keys"])
    assert "## Scales" not in (tmp_path / "toy" / "report.md").read_text()


def test_a_budget_that_ends_before_the_target_is_told(tmp_path):
    run_toy(tmp_path / "toy", scaled(trials=6))
    text = (tmp_path / "toy" / "report.md").read_text()
    report = json.loads((tmp_path / "toy" / "report.json").read_text())
    TypeAdapter(ReportJson).validate_python(report)
    assert "**No trial is complete at the target**" in text
    assert "**Expected best point at the target**, from the scales below it: toy.lr=" in text
    assert report["scales"]["expected"].keys() == {"toy.lr", "toy.layers", "toy.nonlinearity"}
    assert "could not be made" not in text
    assert is_missing(report["scales"]["law"])
