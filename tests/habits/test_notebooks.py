"""Habits of scripts and notebooks: print the study, export the page, stop with Ctrl-C, open the UI."""

import re
import urllib.request
from pathlib import Path

import pytest

import hpo
from tests.faults.mlflow_server import free_port
from tests.tracked import new_store

ROOT = Path(__file__).parents[2]


def test_no_page_of_mlflow_is_written_without_the_mode_that_shows_runs():
    pages = [*ROOT.glob("docs/**/*.md"), ROOT / "README.md", *ROOT.glob("hpo/**/*.py")]
    addresses = [match for page in pages for match in re.findall(r"http://127\.0\.0\.1:\d+/#\S*", page.read_text())]
    assert all("workflowType=machine_learning" in address for address in addresses)
    assert not re.search(r"hpo ui.*http://127\.0\.0\.1:\d+\s", (ROOT / "README.md").read_text())


@pytest.mark.slow
def test_the_ui_answers_when_its_address_is_known(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    server = hpo.open_ui(port=free_port(), uri=new_store(tmp_path))
    try:
        assert server.address.endswith("/#/experiments?workflowType=machine_learning")
        with urllib.request.urlopen(server.address, timeout=30) as answer:
            assert answer.status == 200
    finally:
        server.close()
