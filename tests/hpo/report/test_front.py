"""The front of a report, its limits and its hypervolume, computed again by other means."""

import itertools
import json
import math
import re
import statistics
from dataclasses import replace
from math import comb

import numpy as np
import pandas as pd
import pytest
from pydantic import TypeAdapter
from scipy import stats

from hpo.commands.study import Study
from hpo.report.hypervolume import expected_growth, growth
from hpo.report.pages.picture import draw_png
from hpo.report.part import Paragraph
from hpo.report.sections.front import read_front
from hpo.report.sections.report import ReportJson
from hpo.report.sections.tested import read_test
from hpo.report.write import write_checklist, write_latex
from hpo.session.session import run_study
from hpo.study.files.folder import StudyFolder
from hpo.study.notes import Notes
from hpo.study.opening import open_study
from hpo.trials.goal import Goal
from hpo.workers.dispatch.local import LocalDispatcher
from tests.hpo.report.made_up import TOY_SPACE, of_several
from tests.hpo.report.recomputed import area
from tests.studies import REPOSITORY, prepared, report_again, run_toy, toy_config

TWO = Goal({"score": "maximize", "size": "minimize"})


def config(strategy="random", trials=30, **study):
    tree = toy_config(strategy, TOY_SPACE | {"first": ["default"]}, trials, "tests.hpo.report.toy_front:several")
    study = {"metrics": dict(TWO.metrics), "limits": {"latency": 6}, "repeats": 2} | study
    return tree | {"study": tree["study"] | study}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("front") / "toy"
    run_toy(path, config())
    report_again(path, config())
    return path


@pytest.fixture
def report(folder):
    return json.loads((folder / "report.json").read_text())


@pytest.fixture(scope="module")
def trials(folder):
    return pd.read_csv(folder / "trials.csv")


def members_of(rows):
    """The rows that no other row is as good as in both and better than in one, by comparing all pairs."""
    points = [(row.number, -row.score, row.size) for row in rows.itertuples(index=False)]
    return [number for number, a, b in points if not any(c <= a and d <= b and (c, d) != (a, b) for _, c, d in points)]


def test_the_front_is_the_one_of_all_pairs_in_the_order_of_the_leading_metric(report, trials):
    complete = trials[trials.state == "complete"]
    within = complete[complete.latency <= 6]
    members = members_of(within)
    found = report["front"]["members"]
    assert sorted(member["number"] for member in found) == sorted(members)
    assert [m["scores"]["score"]["mean"] for m in found] == sorted(within[within.number.isin(members)].score)[::-1]
    assert report["front"]["complete"] == len(complete)
    assert report["front"]["beyond_limits"] == len(complete) - len(within) > 0
    assert report["front"]["share_beyond_limits"] == pytest.approx(1 - len(within) / len(complete))
    chosen = [member["number"] for member in found if member["is_chosen"]]
    assert chosen == [report["winner"]["number"]]
    # The knee: the least sum of both losses, each from the front's best to its worst.
    rows = within[within.number.isin(members)]
    units = (rows.score.max() - rows.score) / np.ptp(rows.score) + (rows["size"] - rows["size"].min()) / np.ptp(
        rows["size"]
    )
    assert chosen == [rows.number[units.idxmin()]]


def test_each_member_has_its_values_with_their_spread_over_the_seeds(report, trials):
    for member in report["front"]["members"]:
        row = trials[trials.number == member["number"]].iloc[0]
        values = [row[column] for column in trials if column.startswith("fold_")]
        mean, error = statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values))
        low, high = stats.t.interval(0.95, len(values) - 1, loc=mean, scale=error)
        score = member["scores"]["score"]
        assert (score["mean"], score["standard_error"], *score["interval"]) == pytest.approx((mean, error, low, high))
        assert member["scores"]["size"]["mean"] == row["size"]
        assert member["scores"]["latency"] == {
            "mean": row.latency,
            "standard_error": 0,
            "interval": [row.latency, row.latency],
        }
        assert member["point"] == {key: row[key] for key in member["point"]}
    winner = report["winner"]
    assert winner["scores"]["score"]["mean"] == pytest.approx(winner["score"])


