"""A training that is stopped, or killed, goes on as if nothing had been; a state that is not whole is left."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from model import objective
from model.checkpoint import load_checkpoint
from model.data.hashes import FORMAT, HASHES
from model.errors import CheckpointError
from model.training.progress import Resumable
from model.training.update import Update
from tests.model.conftest import of, repeatable, run, small

HARD = {"training__epochs": 6, "model__dropout": 0.3, "training__lr": 0.02}
PLATEAU = {"training__schedule": "plateau"}
# 160 examples in batches of 16 are 10 steps.
BETWEEN = {"training__epochs": 4, "training__batch_size": 16, "training__patience": None, "model__dropout": 0.3}


def state_of(tmp_path):
    return {"resume_dir": str(tmp_path / "state")}


@pytest.mark.parametrize(
    ("data", "family", "settings"),
    [
        ("digits", "transformer", {}),
        ("digits", "transformer", {"training__optimizer": "sgd", "training__momentum": 0.9, **PLATEAU}),
        ("digits", "transformer", {"training__optimizer": "adagrad"}),
        ("digits", "transformer", {"training__optimizer": "muon", "model__parametrization": "mup"}),
        ("digits", "recurrent", of("training", {"optimizer": "adam", "accumulation": 2, "patience": 2})),
        ("digits", "convolutional", of("training", {"optimizer": "rmsprop", "ema": 0.9, "evaluate_every_steps": 2})),
        # A tied head, and an embedding of both sides: safetensors refuses tensors in the same memory.
        ("generated", "transformer", {"model__tied_embeddings": True, "data__max_length": 5}),
    ],
)
def test_a_training_that_is_stopped_and_resumed_ends_with_the_same_bits(fold, tmp_path, data, family, settings):
    task = fold(small(data, family, **HARD, **settings), size=100, checkpoint_dir=str(tmp_path / "whole"))
    points, result = run(task)
    part = task | state_of(tmp_path) | {"checkpoint_dir": str(tmp_path / "parts")}
    runs = [run(part | {"amount": amount, "trained": trained}) for trained, amount in ((0, 2), (2, 3), (3, None))]
    parts = [point for first, _ in runs for point in first]
    assert [point.pop("more") for point in points] == [True] * (len(points) - 1) + [False]
    assert [point.pop("more") for point in parts][-1] is False
    steps = {point["step"] for point in points}
    # Besides, an amount's end between two evaluations.
    assert ([point for point in parts if point["step"] in steps], runs[-1][1]) == (points, result)
    weights = [(tmp_path / name / "weights.safetensors").read_bytes() for name in ("whole", "parts")]
    assert weights[0] == weights[1]


def test_a_training_that_is_closed_from_outside_goes_on_from_there(fold, tmp_path, monkeypatch):
    monkeypatch.setattr(Resumable, "is_due", False)
    task = fold(small(**HARD))
    points, result = run(task)
    part = task | state_of(tmp_path)
    training = objective.run_fold(part)
    assert [repeatable(next(training)) for _ in range(3)] == points[:3]
    assert not (tmp_path / "state").exists()
    training.close()
    assert (tmp_path / "state").exists()
    assert run(part | {"trained": 3}) == (points[3:], result)


def change_a_bit(path):
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


@pytest.mark.parametrize(
    ("spoil", "damaged"),
    [
        (change_a_bit, ["last/training.safetensors"]),
        (change_a_bit, ["last/training.json"]),
        (lambda path: path.write_bytes(path.read_bytes()[:999]), ["last/training.safetensors"]),
        (Path.unlink, ["before/sha256.json"]),  # at which nobody looks where the last one is sound
        (Path.unlink, ["last/sha256.json", "before/sha256.json"]),
    ],
)
def test_a_damaged_state_gives_way_to_the_one_before_and_that_to_the_start(fold, tmp_path, monkeypatch, spoil, damaged):
    monkeypatch.setattr(Resumable, "is_due", True)
    task = fold(small(**HARD))
    points, result = run(task)
    task |= state_of(tmp_path)
    killed = objective.run_fold(task)
    assert [repeatable(next(killed)) for _ in range(4)] == points[:4]
    killed.close()
    for name in damaged:
        spoil(tmp_path / "state" / name)
    messages, resumed = run(task)
    warnings = [message["warning"] for message in messages if "warning" in message]
    assert ([message for message in messages if "warning" not in message], resumed) == (points, result)
    assert len(warnings) == (0 if damaged == ["before/sha256.json"] else len(damaged))
    assert all(str(tmp_path / "state") in warning for warning in warnings)


SAVING = """
import pathlib, resource, sys, torch
from model.training import progress, randomness
network = torch.nn.Linear(5000, 5000)
optimizer = torch.optim.AdamW(network.parameters(), fused=True)
network(torch.ones(1, 5000)).sum().backward()
optimizer.step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
given = torch.amp.GradScaler("cpu", enabled=False), randomness.Randomness(0, torch.device("cpu")), None
progress.Resumable(pathlib.Path(sys.argv[1]), {}, 10.0).save(progress.Progress(), network, [optimizer], *given)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / before)
"""


@pytest.mark.nightly
def test_saving_a_state_takes_little_memory(tmp_path):
    assert float(subprocess.check_output([sys.executable, "-c", SAVING, str(tmp_path / "state")], text=True)) < 1.3


@pytest.fixture
def saved(monkeypatch):
    """Return the steps at which states are saved; each look at the clock takes 100 s."""
    clock, steps, save = iter(range(0, 10**9, 100)), [], Resumable.save
    monkeypatch.setattr("model.training.progress.time.monotonic", lambda: next(clock))

    def noted(self, progress, *rest):
        save(self, progress, *rest)
        steps.append(progress.step)

    monkeypatch.setattr(Resumable, "save", noted)
    return steps


def test_states_cost_a_twentieth_of_the_time_at_most(fold, tmp_path, saved):
    points, _ = run(fold(small(**HARD), **state_of(tmp_path)))
    assert saved == [points[0]["step"], points[-1]["step"]]


def test_a_long_epoch_is_saved_by_time(fold, tmp_path, saved, monkeypatch):
    task = fold(small(**BETWEEN, training__evaluate_every_steps=60))
    whole, save = run(task), Resumable.save

    def killed(self, *given):
        save(self, *given)
        if len(saved) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Resumable, "save", killed)
    task |= state_of(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run(task)
    assert 0 < saved[0] < saved[1] < 40
    assert run(task) == whole


@pytest.fixture
def updates(monkeypatch):
    made, update = [], Update.__call__
    monkeypatch.setattr(Update, "__call__", lambda self, *given: made.append(1) or update(self, *given))
    return made


@pytest.mark.parametrize(("every", "rungs"), [(15, (2, 3)), (7, (1, 3)), (100, (1, 2)), (10, (1, 2))])
def test_an_amount_that_ends_between_evaluations_is_evaluated_and_kept(fold, tmp_path, updates, every, rungs):
    task = fold(small(**BETWEEN, training__evaluate_every_steps=every, training__ema=0.9))
    whole, result = run(task)
    updates.clear()
    part, points, before = task | state_of(tmp_path), [], 0
    for amount in (*rungs, None):
        new, last = run(part | {"amount": amount, "trained": before})
        # The same again where its result was lost.
        assert run(part | {"amount": amount, "trained": before}) == (new, last)
        end = 10 * (amount or 4)
        assert (new[-1]["step"], [point["more"] for point in new]) == (end, [True] * (len(new) - 1) + [False])
        assert len(updates) == end
        points += new
        assert last["loss"] == min(point["loss"] for point in points if point["step"] % every == 0 or point is new[-1])
        before = amount
    regular = [point for point in points if point["step"] % every == 0 or point["step"] == 40]
    assert [point | {"more": None} for point in regular] == [point | {"more": None} for point in whole]
    assert last == result


@pytest.mark.parametrize("place", ["model", "state/last", "state/before"])
@pytest.mark.parametrize(
    ("number", "says"), [(None, "first release"), (FORMAT - 1, "first release"), (FORMAT + 1, "later version")]
)
def test_a_model_and_a_state_of_another_format_are_refused_in_one_line(fold, tmp_path, place, number, says):
    """A training that began again without a word would take its time twice; no number: a plain table of hashes."""
    task = fold(small(), checkpoint_dir=str(tmp_path / "model"), **state_of(tmp_path))
    run(task)
    hashes = tmp_path / place / HASHES
    written = json.loads(hashes.read_text())
    hashes.write_text(json.dumps(written["files"] if number is None else written | {"format": number}))
    if place == "state/before":
        (tmp_path / "state" / "last" / HASHES).write_text("{")
    with pytest.raises(CheckpointError, match=rf"^{tmp_path / place}: .*{says}.*$"):
        load_checkpoint(str(tmp_path / "model")) if place == "model" else run(task)


def test_a_state_of_other_settings_is_not_continued(fold, tmp_path):
    task = fold(small(training__epochs=1), **state_of(tmp_path))
    run(task)
    with pytest.raises(CheckpointError, match="other settings"):
        run(task | {"seed": 8})
