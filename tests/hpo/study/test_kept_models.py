"""A training may keep its model, with a test part or without; those of the best trials stay."""

import json
from pathlib import Path

import pytest

import hpo
from tests.hpo.commands.searched import found, note, noted

SPACE = {"x": [1, 2, 3, 4, 5, 6]}


def writes(config, trial):
    note(config["x"])
    trial.checkpoint_dir.mkdir(parents=True)
    (trial.checkpoint_dir / "weights").write_text(str(config["x"]))
    if config["x"] == 6:
        raise ValueError("no luck")
    return {"score": config["x"], "size": config["x"]}


def kept(study):
    return sorted(int(path.read_text()) for path in study.folder.glob("checkpoints/*/weights"))


@pytest.mark.parametrize(("checkpoints", "expected"), [(1, [5]), (3, [3, 4, 5])])
def test_a_function_keeps_the_models_of_the_best_trials(checkpoints, expected):
    study = found(writes, space=SPACE, trials=6, settings={"study.checkpoints": checkpoints})
    assert kept(study) == expected
    assert study.best.model_dir == study.folder / f"checkpoints/trial_{study.best.number:04d}"
    assert (study.best.model_dir / "weights").read_text() == "5"
    model = json.loads((study.folder / "report.json").read_text())["winner"]["model"]
    assert model["checkpoint_dir"] == f"checkpoints/trial_{study.best.number:04d}"
    assert len(noted()) == 6


def test_a_winner_whose_model_was_not_kept_is_trained_once_more():
    goals = {"metric": {"score": "maximize", "size": "minimize"}, "direction": None, "choose": {"size": 1.0}}
    study = found(writes, space=SPACE, trials=6, **goals)
    assert study.best.point == {"x": 1}
    assert (study.best.model_dir / "weights").read_text() == "1"
    trainings = len(noted())
    assert trainings <= 7
    study.resume(progress=False)
    assert len(noted()) == trainings


def test_what_writes_no_model_has_none():
    study = found(lambda config: config["x"], space=SPACE, trials=3, name="plain")
    assert study.best.model_dir is None
    assert not (study.folder / "checkpoints").exists()


def test_a_single_training_has_a_folder_for_its_model_too():
    Path("mine.py").write_text(
        "def train(config, trial):\n"
        "    trial.checkpoint_dir.mkdir(parents=True)\n"
        "    (trial.checkpoint_dir / 'weights').write_text('1')\n"
        "    return 1.0\n"
    )
    groups = [f"{group}=none" for group in ("data", "model", "training")]
    hpo.train("objective=mine:train", *groups, "study.metric=score", progress=False)
    assert [path.read_text() for path in Path("runs").glob("*/checkpoint/weights")] == ["1"]
