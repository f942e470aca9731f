"""What is seen of studies in MLflow's own UI, in a window of 1280 x 800: read off the page, under what is printed."""

import colorsys
import contextlib
import re
from dataclasses import replace

import pytest

from hpo.study.files.folder import StudyFolder
from tests.browser.chromium import BINARY, Chromium
from tests.browser.mlflow_ui import NO_ASSISTANT, Ui, color, heads, row
from tests.studies import toy_config
from tests.tracked import new_store, run, tracked_study

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BINARY is None, reason="there is no Chromium"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return a folder with two studies, and what they came to by name: one trains by amounts."""
    folder, results = tmp_path_factory.mktemp("views"), {}
    uri = new_store(folder)
    given = {
        "halved": {"strategy": "asha", "objective": "tests.toy_data:noisy_continued", "trials": 5},
        "plain": {"trials": 6},
    }
    with contextlib.chdir(folder):
        for name, changes in given.items():
            section = toy_config(trials=changes["trials"])["study"] | {"name": name}
            study = tracked_study(folder, uri=uri, study=section, **changes)
            results[name] = run(replace(study, folder=StudyFolder(folder / "runs" / name))).run
    return folder, results


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Chromium(tmp_path_factory.mktemp("browser"), 1280, 800) as chromium:
        chromium.before_pages(NO_ASSISTANT)
        yield chromium


def number(text):
    """Return a number as the table cuts it, and how much of it is not seen."""
    digits = text.rstrip("…")
    return float(digits), 10.0 ** -len(digits.partition(".")[2])


def is_seen_as(text, value):
    seen, step = number(text)
    return abs(seen - value) <= step


def drawn(browser):
    """Wait until the charts are drawn."""
    browser.wait(
        lambda: (
            browser.evaluate(
                "document.querySelectorAll('.scatterlayer .point, .scatterlayer .trace, .gl-canvas').length"
            )
            > 0
        ),
        "lines",
    )


def test_all_studies_are_one_row_each_with_what_they_came_to_and_a_click_from_their_pages(place, browser):
    folder, results = place
    with Ui(folder, lines=2) as ui:
        browser.open(ui.address)
        browser.wait_for("2 matching runs", "hpo.trials")
        shown = heads(browser)
        wanted = ["Run Name", "hpo.state", "best_score", "hpo.goal", "hpo.strategy", "hpo.data", "hpo.trials", "hours"]
        assert [head for head in shown if head in wanted] == wanted
        rows = [row(browser, place) for place in range(2)]
        # The latest is first.
        assert [each["Run Name"].splitlines()[-1] for each in rows] == ["plain", "halved"]
        for each, name in zip(rows, ("plain", "halved"), strict=True):
            assert is_seen_as(each["best_score"], results[name].winner.score)
            assert (each["hpo.state"], each["hpo.goal"]) == ("ended", "max score")
        assert rows[0]["hpo.trials"] == "6 of 6"
        browser.open(ui.pages["charts"])
        browser.wait_for("Studies\n(2)", "best_score")
        drawn(browser)
        link = "[...document.querySelectorAll('p a')].find(a => a.innerText.trim() === 'halved').href"
        # It opens in a window of its own.
        browser.open(browser.evaluate(link))
        text = browser.wait_for("Winner: trial", "About this run")
        winner = results["halved"].winner
        first = text.partition("Winner: ")[2].splitlines()[0]
        assert first.startswith(f"trial {winner.number}, score {winner.score:.4f}")
        assert "again with hpo reproduce halved" in first


def test_a_study_opens_on_its_trials_best_first_with_hyperparameters_before_what_is_noted(place, browser):
    folder, results = place
    with Ui(folder, "halved", lines=3) as ui:
        browser.open(ui.address)
        trials = [trial for trial in results["halved"].trials if trial.score is not None]
        browser.wait_for(f"{len(results['halved'].trials)} matching runs", "amount")
        shown = heads(browser)
        assert shown.index("score") < shown.index("toy.lr") < shown.index("amount") < shown.index("trial")
        ranked = sorted(trials, key=lambda trial: -trial.score)
        for place_, trial in enumerate(ranked[:3]):
            seen = row(browser, place_)
            assert is_seen_as(seen["score"], trial.score)
            assert is_seen_as(seen["toy.lr"], trial.point["toy.lr"])
            assert int(seen["amount"]) == trial.amount
        browser.open(ui.pages["charts"])
        text = browser.wait_for("trial vs. score", "Parallel Coor")
        assert text.index("trial vs. score") < text.index("Model metrics"), "the study's own charts stand first"
        drawn(browser)
        browser.open(ui.pages["its run"])
        browser.wait_for("About this run", "Winner: trial")


def test_several_studies_are_side_by_side_each_in_a_color_of_its_own(place, browser):
    folder, results = place
    with Ui(folder, "plain", "halved", lines=4) as ui:
        browser.open(ui.address)
        count = sum(len(verdict.trials) for verdict in results.values())
        browser.wait_for(f"{count} matching runs", "hpo.study")
        hues = {}
        for place_ in range(8):
            red, green, blue = (int(part) / 255 for part in re.findall(r"\d+", color(browser, place_))[:3])
            hues.setdefault(row(browser, place_)["hpo.study"], []).append(colorsys.rgb_to_hls(red, green, blue)[0])
        assert hues.keys() == {"plain", "halved"}
        assert all(max(each) - min(each) < 0.02 for each in hues.values())
        assert abs(hues["plain"][0] - hues["halved"][0]) > 0.2
        browser.open(ui.pages["studies"])
        browser.wait_for("2 matching runs", "hpo.trials")
        browser.open(ui.pages["their charts"])
        browser.wait_for("Studies\n(2)", "best_score")
        drawn(browser)
