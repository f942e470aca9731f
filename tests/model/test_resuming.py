"""A training that goes on from its state ends as the one that was never stopped; a state that is not whole is left."""

from pathlib import Path

import pytest

from model import objective
from model.errors import CheckpointError
from model.training.progress import Resumable
from tests.model.conftest import repeatable, run, small

HARD = {"training__epochs": 6, "model__dropout": 0.3, "training__lr": 0.02}


def killed_after_four_points(fold, tmp_path, monkeypatch):
    """A training with states that was killed; its task, and what it yields and returns when it is not."""
    monkeypatch.setattr(Resumable, "is_due", True)
    task = fold(small(**HARD))
    points, result = run(task)
    task["resume_dir"] = str(tmp_path / "state")
    killed = objective.run_fold(task)
    assert [repeatable(next(killed)) for _ in range(4)] == points[:4]
    killed.close()
    return task, points, result


@pytest.mark.quick("settings0", "settings1", "settings4")
@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"training__optimizer": "sgd", "training__momentum": 0.9, "training__schedule": "plateau"},
        {"training__optimizer": "muon"},
        {"training__ema": 0.9},
        {"model": "recurrent_encoder", "model__num_layers": 2, "training__optimizer": "muon"},
        {"model": "convolutional_encoder", "training__ema": 0.9},
        {"training__optimizer": "rmsprop", "training__accumulation": 2, "training__patience": 2},
        {"training__optimizer": "adagrad", "training__evaluate_every_steps": 2},
    ],
)
def test_a_training_that_is_stopped_and_resumed_ends_with_the_same_bits(fold, tmp_path, settings):
    task = fold(small(**(HARD | settings)), checkpoint_dir=str(tmp_path / "whole"))
    points, result = run(task)
    part = task | {"resume_dir": str(tmp_path / "state"), "checkpoint_dir": str(tmp_path / "parts")}
    first, _ = run(part | {"amount": 2})
    second, _ = run(part | {"amount": 3, "trained": 2})
    third, resumed = run(part | {"trained": 3})
    more = [point.pop("more") for point in points]
    assert [point.pop("more") for point in first + second + third][-1] is False
    assert more == [True] * (len(points) - 1) + [False]
    steps = {point["step"] for point in points}
    # Besides, an amount's end between two evaluations.
    assert [point for point in first + second + third if point["step"] in steps] == points
    assert resumed == result
    weights = [(tmp_path / name / "weights.safetensors").read_bytes() for name in ("whole", "parts")]
    assert weights[0] == weights[1]


def test_a_training_that_is_closed_from_outside_goes_on_from_there(fold, tmp_path, monkeypatch):
    monkeypatch.setattr(Resumable, "is_due", False)
    task = fold(small(**HARD))
    points, result = run(task)
    part = task | {"resume_dir": str(tmp_path / "state")}
    training = objective.run_fold(part)
    assert [repeatable(next(training)) for _ in range(3)] == points[:3]
    assert not (tmp_path / "state").exists()
    training.close()
    assert (tmp_path / "state").exists()
    later, resumed = run(part | {"trained": 3})
    assert (later, resumed) == (points[3:], result)


def cut_in_half(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def change_a_bit(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))


@pytest.mark.quick("cut*damaged0", "unlink-sha256.json-damaged5")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "name", "damaged"),
    [
        *((damage, "training.safetensors", ["last"]) for damage in (cut_in_half, change_a_bit, Path.unlink)),
        (change_a_bit, "training.json", ["last"]),
        *((Path.unlink, "sha256.json", damaged) for damaged in (["last"], ["before"], ["last", "before"])),
    ],
)
def test_a_damaged_state_gives_way_to_the_one_before_and_that_to_the_start(
    fold, tmp_path, monkeypatch, damage, name, damaged
):
    task, points, result = killed_after_four_points(fold, tmp_path, monkeypatch)
    for state in damaged:
        damage(tmp_path / "state" / state / name)
    messages, resumed = run(task)
    warnings = [message["warning"] for message in messages if "warning" in message]
    assert [message for message in messages if "warning" not in message] == points
    assert resumed == result
    # The state before is not looked at where the last one is sound.
    assert len(warnings) == (0 if damaged == ["before"] else len(damaged))
    assert all(str(tmp_path / "state") in warning for warning in warnings)


def test_states_cost_a_twentieth_of_the_time_at_most(fold, tmp_path, monkeypatch):
    """After a state that took long, the next evaluations are not saved; the last one always is."""
    clock = iter(range(0, 10_000, 100))
    monkeypatch.setattr("model.training.progress.time.monotonic", lambda: next(clock))
    saved, save = [], Resumable.save

    def noted(self, progress, *rest):
        saved.append(progress.step)
        save(self, progress, *rest)

    monkeypatch.setattr(Resumable, "save", noted)
    points, _ = run(fold(small(**HARD), resume_dir=str(tmp_path / "state")))
    assert saved == [points[0]["step"], points[-1]["step"]]


def test_a_state_of_other_settings_is_not_continued(fold, tmp_path):
    task = fold(small(), resume_dir=str(tmp_path / "state"))
    run(task)
    with pytest.raises(CheckpointError, match="other settings"):
        run(task | {"seed": 8})
