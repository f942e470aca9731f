"""Several processes that train one network: the same losses as of one, and a notice to end that loses no step."""

import json
import os
import signal
import socket
import subprocess
import sys

import pytest
import torch
from torch import distributed

from model.training.device import choose_device
from model.training.processes import Processes
from tests.model.conftest import of, repeatable, run, small

# torch may hang where a DistributedDataParallel outlives its group.
RANK = """
import gc, json, sys
from torch import distributed, nn
from model import objective

def leave(destroy=distributed.destroy_process_group):
    assert not any(isinstance(thing, nn.parallel.DistributedDataParallel) for thing in gc.get_objects())
    destroy()

gc.disable()
distributed.destroy_process_group = leave

steps = objective.run_fold(json.loads(sys.argv[1]))
try:
    while True:
        print(json.dumps(next(steps)), flush=True)
except StopIteration as stop:
    print(json.dumps({"result": stop.value}), flush=True)
"""
# Evaluates fresh networks; for the last one, the second process finds no memory.
EVALUATION = """
import json, os, sys
import torch
from model.config.whole import parse
from model.data.readers.source import read_examples
from model.tasks.choose import TASKS
from model.training.processes import Processes
from model.training.train import evaluate

configs, size = json.loads(sys.argv[1]), int(os.environ["WORLD_SIZE"])
torch.set_num_threads(1)
cpu = torch.device("cpu")
with Processes.joined(cpu, size) as processes:
    for number, config in enumerate(map(parse, configs), start=1):
        items = read_examples(config.data).items[:90]
        task = TASKS[config.data.name].learn(config, items, range(len(items)))
        torch.manual_seed(0)
        network = task.build(config)
        if number == len(configs) and processes.rank == 1:
            def forward(*_):
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.50 GiB.")
            network.forward = forward
        metrics = evaluate(task, network, task.encode(items), cpu, config.training, processes)
        assert metrics.pop("examples_per_second") > 0
        print(json.dumps(metrics), flush=True)
"""
# Dropout draws other numbers in each process.
EXACT = {"model__dropout": 0.0, "training__evaluate_every_steps": 10, "training__patience": None}
PUZZLE = {"data__num_examples": 400, "data__max_length": 6, "training__batch_size": 16}


