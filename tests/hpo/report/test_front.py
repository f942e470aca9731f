"""The front of a report, its limits and its hypervolume, computed again by other means."""

import itertools
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
from hpo.report.part import Paragraph
from hpo.report.sections.front import read_front
from hpo.report.sections.report import ReportJson
from hpo.report.sections.tested import read_test
from hpo.report.write import write_checklist, write_latex
from hpo.session.session import run_study
from hpo.study.files.folder import StudyFolder
from hpo.study.opening import open_study
from hpo.trials.goal import Goal
from hpo.workers.dispatch.local import LocalDispatcher
from tests.hpo.report.made_up import TOY_SPACE, of_several, reported
from tests.hpo.report.recomputed import area
from tests.studies import REPOSITORY, prepared, toy_config

TWO = Goal({"score": "maximize", "size": "minimize"})


def config(strategy="random", trials=30, **study):
    tree = toy_config(strategy, TOY_SPACE | {"first": ["default"]}, trials, "toy_front:several")
    study = {"metrics": dict(TWO.metrics), "limits": {"latency": 6}, "repeats": 2} | study
    return tree | {"study": tree["study"] | study}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("front") / "toy"
    reported(path, config())
    return path


def members_of(rows):
    """The rows that no other row is as good as in both and better than in one, by comparing all pairs."""
    points = [(row.number, -row.score, row.size) for row in rows.itertuples(index=False)]
    return [number for number, a, b in points if not any(c <= a and d <= b and (c, d) != (a, b) for _, c, d in points)]


@pytest.mark.slow
def test_the_front_is_the_one_of_all_pairs_in_the_order_of_the_leading_metric(report, trials):
    complete = trials[trials.state == "complete"]
    within = complete[complete.latency <= 6]
    members, found = members_of(within), report["front"]["members"]
    best_first = within[within.number.isin(members)].sort_values("score", ascending=False)
    assert [member["number"] for member in found] == list(best_first.number)
    assert report["front"]["beyond_limits"] == len(complete) - len(within) > 0
    chosen = [member["number"] for member in found if member["is_chosen"]]
    assert chosen == [report["winner"]["number"]]
    # The knee: the least sum of both losses, each from the front's best to its worst.
    losses = best_first.assign(score=-best_first.score).set_index("number")[["score", "size"]]
    assert chosen == [((losses - losses.min()) / np.ptp(losses, axis=0)).sum(axis=1).idxmin()]
    for member, (_, row) in zip(found, best_first.iterrows(), strict=True):
        values = [row[column] for column in trials if column.startswith("fold_")]
        mean, error = statistics.fmean(values), statistics.stdev(values) / math.sqrt(len(values))
        low, high = stats.t.interval(0.95, len(values) - 1, loc=mean, scale=error)
        score = member["scores"]["score"]
        assert (score["mean"], score["standard_error"], *score["interval"]) == pytest.approx((mean, error, low, high))
        assert member["scores"]["latency"]["interval"] == [row.latency, row.latency]
        assert member["point"] == {key: row[key] for key in member["point"]}


def test_the_hypervolume_is_the_area_below_the_staircase_after_each_trial(report, trials):
    volume = report["front"]["hypervolume"]
    within = trials[(trials.state == "complete") & (trials.latency <= 6)]
    losses = np.array([-within.score, within["size"]]).T
    points = list(map(tuple, (losses - losses.min(0)) / np.ptp(losses, axis=0)))
    steps = {step["trial"]: step["hypervolume"] for step in volume["trials"]}
    before = 0.0
    for count, number in enumerate(within.number, start=1):
        now = area(points[:count], volume["reference"])
        assert (number in steps) == (now > before + 1e-12)
        assert steps.get(number, now) == pytest.approx(now)
        before = now


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


