"""report.html: what won, the figures, 25 fields, on one page that loads nothing, whatever is reported or written."""

import json
import math
import re
from collections import defaultdict
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from markupsafe import escape
from plotly.offline import get_plotlyjs_version

from hpo.errors import StudyError
from hpo.report.formatting import plain_text
from hpo.report.pages import report_page
from hpo.report.pages.html import templates
from hpo.report.pages.latex import render_latex
from hpo.report.part import Paragraph
from hpo.report.sections.report import Section
from hpo.report.write import publish
from tests.hpo.commands.searched import found
from tests.hpo.report.made_up import TOY_SPACE, reported
from tests.studies import prepared, report_again, toy_config

HOSTILE = "</script><img src=x onerror=alert(1)>"


class Page(HTMLParser):
    """What stands in a page: elements with their attributes, and text by the `script` or `style` around it."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.data = [], defaultdict(list)
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.data[self.cdata_elem].append(data)

    def of(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    summary, _, page = reported(tmp_path_factory.mktemp("page") / "toy", toy_config("random", TOY_SPACE, 24))
    return summary, page


@pytest.mark.slow
def test_the_page_loads_nothing(written):
    page = Page(written[1])
    for tag, attributes in page.elements:
        assert tag not in {"link", "img", "iframe", "object", "embed", "source", "video", "audio", "base", "form"}
        assert "src" not in attributes, tag
        assert not re.match(r"\s*(\w+:)?//", attributes.get("href") or "")
    assert not any(mark in "".join(page.data["style"]) for mark in ("url(", "@import", "@font-face"))
    policy = next(a["content"] for a in page.of("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none';")
    assert "http" not in policy
    assert written[1].count(f"plotly.js (cartesian - minified) v{get_plotlyjs_version().partition('.')[0]}.") == 1
    assert len(written[1].encode()) < 2e6


def test_the_verdict_and_the_cautions_come_first(written):
    summary, text = written
    page = Page(text)
    head, winner = text[: text.index("id='part-1'")], summary["winner"]
    assert "default configuration" in head
    # The largest number of the page says what it is.
    assert f"<p class='big'>score {winner['score']:.4f} <small>on validation</small></p>" in head
    assert f"trial {winner['number']}" in head
    assert summary["cautions"] or "None of the checks" in head
    assert all(escape(caution) in head for caution in summary["cautions"])
    # Links within the page lead somewhere, and to one place.
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert {a["href"].removeprefix("#") for a in page.of("a") if a["href"].startswith("#")} <= {*ids}
    assert len(ids) == len(set(ids))


def test_all_fields_are_there_those_that_lack_something_first_with_the_reason(written):
    summary, text = written
    lacking = [field["number"] for field in summary["fields"] if field["missing"]]
    others = [number for number in range(1, 26) if number not in lacking]
    folded = [(a["id"], a.get("class")) for a in Page(text).of("details") if "id" in a]
    gaps = [(f"field-{number}", "gap") for number in lacking]
    assert folded == [*gaps, *((f"field-{number}", None) for number in others)]
    reasons = {reason for field in summary["fields"] for reason in field["missing"].values()}
    # Refused figures leave their reason, too.
    said = "\n".join(unescape(each) for each in re.findall(r"class='missing'>([^<]*)<", text))
    assert all(reason in said for reason in (*reasons, "each trial has one training"))


def test_trials_stand_from_the_best_and_every_dot_finds_its_row(written):
    summary, text = written
    rows = re.findall(r"<tr id='trial-(\d+)'[^>]*><td>\1</td><td>([^<]*)</td>", text)
    scores = [float(score) for _, score in rows if score]
    assert scores == sorted(scores, reverse=True)
    assert (int(rows[0][0]), len(rows)) == (summary["winner"]["number"], summary["counts"]["proposed"])
    figures = re.findall(r"<script type='application/json'[^>]*>(.*?)</script>", text)
    traces = [trace for figure in figures for trace in json.loads(figure)["data"] if trace.get("mode") == "markers"]
    drawn = {number for trace in traces for number in trace.get("customdata") or [trace.get("meta", 0)]}
    assert {str(number) for number in drawn} <= {number for number, _ in rows}


def hostile_value(task):
    """An objective that fails for one of its points with a text that would break a page."""
    if task["config"]["toy"]["nonlinearity"] == HOSTILE and task["config"]["toy"]["layers"] == 1:
        raise RuntimeError(f"{HOSTILE}\u2028<b>%BODY%")
    return task["config"]["toy"]["layers"] / 10


@pytest.mark.slow
@pytest.mark.parametrize("title", [None, "Does depth help?\n5 % <more>"])
def test_what_a_person_called_it_is_the_title_of_every_page_and_table(title):
    study = found(lambda config: config["lr"], name="toy", trials=1)
    text, name = study.report(title=title, checklist=True, latex=True).page.read_text(encoding="utf-8"), "Study toy"
    markdown, checklist, latex = ((study.folder / x).read_text() for x in ("report.md", "checklist.md", "tables.tex"))
    shown = title.replace("\n", " ") if title else None
    assert f"<title>{escape(shown or name)}</title>" in text
    assert (f"\n<p class='lead'>{name}</p>" in text) == (title is not None)
    assert markdown.startswith(f"# {shown}\n\n{name}\n\n" if title else f"# {name}\n\n")
    assert checklist.startswith(f"# Reproducibility checklist: {shown or 'study toy'}\n")
    assert (r"\caption{\textbf{Does depth help? 5 \% \textless{}more\textgreater{}} " in latex) == (title is not None)


def test_what_users_wrote_stays_text(tmp_path):
    space = {"toy": {"nonlinearity": {"choices": [HOSTILE, "%SCRIPTS%"]}, "layers": [1, 2, 3, 4, 5, 6]}}
    config = toy_config("grid", space, 12, objective="tests.hpo.report.test_page:hostile_value")
    page = Page(reported(tmp_path / "toy", config)[2])
    assert not page.of("img")
    assert all(text in "".join(page.data[None]) for text in (HOSTILE, "%SCRIPTS%"))
    figures = [script for script in page.data["script"] if script.startswith('{"data":')]
    assert len(figures) == len(page.of("script")) - 5 >= 5
    assert all(json.loads(script)["data"] for script in figures)


def test_what_a_study_does_not_have_is_not_in_its_report(written):
    summary, text = written
    assert not {"front", "scales"} & summary.keys()
    assert not {"scores", "excess", "is_on_front"} & {*summary["winner"], *summary["top"][0]}
    assert not any(key.startswith(("scales", "front")) for field in summary["fields"] for key in field["keys"])
    assert not {"Front and limits", "Scales"} & {*re.findall("<h2>([^<]*)", text)}


def test_only_plotlys_library_goes_into_a_page_as_it_is():
    unescaped = re.compile(r"[^{}]*\|\s*(?:safe|forceescape)[^{}]*|autoescape|Markup")
    sources = {name: templates().loader.get_source(templates(), name)[0] for name in templates().list_templates()}
    found = {name: unescaped.findall(source) for name, source in sources.items() if unescaped.search(source)}
    assert templates().autoescape is True
    assert found == {"base.html": [" plotly_library()|safe "]}


def test_a_study_without_a_complete_trial_has_a_page(tmp_path):
    config = toy_config("random", TOY_SPACE, 4, objective="toys:raises")
    summary, _, text = reported(tmp_path / "toy", config)
    assert summary["winner"]["missing"].lower() in text.lower()
    assert re.search(r"ValueError at toys\.py:\d+: no luck", text)
    assert sorted(a["id"] for a in Page(text).of("details") if "id" in a) == sorted(f"field-{k}" for k in range(1, 26))
    # An older page is removed where none is written.
    paths = report_again(tmp_path / "toy", config, has_page=False).paths
    assert "report.html" not in {path.name for path in (*paths, *(tmp_path / "toy").iterdir())}


@pytest.mark.parametrize("rounds", [0, 1])
def test_the_best_five_hundred_trials_are_listed_in_columns_that_say_something(written, rounds):
    columns = {"number": range(620), "score": [number * 37 % 620 / 620 for number in range(620)], "state": "complete"}
    table = pd.DataFrame(columns | {"round": rounds, "learned": None}, dtype=object)
    best, winner = sorted(range(620), key=lambda number: -columns["score"][number]), written[0]["winner"]["number"]
    page = report_page.render_report_page({**written[0], "space": []}, (), table, best)
    text = page.partition("class='sortable'")[2].partition("</table>")[0]
    listed = [winner, *(number for number in best if number != winner)][:500]
    assert re.findall(r"<tr id='trial-(\d+)'", text) == [str(number) for number in listed]
    assert re.findall("<th>(.*?)</th>", text) == [*columns, *(["round"] if rounds else [])]
    assert "plotly.js (cartesian" not in page  # without a figure it is not needed


def test_the_table_for_a_paper_has_matching_digits_and_the_default_whatever_became_of_it(written):
    winner = {**written[0]["winner"], "score": 0.9557, "standard_deviation": 0.00486}
    default = {"number": 0, "score": 0.5, "state": "complete", "amount": None, "values": {}}
    failed, missing = {**default, "score": None, "state": "failed"}, {"missing": "why"}
    for shown, each in (("$0.5000$", default), ("failed", failed), ("not trained", missing)):
        text = render_latex({**written[0], "winner": winner, "baselines": {"default": each}})
        assert r"$0.9557 \pm 0.0049$" in text
        assert re.search("Default configuration & ([^&]*) &", text)[1] == shown


def test_a_caption_names_only_spreads_that_the_table_has(written):
    single = {**written[0]["winner"], "standard_deviation": None, "score": 0.7}
    test = {"metrics": {"score": -0.5}, "default": None, "evaluations_of_these_data": 1, "trial": single["number"]}
    other = test | {"trial": 99}
    interval = test | {"estimates": {"score": {"value": -0.5, "low": -0.6, "high": -0.4}}}
    for each, cell in ((test, "$-$0.5000"), (other, "--"), (interval, "$-$0.5000 ($-$0.6000 to $-$0.4000)")):
        text = render_latex({**written[0], "winner": single, "test": each})
        assert f"& $0.7000$ & {cell} " in text
        assert ("with 95 \\% intervals in brackets" in text, r"\pm" in text) == ("to" in cell, False)


PLAIN = [(True, "yes"), (None, "–"), (1234567, "1,234,567"), (1234567.8, "1,234,568"), (0.000123456789, "0.000123457")]
PLAIN += [([1, "a"], "1, a"), ({"a": [1]}, "a=1"), ([], "none"), ({"missing": "w"}, "missing: w")]
PLAIN += [("f" * 64, "f" * 16 + "…")]


def test_values_read_as_people_write_them():
    assert [plain_text(value) for value, _ in PLAIN] == [text for _, text in PLAIN]


def test_a_published_study_is_not_copied_to_itself():
    study = prepared(Path("studies/toy"), toy_config())
    with pytest.raises(StudyError, match=r"^publish: studies/toy cannot be copied to itself; give a study"):
        publish(study)


def diverges(task):
    for epoch in (1, 2, 3):
        yield {"epoch": epoch, "score": [0.5, math.nan, math.inf][epoch - 1], "loss": math.nan, "note": None}
    if task["config"]["toy"]["layers"] > 3:
        raise ValueError("diverged at step 3")
    return {"score": 1.0, "loss": math.nan, "seconds": math.nan}


def test_trainings_that_diverge_have_a_report(tmp_path):
    tree = toy_config(
        trials=6, objective="tests.hpo.report.test_page:diverges", space={"toy": {"layers": [1, 2, 3, 4, 5]}}
    )
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
