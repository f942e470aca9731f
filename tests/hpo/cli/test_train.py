"""`hpo train` of an objective of one's own."""

from pathlib import Path

import yaml

from tests.hpo.cli.commands import hpo
from tests.studies import shipped

TRAINER = """
def run_fold(task):
    yield {"warning": "this may take a while"}
    yield {"epoch": 1, "loss": 0.25, "phase": 3}
    return {"score": 1.5}
"""


def test_warnings_and_points_of_every_kind_are_shown(capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(Path.cwd()))
    Path("talking_trainer.py").write_text(TRAINER)
    tree = {
        "objective": "talking_trainer:run_fold",
        "study": {"name": "own", "metric": "score", "direction": "maximize"},
        "split": shipped("default", "split") | {"folds": 1},
        "dispatch": {"threads": 1},
    }
    Path("own.yaml").write_text(yaml.safe_dump(tree))
    code, out, err = hpo(capsys, "train", "--config", "own.yaml")
    assert code == 0, err
    assert "epoch 1  loss 0.25  phase 3" in out
    assert "score = 1.5" in out
    assert err == "warning: this may take a while\n"
