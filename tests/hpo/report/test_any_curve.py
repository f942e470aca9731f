"""A report is written whatever was reported, and no part of it takes the others with it."""

import json
import math

import pytest

from hpo.report.pages import report_page
from hpo.report.part import Paragraph
from hpo.report.sections.report import Section
from tests.hpo.report.made_up import reported
from tests.studies import toy_config


def diverges(task):
    for epoch in (1, 2, 3):
        yield {"epoch": epoch, "score": [0.5, math.nan, math.inf][epoch - 1], "loss": math.nan, "note": None}
    if task["config"]["toy"]["layers"] > 3:
        raise ValueError("diverged at step 3")
    return {"score": 1.0, "loss": math.nan, "seconds": math.nan}


def test_trainings_that_diverge_have_a_report(tmp_path):
    tree = toy_config(trials=6, objective=f"{__name__}:diverges", space={"toy": {"layers": [1, 2, 3, 4, 5]}})
    report, _, page = reported(tmp_path / "study", tree)
    assert (report["counts"]["complete"] > 0, report["counts"]["failed"] > 0) == (True, True)
    assert json.loads((tmp_path / "study" / "report.json").read_text(), parse_constant=pytest.fail) == report
    assert report["curves"]["tasks"]["fold_0"] == [{"epoch": 1, "score": 0.5}, {"epoch": 2}, {"epoch": 3}]
    assert "could not be made" not in page


def read_energy(report):
    """Say how much energy the trainings took, and fail where a report does not have it."""
    yield Paragraph(f"**{report['metric']['name']}** by `watts`")
    yield Paragraph(report["energy"])


def test_a_part_that_fails_says_so_in_its_place_and_the_others_stay(tmp_path, monkeypatch):
    """One part is a section that somebody adds, as docs/extending/add_a_section.md says."""

    def fails(*_):
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr("hpo.report.figures.timeline.worker_spans", fails)
    # The last two are called where a section is read.
    for place in ("report.describe_cost", "report.describe_search", "data.require", "winner.score_text"):
        monkeypatch.setattr(f"hpo.report.sections.{place}", fails)
    monkeypatch.setattr(report_page, "SECTIONS", (Section("Energy", read_energy), *report_page.SECTIONS))
    report, text, page = reported(tmp_path / "study", toy_config(trials=3))
    reason = "could not be made: ZeroDivisionError: by nothing"
    assert report["cost"] == report["counts"] == {"missing": reason}
    assert report["winner"]["score"]
    # The verdict, two fields and a figure.
    assert page.count(reason) >= 4
    assert "id='best-so-far'" in page
    assert reason in text
    assert "## Energy\n\n**score** by `watts`\n\nThis part could not be made: KeyError: 'energy'." in text
