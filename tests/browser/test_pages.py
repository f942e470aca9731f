"""The report's page and the live page in a real browser: they draw every figure, and answer clicks and changes."""

import re
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from hpo.commands.watch import open_page
from hpo.study.files.status import RunningTask, Status, write_running, write_status
from hpo.study.opening import open_study
from hpo.trials.trial import Outcome, Proposal
from tests.browser.chromium import BINARY, FAULTS, Chromium
from tests.hpo.report.made_up import TOY_SPACE, reported
from tests.studies import prepared, run_toy, toy_config

pytestmark = [pytest.mark.slow, pytest.mark.skipif(BINARY is None, reason="there is no Chromium")]

DRAWN = "document.getElementById('best-so-far')?.data?.[0].x.length ?? 0"
CURVES = "document.getElementById('learning-curves')?.data?.filter(line => line.meta === 12).map(line => [...line.y])"
ROWS = "[...document.querySelectorAll('.sortable tbody tr')].filter(row => !row.hidden).map(row => row.innerText)"
FILTER = "document.getElementById('filter')"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Chromium(tmp_path_factory.mktemp("profile"), width=1400, height=12_000) as browser:
        browser.before_pages(FAULTS)
        yield browser


def assert_it_fits_on_a_phone(browser):
    browser.resize(390, 844)
    browser.open(browser.evaluate("location.href.split('#')[0]"))
    browser.wait(lambda: browser.evaluate(DRAWN) > 0, "a figure")
    assert browser.evaluate("document.documentElement.scrollWidth") == 390
    assert browser.evaluate("document.querySelector('nav details').open") is False
    browser.resize(1400, 12_000)


def test_a_report_draws_every_figure_without_a_network_a_click_finds_its_row_and_words_filter(browser, tmp_path):
    _, _, page = reported(tmp_path / "toy", toy_config("random", TOY_SPACE, 24))
    browser.open(f"file://{tmp_path}/toy/report.html")
    drawn = "[...document.querySelectorAll('.js-plotly-plot')].map(place => place.id)"
    wanted = re.findall(r"<div class='figure' id='([\w-]+)'", page)
    browser.wait(lambda: browser.evaluate(drawn) == wanted, f"all of {wanted}")
    assert len(wanted) >= 7
    assert browser.evaluate("faults") == []
    click = "emit('plotly_click', {points: [{data: {}, customdata: 7}]})"
    browser.evaluate(f"document.getElementById('best-so-far').{click}")
    assert browser.evaluate("document.querySelector('tr:target').id") == "trial-7"
    everything = browser.evaluate(ROWS)
    browser.evaluate(f"{FILTER}.value = 'relu 64'; {FILTER}.dispatchEvent(new Event('input'))")
    rows = [text for text in everything if "relu" in text and any("64" in cell for cell in text.split("\t"))]
    assert 0 < len(rows) < len(everything)
    assert browser.evaluate(ROWS) == rows
    assert_it_fits_on_a_phone(browser)


def test_a_live_page_follows_a_search_to_its_end(browser, tmp_path):
    run_toy(tmp_path / "toy", toy_config("random", TOY_SPACE, 12))
    study = prepared(tmp_path / "toy", toy_config("random", TOY_SPACE, 20))
    folder = study.folder

    def status(state, **changes):
        goal = {"score": "maximize"}
        write_status(folder, Status(name="toy", state=state, metrics=goal, budget=20, updated=1.0, **changes))

    with folder.lock():
        record = open_study(study)
        status("running", done=12)
        page = open_page(str(folder.path), 800)
        browser.open(page.address)
        before = len([trial for trial in record.trials() if trial.state == "complete"])
        browser.wait(lambda: browser.evaluate(DRAWN) == before, "the trials so far")
        assert_it_fits_on_a_phone(browser)
        browser.evaluate("window.kept = true")
        number = record.open_trial(12, Proposal(record.trials()[0].point)).number
        point, curve = {"epoch": 2.0, "score": -8.0}, [(1.0, -9.0), (2.0, -8.0)]
        write_running(folder, [RunningTask(trial=number, task=0, worker=0, started=1.0, point=point, curve=curve)])
        browser.wait_for("trial 12", "epoch 2, score -8")
        browser.wait(lambda: browser.evaluate(CURVES) == [[-9.0, -8.0]], "the curve of the running training")
        record.add_outcome(number, 0, Outcome({"score": 9.0}, [{"epoch": 1, "score": 9.0}], started=1.0, worker=1))
        write_running(folder, [])
        status("running", done=13, best=12)
        browser.wait_for("trial 12, score 9.0000", "the best so far")
        browser.wait(lambda: browser.evaluate(DRAWN) == before + 1, "one dot more")
        record.close()
        status("ended", done=20, best=12, ended_by="trials")
        # As if its process had ended.
        (folder.path / "driver.lock").unlink()
        browser.wait_for("on validation, the winner", "hpo resume")
        browser.wait(lambda: browser.evaluate("source.readyState") == 2, "that it listens no more")
        assert browser.evaluate("kept") is True
        assert browser.evaluate("faults") == []
        page.close()
        with pytest.raises(URLError):
            urlopen(page.address, timeout=5)
