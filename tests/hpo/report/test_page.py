"""report.html: what won, the figures, all 25 fields, on one page that loads nothing, whatever a user wrote."""

import json
import re
from html.parser import HTMLParser

import pandas as pd
import pytest
from markupsafe import escape
from plotly.offline import get_plotlyjs_version

import hpo as toolkit
from hpo.report.formatting import plain_text
from hpo.report.pages.checklist import render_checklist
from hpo.report.pages.html import templates
from hpo.report.pages.latex import render_latex
from hpo.report.pages.report_page import render_report_page
from hpo.report.sections.fields import FIELDS
from hpo.report.sections.winner import winner_view
from hpo.session.session import run_study
from hpo.study.opening import open_study
from hpo.study.results.run import StudyRun
from hpo.study.view.making import view_of
from hpo.workers.dispatch.local import LocalDispatcher
from tests.hpo.commands.searched import found
from tests.hpo.report.made_up import TOY_SPACE as SPACE
from tests.studies import REPOSITORY, prepared, report_again, run_toy, toy_config

# Figures are made for this major version of plotly.js.
LIBRARY = f"plotly.js (cartesian - minified) v{get_plotlyjs_version().partition('.')[0]}."
HOSTILE = "</script><img src=x onerror=alert(1)>"


class Page(HTMLParser):
    """What stands in a page: elements with their attributes, and text by the class around it."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.open, self.missing, self.scripts, self.styles, self.text = [], [], [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in ("meta", "br"):
            self.open.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        tag, _ = self.open[-1] if self.open else ("", {})
        {"script": self.scripts, "style": self.styles}.get(tag, self.text).append(data)
        if any("missing" in (values.get("class") or "") for _, values in self.open):
            self.missing.append(data)

    def of(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def report(folder, config):
    """Run a study and write its report; return the page's text and report.json."""
    run_toy(folder, config)
    report_again(folder, config)
    return (folder / "report.html").read_text(encoding="utf-8"), json.loads((folder / "report.json").read_text())


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "toy"
    return report(path, toy_config("random", SPACE, 24))


@pytest.fixture(scope="module")
def page(written):
    return Page(written[0])