def test_the_hypervolume_is_the_area_below_the_staircase_after_each_trial(report, trials):
    volume = report["front"]["hypervolume"]
    within = trials[(trials.state == "complete") & (trials.latency <= 6)]
    (best, worst), (least, most) = volume["scale"].values()
    assert (best, worst) == (within.score.max(), within.score.min())
    assert (least, most) == (within["size"].min(), within["size"].max())
    steps = {step["trial"]: step["hypervolume"] for step in volume["trials"]}
    points, before = [], 0.0
    for number, score, size in zip(within.number, within.score, within["size"], strict=True):
        points.append(((best - score) / (best - worst), (size - least) / (most - least)))
        now = area(points, volume["reference"])
        assert (number in steps) == (now > before + 1e-12)
        before = now
        assert number not in steps or steps[number] == pytest.approx(now)


def test_the_expectation_is_the_mean_over_random_searches_of_so_many_trials(report, trials):
    volume = report["front"]["hypervolume"]
    (best, worst), (least, most) = volume["scale"].values()
    rows = [
        ((best - row.score) / (best - worst), (row.size_ - least) / (most - least))
        if row.state == "complete" and row.latency <= 6
        else None
        for row in trials.rename(columns={"size": "size_"}).itertuples()
    ]
    expected = volume["expected"]
    alone = [area([row] if row else []) for row in rows]
    assert expected["budgets"][0] == 1
    assert (expected["means"][0], expected["spreads"][0]) == pytest.approx((np.mean(alone), np.std(alone)))
    rng, number = np.random.default_rng(5), expected["budgets"][-1]
    assert number == len(rows) // 2
    again = [area([row for k in rng.permutation(len(rows))[:number] if (row := rows[k])]) for _ in range(400)]
    error = math.sqrt(np.var(again) / 200 + np.var(again) / 400)
    assert abs(expected["means"][-1] - np.mean(again)) < 4 * error


def test_of_few_trials_the_expectation_is_exact():
    """By cells of the plane: a cell counts where a subset has one of the trials that dominate it."""
    trials = [replace(each, number=number) for number, each in enumerate(of_several(8, TWO))]
    kept = [trial for trial in trials if trial.keeps_limits]
    assert len(kept) == 7
    scale = growth(kept, TWO).scale
    low, high = scale
    points = [(np.array(trial.losses) - low) / (high - low) for trial in kept]
    edges = [sorted({*(point[axis] for point in points), 1.1}) for axis in (0, 1)]
    found = expected_growth(trials, scale)
    assert list(found.budgets) == [1, 2, 3, 4]
    for n, mean in zip(found.budgets, found.means, strict=True):
        exact = 0.0
        for (a, b), (c, d) in itertools.product(*map(itertools.pairwise, edges)):
            dominating = sum(point[0] <= a and point[1] <= c for point in points)
            exact += (b - a) * (d - c) * (1 - comb(8 - dominating, n) / comb(8, n))
        assert mean == pytest.approx(exact)


def test_the_report_keeps_its_schema_and_says_when_it_was_decided(folder, report):
    TypeAdapter(ReportJson).validate_python(report)
    assert report["front"]["choice"] == {"rule": "knee", "text": "the knee of the front", "changes": []}
    assert "the knee of the front" in report["chosen_by"]
    assert report["chosen_by"].endswith("as decided before the search")
    keys = {field["number"]: field["keys"] for field in report["fields"]}
    assert {"front.metrics", "front.limits"} < set(keys[8])
    assert "front.choice" in keys[12]
    assert set(report["importance"]["by_metric"]) == {"score", "size"}
    for name, keys in report["importance"]["significant_by_metric"].items():
        assert set(keys) <= report["importance"]["by_metric"][name].keys()
    text = (folder / "report.md").read_text()
    assert "search for the Pareto front of score (maximize) and size (minimize), within latency <= 6" in text
    winner = report["winner"]["number"]
    assert re.search(rf"\| {winner} ★ \|", text)
    assert "in score, the leading metric" in text or "It is the default configuration." in text


