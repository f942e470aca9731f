"""`hpo train` of an objective of one's own."""

from pathlib import Path

import pytest
import yaml

from tests.hpo.cli.commands import hpo, refused
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
    # It is no study.
    assert hpo(capsys, "list")[1] == "no study in runs; start one with `hpo search`\n"
    assert "there is none yet" in refused(capsys, "show", "own", is_silent=True)


@pytest.mark.quick("*-train")
@pytest.mark.slow
@pytest.mark.parametrize("command", ["search", "train"])
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("model.shape=blue", "model.shape: must be 'encoder', 'decoder'"),
        ("study.metric=val_loss", "study.metric: must be one of accuracy"),
        ("data=translation", "data.path: must be given; for separate files, give data.train"),
        ("model.d_model=63", "model.d_model"),
        ("training.lr=-1", "training.lr"),
        ("study.direction=up", "study.direction"),
        ("dispatch.threads=0", "dispatch.threads"),
    ],
)
def test_a_configuration_that_is_refused_is_not_printed(capsys, command, given, words):
    assert words in refused(capsys, command, given, "--cfg", "job", is_silent=True)


def test_a_space_that_is_refused_is_not_printed(capsys):
    for given in ("space.model.num_layers=[0]", "+space.model.size=[1,2]", "strategy.round_size=0"):
        assert given.partition("=")[0].lstrip("+") in refused(capsys, "search", given, "--cfg", "job", is_silent=True)
