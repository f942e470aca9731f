"""A training that is stopped at an amount: it is judged where it ends, kept, and goes on as if it had not stopped."""

import subprocess
import sys

import pytest

from model import objective
from model.training.progress import Resumable
from model.training.update import Update
from tests.model.conftest import repeatable, run, small

# 160 examples in batches of 16 are 10 steps.
BETWEEN = {"training__epochs": 4, "training__batch_size": 16, "training__patience": None, "model__dropout": 0.3}


@pytest.fixture
def updates(monkeypatch):
    """How many updates were made."""
    made, update = [], Update.__call__

    def counted(self, *given):
        made.append(1)
        return update(self, *given)

    monkeypatch.setattr(Update, "__call__", counted)
    return made


@pytest.mark.parametrize(("every", "rungs"), [(15, (2, 3)), (7, (1, 3)), (100, (1, 2)), (10, (1, 2))])
def test_an_amount_that_ends_between_evaluations_is_evaluated_and_kept(fold, tmp_path, updates, every, rungs):
    task = fold(small(**BETWEEN, training__evaluate_every_steps=every, training__ema=0.9))
    whole, result = run(task)
    updates.clear()
    part = task | {"resume_dir": str(tmp_path / "state")}
    points, before = [], 0
    for amount in (*rungs, None):
        new, last = run(part | {"amount": amount, "trained": before})
        end = 10 * (amount or 4)
        assert (new[-1]["step"], new[-1]["more"]) == (end, False)
        assert all(point["more"] for point in new[:-1])
        assert len(updates) == end
        points += new
        assert last["loss"] == min(point["loss"] for point in points if point["step"] % every == 0 or point is new[-1])
        before = amount
    regular = [point for point in points if point["step"] % every == 0 or point["step"] == 40]
    assert [point | {"more": None} for point in regular] == [point | {"more": None} for point in whole]
    assert last == result


def test_an_amount_whose_result_was_lost_ends_in_the_same_way_again(fold, tmp_path, updates):
    task = fold(small(**BETWEEN, training__evaluate_every_steps=15), resume_dir=str(tmp_path / "state"), amount=2)
    first = run(task)
    assert run(task) == first
    assert len(updates) == 20


def test_a_long_epoch_is_saved_by_time(fold, tmp_path, monkeypatch):
    """Killed in the middle of an epoch, it goes on from the last state, with the same bits."""
    task = fold(small(**BETWEEN, training__evaluate_every_steps=60))
    whole = run(task)
    clock = iter(range(0, 10**9, 100))
    monkeypatch.setattr("model.training.progress.time.monotonic", lambda: next(clock))
    saved, save = [], Resumable.save

    def noted(self, progress, *rest):
        save(self, progress, *rest)
        saved.append(progress.step)
        if len(saved) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Resumable, "save", noted)
    task["resume_dir"] = str(tmp_path / "state")
    with pytest.raises(KeyboardInterrupt):
        run(task)
    assert 0 < saved[0] < saved[1] < 40
    assert run(task) == whole


def test_the_speed_is_logged_with_the_curve(fold):
    point = next(objective.run_fold(fold(small(**BETWEEN))))
    assert point["tokens_per_second"] > 0
    assert point["gradient_norm"] > 0
    assert "memory_peak" not in repeatable(point)


SAVING = """
import resource, sys, torch
from pathlib import Path
from model.training.progress import Progress, Resumable
from model.training.randomness import Randomness

network = torch.nn.Linear(5000, 5000)
optimizer = torch.optim.AdamW(network.parameters())
network(torch.ones(1, 5000)).sum().backward()
optimizer.step()
used = lambda: int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
before, peak = used(), 0
def watch():
    import threading, time
    global peak
    while not done:
        peak = max(peak, used()); time.sleep(0.001)
import threading
done = False
watcher = threading.Thread(target=watch); watcher.start()
states = Resumable(Path(sys.argv[1]), {}, 10.0)
scaler = torch.amp.GradScaler("cpu", enabled=False)
states.save(Progress(), network, [optimizer], scaler, Randomness(0, torch.device("cpu")))
done = True; watcher.join()
print(peak / before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_saving_a_state_takes_little_memory(tmp_path):
    code = [sys.executable, "-c", SAVING, str(tmp_path / "state")]
    said = subprocess.run(code, capture_output=True, text=True, check=True).stdout
    assert float(said) < 1.3


def test_weights_that_are_shared_are_saved_once_each(fold, tmp_path):
    """A tied head, and an embedding of both sides: safetensors refuses tensors in the same memory."""
    config = small("generated", "encoder_decoder", model__tied_embeddings=True, training__epochs=1)
    task = fold(config, resume_dir=str(tmp_path / "state"))
    whole = run(task)
    assert run(task | {"trained": 1})[1] == whole[1]
