"""The examples that need no extra, as their first lines say."""

import ast
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hpo.cli.main import main
from tests.studies import REPOSITORY, rows

EXAMPLES = REPOSITORY / "examples"
pytestmark = pytest.mark.nightly


def run(name):
    """Run an example and return what it prints."""
    done = subprocess.run([sys.executable, EXAMPLES / name], capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr
    return done.stdout


def command(name, program, end=None):
    """Return the arguments of hpo in the command that an example's first lines name."""
    text = ast.get_docstring(ast.parse((EXAMPLES / name).read_text()))
    _, *words = shlex.split(text[text.index(program) : end and text.index(end)].replace("\\\n", ""))
    return words


def test_a_pytorch_loop_of_ones_own():
    assert float(run("pytorch_loop.py").splitlines()[-1].split()[0]) > 0.9
    assert "stopped" in {row["state"] for row in rows(Path("runs/train/trials.csv"))}


def test_a_loop_of_two_processes():
    assert float(run("several_processes.py").splitlines()[-1].split()[0]) > 0.8


def test_a_ladder_of_widths_reaches_the_largest_and_passes_the_coordinate_check(capsys):
    assert "study.scale = 4" in run("width_ladder.py")
    shutil.copy(EXAMPLES / "width_ladder.py", ".")
    assert main(command("width_ladder.py", "hpo scale")) == 0
    assert "within 0.2" in capsys.readouterr().out


def test_a_training_that_knows_nothing_of_the_search():
    Path("examples").symlink_to(EXAMPLES)
    assert main([*command("command_line.py", "hpo search", "Any program"), "dispatch=local", "track=none"]) == 0
    trials = rows(Path("runs/command/trials.csv"))
    assert len(trials) == 12
    assert max(float(trial["score"]) for trial in trials) > 0.88


def test_the_tutorial_runs(tmp_path, monkeypatch):
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")]))
    notebook = nbformat.read(EXAMPLES / "tutorial.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    NotebookClient(notebook, timeout=500, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert {output.output_type for output in outputs} == {"display_data", "execute_result", "stream"}
    assert {output.name for output in outputs if output.output_type == "stream"} == {"stdout"}
    pictures = [output for output in outputs if "application/vnd.plotly.v1+json" in output.get("data", {})]
    for kind in ("application/vnd.plotly.v1+json", "text/html", "image/png"):
        assert sum(kind in output.data for output in pictures) == 2
    assert (tmp_path / "runs/train/report.html").exists()
