"""A section that somebody adds, as docs/extending/add_a_section.md says."""

import json

from hpo.report.pages import report_page
from hpo.report.pages.html import templates
from hpo.report.part import Items, Paragraph, Table
from hpo.report.sections.report import Section
from tests.studies import report_again, run_toy, toy_config


def read_energy(report):
    """Say how much energy the trainings took, and fail where a report does not have it."""
    yield Paragraph(f"**{report['metric']['name']}** by `watts`")
    yield Items(["<estimated>"])
    yield Table(("trial", "joule"), [(str(report["winner"]["number"]), "a|b")])
    yield Paragraph(report["energy"])


def test_a_section_is_its_blocks_on_every_page_and_its_failure_is_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(report_page, "SECTIONS", (Section("Energy", read_energy), *report_page.SECTIONS))
    run_toy(tmp_path / "study", toy_config(trials=3))
    report_again(tmp_path / "study", toy_config(trials=3), has_page=False)
    report = json.loads((tmp_path / "study" / "report.json").read_text())
    text = (tmp_path / "study" / "report.md").read_text()
    winner = report["winner"]["number"]
    assert "## Energy\n\n**score** by `watts`\n\n- <estimated>\n\n| trial | joule |\n" in text
    assert f"| {winner} | a\\|b |\n\nThis part could not be made: KeyError: 'energy'.\n\nrandom search" in text
    html = templates().get_template("pieces.html").module.block(list(read_energy(report | {"energy": "none"})))
    for piece in (
        "<p><b>score</b> by <code>watts</code></p>",
        "<li>&lt;estimated&gt;</li>",
        f"<td>{winner}</td><td>a|b</td>",
    ):
        assert piece in html
