"""A study is said in the same words wherever it is shown: its winner, its score's digits, why there is none."""

import json
from pathlib import Path

import pytest

import hpo as toolkit
from hpo.report.pages.html import render_macro
from hpo.show.page.reading import PageReader
from hpo.show.page.texts import state
from hpo.study.files.folder import StudyFolder
from tests.hpo.cli.commands import hpo
from tests.hpo.commands.searched import found

CLOSE = {number: 0.912347 + number / 1e6 for number in range(6)}


def close(config):
    """Scores that differ in the sixth digit."""
    return CLOSE[config["x"]]


def failing(config):
    raise RuntimeError(f"no luck with {config['x']}")


def two(config):
    return {"score": CLOSE[config["x"]], "size": float(config["x"] + 1)}


def seeded(config, trial):
    return config["x"] / 100 + trial.seed % 97 / 1000


CASES = {
    "close": (close, {}, "0.912352"),
    "failing": (failing, {}, "every trial failed, the first with: fold 0: RuntimeError"),
    "two": (two, {"metric": {"score": "maximize", "size": "minimize"}, "direction": None}, "the knee of the front"),
    "finalists": (seeded, {"settings": {"study.finalists": 2}}, "on fresh seeds ("),
}


@pytest.mark.parametrize("case", CASES)
def test_every_place_says_the_same(case, capsys):
    function, given, part = CASES[case]
    study = found(function, space={"x": [*range(6)]}, trials=6, name=case, progress=True, **given)
    ended = " ".join(capsys.readouterr().out.split())
    view = study.status
    says = f"{view.best.values}" if view.best else view.why_none
    assert part in (says if case != "two" else f"{says}: {view.why_chosen}")
    folder = StudyFolder(Path("runs", case))
    page = render_macro("live_parts.html", "state", **state(PageReader(folder).read().view))
    places = {
        "the end of the search": ended,
        "hpo show": hpo(capsys, "show", case)[1],
        "hpo watch": hpo(capsys, "watch", case)[1],
        "print": str(toolkit.load(case)),
        "a notebook": toolkit.load(case)._repr_html_(),
        "the live page": page,
    }
    for place, text in places.items():
        # The page has the interval in small letters behind.
        said = [view.best.headline, view.best.headline_note] if place == "the live page" and view.best else [says]
        assert all(part in " ".join(text.split()) for part in said), place
    # With the spread over folds and seeds.
    report = (folder.path / "report.md").read_text().replace("**", "")
    assert (view.best.values_with_spread if view.best else says) in report
    (listed,) = json.loads(hpo(capsys, "list", "--where", f"name={case}", "--json")[1])["studies"]
    assert listed["best"] is None if view.best is None else listed["best"]["texts"] == view.best.texts
    programs = json.loads(hpo(capsys, "show", case, "--json")[1])
    assert programs["best"] is None if view.best is None else programs["best"]["texts"] == view.best.texts
    assert programs["why_none"] == view.why_none