def test_the_trials_stand_in_the_order_of_the_front(folder, report, trials):
    page = (folder / "report.html").read_text()
    assert page.index("Cautions</b>" if report["cautions"] else "None of the checks") < page.index(
        "<h2>Front and limits"
    )
    rows = re.findall(r"<tr id='trial-(\d+)'(?: class='(\w+)')?>", page)
    members = [member["number"] for member in report["front"]["members"]]
    winner = report["winner"]["number"]
    first = [winner, *(number for number in members if number != winner)]
    assert [int(number) for number, _ in rows[: len(first)]] == first
    assert [mark for _, mark in rows[: len(first)]] == ["winner", *["front"] * (len(first) - 1)]
    state = dict(zip(trials.number, trials.state, strict=True))
    excess = dict(zip(trials.number, trials.excess, strict=True))
    kinds = [(state[int(number)] != "complete", excess[int(number)] > 0) for number, _ in rows]
    assert kinds == sorted(kinds)
    beyond = [excess[int(number)] for number, _ in rows if excess[int(number)] > 0]
    assert beyond == sorted(beyond)


def test_other_pages_have_the_front(folder, report):
    study = prepared(folder, config())
    latex, checklist = write_latex(study, report).read_text(), write_checklist(study, report).read_text()
    assert latex.count(r"\begin{table}") == 3
    assert rf"{report['winner']['number']}$^\star$ & " in latex
    assert "Limits: latency <= 6." in checklist
    picture = Study(StudyFolder(folder)).plot("front")
    assert draw_png(picture) is not None
    (line,) = (trace for trace in picture.data if trace.name == "front" and trace.xaxis == "x")
    assert list(line.customdata) == [member["number"] for member in report["front"]["members"]][::-1]


def test_a_front_that_was_scored_on_the_test_part_is_set_beside_the_search(report):
    members = report["front"]["members"]
    values = [{name: score["mean"] for name, score in member["scores"].items()} for member in members]
    scored = [
        {"trial": member["number"], "validation_score": was["score"], "validation_metrics": was, "metrics": was}
        for member, was in zip(members, values, strict=True)
    ]
    del scored[-1]["metrics"]
    scored[-1]["error"] = "out of memory"
    opened = {"time": "now", "trial": members[0]["number"], "metrics": values[0], "size": 9, "validation_score": 0.5}
    opened |= {"evaluations_of_these_data": 1, "front": scored, "default": None}
    first, second, table, failed = read_test(report | {"test": opened})
    assert f"latency **{values[0]['latency']:.4f}**" in first.text
    assert f"all {len(members)} trials of the front" in second.text
    assert table.head == (
        "trial",
        "test score",
        "on validation",
        "test size",
        "on validation",
        "test latency",
        "on validation",
    )
    assert [row[0] for row in table.rows] == [str(member["number"]) for member in members]
    assert all(row[1] == row[2] for row in table.rows[:-1])
    assert table.rows[-1][1] == "–"
    assert failed.texts == [f"trial {members[-1]['number']} has no score: out of memory"]


def test_with_one_metric_nothing_of_it_is_there(tmp_path):
    tree = config(metrics=None, limits=None, repeats=1, trials=3)
    run_toy(tmp_path / "toy", tree)
    report_again(tmp_path / "toy", tree)
    report = json.loads((tmp_path / "toy" / "report.json").read_text())
    assert "front" not in report
    assert not {"scores", "excess", "is_on_front"} & {*report["winner"], *report["top"][0]}
    for name in ("report.md", "report.html"):
        assert "Front and limits" not in (tmp_path / "toy" / name).read_text()


