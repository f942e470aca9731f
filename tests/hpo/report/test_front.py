"""The front of a report, its limits and its hypervolume, computed again by other means."""

import itertools
import json
import math
import re
import statistics

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
    tree = toy_config(strategy, TOY_SPACE | {"first": ["default"]}, trials, "toy_front:several")
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
    losses = within[within.number.isin(members)].assign(score=-within.score).set_index("number")[["score", "size"]]
    assert chosen == [((losses - losses.min()) / np.ptp(losses, axis=0)).sum(axis=1).idxmin()]
    # Each member has its values with their spread over the seeds.
    for member in found:
        row = trials[trials.number == member["number"]].iloc[0]
        values = [row[column] for column in trials if column.startswith("fold_")]
        mean, error = statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values))
        low, high = stats.t.interval(0.95, len(values) - 1, loc=mean, scale=error)
        score = member["scores"]["score"]
        assert (score["mean"], score["standard_error"], *score["interval"]) == pytest.approx((mean, error, low, high))
        assert member["scores"]["size"]["mean"] == row["size"]
        same = {"mean": row.latency, "standard_error": 0, "interval": [row.latency, row.latency]}
        assert member["scores"]["latency"] == same
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


def test_of_few_trials_the_expectation_is_the_mean_over_all_choices_of_them():
    trials = of_several(8, TWO)
    kept = [trial for trial in trials if trial.keeps_limits]
    assert len(kept) == 7
    low, high = scale = growth(kept, TWO).scale
    points = [tuple((np.array(trial.losses) - low) / (high - low)) for trial in kept]
    found = expected_growth(trials, scale)
    assert list(found.budgets) == [1, 2, 3, 4]
    for n, mean in zip(found.budgets, found.means, strict=True):
        chosen = itertools.combinations([*points, None], n)
        assert mean == pytest.approx(np.mean([area(filter(None, each)) for each in chosen]))


def test_the_pages_have_the_front_and_when_its_choice_was_decided(folder, report):
    TypeAdapter(ReportJson).validate_python(report)
    assert report["front"]["choice"] == {"rule": "knee", "text": "the knee of the front", "changes": []}
    assert report["chosen_by"].endswith("as decided before the search")
    keys = {field["number"]: field["keys"] for field in report["fields"]}
    assert {"front.metrics", "front.limits"} < set(keys[8])
    assert "front.choice" in keys[12]
    assert set(report["importance"]["by_metric"]) == {"score", "size"}
    for name, keys in report["importance"]["significant_by_metric"].items():
        assert set(keys) <= report["importance"]["by_metric"][name].keys()
    text, winner = (folder / "report.md").read_text(), report["winner"]["number"]
    assert "search for the Pareto front of score (maximize) and size (minimize), within latency <= 6" in text
    assert f"| {winner} ★ |" in text
    assert "in score, the leading metric" in text or "It is the default configuration." in text
    study = prepared(folder, config())
    latex, checklist = write_latex(study, report).read_text(), write_checklist(study, report).read_text()
    assert (latex.count(r"\begin{table}"), rf"{winner}$^\star$ & " in latex) == (3, True)
    assert "Limits: latency <= 6." in checklist
    picture = Study(StudyFolder(folder)).plot("front")
    assert draw_png(picture) is not None
    (line,) = (trace for trace in picture.data if trace.name == "front" and trace.xaxis == "x")
    assert list(line.customdata) == [member["number"] for member in report["front"]["members"]][::-1]


