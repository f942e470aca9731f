import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch._dynamo.testing import CompileCounter
from torch._inductor.runtime.cache_dir_utils import cache_dir

from model import objective
from model.checkpoint import load_checkpoint
from model.config.whole import parse
from model.data.batches import Ragged, batches_by_length, shuffled_batches
from model.data.hashes import write_hashes
from model.errors import CheckpointError
from model.tasks.classification import Classification
from model.training.device import choose_device
from model.training.numerics import _has_bfloat16, numerics, precision_on
from model.training.progress import Resumable
from tests.model.conftest import repeatable, run, small

HARD = {"training__epochs": 6, "model__dropout": 0.3, "training__lr": 0.02}


@pytest.mark.quick("settings0", "settings1", "settings4")
@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"training__optimizer": "sgd", "training__momentum": 0.9, "training__schedule": "plateau"},
        {"training__optimizer": "muon"},
        {"training__ema": 0.9},
        {"model": "recurrent_encoder", "model__num_layers": 2, "training__optimizer": "muon"},
        {"model": "convolutional_encoder", "training__ema": 0.9},
        {"training__optimizer": "rmsprop", "training__accumulation": 2, "training__patience": 2},
        {"training__optimizer": "adagrad", "training__evaluate_every_steps": 2},
    ],
)
def test_a_training_that_is_stopped_and_resumed_ends_with_the_same_bits(fold, tmp_path, settings):
    task = fold(small(**(HARD | settings)), checkpoint_dir=str(tmp_path / "whole"))
    points, result = run(task)
    part = task | {"resume_dir": str(tmp_path / "state"), "checkpoint_dir": str(tmp_path / "parts")}
    first, _ = run(part | {"amount": 2})
    second, _ = run(part | {"amount": 3, "trained": 2})
    third, resumed = run(part | {"trained": 3})
    more = [point.pop("more") for point in points]
    assert [point.pop("more") for point in first + second + third][-1] is False
    assert more == [True] * (len(points) - 1) + [False]
    steps = {point["step"] for point in points}
    # Besides, an amount's end between two evaluations.
    assert [point for point in first + second + third if point["step"] in steps] == points
    assert resumed == result
    weights = [(tmp_path / name / "weights.safetensors").read_bytes() for name in ("whole", "parts")]
    assert weights[0] == weights[1]


@pytest.mark.parametrize("warmup", [False, True])
def test_the_running_mean_of_the_weights_is_evaluated_and_kept(fold, tmp_path, warmup):
    """Worked out once more from the weights after each step, which a training without it has."""
    settings = HARD | {"model__dropout": 0.0, "training__epochs": 1, "training__patience": None}
    weights = []
    for step in range(1, 5):
        folder = str(tmp_path / str(step))
        steps = {"training__max_steps": step, "training__schedule": "constant", "training__warmup_fraction": 0.0}
        run(fold(small(**(settings | steps)), validation=[], size=256, checkpoint_dir=folder))
        weights.append(load_file(f"{folder}/weights.safetensors"))
    averaged = small(**(settings | steps), training__ema=0.25, training__ema_warmup=warmup)
    run(fold(averaged, validation=[], size=256, checkpoint_dir=str(tmp_path / "mean")))
    kept = load_file(tmp_path / "mean" / "weights.safetensors")
    # (1 + t) / (10 + t), at most 0.25: the third mean has reached it.
    decays = (2 / 11, 0.25, 0.25) if warmup else (0.25, 0.25, 0.25)
    for name, tensor in kept.items():
        mean = weights[0][name]
        for decay, later in zip(decays, weights[1:], strict=True):
            mean = decay * mean + (1 - decay) * later[name]
        torch.testing.assert_close(tensor, mean)


def test_with_warm_up_a_long_running_mean_is_not_of_fresh_weights(fold):
    """After one epoch of sixteen steps: the mean is as good as nothing trained without, and near the last with it."""
    settings = {"training__epochs": 1, "training__batch_size": 10, "training__lr": 0.01}
    (plain,), _ = run(fold(small(**settings)))
    (cold,), _ = run(fold(small(**settings, training__ema=0.999, training__ema_warmup=False)))
    (warm,), _ = run(fold(small(**settings, training__ema=0.999)))
    assert abs(warm["loss"] - plain["loss"]) < abs(cold["loss"] - plain["loss"]) / 3


def test_a_training_that_is_closed_from_outside_goes_on_from_there(fold, tmp_path, monkeypatch):
    monkeypatch.setattr(Resumable, "is_due", False)
    task = fold(small(**HARD))
    points, result = run(task)
    part = task | {"resume_dir": str(tmp_path / "state")}
    training = objective.run_fold(part)
    assert [repeatable(next(training)) for _ in range(3)] == points[:3]
    assert not (tmp_path / "state").exists()
    training.close()
    assert (tmp_path / "state").exists()
    later, resumed = run(part | {"trained": 3})
    assert (later, resumed) == (points[3:], result)


