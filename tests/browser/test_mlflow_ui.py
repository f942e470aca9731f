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
from tests.hpo.cli.commands import hpo
from tests.studies import toy_config
from tests.tracked import new_store, run, tracked_study

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BINARY is None, reason="there is no Chromium"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]

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
FIRST_CELLS = "[...document.querySelectorAll('table tbody tr')].map(row => row.innerText.split('\\t')[0])"


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with two studies in one store, their results by name, and the port of `hpo ui`."""
    folder, results, port = tmp_path_factory.mktemp("views"), {}, str(free_port())
    uri = new_store(folder)
    sections = {name: toy_config(trials=n)["study"] | {"name": name} for name, n in (("halved", 5), ("plain", 6))}
    amounts = {"strategy": "asha", "objective": "toy_data:noisy_continued"}
    with contextlib.chdir(folder):
        for name, section in sections.items():
            study = tracked_study(folder, uri=uri, study=section, **(amounts if name == "halved" else {}))
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
    """Return a function from names of studies to the addresses of their pages, by the words in front of each."""
    monkeypatch.chdir(place[0])

    def pages(*studies):
        uri = f"sqlite:///{place[0]}/mlflow.db"
        out = hpo(capsys, "ui", *studies, "--port", place[2], "--no-browser", "--uri", uri)[1]
        return {what.rstrip(": "): f"http{rest}" for what, _, rest in (x.rpartition("http") for x in out.splitlines())}

    return pages


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Chromium(tmp_path_factory.mktemp("browser"), 1280, 800) as chromium:
        chromium.before_pages(NO_ASSISTANT)
        yield chromium


def heads(browser):
    """Return the names of the columns that are seen, from left to right."""
    placed = browser.evaluate(f"{HEADS}.filter({SEEN}).map(e => [e.getBoundingClientRect().left, e.innerText.trim()])")
    return [name for _, name in sorted(placed) if name]


def row(browser, number):
    """Return what is seen of a row of a table, by the names of the columns."""
    cells = f"[...document.querySelectorAll('[row-index={json.dumps(str(number))}] [role=gridcell]')].filter({SEEN})"
    return browser.evaluate(
        f"(() => {{ const named = new Map({HEADS}.map(e => [e.getAttribute('col-id'), e.innerText.trim()]));"
        f"return Object.fromEntries({cells}.map(e => [named.get(e.getAttribute('col-id')), e.innerText.trim()])) }})()"
    )


def is_seen_as(text, value):
    """Return whether a table shows a number, which it may cut."""
    digits = text.rstrip("…")
    return abs(float(digits) - value) <= 10.0 ** -len(digits.partition(".")[2])


def open_charts(browser, address, *texts):
    """Open a page, wait until its charts are drawn, and return its text."""
    browser.open(address)
    text = browser.wait_for(*texts)
    browser.wait(lambda: browser.evaluate(LINES) > 0, "lines")
    return text


def test_all_studies_are_one_row_each_with_their_results_and_a_click_from_their_pages(place, browser, pages):
    results = place[1]
    everything = pages()
    browser.open(everything[""])
    browser.wait_for("2 matching runs", "hpo.trials")
    wanted = ["Run Name", "hpo.state", "best_score", "hpo.goal", "hpo.strategy", "hpo.data", "hpo.trials", "hours"]
    assert [head for head in heads(browser) if head in wanted] == wanted
    # The latest is first.
    for number, name in enumerate(("plain", "halved")):
        shown = row(browser, number)
        assert shown["Run Name"].splitlines()[-1] == name
        assert is_seen_as(shown["best_score"], results[name].winner.score)
        assert (shown["hpo.state"], shown["hpo.goal"]) == ("ended", "max score")
    assert row(browser, 0)["hpo.trials"] == "6 of 6"
    open_charts(browser, everything["charts"], "Studies\n(2)", "best_score")
    # It opens in a window of its own.
    browser.open(browser.evaluate(LINK.format("p a", "halved")))
    winner = results["halved"].winner
    first = browser.wait_for("Winner: trial", "About this run").partition("Winner: ")[2].splitlines()[0]
    assert first.startswith(f"trial {winner.number}, score {winner.score:.4f}")
    assert "again with hpo reproduce halved" in first


def test_a_study_opens_on_its_trials_best_first_with_hyperparameters_before_measurements(place, browser, pages):
    result, of_study = place[1]["halved"], pages("halved")
    browser.open(of_study[""])
    browser.wait_for(f"{len(result.trials)} matching runs", "amount")
    shown = heads(browser)
    assert shown.index("score") < shown.index("toy.lr") < shown.index("amount") < shown.index("trial")
    ranked = sorted((trial for trial in result.trials if trial.score is not None), key=lambda trial: -trial.score)
    for number, trial in enumerate(ranked[:3]):
        seen = row(browser, number)
        assert is_seen_as(seen["score"], trial.score)
        assert is_seen_as(seen["toy.lr"], trial.point["toy.lr"])
        assert int(seen["amount"]) == trial.amount
    text = open_charts(browser, of_study["charts"], "trial vs. score", "Parallel Coor")
    assert text.index("trial vs. score") < text.index("Model metrics"), "the study's own charts come first"


def test_a_study_s_note_has_its_best_trials_and_leads_to_them(place, browser, pages):
    result = place[1]["plain"]
    browser.open(pages("plain")["its run"])
    browser.wait_for("About this run", "Winner: trial")
    browser.click("Show more")
    text = browser.wait_for("best trials", "Child runs", "hpo reproduce plain")
    best = [trial.number for trial in result.history.ranked(5) if trial.state == "complete"]
    assert [int(cell) for cell in browser.evaluate(FIRST_CELLS)[: len(best)]] == best
    assert "*" not in text.partition("Winner")[2][:60], "Markdown is shown as what it means"
    browser.open(browser.evaluate(LINK.format("a", f"trial {result.winner.number}")))
    browser.wait_for(f"{result.winner.number:04d} ", "fold_0/final_score", "Parent run")