def started(program, given, size, **options):
    """Return the processes of a program that do something together, in the order of their ranks."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": str(size)}
    ranks = [os.environ | place | {"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(size)]
    command = [sys.executable, "-c", program, json.dumps(given)]
    return [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True, **options) for env in ranks]


def trained(task):
    """Return two processes that train a task together and print the points of its curve, and the result."""
    return started(RANK, task | {"processes": 2}, 2)


def losses(points):
    return [point["train_loss"] for point in points]


@pytest.mark.slow
def test_the_losses_are_those_of_one_process(fold):
    given = {"epochs": 30, "max_steps": 50, "batching": "by_length", "accumulation": 2, "ema": 0.9}
    # The last batch of an epoch has fewer examples than there are processes.
    task = fold(small("generated", **(EXACT | PUZZLE | of("training", given))), size=321)
    alone, result = run(task)
    assert [point["step"] for point in alone] == [10, 20, 30, 40, 50]
    lines = [process.communicate(timeout=120)[0].splitlines() for process in trained(task)]
    first, second = ([repeatable(json.loads(line)) for line in each] for each in lines)
    assert losses(first[:-1]) == pytest.approx(losses(alone), rel=1e-5)
    assert first[-1]["result"].pop("loss") == pytest.approx(result["loss"], rel=1e-4)
    assert second[-1]["result"].pop("loss") == pytest.approx(result["loss"], rel=1e-4)
    assert first[:-1] == second[:-1]


@pytest.mark.slow
def test_processes_that_a_signal_ends_save_their_state_and_another_number_of_them_goes_on(fold, tmp_path):
    """No step is trained twice; the same bits of one process: test_resuming.py."""
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
    assert losses(points) == pytest.approx(losses(alone), rel=1e-5)


@pytest.mark.slow
def test_metrics_of_a_shared_evaluation_are_those_of_one_process_and_there_are_none_without_memory(tmp_path, reviews):
    """Of all tasks: to the bit, of several batches and of one."""
    (tmp_path / "tags.tsv").write_text("\n".join(f"word{n}\t{n % 3}\nthe\tD\n" * (1 + n % 4) for n in range(90)))
    (tmp_path / "text.txt").write_text("the quick brown fox jumps over the lazy dog.\n" * 60)
    several = {"training__evaluation_tokens": 150}
    configs = [
        small("tagging", data__path=str(tmp_path / "tags.tsv"), **several),
        small("language_modelling", data__path=str(tmp_path / "text.txt"), **several),
        small("generated", **PUZZLE, **several),
        small("generated", **PUZZLE, training__evaluation_tokens=4096),
        small("text_classification", data__path=str(reviews), **several),
    ]
    processes = [process for size in (1, 2) for process in started(EVALUATION, configs, size, stderr=subprocess.PIPE)]
    (expected, _), (first, _), (second, error) = (process.communicate(timeout=120) for process in processes)
    expected = expected.splitlines()
    assert len(expected) == len(configs)
    assert first.splitlines() == second.splitlines() == expected[:-1]
    assert "OutOfMemoryError: " in error
    assert "training.evaluation_tokens 150" in error
    assert processes[1].returncode != 0


class EndError(Exception):
    """Stands for the end of the process."""


@pytest.mark.parametrize(("every", "steps"), [(10, (9, 10, 20)), (30, (20,))])
def test_a_notice_at_any_step_costs_no_evaluation(fold, tmp_path, monkeypatch, every, steps):
    """Also where an evaluation is due after the step, where it is the last, and where both are so."""
    settings = {"evaluate_every_steps": every, "patience": None, "max_steps": 20, "epochs": 6, "batch_size": 16}
    task = fold(small(**of("training", settings)))
    undisturbed = run(task)

    def end(_self):
        raise EndError

    for step in steps:
        resumable = task | {"resume_dir": str(tmp_path / f"state{step}")}
        with monkeypatch.context() as notice:
            notice.setattr(Processes, "must_end", lambda _self, now, _device, step=step: now == step)
            notice.setattr(Processes, "end", end)
            with pytest.raises(EndError):
                run(resumable)
        assert run(resumable) == undisturbed


def test_one_process_joins_nobody_whatever_its_environment_says(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for name, value in {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "MASTER_PORT": "2222"}.items():
        monkeypatch.setenv(name, value)
    with Processes.joined(torch.device("cpu"), 1) as processes:
        assert (processes.rank, processes.size) == (0, 1)
    assert choose_device("auto") == torch.device("cuda", 0)


@pytest.mark.parametrize(
    ("visible", "rank", "expected"), [(1, None, 0), (1, 0, 0), (1, 3, 0), (4, None, 0), (4, 0, 0), (4, 1, 1), (4, 3, 3)]
)
def test_each_process_makes_a_gpu_of_its_own_the_current_one(monkeypatch, visible, rank, expected):
    """Also where it sees no other, and the first as well: torch makes no GPU without an index the current one."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: visible)
    current, joined = [], []
    monkeypatch.setattr(torch._C, "_cuda_setDevice", current.append, raising=False)
    monkeypatch.setattr(distributed, "init_process_group", lambda backend, **_: joined.append((backend, *current)))
    monkeypatch.setattr(distributed, "get_rank", lambda: rank)
    monkeypatch.setattr(distributed, "destroy_process_group", lambda: None)
    monkeypatch.setattr("model.training.processes.gc.collect", lambda: 0)
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    if rank is not None:
        monkeypatch.setenv("LOCAL_RANK", str(rank))
    with Processes.joined(choose_device("cuda", 4), 4):
        assert joined == [("nccl", expected)]
