"""Device and precision of a training."""

import json
import os

import pytest
import torch

from model.config.whole import parse
from model.training.device import choose_device
from model.training.numerics import has_bfloat16, numerics, precision_on
from tests.model.conftest import run, small


def test_bfloat16_trains_close_to_float32(fold):
    config = small(training__epochs=5)
    exact = run(fold(config))[1]["loss"]
    config["training"]["precision"] = "bfloat16"
    assert run(fold(config))[1]["loss"] == pytest.approx(exact, rel=0.1)


def test_auto_is_float32_to_the_bit_on_a_cpu_and_a_state_goes_on_with_it(fold, tmp_path):
    exact = run(fold(small(training__device="cpu", training__precision="float32")))
    task = fold(small(training__device="cpu"), resume_dir=str(tmp_path / "state"))
    assert task["config"]["training"]["precision"] == "auto"
    run(task | {"amount": 1})
    saved = json.loads((tmp_path / "state" / "last" / "training.json").read_text())["settings"]
    assert saved["config"]["training"]["precision"] == "auto"
    assert run(task) == exact


@pytest.mark.parametrize(
    ("given", "is_supported", "used", "rounds"),
    [
        ("auto", True, "bfloat16", False),
        ("auto", False, "tf32", True),
        ("float32", True, "float32", False),
        ("float16", True, "float16", False),
    ],
)
def test_the_precision_that_is_used_on_a_gpu(monkeypatch, given, is_supported, used, rounds):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: is_supported)
    has_bfloat16.cache_clear()
    gpu, config = torch.device("cuda", 0), parse(small(training__precision=given)).training
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    try:
        assert precision_on(config, gpu) == used
        assert precision_on(config, torch.device("cpu")) == ("float32" if given == "auto" else given)
        with numerics(config, gpu):
            assert (torch.get_float32_matmul_precision() == "high") == rounds
            assert torch.backends.cudnn.allow_tf32 == rounds
    finally:
        has_bfloat16.cache_clear()
    assert (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32) == before


def test_deterministic_products_are_prepared_before_torch_is_asked_for_a_gpu(fold, monkeypatch):
    monkeypatch.setattr(os, "environ", {n: v for n, v in os.environ.items() if n != "CUBLAS_WORKSPACE_CONFIG"})
    found = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: found.append(os.environ.get("CUBLAS_WORKSPACE_CONFIG")))
    for is_deterministic in (False, True):
        run(fold(small(training__deterministic=is_deterministic, training__epochs=1), size=20))
    assert set(found[: len(found) // 2]) == {None}
    assert set(found[len(found) // 2 :]) == {":4096:8"}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_named():
    with pytest.raises(ValueError, match=r"training\.device: must be auto or cpu, because torch finds no GPU here"):
        choose_device("cuda")
