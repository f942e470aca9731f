"""A notebook whose kernel dies in the middle of a search: the same cell goes on in the next kernel."""

import os

import pytest

from tests.studies import REPOSITORY

CELL = """
import os
from pathlib import Path
import hpo

factor = 2.0

def train(config, trial):
    if trial.number == 3 and not Path("restarted").exists():
        Path("restarted").touch()
        os._exit(1)
    return factor * config["x"]

study = hpo.search(train, {"x": (0.0, 1.0)}, trials=6, direction="maximize",
                   settings={"dispatch": "local", "track": "none", "study.lanes": 1})
print(list(study.trials["state"]), len(list(Path("runs").iterdir())))
"""


@pytest.mark.nightly
def test_the_same_cell_goes_on_in_a_new_kernel(tmp_path, monkeypatch):
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
