"""Several processes that train one network: the same losses as of one, and a notice to end that loses no step."""

import json
import os
import signal
import socket
import subprocess
import sys
from unittest.mock import Mock

import pytest
import torch
from torch import distributed

from model.training.device import choose_device
from model.training.processes import Notice, Processes
from tests.model.conftest import of, repeatable, run, small

RANK = """
import json, sys
from model import objective

steps = objective.run_fold(json.loads(sys.argv[1]))
try:
    while True:
        print(json.dumps(next(steps)), flush=True)
except StopIteration as stop:
    print(json.dumps({"result": stop.value}), flush=True)
"""
# Dropout draws other numbers in each process.
EXACT = {"model__dropout": 0.0, "training__evaluate_every_steps": 10, "training__patience": None}
PUZZLE = {"data__num_examples": 400, "data__max_length": 6, "training__batch_size": 16}


def trained(task):
    """Return two processes that train a task together and print the points of its curve, and the result."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": "2"}
    ranks = [os.environ | place | {"RANK": rank, "LOCAL_RANK": rank} for rank in ("0", "1")]
    command = [sys.executable, "-c", RANK, json.dumps(task | {"processes": 2})]
    return [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) for env in ranks]


@pytest.mark.slow
def test_the_losses_and_metrics_are_those_of_one_process(fold):
    given = {"epochs": 30, "max_steps": 50, "batching": "by_length", "accumulation": 2, "ema": 0.9}
    task = fold(small("generated", **(EXACT | PUZZLE | of("training", given | {"evaluation_tokens": 150}))), size=321)
    alone, result = run(task)
    assert [point["step"] for point in alone] == [10, 20, 30, 40, 50]
    for process in trained(task):
        *points, last = map(json.loads, process.communicate(timeout=120)[0].splitlines())
        for point, expected in zip([*points, last["result"]], [*alone, result], strict=True):
            assert repeatable(point) == pytest.approx(expected, rel=1e-4)


@pytest.mark.nightly
def test_processes_that_a_signal_ends_save_their_state_and_another_number_of_them_goes_on(fold, tmp_path):
    config = small("generated", **EXACT, **PUZZLE, training__epochs=12)
    alone, _ = run(fold(config, size=400))
    task = fold(config, size=400, resume_dir=str(tmp_path / "state"))
    processes = trained(task)
    lines = [processes[0].stdout.readline() for _ in range(3)]
    processes[-1].send_signal(signal.SIGTERM)
    rest, _ = (process.communicate(timeout=60)[0] for process in processes)
    first = [repeatable(json.loads(line)) for line in (*lines, *rest.splitlines())]
    assert [process.returncode for process in processes] == [-signal.SIGTERM] * 2
    saved = json.loads((tmp_path / "state" / "last" / "training.json").read_text())["progress"]
    assert first[-1]["step"] <= saved["step"] < alone[-1]["step"]
    points, _ = run(task)
    assert first == points[: len(first)]
    found, expected = ([point["train_loss"] for point in each] for each in (points, alone))
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("every", "steps"), [(10, (9, 10, 20)), (30, (20,))])
def test_a_notice_at_any_step_costs_no_evaluation(fold, tmp_path, monkeypatch, every, steps):
    settings = {"evaluate_every_steps": every, "patience": None, "max_steps": 20, "epochs": 6, "batch_size": 16}
    task = fold(small(**of("training", settings)))
    undisturbed = run(task)
    for step in steps:
        resumable = task | {"resume_dir": str(tmp_path / f"state{step}")}
        with monkeypatch.context() as notice:
            notice.setattr(Processes, "must_end", lambda _self, now, _device, step=step: now == step)
            notice.setattr(Notice, "obey", Mock(side_effect=KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                run(resumable)
        assert run(resumable) == undisturbed


def test_a_process_that_blocks_the_signal_ends_with_its_exit_code():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        with pytest.raises(SystemExit, match="143"):
            Notice().obey()
        assert signal.sigwait({signal.SIGTERM}) == signal.SIGTERM
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def test_one_process_joins_nobody_whatever_its_environment_says(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for name, value in {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "MASTER_PORT": "2222"}.items():
        monkeypatch.setenv(name, value)
    with Processes.joined(torch.device("cpu"), 1) as processes:
        assert (processes.rank, processes.size) == (0, 1)
    assert choose_device("auto") == torch.device("cuda", 0)


@pytest.mark.parametrize(
    ("visible", "rank", "expected"),
    [*((1, rank, 0) for rank in (None, "0", "3")), (4, None, 0), (4, "1", 1), (4, "3", 3)],
)
def test_each_process_makes_a_gpu_of_its_own_the_current_one(monkeypatch, visible, rank, expected):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: visible)
    done = []
    monkeypatch.setattr(torch.cuda, "set_device", done.append)
    monkeypatch.setattr(distributed, "init_process_group", lambda backend, **_: done.append(backend))
    monkeypatch.setattr(distributed, "get_rank", lambda: 0)
    monkeypatch.setattr(distributed, "destroy_process_group", lambda: done.append("left"))
    monkeypatch.setattr("gc.collect", lambda: done.append("collected"))
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    if rank is not None:
        monkeypatch.setenv("LOCAL_RANK", rank)
    with Processes.joined(choose_device("cuda", 4), 4):
        assert done == [torch.device("cuda", expected), "nccl"]
    # torch may hang where a DistributedDataParallel outlives its group.
    assert done[2:] == ["collected", "left"]