def test_where_no_trial_keeps_the_limits_it_says_so(tmp_path):
    tree = config(limits={"latency": 0.1}, repeats=1, trials=4)
    run_toy(tmp_path / "toy", tree)
    report_again(tmp_path / "toy", tree)
    report = json.loads((tmp_path / "toy" / "report.json").read_text())
    says = "there is no winner: no trial keeps the limits (latency <= 0.1); the nearest is trial "
    assert report["winner"]["missing"].startswith(says)
    assert "no complete trial keeps the limits (latency <= 0.1)" in report["cautions"]
    assert report["front"]["members"] == []
    assert report["front"]["hypervolume"]["missing"] == "no complete trial keeps the limits"
    page = (tmp_path / "toy" / "report.html").read_text()
    assert "There is no Pareto front of score" in page
    assert "could not be made" not in page


def test_a_limit_with_one_metric_has_a_part_without_a_front(tmp_path):
    tree = config(metrics=None, limits={"latency": 4}, repeats=1, trials=8)
    run_toy(tmp_path / "toy", tree)
    report = json.loads((tmp_path / "toy" / "report.json").read_text())
    TypeAdapter(ReportJson).validate_python(report)
    assert not {"choice", "hypervolume"} & report["front"].keys()
    assert [member["number"] for member in report["front"]["members"]] == [report["winner"]["number"]]
    assert "best mean score over the folds, within latency <= 4" in report["chosen_by"]
    assert "Limits: latency <= 4." in (tmp_path / "toy" / "report.md").read_text()


def test_finalists_have_every_metric_on_fresh_seeds_and_a_winner_off_the_front_is_told(tmp_path, report):
    tree = config(repeats=1, trials=8, finalists=2, finalist_repeats=2)
    study = prepared(tmp_path / "toy", tree)
    record = open_study(study)
    run_study(study, record, LocalDispatcher(str(REPOSITORY)), None)
    record.close()
    report_again(tmp_path / "toy", tree, has_page=False)
    written = json.loads((tmp_path / "toy" / "report.json").read_text())
    TypeAdapter(ReportJson).validate_python(written)
    table = pd.read_csv(tmp_path / "toy" / "trials.csv").set_index("number")
    for each in written["finalists"]:
        assert each["search_scores"] == table.loc[each["number"], ["score", "size", "latency"]].to_dict()
        assert each["fresh_scores"]["score"] == pytest.approx(statistics.fmean(each["fresh_values"]))
        assert each["fresh_scores"]["size"] == each["search_scores"]["size"]
    assert "on fresh seeds, among the best trials of the search" in written["chosen_by"]
    assert "| finalist | in the search | on fresh seeds | size | latency |" in (tmp_path / "toy/report.md").read_text()
    for member in report["front"]["members"]:
        member["is_chosen"] = False
    said = [block.text for block in read_front(report) if isinstance(block, Paragraph)]
    assert f"The winner, trial {report['winner']['number']}, is none of them" in said[-1]


def test_what_was_changed_after_the_search_had_begun_is_said(tmp_path):
    tree = config(repeats=1, trials=5)
    run_toy(tmp_path / "toy", tree)
    record = open_study(prepared(tmp_path / "toy", tree))
    change = {"key": "study.choose", "time": "2026-01-02T03:04:05+00:00", "before": "first_within_limits"}
    change |= {"after": "knee"}
    Notes(record).note("changed_choices", [change | {"trials": 4, "is_test_open": True}])
    record.close()
    report_again(tmp_path / "toy", tree, has_page=False)
    report = json.loads((tmp_path / "toy" / "report.json").read_text())
    TypeAdapter(ReportJson).validate_python(report)
    assert report["chosen_by"].endswith("as changed after the start of the search")
    text = (tmp_path / "toy" / "report.md").read_text()
    assert "after 4 trials and after the test: from first_within_limits to knee" in text