def test_the_page_loads_nothing(written, page):
    loading = {"script", "link", "img", "iframe", "object", "embed", "source", "video", "audio", "base", "form"}
    for tag, attributes in page.elements:
        assert "src" not in attributes, tag
        assert tag not in loading - {"script"}
        assert not re.match(r"\s*(\w+:)?//", attributes.get("href") or "")
    assert not any(mark in "".join(page.styles) for mark in ("url(", "@import", "@font-face"))
    policy = next(a["content"] for a in page.of("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none';")
    assert "http" not in policy
    assert written[0].count(LIBRARY) == 1
    assert len(written[0].encode()) < 2e6
    assert {a["href"] for a in page.of("a") if not a["href"].startswith("#")} == {"trials.csv"}


def test_the_verdict_and_the_cautions_come_first_and_then_the_parts_in_order(written, page):
    text, summary = written
    head, winner = text[: text.index("id='part-1'")], summary["winner"]
    assert "default configuration" in head
    # The largest number of the page says what it is.
    assert f"<p class='big'>score {winner['score']:.4f} <small>on validation</small></p>" in head
    assert f"trial {winner['number']}" in head
    assert summary["cautions"] or "None of the checks" in head
    assert all(escape(caution) in head for caution in summary["cautions"])
    places = [a["id"] for a in page.of("section")]
    assert places == [*(f"part-{number}" for number in range(1, 6)), "trials", "checklist"]
    titles = re.findall(r"<section[^>]*><h2>([^<]*)", text)
    assert titles[:4] == ["Best so far", "What mattered", "Where the good values lie", "Learning curves"]
    linked = [a["href"] for a in page.of("a") if a["href"].startswith("#")]
    assert linked == ["#result", *(f"#{place}" for place in places), f"#trial-{winner['number']}"]
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_all_fields_are_folded_those_that_lack_something_first_and_in_red_with_the_reason(written, page):
    folded = [a for a in page.of("details") if "id" in a]
    lacking = [field["number"] for field in written[1]["fields"] if field["missing"]]
    others = [number for number in range(1, 26) if number not in lacking]
    assert [a["id"] for a in folded] == [f"field-{number}" for number in (*lacking, *others)]
    assert [a.get("class") for a in folded] == ["gap"] * len(lacking) + [None] * len(others)
    assert not any("open" in a for a in folded)
    assert len(FIELDS) == 25
    reasons = {reason for field in written[1]["fields"] for reason in field["missing"].values()}
    assert reasons
    assert reasons <= {text.removeprefix("missing: ") for text in page.missing}
    assert ".missing { color: var(--red); }" in page.styles[0]
    # Refused figures leave their reason.
    assert any("each trial has one training" in reason for reason in page.missing)
    data = {a["id"] for a in page.of("script") if a.get("type") == "application/json"}
    assert data == {f"{a['id']}-data" for a in page.of("div") if a.get("class") == "figure"}


def test_trials_stand_from_the_best_and_every_dot_finds_its_row(written):
    summary, rows = written[1], re.findall(r"<tr id='trial-(\d+)'[^>]*><td>\1</td><td>([^<]*)</td>", written[0])
    scores = [float(score) for _, score in rows if score]
    assert scores == sorted(scores, reverse=True)
    assert int(rows[0][0]) == summary["winner"]["number"]
    assert len(rows) == summary["counts"]["proposed"]
    figures = re.findall(r"<script type='application/json'[^>]*>(.*?)</script>", written[0])
    traces = [trace for figure in figures for trace in json.loads(figure)["data"] if trace.get("mode") == "markers"]
    drawn = {number for trace in traces for number in trace.get("customdata") or [trace.get("meta", 0)]}
    assert {str(number) for number in drawn} <= {number for number, _ in rows}


@pytest.mark.parametrize("limits", [4, 0.5])
def test_report_page_and_checklist_say_the_winner_or_why_there_is_none_as_the_view_does(tmp_path, limits):
    tree = toy_config(trials=8, objective="toy_data:sized")
    section = {"metrics": {"score": "maximize", "size": "minimize"}, "limits": {"seconds": limits}, "finalists": 2}
    study = prepared(tmp_path / "toy", tree | {"study": tree["study"] | section})
    record = open_study(study)
    summary = run_study(study, record, LocalDispatcher(str(REPOSITORY)), None).report.summary
    view = view_of(StudyRun.of(study, record), "ended")
    record.close()
    markdown, page = ((tmp_path / "toy" / f"report.{kind}").read_text(encoding="utf-8") for kind in ("md", "html"))
    assert (view.best is None) == (limits == 0.5)
    if view.best is None:
        assert f"## Winner\n\nThere is no winner: {view.why_none}.\n" in markdown
        assert f"<p>There is no winner: {escape(view.why_none)}.</p>" in page
        return
    best = winner_view(summary)
    for name in ("trial", "trainings", "scores", "search_scores", "standard_deviation"):
        assert getattr(best, name) == getattr(view.best, name)
    assert f"Trial {best.trial}: **{best.values_with_spread}**" in markdown
    assert f"<p class='big'>{best.headline}</p>" in page
    assert f"  {best.values}" in render_checklist(summary)


def hostile_value(task):
    """An objective that fails for one of its points with a text that would break a page."""
    if task["config"]["toy"]["nonlinearity"] == HOSTILE and task["config"]["toy"]["layers"] == 1:
        raise RuntimeError(f"{HOSTILE}\u2028<b>%BODY%")
    return task["config"]["toy"]["layers"] / 10


@pytest.mark.slow
def test_what_a_person_called_it_is_the_title_of_every_page_and_table(tmp_path, monkeypatch):
    """The study's name stands below it; without a title it is the name."""
    monkeypatch.chdir(tmp_path)
    run_toy(tmp_path / "runs" / "toy", toy_config(trials=3))
    page, name = tmp_path / "runs/toy/report.html", "Study toy"
    for title, said in ((None, None), ("Does depth help? 5 % <more>", "Does depth help?\n5 % <more>"), (None, " ")):
        toolkit.load("toy").report(title=said, checklist=True, latex=True)
        text = page.read_text(encoding="utf-8")
        assert f"<title>{escape(title or name)}</title>" in text
        below = f"\n<p class='lead'>{name}</p>" if title else ""
        assert f"<h1 id='result'>{escape(title or name)}</h1>{below}\n<p class='lead'>random search" in text
        files = ("report.md", "checklist.md", "tables.tex")
        markdown, checklist, latex = ((page.parent / file).read_text() for file in files)
        assert markdown.startswith(f"# {title}\n\n{name}\n\n" if title else f"# {name}\n\nrandom")
        assert checklist.startswith(f"# Reproducibility checklist: {title or 'study toy'}\n")
        in_latex = r"\caption{\textbf{Does depth help? 5 \% \textless{}more\textgreater{}} Hyperparameters"
        assert (in_latex in latex, r"\textbf" in latex) == (title is not None, title is not None)


def test_on_paper_a_number_stays_on_its_line_heads_break_between_words_and_tools_are_hidden(page):
    """A browser breaks 1.039e-9 at its minus where it may; no number is longer than 24 characters."""
    printed = page.styles[0].partition("@media print {")[2]
    assert re.search(r"^  th, \.long \{ white-space: normal; ", printed, re.M)
    assert not re.search(r"\btd\b[^}]*white-space", printed)
    table = templates().get_template("pieces.html").module.table
    head = "<th>num_<wbr>parameters</th><th>a.<wbr>b</th><th>&lt;</th>"
    assert head in table(["num_parameters", "a.b", "<"], [])
    assert not re.search(r"\bth\b[^}]*overflow-wrap", printed)
    assert re.search(r"\.modebar \{ display: none; }", printed)
    cells = re.findall(r"<td[^>]*>", table(["a", "b"], [["-2.2250738585072014e-308", "n" * 25]]))
    assert cells == ["<td>", "<td class='long'>"]


def test_what_users_wrote_stays_text(tmp_path):
    space = {"toy": {"nonlinearity": {"choices": [HOSTILE, "%SCRIPTS%"]}, "layers": [1, 2, 3, 4, 5, 6]}}
    config = toy_config("grid", space, 12, objective="tests.hpo.report.test_page:hostile_value")
    text, _ = report(tmp_path / "toy", config)
    page = Page(text)
    assert not page.of("img")
    assert HOSTILE in "".join(page.text)
    assert "%SCRIPTS%" in "".join(page.text)
    # No text ended a script: figures, and the library, its settings, the drawing, the folding, the sorting.
    figures = [a for a in page.of("script") if a.get("type") == "application/json"]
    assert len(page.of("script")) - len(figures) == 5
    start = '{"data":'
    for script in page.scripts:
        if script.startswith(start):
            json.loads(script)
    assert sum(script.startswith(start) for script in page.scripts) == len(figures) >= 5


def test_what_a_study_does_not_have_is_not_in_its_report(written):
    text, summary = written
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
    text, summary = report(tmp_path / "toy", toy_config("random", SPACE, 4, objective="toys:raises"))
    assert summary["winner"]["missing"].lower() in text.lower()
    assert re.search(r"ValueError at toys\.py:\d+: no luck", text)
    assert sorted(a["id"] for a in Page(text).of("details") if "id" in a) == sorted(f"field-{k}" for k in range(1, 26))


def test_the_best_five_hundred_of_more_trials_are_listed(written):
    scores = {number: number * 37 % 620 / 620 for number in range(620)}
    columns = {"number": [*scores], "score": [*scores.values()], "state": ["complete"] * 620}
    best, winner = sorted(scores, key=lambda number: -scores[number]), written[1]["winner"]["number"]
    text = render_report_page({**written[1], "space": []}, (), pd.DataFrame(columns, dtype=object), best)
    table = text.partition("class='sortable'")[2].partition("</table>")[0]
    listed = [winner, *(number for number in best if number != winner)][:500]
    assert re.findall(r"<tr id='trial-(\d+)'", table) == [str(number) for number in listed]
    assert f"<tr id='trial-{winner}' class='winner'>" in table
    # Without a figure the library is not needed.
    assert LIBRARY not in text


@pytest.mark.parametrize("limits", [None, {"a": 2}])
def test_hyperparameters_may_be_called_as_columns_of_the_table(limits):
    space = {"excess": [1, 2, 3], "is_on_front": [True], "amount": [7], "score": [5], "seconds": [6]}
    goal = {"metric": {"a": "maximize"}, "limits": limits, "direction": None}
    study = found(lambda config: {"a": config["excess"]}, space=space, trials=3, strategy="grid", **goal)
    assert study.trials.columns.is_unique
    rows = re.findall(r"<tr id='trial-\d+' class='(\w+)'>(.*?)</tr>", page := study.report().page.read_text())
    # Of three, the largest is beyond the limit.
    assert [mark for mark, _ in rows] == ["winner", "complete", "beyond" if limits else "complete"]
    assert all("<td>True</td>" in row and "<td>7</td>" in row for _, row in rows)
    assert bool(re.search(r"space\.(<wbr>)?excess", page)) == bool(limits)


def test_columns_of_trials_that_say_nothing_are_left_out(written):
    columns = {"number": [0, 1], "score": [1.0, 2.0], "state": ["complete"] * 2}
    for rounds in ([0, 0], [0, 1]):
        table = pd.DataFrame(columns | {"round": rounds, "learned": [None, None]}, dtype=object)
        page = render_report_page({**written[1], "space": []}, [], table, [0])
        head = re.search(r"<table class='sortable'><thead>(.*?)</thead>", page, re.DOTALL)[1]
        assert re.findall("<th>(.*?)</th>", head) == [*columns, *(["round"] if any(rounds) else [])]


def test_the_table_for_a_paper_has_matching_digits_and_the_default_whatever_became_of_it(written):
    winner = {**written[1]["winner"], "score": 0.9557, "standard_deviation": 0.00486}
    default = {"number": 0, "score": 0.5, "state": "complete", "amount": None, "values": {}}
    failed, missing = {**default, "score": None, "state": "failed"}, {"missing": "why"}
    for shown, each in (("$0.5000$", default), ("failed", failed), ("not trained", missing)):
        text = render_latex({**written[1], "winner": winner, "baselines": {"default": each}})
        assert r"$0.9557 \pm 0.0049$" in text
        assert re.search("Default configuration & ([^&]*) &", text)[1] == shown


@pytest.mark.slow
def test_without_figures_the_page_has_its_texts_and_tables_and_an_older_page_is_removed(tmp_path):
    study = toy_config("random", SPACE, 6)["study"] | {"metrics": {"score": "maximize", "size": "minimize"}}
    config = toy_config("random", SPACE, 6, "toy_data:sized", study=study)
    with_figures, expected = report(tmp_path / "toy", config)
    config["report"] = config["report"] | {"figures": False}
    report_again(tmp_path / "toy", config)
    text = (tmp_path / "toy" / "report.html").read_text()
    assert LIBRARY not in text
    assert "hpo report toy report.figures=true draws the figures" in Page(text).missing[0]
    for tag in ("table", "details"):
        assert len(Page(text).of(tag)) == len(Page(with_figures).of(tag)) > 0
    summary = json.loads((tmp_path / "toy" / "report.json").read_text())
    assert {**summary, "config": None} == {**expected, "config": None}
    # An older page is removed when none is written.
    assert "report.html" not in {path.name for path in report_again(tmp_path / "toy", config, has_page=False).paths}
    assert not (tmp_path / "toy" / "report.html").exists()


PLAIN = [
    *((True, "yes"), (None, "–"), (1234567, "1,234,567"), (1234567.8, "1,234,568"), (0.000123456789, "0.000123457")),
    *(([1, "a"], "1, a"), ({"a": [1]}, "a=1"), ([], "none"), ("f" * 64, "f" * 16 + "…")),
    ({"missing": "why"}, "missing: why"),
]


@pytest.mark.parametrize(("value", "text"), PLAIN)
def test_values_read_as_people_write_them(value, text):
    assert plain_text(value) == text
