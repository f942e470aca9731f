"""A report's page in a real browser: it draws every figure, a click finds its trial's row, words filter the rows."""

import re

import pytest

from tests.browser.chromium import BINARY, FAULTS, Chromium
from tests.hpo.report.made_up import TOY_SPACE
from tests.studies import report_again, run_toy, toy_config

pytestmark = [pytest.mark.slow, pytest.mark.skipif(BINARY is None, reason="there is no Chromium")]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The text of a study's page."""
    folder, config = tmp_path_factory.mktemp("page") / "toy", toy_config("random", TOY_SPACE, 24)
    run_toy(folder, config)
    report_again(folder, config)
    return (folder / "report.html").read_text(encoding="utf-8")


def test_a_browser_draws_every_figure_without_a_network(page, tmp_path):
    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    with Chromium(tmp_path / "profile", width=1400, height=12_000) as browser:
        browser.before_pages(FAULTS)
        browser.open(f"file://{tmp_path / 'report.html'}")
        drawn = "[...document.querySelectorAll('.js-plotly-plot')].map(place => place.id)"
        wanted = re.findall(r"<div class='figure' id='([\w-]+)'", page)
        browser.wait(lambda: browser.evaluate(drawn) == wanted, f"all of {wanted}")
        assert len(wanted) >= 7
        assert browser.evaluate("faults") == []


def test_a_click_finds_the_trial_s_row_words_filter_and_the_contents_fold(page, tmp_path):
    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    row = "document.querySelector('tr:target').id"
    shown = "[...document.querySelectorAll('.sortable tbody tr')].filter(row => !row.hidden).map(row => row.innerText)"
    with Chromium(tmp_path / "profile", width=400) as browser:
        browser.open(f"file://{tmp_path / 'report.html'}")
        browser.wait(lambda: browser.evaluate("!!document.getElementById('best-so-far')?.data"), "a figure")
        assert browser.evaluate("document.querySelector('nav details').open") is False
        assert browser.evaluate("document.documentElement.scrollWidth") == 400
        browser.evaluate(
            "document.getElementById('best-so-far').emit('plotly_click', {points: [{data: {}, customdata: 7}]})"
        )
        assert browser.evaluate(row) == "trial-7"
        everything = browser.evaluate(shown)
        browser.evaluate(
            "document.getElementById('filter').value = 'relu 64';"
            "document.getElementById('filter').dispatchEvent(new Event('input'))"
        )
        wanted = [text for text in everything if "relu" in text and any("64" in cell for cell in text.split("\t"))]
        assert 0 < len(wanted) < len(everything)
        assert browser.evaluate(shown) == wanted
