"""What is seen of studies in MLflow's own UI, in a window of 1280 x 800."""

import contextlib
import json
import subprocess
import time
from dataclasses import replace
from urllib.request import urlopen

import pytest

from hpo.study.files.folder import StudyFolder
from tests.browser.chromium import BINARY, Chromium
from tests.faults.driver import start
from tests.faults.mlflow_server import free_port
from tests.hpo.cli.commands import prints
from tests.studies import toy_config
from tests.tracked import new_store, run, tracked_study

pytestmark = [pytest.mark.nightly, pytest.mark.skipif(BINARY is None, reason="there is no Chromium")]
pytestmark += [pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")]

# The assistant opens by itself over the page at the first visit.
NO_ASSISTANT = """
localStorage.setItem('mlflow.assistant.panelOpen_v1', 'false');
localStorage.setItem('mlflow.assistant.fab.autoOpenedOnFirstLoad_v1', 'true');
"""
# Elements inside the window that no other one covers.
SEEN = """(element => {
    const box = element.getBoundingClientRect();
    const [x, y] = [box.left + Math.min(12, box.width / 2), box.top + box.height / 2];
    return x > 0 && y > 0 && x < innerWidth && y < innerHeight && element.contains(document.elementFromPoint(x, y));
})"""
HEADS = "[...document.querySelectorAll('[role=columnheader][col-id]')]"
LINES = "document.querySelectorAll('.scatterlayer .point, .scatterlayer .trace, .gl-canvas').length"
LINK = "[...document.querySelectorAll('{}')].find(a => a.innerText.trim() === '{}').href"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with two studies in one store, their results by name, and the port of `hpo ui`."""
    folder, results, port = tmp_path_factory.mktemp("views"), {}, str(free_port())
    uri = new_store(folder)
    with contextlib.chdir(folder):
        for name, trials in (("early", 5), ("late", 6)):
            section = toy_config(trials=trials)["study"] | {"name": name}
            study = tracked_study(folder, uri=uri, study=section)
            results[name] = run(replace(study, folder=StudyFolder(folder / "runs" / name))).run
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    server = start("ui", "--port", port, "--no-browser", "--uri", uri, cwd=folder, **silent)
    while True:
        with contextlib.suppress(OSError), urlopen(f"http://127.0.0.1:{port}", timeout=10):
            break
        assert server.poll() is None
        time.sleep(0.2)
    yield folder, results, port
    server.terminate()
    server.wait(timeout=60)


@pytest.fixture
def pages(place, capsys, monkeypatch):
    monkeypatch.chdir(place[0])
    uri = f"sqlite:///{place[0]}/mlflow.db"
    out = prints(capsys, "ui", "--port", place[2], "--no-browser", "--uri", uri)
    return {what.rstrip(": "): f"http{rest}" for what, _, rest in (x.rpartition("http") for x in out.splitlines())}


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Chromium(tmp_path_factory.mktemp("browser"), 1280, 800) as chromium:
        chromium.before_pages(NO_ASSISTANT)
        yield chromium


def heads(browser):
    placed = browser.evaluate(f"{HEADS}.filter({SEEN}).map(e => [e.getBoundingClientRect().left, e.innerText.trim()])")
    return [name for _, name in sorted(placed) if name]


def row(browser, number):
    cells = f"[...document.querySelectorAll('[row-index={json.dumps(str(number))}] [role=gridcell]')].filter({SEEN})"
    return browser.evaluate(
        f"(() => {{ const named = new Map({HEADS}.map(e => [e.getAttribute('col-id'), e.innerText.trim()]));"
        f"return Object.fromEntries({cells}.map(e => [named.get(e.getAttribute('col-id')), e.innerText.trim()])) }})()"
    )


def shown_number(text):
    """Return a number that a table shows, which it may cut: as exact as its digits."""
    digits = text.rstrip("…")
    return pytest.approx(float(digits), abs=10.0 ** -len(digits.partition(".")[2]), rel=0)


def test_all_studies_are_one_row_each_with_their_results_and_a_click_from_their_pages(place, browser, pages):
    results = place[1]
    browser.open(pages[""])
    browser.wait_for("2 matching runs", "hpo.trials")
    wanted = ["Run Name", "hpo.state", "best_score", "hpo.goal", "hpo.strategy", "hpo.data", "hpo.trials", "hours"]
    assert [head for head in heads(browser) if head in wanted] == wanted
    # The latest is first.
    for number, name in enumerate(("late", "early")):
        shown = row(browser, number)
        assert shown["Run Name"].splitlines()[-1] == name
        assert results[name].winner.score == shown_number(shown["best_score"])
        assert (shown["hpo.state"], shown["hpo.goal"]) == ("ended", "max score")
    browser.open(pages["charts"])
    browser.wait_for("Studies\n(2)", "best_score")
    browser.wait(lambda: browser.evaluate(LINES) > 0, "lines")
    # It opens in a window of its own.
    browser.open(browser.evaluate(LINK.format("p a", "early")))
    winner = results["early"].winner
    first = browser.wait_for("Winner: trial", "About this run").partition("Winner: ")[2].splitlines()[0]
    assert first.startswith(f"trial {winner.number}, score {winner.score:.4f}")
    assert "again with hpo reproduce early" in first
    # The note leads to each of the best trials.
    browser.open(browser.evaluate(LINK.format("a", f"trial {winner.number}")))
    browser.wait_for(f"{winner.number:04d} ", "fold_0/final_score", "Parent run")
