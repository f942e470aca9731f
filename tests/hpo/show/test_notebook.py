"""Habits of scripts and notebooks: print the study, draw and export figures, Ctrl-C, a dead kernel, the UI."""

import base64
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

import hpo
from tests.faults.mlflow_server import free_port
from tests.studies import REPOSITORY
from tests.tracked import new_store

QUIET = {"track": "none", "dispatch": "local", "report.figures": False}


def one_less(config):
    return 1 - config["x"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the working directory of a study of 12 trials."""
    folder = tmp_path_factory.mktemp("notebook")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        goal = {"metric": "accuracy", "direction": "maximize", "settings": QUIET, "progress": False}
        hpo.search(one_less, {"x": (0.0, 1.0), "y": (0.0, 1.0)}, strategy="random", trials=12, **goal)
    return folder


@pytest.fixture
def study(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return hpo.load("one_less")


def test_print_shows_the_result(study):
    lines = str(study).splitlines()
    assert lines[:2] == ["study one_less: ended", "12 of 12 trials, 0 failed"]
    assert lines[2] == f"winner: trial {study.best.number}, accuracy {study.best.score:.4f}"
    assert [line.split(" = ")[0] for line in lines[3:5]] == ["  x", "  y"]
    assert lines[5:] == ["report: runs/one_less/report.html"]


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
def test_a_figure_that_cannot_be_a_file_is_refused_in_one_line(study, figure, file, says, monkeypatch):
    def without_kaleido(*_, **__):
        raise RuntimeError("Image export requires the Kaleido package")

    monkeypatch.setattr("plotly.graph_objects.Figure.to_image", without_kaleido)
    with pytest.raises(hpo.HpoError, match=says):
        study.plot(figure, file=file)
    assert not Path(file).exists()


def test_no_page_of_mlflow_is_written_without_the_mode_that_shows_runs():
    pages = [*REPOSITORY.glob("docs/**/*.md"), REPOSITORY / "README.md", *REPOSITORY.glob("hpo/**/*.py")]
    addresses = [match for page in pages for match in re.findall(r"http://127\.0\.0\.1:\d+/#\S*", page.read_text())]
    assert all("workflowType=machine_learning" in address for address in addresses)
    assert not re.search(r"hpo ui.*http://127\.0\.0\.1:\d+\s", (REPOSITORY / "README.md").read_text())


@pytest.mark.nightly
def test_the_ui_answers_when_its_address_is_known(tmp_path):
    server = hpo.open_ui(port=free_port(), uri=new_store(tmp_path))
    try:
        assert server.address.endswith("/#/experiments?workflowType=machine_learning")
        with urllib.request.urlopen(server.address, timeout=30) as answer:
            assert answer.status == 200
    finally:
        server.close()


SCRIPT = f"""
import os, signal, hpo
def train(config):
    if config["x"] == 2:
        os.kill(os.getpid(), signal.SIGINT)
    return config["x"]
space, settings = {{"x": [1, 2]}}, {QUIET}
hpo.search(train, space, strategy="grid", metric="accuracy", direction="maximize", trials=2, settings=settings)
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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "says"),
    [
        ("", r"stopped: \d of 2 trials are saved in runs/train; the same call goes on\n"),
        (EARLY, r"stopped( before any training began)?; the same call goes on\n"),
    ],
)
def test_ctrl_c_in_a_script_is_one_line_and_the_signals_exit_code(before, says):
    Path("script.py").write_text(before + SCRIPT)
    done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGINT  # which a shell calls 130
    assert re.fullmatch(says, done.stderr)
    assert Path("runs").exists() == (not before)


CELL = f"""
import os, hpo
from pathlib import Path
factor = 2.0
def train(config, trial):
    if trial.number == 3 and not Path("restarted").exists():
        Path("restarted").touch()
        os._exit(1)
    return factor * config["x"]
study = hpo.search(train, {{"x": (0.0, 1.0)}}, trials=6, direction="maximize", settings={QUIET | {"study.lanes": 1}})
print(list(study.trials["state"]), len(list(Path("runs").iterdir())))
"""


@pytest.mark.nightly
def test_the_same_cell_continues_in_a_new_kernel(tmp_path, monkeypatch):
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import DeadKernelError

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")]))

    def run():
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
        NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
        return "".join(output.text for output in notebook.cells[0].outputs if output.output_type == "stream")

    with pytest.raises(DeadKernelError):
        run()
    assert f"{['complete'] * 6} 1" in run()
