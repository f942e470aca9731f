"""Habits of scripts and notebooks: draw and export figures, Ctrl-C."""

import base64
import contextlib
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import hpo
from tests.hpo.commands.searched import HERE, found

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("notebook")
    with contextlib.chdir(folder):
        space = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
        found(lambda config: 1 - config["x"], space=space, strategy="random", trials=12, name="drawn")
    return hpo.load(folder / "runs" / "drawn")


def test_pictures_of_a_notebook_are_there_without_scripts_and_network(study):
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


@pytest.mark.parametrize(("ending", "head"), [("pdf", b"%PDF"), ("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_figures_are_files_for_a_paper_and_equal_figures_are_equal_files(study, ending, head):
    files = [Path(f"{name}.{ending}") for name in ("one", "other")]
    assert all(study.plot("best_so_far", file=file).data for file in files)
    first, second = (file.read_bytes() for file in files)
    assert first.startswith(head)
    assert first == second


@pytest.mark.parametrize(("figure", "file", "says"), [
    ("best_so_far", "best.jpg", r"file: must end with one of .pdf, .png, .svg, given 'best.jpg'"),
    ("best_so_far", "nowhere/best.pdf", r"file: 'nowhere/best.pdf' cannot be written: No such file"),
    ("contours", "contours.pdf", r"plotly needs the package kaleido and Chrome to write contours"),
])  # fmt: skip
def test_a_figure_that_cannot_be_a_file_is_refused_in_one_line(study, figure, file, says, monkeypatch):
    def without_kaleido(*_, **__):
        raise RuntimeError("Image export requires the Kaleido package")

    monkeypatch.setattr("plotly.graph_objects.Figure.to_image", without_kaleido)
    with pytest.raises(hpo.HpoError, match=says):
        study.plot(figure, file=file)
    assert not Path(file).exists()


SCRIPT = f"""
import os, signal, hpo
def train(config):
    if config["x"] == 2:
        os.kill(os.getpid(), signal.SIGINT)
    return config["x"]
hpo.search(train, {{"x": [1, 2]}}, strategy="grid", direction="maximize", trials=2, settings={HERE})
"""
# A signal comes as soon as the search imports a module.
EARLY = """
import importlib, os, signal
import hpo.commands.search
kept = importlib.import_module
def interrupted(*given):
    os.kill(os.getpid(), signal.SIGINT)
    return kept(*given)
importlib.import_module = interrupted
"""


@pytest.mark.parametrize(("before", "says"), [
    ("", r"stopped: \d of 2 trials are saved in runs/train; repeat the call to go on\n"),
    (EARLY, r"stopped( before any training began)?; repeat the call to go on\n"),
])  # fmt: skip
def test_ctrl_c_in_a_script_is_one_line_and_the_signals_exit_code(before, says):
    Path("script.py").write_text(before + SCRIPT)
    done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGINT  # which a shell calls 130
    assert re.fullmatch(says, done.stderr)
    assert Path("runs").exists() == (not before)