def cut_in_half(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def change_a_bit(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))


@pytest.mark.quick("cut*damaged0", "unlink-sha256.json-damaged5")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "name", "damaged"),
    [
        *((damage, "training.safetensors", ["last"]) for damage in (cut_in_half, change_a_bit, Path.unlink)),
        (change_a_bit, "training.json", ["last"]),
        *((Path.unlink, "sha256.json", damaged) for damaged in (["last"], ["before"], ["last", "before"])),
    ],
)
def test_a_damaged_state_gives_way_to_the_one_before_and_that_to_the_start(
    fold, tmp_path, monkeypatch, damage, name, damaged
):
    monkeypatch.setattr(Resumable, "is_due", True)
    task = fold(small(**HARD))
    points, result = run(task)
    task["resume_dir"] = str(tmp_path / "state")
    killed = objective.run_fold(task)
    assert [repeatable(next(killed)) for _ in range(4)] == points[:4]
    killed.close()
    for state in damaged:
        damage(tmp_path / "state" / state / name)
    messages, resumed = run(task)
    warnings = [message["warning"] for message in messages if "warning" in message]
    assert [message for message in messages if "warning" not in message] == points
    assert resumed == result
    # The state before is not looked at where the last one is sound.
    assert len(warnings) == (0 if damaged == ["before"] else len(damaged))
    assert all(str(tmp_path / "state") in warning for warning in warnings)


def test_a_state_from_before_a_key_existed_is_continued(fold, tmp_path, monkeypatch):
    """A frozen configuration may lack keys that have a default, and so may the settings of its states."""
    monkeypatch.setattr(Resumable, "is_due", True)
    task = fold(small(**HARD))
    points, result = run(task)
    task["resume_dir"] = str(tmp_path / "state")
    killed = objective.run_fold(task)
    assert [repeatable(next(killed)) for _ in range(4)] == points[:4]
    killed.close()
    last = tmp_path / "state" / "last"
    content = json.loads((last / "training.json").read_text())
    for section, key in (("training", "ema"), ("training", "z_loss"), ("model", "qk_norm")):
        del content["settings"]["config"][section][key]
    del content["settings"]["config"]["metrics"]
    for point in (*content["progress"]["curve"], content["progress"]["best"]["metrics"]):
        del point["examples_per_second"]
    (last / "training.json").write_text(json.dumps(content))
    (last / "sha256.json").unlink()
    write_hashes(last)
    assert run(task) == (points, result)
    task["config"]["training"]["z_loss"] = 1e-4
    with pytest.raises(CheckpointError, match="other settings"):
        run(task)


def test_a_state_whose_epochs_had_other_batches_is_told_and_left(fold, tmp_path):
    """Batches by length were cut otherwise before 0.2: going on from such a state would repeat an epoch."""
    task = fold(small(**HARD), resume_dir=str(tmp_path / "state"))
    points, result = run(task)
    for state in (tmp_path / "state").iterdir():
        content = json.loads((state / "training.json").read_text())
        for point in content["progress"]["curve"]:
            point["step"] += 1
        (state / "training.json").write_text(json.dumps(content))
        (state / "sha256.json").unlink()
        write_hashes(state)
    messages, again = run(task)
    assert [message for message in messages if "warning" not in message] == points
    assert again == result
    assert all("with other batches" in message["warning"] for message in messages if "warning" in message)
    assert "warning" in messages[0]


def test_states_cost_a_twentieth_of_the_time_at_most(fold, tmp_path, monkeypatch):
    """After a state that took long, the next evaluations are not saved; the last one always is."""
    clock = iter(range(0, 10_000, 100))
    monkeypatch.setattr("model.training.progress.time.monotonic", lambda: next(clock))
    saved, save = [], Resumable.save

    def noted(self, progress, *rest):
        saved.append(progress.step)
        save(self, progress, *rest)

    monkeypatch.setattr(Resumable, "save", noted)
    points, _ = run(fold(small(**HARD), resume_dir=str(tmp_path / "state")))
    assert saved == [points[0]["step"], points[-1]["step"]]


def test_a_state_of_other_settings_is_not_continued(fold, tmp_path):
    task = fold(small(), resume_dir=str(tmp_path / "state"))
    run(task)
    with pytest.raises(CheckpointError, match="other settings"):
        run(task | {"seed": 8})


