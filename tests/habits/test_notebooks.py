"""Habits of scripts and notebooks: print the study, export the page, stop with Ctrl-C, open the UI."""

import base64
import json
import re
import signal
import subprocess
import sys
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


@pytest.mark.nightly
def test_the_ui_answers_when_its_address_is_known(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    server = hpo.open_ui(port=free_port(), uri=new_store(tmp_path))
    try:
        assert server.address.endswith("/#/experiments?workflowType=machine_learning")
        with urllib.request.urlopen(server.address, timeout=30) as answer:
            assert answer.status == 200
    finally:
        server.close()


QUIET = {"track": "none", "dispatch": "local"}
SCRIPT = """
import os, signal, hpo
def train(config):
    if config["x"] == 2:
        os.kill(os.getpid(), signal.SIGINT)
    return config["x"]
space, settings = {"x": [1, 2]}, %r
hpo.search(train, space, strategy="grid", metric="accuracy", direction="maximize", trials=2, settings=settings)
"""


# A signal comes when this function is called.
EARLY = """
import importlib, os, signal
import hpo.commands.search
path, _, name = "{place}".rpartition(".")
module = importlib.import_module(path)
kept = getattr(module, name)
def interrupted(*given):
    os.kill(os.getpid(), signal.SIGINT)
    return kept(*given)
setattr(module, name, interrupted)
"""


def one_less(config):
    return 1 - config["x"]


def searched(space, strategy, trials):
    measured = {"metric": "accuracy", "direction": "maximize", "settings": QUIET, "progress": False}
    return hpo.search(one_less, space, strategy=strategy, trials=trials, **measured)


def test_print_shows_the_result():
    study = searched({"x": [0.25, 0.5]}, "grid", trials=2)
    lines = str(study).splitlines()
    assert lines[:2] == ["study one_less: ended", "2 of 2 trials, 0 failed"]
    assert re.fullmatch(r"winner: trial \d, accuracy 0.7500", lines[2])
    assert lines[3:] == ["  x = 0.25", "report: runs/one_less/report.html"]


@pytest.mark.nightly
def test_pictures_of_a_notebook_are_there_without_scripts_and_network():
    study = searched({"x": (0.0, 1.0), "y": (0.0, 1.0)}, "random", trials=12)
    for figure in ("best_so_far", "contours"):
        shown = study.plot(figure)._repr_mimebundle_()
        assert shown["application/vnd.plotly.v1+json"]["data"], figure
        page, picture = shown["text/html"], shown.get("image/png")
        assert not re.search(r"(src|href)=.?(https?:)?//", page)
        assert (picture is None) == (figure == "contours")
        if picture is not None:
            assert base64.b64decode(picture).startswith(b"\x89PNG")
            assert f"src='data:image/png;base64,{picture}'" in page
        assert len(json.dumps(shown)) < 1.5e6


def test_figures_are_files_for_a_paper_and_equal_figures_are_equal_files():
    study = searched({"x": (0.0, 1.0)}, "random", trials=6)
    begins = {"pdf": b"%PDF", "png": b"\x89PNG", "svg": b"<?xml"}
    for ending, head in begins.items():
        path = Path(f"best.{ending}")
        assert study.plot("best_so_far", file=path).data
        first = path.read_bytes()
        assert first.startswith(head)
        study.plot("best_so_far", file=str(path))
        assert path.read_bytes() == first


@pytest.mark.parametrize(
    ("figure", "file", "says"),
    [
        ("best_so_far", "best.jpg", r"file: must end with one of .pdf, .png, .svg, given 'best.jpg'"),
        ("best_so_far", "nowhere/best.pdf", r"file: 'nowhere/best.pdf' cannot be written: No such file"),
        ("contours", "contours.pdf", r"plotly needs the package kaleido and Chrome to write contours"),
    ],
)
def test_a_figure_that_cannot_be_a_file_is_refused_in_one_line(figure, file, says, monkeypatch):
    def without_kaleido(*_, **__):
        raise RuntimeError("Image export requires the Kaleido package")

    monkeypatch.setattr("plotly.graph_objects.Figure.to_image", without_kaleido)
    study = searched({"x": (0.0, 1.0), "y": (0.0, 1.0)}, "random", trials=10)
    with pytest.raises(hpo.HpoError, match=says):
        study.plot(figure, file=file)
    assert not Path(file).exists()


@pytest.mark.slow
def test_ctrl_c_in_a_script_is_one_line_and_the_signal_s_exit_code():
    path = Path("script.py")
    path.write_text(SCRIPT % QUIET)
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGINT  # which a shell calls 130
    assert re.fullmatch(r"stopped: \d of 2 trials are saved in runs/train; the same call goes on\n", done.stderr)


@pytest.mark.slow("importlib*")
@pytest.mark.nightly
@pytest.mark.parametrize(
    "place", ["importlib.import_module", "hpo.commands.search.prepare_study", "hpo.session.session.make_dispatcher"]
)
def test_ctrl_c_before_the_first_training_is_one_line_too(place):
    Path("script.py").write_text(EARLY.format(place=place) + SCRIPT % QUIET)
    done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGINT
    assert re.fullmatch(r"stopped( before any training began)?; the same call goes on\n", done.stderr)
    assert not Path("runs").exists()
