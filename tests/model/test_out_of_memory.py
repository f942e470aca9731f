"""Memory that runs out costs one trial, and the worker goes on. No GPU is needed: torch's own error is raised."""

import gc
import weakref

import pytest
import torch

from hpo.workers.training.tasks import Payload
from hpo.workers.training.worker import run_task
from model.networks.classifier import Classifier
from model.training.memory import is_out_of_memory
from tests.model.conftest import repeatable, small

ON_A_GPU = "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 15.77 GiB"


def outcome(task):
    known = {name: value for name, value in task.items() if name in Payload.__dataclass_fields__}
    *points, last = run_task(Payload(objective="model.objective:run_fold", **known))
    return last["outcome"], [repeatable(point["point"]) for point in points if "point" in point]


@pytest.fixture
def full(monkeypatch):
    """Return a function that lets every forward pass fail that it is true of, and returns the networks, weakly."""

    def make(is_full):
        forward, networks, calls = Classifier.forward, weakref.WeakSet(), iter(range(1, 1000))

        def passed(self, *given):
            networks.add(self)
            if is_full(self, next(calls)):
                raise torch.OutOfMemoryError(ON_A_GPU)
            return forward(self, *given)

        monkeypatch.setattr(Classifier, "forward", passed)
        return networks

    return make


@pytest.mark.slow
@pytest.mark.parametrize(
    ("is_full", "contents"),
    [
        (lambda _, call: call == 3, ("training.batch_size 48: 2.50 GiB more", "GiB were free", "lower training.batch")),
        (lambda network, _: not network.training, ("training.evaluation_tokens 4096", "lower training.evaluation_")),
    ],
    ids=["update", "evaluation"],
)
def test_it_is_a_failure_that_names_what_to_lower_and_nothing_of_the_training_is_kept(fold, full, is_full, contents):
    networks = full(is_full)
    failed, _ = outcome(fold(small(training__batch_size=48)))
    for content in ("OutOfMemoryError: ", *contents):
        assert content in failed.error
    assert not failed.metrics
    gc.collect()
    assert not networks


@pytest.mark.slow
def test_the_worker_goes_on_with_the_next_task_as_if_nothing_had_been(fold, full, monkeypatch):
    task = fold(small())
    full(lambda _, call: call == 3)
    failed, _ = outcome(task)
    after, points = outcome(task)
    monkeypatch.undo()
    alone, expected = outcome(task)
    assert failed.error
    assert (after.error, repeatable(after.metrics)) == (None, repeatable(alone.metrics))
    assert (len(points), points) == (2, expected)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", True),
        ("cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED", True),
        ("cuDNN error: CUDNN_STATUS_ALLOC_FAILED", True),
        ("CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported", True),
        ("CUDA error: device-side assert triggered", False),
        ("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(handle)`", False),
    ],
)
def test_the_libraries_own_errors_on_a_gpu_are_known_and_others_are_not(message, expected):
    assert is_out_of_memory(RuntimeError(message)) == expected


@pytest.mark.parametrize(("size", "expected"), [((2**60,), True), ((-1,), False)])
def test_the_cpus_own_error_is_known_and_others_are_not(size, expected):
    with pytest.raises(RuntimeError) as caught:
        torch.empty(*size)
    assert is_out_of_memory(caught.value) is expected
