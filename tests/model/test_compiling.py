"""A compiled training is the plain one, and finds nothing half made."""

import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch._dynamo.testing import CompileCounter
from torch._inductor.runtime.cache_dir_utils import cache_dir

from model.checkpoint import load_checkpoint
from tests.model.conftest import run, small

PUZZLE = {"data__num_examples": 200, "data__max_length": 6, "training__epochs": 1}


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # torch asks for it where a graph ends.
@pytest.mark.parametrize(
    ("data", "model", "settings"),
    [
        pytest.param("digits", "encoder", {"training__ema": 0.5}, marks=pytest.mark.slow),
        pytest.param("generated", "encoder_decoder", PUZZLE, marks=pytest.mark.nightly),
        pytest.param("generated", "recurrent_encoder_decoder", PUZZLE, marks=pytest.mark.nightly),
        pytest.param("generated", "convolutional_encoder_decoder", PUZZLE, marks=pytest.mark.nightly),
    ],
)
def test_a_compiled_network_trains_and_is_evaluated_as_the_plain_one(
    fold, monkeypatch, tmp_path, data, model, settings
):
    """What is traced is ours; the code that torch generates from it takes a C++ compiler a minute."""
    compile_with, calls = torch.compile, []

    def traced(function, **options):
        compiled = compile_with(function, backend="aot_eager", **options)
        return lambda *given: calls.append(torch.is_grad_enabled()) or compiled(*given)

    monkeypatch.setattr(torch, "compile", traced)
    config = small(data, model, training__evaluation_tokens=150, **settings)
    plain_points, plain = run(fold(config))
    assert not calls
    config["training"]["compile"] = True
    points, result = run(fold(config, checkpoint_dir=str(tmp_path / "compiled")))
    assert [point["loss"] for point in points] == pytest.approx([point["loss"] for point in plain_points], rel=1e-5)
    assert result == pytest.approx(plain, rel=1e-5)
    assert calls.count(False) > len(points)  # several batches in each evaluation
    names = load_file(tmp_path / "compiled" / "weights.safetensors").keys()
    assert names == load_checkpoint(str(tmp_path / "compiled")).network.state_dict().keys()


def test_what_a_killed_process_had_half_compiled_is_not_found_by_the_next_one(fold, tmp_path, monkeypatch):
    """torch takes any library of the right name for complete: one without bytes, which a killed linker leaves, too."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "shared"))
    used = set()
    monkeypatch.setattr(torch, "compile", lambda forward, **_: used.add((os.getpid(), Path(cache_dir()))) or forward)
    task = fold(small(training__compile=True, training__epochs=1))
    for process in (-1, -1, -2):
        monkeypatch.setattr(os, "getpid", lambda process=process: process)
        run(task)
    assert len(used) == len({folder for _, folder in used}) == 2
    assert all(tmp_path / "shared" in folder.parents for _, folder in used)
    # They would be shared by all processes in yet another folder.
    assert os.environ["TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS"] == "0"


@pytest.mark.nightly
def test_every_training_of_a_process_is_compiled(fold, monkeypatch):
    """torch compiles a function for eight shapes at most, whatever training they belong to."""
    compile_with, counter = torch.compile, CompileCounter()
    monkeypatch.setattr(torch, "compile", lambda network, **options: compile_with(network, backend=counter, **options))
    for width in range(10, 30, 2):
        before = counter.frame_count
        run(fold(small(training__compile=True, training__epochs=1, model__d_model=width), size=20))
        assert counter.frame_count > before