def test_trials_are_listed_in_the_order_of_the_front(folder, report, trials):
    page = (folder / "report.html").read_text()
    cautions = "Cautions</b>" if report["cautions"] else "None of the checks"
    assert page.index(cautions) < page.index("<h2>Front and limits")
    rows = re.findall(r"<tr id='trial-(\d+)'(?: class='(\w+)')?>", page)
    members, winner = [member["number"] for member in report["front"]["members"]], report["winner"]["number"]
    first = [winner, *(number for number in members if number != winner)]
    assert rows[: len(first)] == [(str(number), "front" if number != winner else "winner") for number in first]
    table = trials.set_index("number").loc[[int(number) for number, _ in rows]]
    kinds = list(zip(table.state != "complete", table.excess > 0, strict=True))
    assert kinds == sorted(kinds)
    beyond = table.excess[table.excess > 0].tolist()
    assert beyond == sorted(beyond)


def test_a_front_that_was_scored_on_the_test_part_is_set_beside_the_search(report):
    members = report["front"]["members"]
    values = [{name: score["mean"] for name, score in member["scores"].items()} for member in members]
    scored = [{"validation_score": was["score"], "validation_metrics": was, "metrics": was} for was in values]
    scored = [{"trial": member["number"], **each} for member, each in zip(members, scored, strict=True)]
    scored[-1]["error"] = "out of memory"
    del scored[-1]["metrics"]
    opened = {"time": "now", "trial": members[0]["number"], "metrics": values[0], "size": 9, "validation_score": 0.5}
    opened |= {"evaluations_of_these_data": 1, "front": scored, "default": None}
    first, second, table, failed = read_test(report | {"test": opened})
    assert f"latency **{values[0]['latency']:.4f}**" in first.text
    assert f"all {len(members)} trials of the front" in second.text
    names = [(f"test {name}", "on validation") for name in ("score", "size", "latency")]
    assert table.head == ("trial", *itertools.chain(*names))
    assert [row[0] for row in table.rows] == [str(member["number"]) for member in members]
    assert all(row[1] == row[2] for row in table.rows[:-1])
    assert table.rows[-1][1] == "–"
    assert failed.texts == [f"trial {members[-1]['number']} has no score: out of memory"]


def written(folder, tree, **options):
    """Run a study; return report.json and the text of a page."""
    run_toy(folder, tree)
    if options:
        report_again(folder, tree, **options)
    report = json.loads((folder / "report.json").read_text())
    TypeAdapter(ReportJson).validate_python(report)
    return report, (folder / ("report.html" if options.get("has_page") else "report.md")).read_text()


@pytest.mark.slow
def test_where_no_trial_keeps_the_limits_it_says_so(tmp_path):
    report, page = written(tmp_path / "toy", config(limits={"latency": 0.1}, repeats=1, trials=3), has_page=True)
    says = "there is no winner: no trial keeps the limits (latency <= 0.1); the nearest is trial "
    assert report["winner"]["missing"].startswith(says)
    assert "no complete trial keeps the limits (latency <= 0.1)" in report["cautions"]
    assert report["front"]["members"] == []
    assert report["front"]["hypervolume"]["missing"] == "no complete trial keeps the limits"
    assert "There is no Pareto front of score" in page
    assert "could not be made" not in page


def test_a_limit_with_one_metric_has_a_part_without_a_front(tmp_path):
    report, text = written(tmp_path / "toy", config(metrics=None, limits={"latency": 4}, repeats=1, trials=8))
    assert not {"choice", "hypervolume"} & report["front"].keys()
    assert [member["number"] for member in report["front"]["members"]] == [report["winner"]["number"]]
    assert "best mean score over the folds, within latency <= 4" in report["chosen_by"]
    assert "Limits: latency <= 4." in text


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
    tree = config(repeats=1, trials=3)
    run_toy(tmp_path / "toy", tree)
    record = open_study(prepared(tmp_path / "toy", tree))
    change = {"key": "study.choose", "time": "2026-01-02T03:04:05+00:00", "before": "first_within_limits"}
    Notes(record).note("changed_choices", [change | {"after": "knee", "trials": 4, "is_test_open": True}])
    record.close()
    report, text = written(tmp_path / "toy", tree)
    assert report["chosen_by"].endswith("as changed after the start of the search")
    assert "after 4 trials and after the test: from first_within_limits to knee" in text
