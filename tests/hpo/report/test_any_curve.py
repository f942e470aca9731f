"""A report is written whatever was reported, and no part of it takes the others with it."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hpo.report import figures
from hpo.report.figures import Drawn
from hpo.trials.goal import Goal, finished
from hpo.trials.reported_values import numbers
from hpo.trials.reported_values import seconds as duration
from tests.hpo.report.made_up import subject, trial
from tests.studies import report_again, run_toy, toy_config

VALUES = st.one_of(
    st.floats(),
    st.integers(),
    st.none(),
    st.text(max_size=3),
    st.sampled_from([math.nan, math.inf, 1e308, -1e308, 5e-324, 10**400, True, [1], {"a": 1}]),
)
POINTS = st.dictionaries(st.sampled_from(["epoch", "step", "score", "loss", "lr", ""]), VALUES, max_size=4)
# Two folds of each of some trials: a curve, and the seconds that it took.
CURVES = st.lists(st.tuples(st.lists(POINTS, max_size=4), VALUES), min_size=2, max_size=2)


def reported(number, tasks):
    """Return a trial with these curves, as an objective may report them."""
    made = trial(number, [0.1 * number, 0.2])
    outcomes = {
        index: replace(made.outcomes[index], curve=[*map(numbers, curve)], seconds=duration(seconds) or 0.0)
        for index, (curve, seconds) in enumerate(tasks)
    }
    return finished(made, outcomes, Goal({"score": "maximize"}))


@pytest.mark.slow
@settings(max_examples=25, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.lists(CURVES, min_size=1, max_size=3))
def test_the_figures_of_any_curves_are_drawn(trials):
    drawn_from = subject([reported(number, tasks) for number, tasks in enumerate(trials)])
    for name, draw in (("curves", figures.draw_learning_curves), ("timeline", figures.draw_timeline)):
        content = draw(drawn_from)
        if isinstance(content, Drawn):
            figures_page = json.dumps(content.figure.to_plotly_json(), default=list)
            assert figures_page, name


def diverges(task):
    """As an honest training: it says so at every step, and then gives up."""
    for epoch in (1, 2, 3):
        yield {"epoch": epoch, "score": [0.5, math.nan, math.inf][epoch - 1], "loss": math.nan, "note": None}
    if task["config"]["toy"]["layers"] > 3:
        raise ValueError("diverged at step 3")
    return {"score": 1.0, "loss": math.nan, "seconds": math.nan}


def test_trainings_that_diverge_have_a_report(tmp_path):
    tree = toy_config(trials=6, objective=f"{__name__}:diverges", space={"toy": {"layers": [1, 2, 3, 4, 5]}})
    rows = run_toy(tmp_path / "study", tree)
    assert {row["state"] for row in rows} == {"complete", "failed"}
    report_again(tmp_path / "study", tree)
    text = (tmp_path / "study" / "report.json").read_text()
    summary = json.loads(text, parse_constant=pytest.fail)
    assert summary["curves"]["tasks"]["fold_0"] == [{"epoch": 1, "score": 0.5}, {"epoch": 2}, {"epoch": 3}]
    assert "could not be made" not in (tmp_path / "study" / "report.html").read_text()


def test_a_part_that_fails_says_so_in_its_place_and_the_others_stand(tmp_path, monkeypatch):
    tree = toy_config(trials=3)
    run_toy(tmp_path / "study", tree)

    def fails(*_):
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr("hpo.report.figures.timeline.worker_spans", fails)
    # The last two are called where a section is read.
    parts = ("report.describe_cost", "report.describe_search", "data.require", "winner.score_text")
    for place in parts:
        monkeypatch.setattr(f"hpo.report.sections.{place}", fails)
    report_again(tmp_path / "study", tree)
    summary = json.loads((tmp_path / "study" / "report.json").read_text())
    reason = "could not be made: ZeroDivisionError: by nothing"
    assert summary["cost"] == summary["counts"] == {"missing": reason}
    assert summary["winner"]["score"]
    page = (tmp_path / "study" / "report.html").read_text()
    # The verdict, two fields and a figure.
    assert page.count(reason) >= 4
    assert "id='best-so-far'" in page
    assert reason in (tmp_path / "study" / "report.md").read_text()