def test_label_smoothing_mixes_the_target_with_the_uniform_distribution():
    task, logits = Classification(("a", "b"), None, 8, 8), torch.tensor([[2.0, -1.0]])

    class Batch:
        inputs = attention_mask = None
        targets = torch.tensor([0])

    smoothed = task.loss(lambda *_: logits, Batch, 0.2)
    expected = -(torch.tensor([0.9, 0.1]) * logits[0].log_softmax(0)).sum()
    torch.testing.assert_close(smoothed.objective, expected)
    torch.testing.assert_close(smoothed.cross_entropy, -logits[0].log_softmax(0)[0])


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
    ("given", "has_bfloat16", "used", "rounds"),
    [
        ("auto", True, "bfloat16", False),
        ("auto", False, "tf32", True),
        ("float32", True, "float32", False),
        ("float16", True, "float16", False),
    ],
)
def test_the_precision_that_is_used_on_a_gpu(monkeypatch, given, has_bfloat16, used, rounds):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: has_bfloat16)
    _has_bfloat16.cache_clear()
    gpu, config = torch.device("cuda", 0), parse(small(training__precision=given)).training
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    try:
        assert precision_on(config, gpu) == used
        assert precision_on(config, torch.device("cpu")) == ("float32" if given == "auto" else given)
        with numerics(config, gpu):
            assert (torch.get_float32_matmul_precision() == "high") == rounds
            assert torch.backends.cudnn.allow_tf32 == rounds
    finally:
        _has_bfloat16.cache_clear()
    assert (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32) == before


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


def test_max_steps_ends_the_training_and_its_schedule(fold):
    points, _ = run(fold(small(training__epochs=50, training__max_steps=7, training__batch_size=32)))
    assert [point["step"] for point in points] == [5, 7]
    assert points[-1]["lr"] < points[0]["lr"]


def test_evaluation_every_n_steps(fold):
    points, _ = run(fold(small(training__batch_size=16, training__evaluate_every_steps=4)))
    assert [point["step"] for point in points] == [4, 8, 12, 16, 20]
    assert [point["epoch"] for point in points] == [1, 1, 2, 2, 2]


@pytest.mark.nightly
def test_every_training_of_a_process_is_compiled(fold, monkeypatch):
    """torch compiles a function for eight shapes at most, whatever training they belong to."""
    compile_with, counter = torch.compile, CompileCounter()
    monkeypatch.setattr(torch, "compile", lambda network, **options: compile_with(network, backend=counter, **options))
    for width in range(10, 30, 2):
        before = counter.frame_count
        run(fold(small(training__compile=True, training__epochs=1, model__d_model=width), size=20))
        assert counter.frame_count > before


@pytest.mark.parametrize("batch_tokens", [None, 30])
def test_batches_by_length_hold_every_example_once_within_their_limits(batch_tokens):
    lengths = torch.randint(1, 40, (101,), generator=torch.Generator().manual_seed(0))
    sizes = set()
    for seed in range(3):
        batches = batches_by_length(lengths, 8, batch_tokens, torch.Generator().manual_seed(seed))
        assert sorted(torch.cat(batches).tolist()) == list(range(101))
        assert all(len(batch) <= 8 for batch in batches)
        if batch_tokens:
            assert all(len(batch) == 1 or len(batch) * max(lengths[batch]) <= 30 for batch in batches)
        sizes.add(tuple(sorted(map(len, batches))))
    assert len(sizes) == 1


def test_batches_by_length_pad_less_than_shuffled_ones():
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 40, (500,), generator=generator)

    def padded(batches):
        return sum(len(batch) * int(lengths[batch].max()) for batch in batches)

    assert padded(batches_by_length(lengths, 10, None, generator)) < 0.7 * padded(shuffled_batches(500, 10, generator))


def test_batches_by_length_mix_lengths():
    """Sorted as a whole, 200 batches of 39 lengths would hold one length each."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.randint(1, 40, (2000,), generator=generator)
    batches = batches_by_length(lengths, 10, None, generator)
    spread = [int(lengths[batch].max() - lengths[batch].min()) for batch in batches]
    assert 2 < sum(spread) / len(spread) < 10


def test_batches_by_length_are_drawn_anew_in_every_epoch():
    lengths = torch.randint(1, 9, (200,), generator=torch.Generator().manual_seed(0))
    epochs = [batches_by_length(lengths, 8, None, torch.Generator().manual_seed(seed)) for seed in (1, 2)]
    one, other = ({frozenset(batch.tolist()) for batch in batches} for batches in epochs)
    assert len(one & other) < 5


def test_gathering_gives_each_sequence_padded_at_its_end():
    sequences = [[5, 6, 7], [8], [9, 10]]
    tokens, attention_mask = Ragged.of(sequences).gather(torch.tensor([2, 0, 1]))
    assert tokens.tolist() == [[9, 10, 0], [5, 6, 7], [8, 0, 0]]
    assert attention_mask.tolist() == [[True, True, False], [True] * 3, [True, False, False]]
    assert Ragged.of(sequences).gather(torch.tensor([1, 1]))[1] is None


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
    with pytest.raises(ValueError, match=r"training\.device: cuda is asked for, and torch finds no GPU here"):
        choose_device("cuda")