def test_the_pages_have_the_front_and_trials_in_its_order_and_when_its_choice_was_decided(folder, report, trials):
    TypeAdapter(ReportJson).validate_python(report)
    assert report["chosen_by"].endswith("a rule that was set before the search")
    assert set(report["importance"]["by_metric"]) == {"score", "size"}
    text, winner = (folder / "report.md").read_text(), report["winner"]["number"]
    assert "search for the Pareto front of score (maximize) and size (minimize), within latency <= 6" in text
    assert f"| {winner} ★ |" in text
    assert all(each in text for each in ("\nSeeds: ", "expected: the mean score to expect from new tr"))
    study = prepared(folder, config())
    tables = write_latex(study, report).read_text()
    assert all(
        each in tables for each in (rf"{winner}$^\star$ & ", "New trainings of the winner are expected to score $")
    )
    assert r"(minimize), within latency $\leq$ 6: mean over 1 fold and 2 seeds each, with 95 \% intervals in" in tables
    members = [
        {**m, "scores": {n: {**s, "interval": None} for n, s in m["scores"].items()}}
        for m in report["front"]["members"]
    ]
    single = report | {"front": report["front"] | {"members": members}}
    assert not any("brackets" in each for each in (write_latex(study, single).read_text(), str([*read_front(single)])))
    assert "Limits: latency <= 6." in write_checklist(study, report).read_text()
    (line,) = (x for x in Study(StudyFolder(folder)).plot("front").data if x.name == "front" and x.xaxis == "x")
    assert list(line.customdata) == [member["number"] for member in report["front"]["members"]][::-1]
    # Trials are listed in its order.
    rows = re.findall(r"<tr id='trial-(\d+)'(?: class='(\w+)')?>", (folder / "report.html").read_text())
    members = [member["number"] for member in report["front"]["members"]]
    front = [(str(number), "front") for number in members if number != winner]
    assert rows[: len(members)] == [(str(winner), "winner"), *front]
    table = trials.set_index("number").loc[[int(number) for number, _ in rows]]
    kinds = list(zip(table.state != "complete", table.excess > 0, strict=True))
    assert kinds == sorted(kinds)
    assert table.excess[table.excess > 0].is_monotonic_increasing


def test_a_front_that_was_scored_on_the_test_part_is_set_beside_the_search(report):
    members = report["front"]["members"]
    values = [{name: score["mean"] for name, score in member["scores"].items()} for member in members]
    scored = [{"trial": m["number"], "validation_metrics": v} for m, v in zip(members, values, strict=True)]
    scored = [*(each | {"metrics": each["validation_metrics"]} for each in scored[:-1]), scored[-1] | {"error": "no"}]
    opened = {"time": "now", "trial": members[0]["number"], "metrics": values[0], "size": 9, "validation_score": 0.5}
    opened |= {"evaluations_of_these_data": 1, "front": scored, "default": None}
    *_, table, failed = read_test(report | {"test": opened})
    names = [(f"test {name}", "in the search") for name in ("score", "size", "latency")]
    assert table.head == ("trial", *itertools.chain(*names))
    assert [row[0] for row in table.rows] == [str(member["number"]) for member in members]
    assert [row[1] for row in table.rows] == [*(row[2] for row in table.rows[:-1]), "–"]
    assert failed.texts == [f"trial {members[-1]['number']} has no score: no"]


def test_where_no_trial_keeps_the_limits_there_is_no_front_and_the_report_says_so(tmp_path):
    report, _, page = reported(tmp_path / "toy", config(limits={"latency": 0.1}, repeats=1, trials=3))
    front = report["front"]
    assert (front["members"], front["hypervolume"]["missing"]) == ([], "no complete trial keeps the limits")
    assert "There is no Pareto front of score" in page
    assert "could not be made" not in page


def test_finalists_have_every_metric_on_fresh_seeds_and_a_winner_off_the_front_is_told(tmp_path, report):
    study = prepared(tmp_path / "toy", config(repeats=1, trials=8, finalists=2, finalist_repeats=2))
    record = open_study(study)
    written = run_study(study, record, LocalDispatcher(str(REPOSITORY)), None).report.summary
    record.close()
    table = pd.read_csv(tmp_path / "toy" / "trials.csv").set_index("number")
    for each in written["finalists"]:
        assert each["search_scores"] == table.loc[each["number"], ["score", "size", "latency"]].to_dict()
        assert each["fresh_scores"]["score"] == pytest.approx(statistics.fmean(each["fresh_values"]))
        assert each["fresh_scores"]["size"] == each["search_scores"]["size"]
    assert "| finalist | in the search | on fresh seeds | size | latency |" in (tmp_path / "toy/report.md").read_text()
    for member in report["front"]["members"]:
        member["is_chosen"] = False
    said = [block.text for block in read_front(report) if isinstance(block, Paragraph)]
    assert f"The winner, trial {report['winner']['number']}, is not on the front" in said[-1]
