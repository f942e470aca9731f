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
from tests.model.conftest import repeatable, run, small

# torch may hang where a DistributedDataParallel outlives its group.
RANK = """
import gc, json, os, sys
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
# Evaluates fresh networks; the last one finds no memory where that is said.
EVALUATION = """
import json, os, sys
import torch
from model.config.whole import parse
from model.data.readers.source import read_examples
from model.tasks.choose import TASKS
from model.training.processes import Processes
from model.training.train import evaluate

configs, size, is_full = json.loads(sys.argv[1])
torch.set_num_threads(1)
cpu = torch.device("cpu")
with Processes.joined(cpu, size) as processes:
    for number, config in enumerate(configs):
        config = parse(config)
        items = read_examples(config.data).items[:90]
        task = TASKS[config.data.name].learn(config, items, range(len(items)))
        torch.manual_seed(0)
        network = task.build(config)
        if is_full and processes.rank == 1:
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
HUNDRED = {"training__epochs": 30, "training__max_steps": 100}


def started(program, given, size, **options):
    """The processes of a program that do something together, in the order of their ranks."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": str(size)}
    ranks = [os.environ | place | {"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(size)]
    command = [sys.executable, "-c", program, json.dumps(given)]
    return [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True, **options) for env in ranks]


def trained(task, size):
    """The processes that train the task together."""
    return started(RANK, task | {"processes": size}, size)


def together(task, size):
    """What each of the processes gives: the points of its curve, and the result."""
    lines = [process.communicate(timeout=120)[0].splitlines() for process in trained(task, size)]
    told = [[repeatable(json.loads(line)) for line in given] for given in lines]
    return [(points, repeatable(last["result"])) for *points, last in told]


def losses(points):
    return [point["train_loss"] for point in points]


CASES = {
    "encoder_decoder": ("encoder_decoder", {"training__batching": "by_length", "training__accumulation": 2}),
    "packed": ("encoder_decoder", {"training__batching": "packed"}),
    "recurrent": ("recurrent_encoder_decoder", {}),
    "convolutional": ("convolutional_encoder_decoder", {}),
    "decoder": ("decoder", {"data__context": 8, "training__ema": 0.9}),
    # Its steps are rounded to bfloat16.
    "muon": ("encoder_decoder", {"training__optimizer": "muon"}),
}


@pytest.mark.nightly
@pytest.mark.parametrize(("case", "size"), [("encoder_decoder", 2), *((case, 4) for case in CASES)])
def test_the_losses_are_those_of_one_process(fold, tmp_path, case, size):
    model, settings = CASES[case]
    if model == "decoder":
        (tmp_path / "text.txt").write_text("the quick brown fox jumps over the lazy dog.\n" * 60)
        data = {"data__path": str(tmp_path / "text.txt")}
    else:
        data = PUZZLE
    config = small(
        "language_modelling" if model == "decoder" else "generated", model, **EXACT, **HUNDRED, **data, **settings
    )
    # The last batch of an epoch has fewer examples than there are processes.
    task = fold(config, size=322)
    alone, result = run(task)
    assert [point["step"] for point in alone] == list(range(10, 101, 10))
    ranks = together(task, size)
    for points, _ in ranks:
        assert losses(points) == pytest.approx(losses(alone), rel=1e-4 if case == "muon" else 1e-5)
    assert all(given == ranks[0] for given in ranks)
    assert ranks[0][1]["loss"] == pytest.approx(result["loss"], rel=1e-4)


@pytest.fixture
def of_all_tasks(tmp_path, reviews):
    """Configurations of all tasks, with several batches in an evaluation, and one with a single batch."""
    (tmp_path / "tags.tsv").write_text("\n".join(f"word{n}\t{n % 3}\nthe\tD\n" * (1 + n % 4) for n in range(90)))
    (tmp_path / "text.txt").write_text("the quick brown fox jumps over the lazy dog.\n" * 60)
    several = {"training__evaluation_tokens": 150}
    return [
        small("text_classification", data__path=str(reviews), **several),
        small("tagging", data__path=str(tmp_path / "tags.tsv"), **several),
        small("language_modelling", "decoder", data__path=str(tmp_path / "text.txt"), **several),
        small("generated", "encoder_decoder", **PUZZLE, **several),
        small("generated", "encoder_decoder", **PUZZLE, training__evaluation_tokens=4096),
    ]


@pytest.mark.slow
def test_the_metrics_of_an_evaluation_that_is_shared_are_those_of_one_process_to_the_bit(of_all_tasks):
    (alone,) = started(EVALUATION, (of_all_tasks, 1, False), 1)
    expected = alone.communicate(timeout=60)[0]
    assert len(expected.splitlines()) == len(of_all_tasks)
    for process in started(EVALUATION, (of_all_tasks, 2, False), 2):
        assert process.communicate(timeout=60)[0] == expected


@pytest.mark.nightly
def test_where_a_process_finds_no_memory_for_its_share_none_has_a_score(of_all_tasks):
    first, second = started(EVALUATION, (of_all_tasks[:1], 2, True), 2, stderr=subprocess.PIPE)
    assert "OutOfMemoryError: out of memory with training.evaluation_tokens 150" in second.communicate(timeout=60)[1]
    assert first.communicate(timeout=60)[0] == ""
    assert first.returncode != 0


@pytest.mark.nightly
def test_a_state_goes_on_with_another_number_of_processes(fold, tmp_path):
    config = small("generated", "encoder_decoder", **EXACT, **PUZZLE, training__epochs=6)
    task = fold(config, resume_dir=str(tmp_path / "state"))
    alone, _ = run(fold(config))
    for amount, size in ((2, 2), (4, 1), (None, 2)):
        told = together(task | {"amount": amount}, size)[0][0]
    assert losses(told) == pytest.approx(losses(alone), rel=1e-5)


@pytest.mark.slow("1")
@pytest.mark.nightly
@pytest.mark.parametrize("size", [1, 2])
def test_a_process_that_is_told_to_end_saves_its_state_and_no_step_is_trained_twice(fold, tmp_path, size):
    """Also with dropout, and in the midst of an epoch: to the same bits."""
    config = small("generated", "encoder_decoder", **PUZZLE, training__epochs=12)
    undisturbed = together(fold(config, size=400), size)[0]
    task = fold(config, size=400, resume_dir=str(tmp_path / "state"))
    processes = trained(task, size)
    first = [repeatable(json.loads(processes[0].stdout.readline())) for _ in range(3)]
    processes[-1].send_signal(signal.SIGTERM)
    lines = [process.communicate(timeout=60)[0].splitlines() for process in processes]
    first += [repeatable(json.loads(line)) for line in lines[0]]
    assert [process.returncode for process in processes] == [-signal.SIGTERM] * size
    saved = json.loads((tmp_path / "state" / "last" / "training.json").read_text())["progress"]
    assert saved["step"] >= first[-1]["step"]
    told, result = together(task, size)[0]
    assert ([*told], result) == undisturbed
    assert first == told[: len(first)]


def gpus(monkeypatch, number):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: number)


def test_one_process_joins_nobody_whatever_its_environment_says(monkeypatch):
    gpus(monkeypatch, 2)
    for name, value in {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "MASTER_PORT": "2222"}.items():
        monkeypatch.setenv(name, value)
    with Processes.joined(torch.device("cpu"), 1) as processes:
        assert (processes.rank, processes.size) == (0, 1)
    assert choose_device("auto") == torch.device("cuda", 0)


@pytest.mark.parametrize("rank", [None, 0, 1, 3])
@pytest.mark.parametrize(("seen", "expected"), [(1, (0, 0, 0, 0)), (4, (0, 0, 1, 3))])
def test_each_process_makes_a_gpu_of_its_own_the_current_one(monkeypatch, rank, seen, expected):
    """Also where it sees no other, and the first as well: torch makes no GPU without an index the current one."""
    gpus(monkeypatch, seen)
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
        assert joined == [("nccl", expected[(None, 0, 1, 3).index(rank)])]


class ToldToEndError(Exception):
    """The process has been told to end."""


@pytest.mark.parametrize(("every", "steps"), [(10, (9, 10, 20)), (30, (20,))])
def test_a_notice_at_any_step_costs_no_evaluation(fold, tmp_path, monkeypatch, every, steps):
    """Also where an evaluation is due after the step, where it is the last, and where both are so."""
    settings = {"training__evaluate_every_steps": every, "training__patience": None, "training__max_steps": 20}
    task = fold(small(**settings, training__epochs=6, training__batch_size=16))
    undisturbed = run(task)

    def end(_self):
        raise ToldToEndError

    for step in steps:
        resumable = task | {"resume_dir": str(tmp_path / f"state{step}")}
        with monkeypatch.context() as told:
            told.setattr(Processes, "must_end", lambda _self, now, _device, step=step: now == step)
            told.setattr(Processes, "end", end)
            with pytest.raises(ToldToEndError):
                run(resumable)
        assert run(resumable) == undisturbed
