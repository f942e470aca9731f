"""What a person sees of a study of 100 trials in MLflow's own UI, looked at with a real browser.

Run with `python -m pytest -m nightly tests/browser`; skipped where there is no Chromium.
"""

import contextlib
import urllib.error
import urllib.request

import pytest

from hpo.study.opening import read_study
from tests.browser.chromium import BINARY, Chromium
from tests.browser.mlflow_ui import NO_ASSISTANT, Ui
from tests.tracked import front_study, new_store, run, runs_of, words_study

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(BINARY is None, reason="there is no Chromium"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ui")
    uri = new_store(folder)
    with contextlib.chdir(folder):
        (folder / "runs").mkdir()
        study = words_study(folder / "runs", trials=100, uri=uri)
        return study, run(study, has_figures=True)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Chromium(tmp_path_factory.mktemp("browser"), 1500, 1250) as chromium:
        chromium.before_pages(NO_ASSISTANT)
        yield chromium


@pytest.fixture(scope="module")
def ui(study, browser):
    with Ui(study[0].folder.path.parents[1], "--study", "reviews", lines=3) as ui:
        browser.wait(lambda: ui.status(f"127.0.0.1:{ui.port}") == 200, "the server", seconds=120)
        yield ui


def test_the_study_s_page_shows_a_note_with_winner_best_five_and_how_to_reproduce(ui, browser, study):
    _, result = study
    parent, _ = runs_of(study[0])
    browser.open(ui.pages["its run"])
    browser.wait_for("Winner: trial")
    browser.click("Show more")
    text = browser.wait_for("best trials", "Child runs", "0099")
    winner = result.run.winner
    assert f"Winner: trial {winner.number}, accuracy" in text
    assert "100 of 100 trials" in text
    assert f"hpo reproduce runs:/{parent.info.run_id}" in text
    assert "hpo reproduce reviews" in text
    best = [trial for trial in result.run.history.ranked(5) if trial.state == "complete"]
    cells = browser.evaluate(
        "[...document.querySelectorAll('table tbody tr')].map(row => row.innerText.split('\\t')[0])"
    )
    assert [int(cell) for cell in cells[:5]] == [trial.number for trial in best]
    assert "*" not in text.partition("Winner")[2][:60], "Markdown is shown as what it means"


def test_links_in_the_note_lead_to_the_trial_and_to_the_table(ui, browser, study):
    _, result = study
    browser.open(ui.pages["its run"])
    browser.wait_for("Winner: trial")
    find = "[...document.querySelectorAll('a')].find(a => a.innerText.trim() === '{}').href"
    browser.open(browser.evaluate(find.format(f"trial {result.run.winner.number}")))
    browser.wait_for(f"{result.run.winner.number:04d} lr=", "fold_0/final_accuracy", "Parent run")


def test_of_several_metrics_the_note_has_a_table_of_the_front_and_leads_to_its_view(tmp_path, browser):
    uri = new_store(tmp_path)
    (tmp_path / "runs").mkdir()
    study = front_study(tmp_path / "runs", uri=uri)
    verdict = run(study).run
    with Ui(tmp_path, "--study", "study", lines=3) as ui:
        browser.wait(lambda: ui.status(f"127.0.0.1:{ui.port}") == 200, "the server", seconds=120)
        browser.open(ui.pages["its run"])
        browser.wait_for("Winner: trial")
        browser.click("Show more")
        text = browser.wait_for("of the front", "Chosen as the knee of the front")
        assert f"Winner: trial {verdict.winner.number}, score" in text
        assert "seconds ≤ 4" in text
        cells = browser.evaluate(
            "[...document.querySelectorAll('table tbody tr')].map(row => row.innerText.split('\\t')[0])"
        )
        members = [trial.number for trial in verdict.front]
        assert set(map(int, cells[: min(5, len(members))])) <= set(members)
        front = browser.evaluate("[...document.querySelectorAll('a')].find(a => a.href.endsWith('-front')).href")
        browser.open(front)
        browser.wait_for(f"{len(members)} matching run", "size", "hpo.is_on_front")
        browser.open(f"{front}&compareRunsMode=CHART")
        browser.wait_for("score vs. size", "trial vs. score", "trial vs. size", "Parallel Coordinates")


def test_the_record_shows_in_optuna_dashboard_and_cannot_be_changed(browser, study):
    pytest.importorskip("optuna_dashboard")
    with Ui(study[0].folder.path.parents[1], "--study", "reviews", "--optuna") as ui:
        browser.wait(lambda: ui.status(f"127.0.0.1:{ui.port}") is not None, "the server", seconds=60)
        assert ui.status("evil.example") == 403
        browser.open(ui.address)
        text = browser.wait_for(f"Best Trial (number={study[1].run.winner.number})")
        assert f"{study[1].run.winner.score}" in text
        assert "words.lr" in text
        request = urllib.request.Request(f"{ui.base}/api/studies/1", method="DELETE")
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(request, timeout=10)
    record = read_study(study[0])
    assert len(record.trials()) == 100
    record.close()
