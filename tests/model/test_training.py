"""The trainer: running means, plateaus, evaluations, precision, device, random numbers and compiled networks."""

import os
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from safetensors.torch import load_file
from torch._dynamo import config as dynamo
from torch._dynamo.testing import CompileCounter
from torch._inductor.runtime.cache_dir_utils import cache_dir

from model.checkpoint import load_checkpoint
from model.config.whole import parse
from model.tasks import cross_entropy
from model.training.device import choose_device
from model.training.numerics import numerics, precision_on
from model.training.processes import Processes
from model.training.randomness import Randomness
from model.training.schedule import reductions_of, replayed_scale
from model.training.train import Goal
from tests.model.conftest import of, run, small
from tests.model.test_every_shape import CPU, build, update_of
from tests.studies import refuses

COMPILE = torch.compile
PLATEAU = {"training__schedule": "plateau", "training__plateau_patience": 1, "training__warmup_fraction": 0.0}


@pytest.mark.slow
def test_the_running_mean_of_the_weights_is_evaluated_and_stored(fold, tmp_path):
    settings = {"epochs": 1, "patience": None, "schedule": "constant", "warmup_fraction": 0.0, "batch_size": 16}

    def weights_of(steps, **changes):
        folder = str(tmp_path / f"{steps} {changes}")
        config = small(model__dropout=0.0, **of("training", settings | {"lr": 0.02, "max_steps": steps} | changes))
        run(fold(config, validation=[], size=80, checkpoint_dir=folder))
        return load_file(f"{folder}/weights.safetensors")

    weights = [weights_of(steps) for steps in range(1, 5)]
    # (1 + t) / (10 + t), at most 0.25: the third mean has reached it.
    for warmup, decays in ((False, (0.25, 0.25, 0.25)), (True, (2 / 11, 0.25, 0.25))):
        for name, tensor in weights_of(4, ema=0.25, ema_warmup=warmup).items():
            mean = weights[0][name]
            for decay, later in zip(decays, weights[1:], strict=True):
                mean = decay * mean + (1 - decay) * later[name]
            torch.testing.assert_close(tensor, mean)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"epochs": 50, "max_steps": 7, "batch_size": 32}, [(5, 1), (7, 1.4)]),
        ({"batch_size": 16, "evaluate_every_steps": 4}, [(4, 0.4), (8, 0.8), (12, 1.2), (16, 1.6), (20, 2)]),
    ],
)
def test_a_training_and_its_schedule_end_after_max_steps_and_evaluations_come_every_n_steps(fold, settings, expected):
    points, _ = run(fold(small(**of("training", settings))))
    assert [(point["step"], point["epoch"]) for point in points] == expected
    assert points[-1]["lr"] < points[0]["lr"]


def test_a_training_without_validation_repeats_the_plateaus_of_others(fold):
    config = small(**PLATEAU, training__epochs=6, training__min_gain=0.3)
    points, _ = run(fold(config))
    rates = [point["lr"] for point in points]
    assert len(set(rates)) > 2
    two = [reductions_of(each, Goal("loss", "minimize").gain, parse(config).training) for each in (points, points[:1])]
    alone, mixed = ([replayed_scale(two[:count], epoch) for epoch in range(6)] for count in (1, 2))
    assert [scale * config["training"]["lr"] for scale in alone] == pytest.approx(rates)
    assert [scale**2 for scale in mixed] == pytest.approx(alone)


def test_plateaus_within_an_epoch_are_repeated_where_they_were():
    """The extra evaluation of an amount, here at step 25, changes nothing."""
    flat = [{"epoch": 1, "step": step, "loss": 1.0} for step in (10, 20, 25, *range(30, 101, 10))]
    config = parse(small(**PLATEAU, training__plateau_factor=0.5, training__evaluate_every_steps=10)).training
    replayed = [reductions_of(flat, Goal("loss", "minimize").gain, config)]
    found = [replayed_scale(replayed, epochs) for epochs in (0, 0.15, 0.25, 0.5, 1, 7)]
    assert found == [1, 1, 0.5, 2**-4, 2**-9, 2**-9]


def test_the_plateaus_of_others_change_a_training_without_validation_which_needs_them(fold):
    config = small(**PLATEAU, training__epochs=4, training__plateau_factor=1e-9)
    curves = [[{"epoch": n, "step": 3 * n, "loss": loss / n} for n in (1, 2, 3, 4)] for loss in (1, 0)]
    lasts = [run(fold(config, validation=[], curves=[curve]))[1]["train_loss"] for curve in curves]
    assert lasts[0] < lasts[1] - 0.03
    refuses(ValueError, r"schedule: plateau needs a validation split", run, fold(config, validation=[]))


@pytest.mark.parametrize(
    ("given", "is_supported", "used"),
    [("auto", True, "bfloat16"), ("auto", False, "tf32"), ("float32", True, "float32"), ("float16", True, "float16")],
)
def test_the_precision_that_is_used_on_a_gpu(monkeypatch, given, is_supported, used):
    def settings():
        return torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32

    monkeypatch.setattr("model.training.numerics.has_bfloat16", lambda: is_supported)
    gpu, config, before = torch.device("cuda", 0), parse(small(training__precision=given)).training, settings()
    assert precision_on(config, gpu) == used
    assert precision_on(config, CPU) == ("float32" if given == "auto" else given)
    with numerics(config, gpu):
        assert settings() == (("high", True) if used == "tf32" else ("highest", False))
    assert settings() == before


