"""The live page in a real browser: it draws, follows a search without being loaded anew, and says when it has ended."""

from urllib.error import URLError
from urllib.request import urlopen

import pytest

from hpo.commands.watch import open_page
from hpo.study.files.status import RunningTask, Status, write_running, write_status
from hpo.study.opening import open_study
from hpo.trials.trial import Outcome, Proposal
from tests.browser.chromium import BINARY, FAULTS, Chromium
from tests.hpo.report.made_up import TOY_SPACE
from tests.studies import prepared, run_toy, toy_config

pytestmark = [pytest.mark.slow, pytest.mark.skipif(BINARY is None, reason="there is no Chromium")]

_DRAWN = "document.getElementById('best-so-far')?.data?.[0].x.length ?? 0"
_CURVES = (
    "document.getElementById('learning-curves')?.data?.filter(trace => trace.meta === 12).map(trace => [...trace.y])"
)


def status(folder, state, **changes):
    goal, updated = {"score": "maximize"}, 1.0
    write_status(folder, Status(name="toy", state=state, metrics=goal, budget=20, updated=updated, **changes))


def test_a_browser_follows_a_search_to_its_end(tmp_path):
    config = toy_config("random", TOY_SPACE, 12)
    run_toy(tmp_path / "toy", config)
    study = prepared(tmp_path / "toy", toy_config("random", TOY_SPACE, 20))
    folder = study.folder
    with folder.lock(), Chromium(tmp_path / "profile", width=1280, height=12_000) as browser:
        record = open_study(study)
        status(folder, "running", done=12)
        page = open_page(str(folder.path), 800)
        browser.before_pages(FAULTS)
        browser.open(page.address)
        before = len([trial for trial in record.trials() if trial.state == "complete"])
        browser.wait(lambda: browser.evaluate(_DRAWN) == before, "the trials so far")
        browser.evaluate("window.kept = true")

        number = record.open_trial(12, Proposal(record.trials()[0].point)).number
        curve = [(1.0, -9.0), (2.0, -8.0)]
        task = RunningTask(
            trial=number, task=0, worker=0, started=1.0, point={"epoch": 2.0, "score": -8.0}, curve=curve
        )
        write_running(folder, [task])
        browser.wait_for("trial 12", "epoch 2, score -8")
        browser.wait(lambda: browser.evaluate(_CURVES) == [[-9.0, -8.0]], "the curve of the training under way")

        record.add_outcome(
            number, 0, Outcome({"score": 9.0}, curve=[{"epoch": 1, "score": 9.0}], started=1.0, worker=1)
        )
        write_running(folder, [])
        status(folder, "running", done=13, best=12)
        browser.wait_for("trial 12, score 9.0000", "the best so far")
        browser.wait(lambda: browser.evaluate(_DRAWN) == before + 1, "one dot more")
        record.close()
        status(folder, "ended", done=20, best=12, ended_by="trials")
        # As if its process had ended.
        (folder.path / "driver.lock").unlink()
        browser.wait_for("on validation, the winner", "hpo resume")
        browser.wait(lambda: browser.evaluate("source.readyState") == 2, "that it listens no more")
        assert browser.evaluate("kept") is True
        assert browser.evaluate("faults") == []
        page.close()
        with pytest.raises(URLError):
            urlopen(page.address, timeout=5)


def test_on_a_phone_it_is_no_wider_than_the_screen(tmp_path):
    run_toy(tmp_path / "toy", toy_config("random", TOY_SPACE, 12))
    page = open_page(str(tmp_path / "toy"), 800)
    with Chromium(tmp_path / "profile", width=390, height=844) as browser:
        browser.open(page.address)
        browser.wait(lambda: browser.evaluate(_DRAWN) > 0, "a figure")
        assert browser.evaluate("document.documentElement.scrollWidth") == 390
        assert browser.evaluate("document.querySelector('nav details').open") is False
    page.close()
