"""A GPU without memory left costs one trial, and the worker goes on. No GPU is needed: torch's own error is raised."""

import gc
import weakref

import pytest
import torch

from hpo.workers.training.tasks import Payload
from hpo.workers.training.worker import run_task
from model.config.whole import parse
from model.networks.classifier import Classifier
from model.training.memory import is_out_of_memory, out_of_memory
from tests.model.conftest import compose, repeatable, small

ON_A_GPU = "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 15.77 GiB"


def outcome(task):
    known = {name: value for name, value in task.items() if name in Payload.__dataclass_fields__}
    *points, last = run_task(Payload(objective="model.objective:run_fold", **known))
    return last["outcome"], points


@pytest.fixture
def full_in_step_3(monkeypatch):
    """The third forward pass finds no memory; gives the networks that were seen, weakly."""
    forward, seen, calls = Classifier.forward, weakref.WeakSet(), iter(range(1, 1000))

    def full(self, *given):
        seen.add(self)
        if next(calls) == 3:
            raise torch.OutOfMemoryError(ON_A_GPU)
        return forward(self, *given)

    monkeypatch.setattr(Classifier, "forward", full)
    return seen


def test_it_is_a_failure_that_names_batch_size_and_memory(fold, full_in_step_3):
    failed, _ = outcome(fold(small(training__batch_size=48)))
    assert failed.error.startswith("OutOfMemoryError: out of memory with training.batch_size 48: 2.50 GiB more were ")
    assert "GiB were free" in failed.error
    assert "lower training.batch_size and raise training.accumulation" in failed.error
    assert not failed.metrics


def test_in_an_evaluation_it_names_the_tokens_of_a_batch(fold, monkeypatch):
    forward = Classifier.forward

    def full(self, *given):
        if not self.training:
            raise torch.OutOfMemoryError(ON_A_GPU)
        return forward(self, *given)

    monkeypatch.setattr(Classifier, "forward", full)
    failed, _ = outcome(fold(small()))
    assert failed.error.startswith("OutOfMemoryError: out of memory with training.evaluation_tokens 4096 in an eval")
    assert failed.error.endswith("lower training.evaluation_tokens")


@pytest.mark.slow
def test_the_worker_goes_on_with_the_next_task_as_if_nothing_had_been(fold, monkeypatch, full_in_step_3):
    task = fold(small())
    failed, _ = outcome(task)
    after, points = outcome(task)
    monkeypatch.undo()
    alone, expected = outcome(task)
    assert failed.error
    assert (after.error, repeatable(after.metrics)) == (None, repeatable(alone.metrics))
    curves = [[repeatable(point["point"]) for point in each if "point" in point] for each in (points, expected)]
    assert len(curves[0]) == 2
    assert curves[0] == curves[1]


def test_nothing_of_the_failed_training_is_kept(fold, full_in_step_3):
    outcome(fold(small()))
    gc.collect()
    assert not full_in_step_3


def test_on_a_gpu_the_figures_are_the_devices(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (2**29, 16 * 2**30))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda _: 15 * 2**30)
    emptied = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: emptied.append(True))
    config = parse(compose(training__batching="by_length", training__batch_tokens=4096)).training
    error = out_of_memory(torch.OutOfMemoryError(ON_A_GPU), config, torch.device("cuda"))
    assert str(error) == (
        "out of GPU memory with training.batch_size 64 and training.batch_tokens 4096: 2.50 GiB more were requested, "
        "0.5 of 16.0 GiB were free, 15.0 GiB were used by this process; lower training.batch_tokens, and raise "
        "training.accumulation by the same factor"
    )
    assert emptied


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", True),
        ("cuDNN error: CUDNN_STATUS_ALLOC_FAILED", True),
        ("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED", True),
        ("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported", True),
        ("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(handle)`", False),
        ("CUDA error: device-side assert triggered", False),
    ],
)
def test_the_libraries_own_errors_on_a_gpu_are_known_and_others_are_not(message, expected):
    assert is_out_of_memory(RuntimeError(message)) == expected


def test_the_cpus_own_error_is_known_and_others_are_not():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60)
    assert is_out_of_memory(caught.value)
    with pytest.raises(RuntimeError) as caught:
        torch.zeros(2) + torch.zeros(3)
    assert not is_out_of_memory(caught.value)