def test_deterministic_products_are_prepared_before_torch_is_asked_for_a_gpu(fold, monkeypatch):
    monkeypatch.setattr(os, "environ", {n: v for n, v in os.environ.items() if n != "CUBLAS_WORKSPACE_CONFIG"})
    found = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: found.append(os.environ.get("CUBLAS_WORKSPACE_CONFIG")))
    for is_deterministic in (False, True):
        run(fold(small(training__deterministic=is_deterministic, training__epochs=1), size=20))
    assert (set(found[: len(found) // 2]), set(found[len(found) // 2 :])) == ({None}, {":4096:8"})


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_named_and_a_precision_that_needs_one(fold):
    refuses(ValueError, r"training\.device: must be auto or cpu, given cuda; torch finds no GPU", choose_device, "cuda")
    says = r"training\.precision: must be auto, float32 or bfloat16 on the CPU, given tf32; choose"
    refuses(ValueError, says, run, fold(small(training__precision="tf32")))


def test_processes_that_have_found_different_states_are_refused(fold, monkeypatch):
    monkeypatch.setattr(Processes, "by_first", lambda _, step: step() + 1)
    refuses(ValueError, "the processes of this training loaded different states", run, fold(small()))


def draws(randomness):
    with randomness.use():
        return torch.rand(3).tolist()


def test_random_numbers_of_a_cpu_touch_no_gpu_and_those_saved_next_to_one_continue_without_it(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    for name in ("get_rng_state", "get_rng_state_all", "set_rng_state", "set_rng_state_all", "manual_seed_all"):
        monkeypatch.setattr(torch.cuda, name, Mock(side_effect=AssertionError("a GPU was touched")))
    own, saved, restored = torch.get_rng_state(), Randomness(3, CPU), Randomness(4, CPU)
    restored.restore(saved.state() | {"cuda0": torch.zeros(16, dtype=torch.uint8)})
    first = draws(restored)
    assert first == draws(saved) != draws(saved)
    assert torch.equal(torch.get_rng_state(), own)


def test_what_a_killed_process_had_half_compiled_is_not_found_by_the_next_one(fold, tmp_path, monkeypatch):
    """torch takes any library of the right name for complete: one without bytes, which a killed linker leaves, too."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "shared"))
    used = set()
    monkeypatch.setattr(torch, "compile", lambda forward, **_: used.add((os.getpid(), Path(cache_dir()))) or forward)
    task = fold(small(training__compile=True, training__epochs=1))
    for process in (-1, -1, -2):
        monkeypatch.setattr(os, "getpid", Mock(return_value=process))
        run(task)
    assert len(used) == len({folder for _, folder in used}) == 2
    assert all(tmp_path / "shared" in folder.parents for _, folder in used)
    # They would be shared by all processes in yet another folder.
    assert os.environ["TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS"] == "0"


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # torch asks for it where a graph ends.
def test_a_compiled_network_trains_and_is_evaluated_as_the_plain_one(fold, monkeypatch, tmp_path):
    calls = []

    def traced(function, **options):
        compiled = COMPILE(function, backend="aot_eager", **options)
        return lambda *given: calls.append(torch.is_grad_enabled()) or compiled(*given)

    monkeypatch.setattr(torch, "compile", traced)
    config = small(training__evaluation_tokens=150, training__ema=0.5)
    plain_points, plain = run(fold(config))
    assert not calls
    config["training"]["compile"] = True
    points, result = run(fold(config, checkpoint_dir=str(tmp_path / "compiled")))
    assert [point["loss"] for point in points] == pytest.approx([point["loss"] for point in plain_points], rel=1e-5)
    assert result == pytest.approx(plain, rel=1e-5)
    assert calls.count(False) > len(points)  # several batches in each evaluation
    names = load_file(tmp_path / "compiled" / "weights.safetensors").keys()
    assert names == load_checkpoint(str(tmp_path / "compiled")).network.state_dict().keys()


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor", "ignore::DeprecationWarning")  # torch's own
@pytest.mark.parametrize(
    ("family", "batching"),
    [("transformer", "shuffled"), ("transformer", "packed"), ("recurrent", "shuffled"), ("convolutional", "shuffled")],
)
def test_a_compiled_network_of_any_family_takes_batches_of_any_size_and_chunks_of_logits(family, batching, monkeypatch):
    torch.compiler.reset()
    options = {"backend": "aot_eager", "fullgraph": family != "recurrent"}  # torch's cells are not traced
    monkeypatch.setattr(torch, "compile", lambda network: COMPILE(network, **options))
    losses = []
    for limit, compiles in ((2**26, False), (100, True)):
        monkeypatch.setattr(cross_entropy, "LARGEST_LOGITS", limit)
        update = update_of(*build("translation", family, training__compile=compiles, training__batching=batching))
        batches = (torch.arange(4), torch.tensor([3, 0, 1]) if batching == "packed" else torch.arange(4))
        losses.append([float(update([indices], 0.01)[0]) for indices in batches])
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


@pytest.mark.nightly
def test_every_training_of_a_process_is_compiled(fold, monkeypatch):
    """torch compiles a function for few shapes, here two, whatever training they belong to."""
    counter = CompileCounter()
    monkeypatch.setattr(dynamo, "recompile_limit", 2)
    monkeypatch.setattr(torch, "compile", lambda network, **options: COMPILE(network, backend=counter, **options))
    for width in (10, 12, 14, 16):
        before = counter.frame_count
        run(fold(small(training__compile=True, training__epochs=1, model__d_model=width), size=20))
        assert counter.frame_count > before
