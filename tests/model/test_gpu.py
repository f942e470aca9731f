"""What the model and its trainer promise on a GPU: `python -m pytest -m gpu tests/model/test_gpu.py`.

They need only `model/`, `conf/` and `tests/model/`; `benchmarks/gpu.sh` runs them where there is nothing else. With
TEST_DEVICE=cpu they run on the CPU, except those that look at a GPU's memory: to test the tests.
"""

import contextlib
import os
import random
from typing import get_args

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from model import objective
from model.config.training import TrainingConfig
from model.errors import OutOfMemoryError
from model.training.progress import Resumable
from tests.model.conftest import run, small

DEVICE = os.environ.get("TEST_DEVICE", "cuda")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(DEVICE == "cuda" and not torch.cuda.is_available(), reason="there is no GPU here"),
]
NEEDS_MEMORY = pytest.mark.skipif(DEVICE == "cpu", reason="it looks at a GPU's memory")
# All kernels but the one that writes down the scores of all pairs.
NOT_QUADRATIC = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION]
GIB = 2**30
SHAPES = {
    "digits": "encoder",
    "text_classification": "encoder",
    "tagging": "encoder",
    "language_modelling": "decoder",
    "translation": "encoder_decoder",
}
# A GPU draws other numbers, so there is no dropout where its training is held against the CPU's.
SETTINGS = {
    "model__dropout": 0.0, "training__device": DEVICE, "training__precision": "float32", "training__lr": 0.001
}  # fmt: skip


def allowed(key):
    return get_args(TrainingConfig.model_fields[key].annotation)


def has(key, value):
    return pytest.mark.skipif(value not in allowed(key), reason=f"training.{key} has no {value}")


def words(number, random_words):
    return random_words.choices(["the", "film", "was", "good", "bad", "very", "dull"], k=1 + number % 9)


@pytest.fixture
def configure(tmp_path):
    """Gives a configuration of a kind of data on this device, whose file is written."""

    def make(data, family="transformer", **overrides):
        random_words = random.Random(1)
        lines = [words(number, random_words) for number in range(80)]
        texts = {
            "text_classification": "".join(f"{' '.join(line)}\t{number % 2}\n" for number, line in enumerate(lines)),
            "tagging": "".join("".join(f"{word}\t{word[0]}\n" for word in line) + "\n" for line in lines),
            "language_modelling": "".join(" ".join(line) + "\n" for line in lines),
            "translation": "".join(f"{' '.join(line)}\t{' '.join(reversed(line))}\n" for line in lines),
        }
        own = {}
        if data in texts:
            path = tmp_path / f"{data}.tsv"
            path.write_text(texts[data])
            own["data__path"] = str(path)
        own |= {"translation": {"data__tokens": "words", "data__max_length": 12}}.get(data, {})
        own |= {"text_classification": {"data__header": False}, "translation": {"data__header": False}}.get(data, {})
        model = SHAPES[data] if family == "transformer" else f"{family}_{SHAPES[data]}"
        return small(data, model, **(SETTINGS | own | overrides))

    return make


def changed(config, **training):
    return config | {"training": config["training"] | training}


def losses(fold, config, **task):
    """The loss that each evaluation gives."""
    return [point["loss"] for point in run(fold(config, **task))[0]]


@contextlib.contextmanager
def peak_memory():
    """Gives a list that holds, after the block, by how many bytes the memory rose in it at most."""
    rose = []
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    yield rose
    torch.cuda.synchronize()
    rose.append(torch.cuda.max_memory_allocated() - before)


@pytest.mark.parametrize("family", ["transformer", "recurrent", "convolutional"])
@pytest.mark.parametrize("data", SHAPES)
def test_a_training_is_near_to_the_cpus(configure, fold, data, family):
    """The loss of the same first weights to 5e-5, and after 15 updates, which enlarge differences, to 5e-3.

    On the CPU, weights that differ by 1e-6 end in losses that differ by 5e-7 at most.
    """
    config = configure(data, family, training__epochs=3, training__batch_size=16)
    here = run(fold(changed(config, evaluate_every_steps=1)))[0]
    there = run(fold(changed(config, evaluate_every_steps=1, device="cpu")))[0]
    assert len(here) == len(there)
    assert here[0]["train_loss"] == pytest.approx(there[0]["train_loss"], rel=5e-5)
    assert here[-1]["loss"] == pytest.approx(there[-1]["loss"], rel=5e-3)


@pytest.mark.parametrize("optimizer", allowed("optimizer"))
def test_every_optimizer_steps_as_on_the_cpu(configure, fold, optimizer):
    """To 5e-3; Muon rounds to bfloat16: to 2 %."""
    config = configure("digits", training__optimizer=optimizer)
    here, there = losses(fold, config), losses(fold, changed(config, device="cpu"))
    assert here[-1] == pytest.approx(there[-1], rel=0.02 if optimizer == "muon" else 5e-3)


@pytest.mark.parametrize("precision", [each for each in allowed("precision") if each not in ("float32", "auto")])
@pytest.mark.parametrize("data", ["digits", "language_modelling", "translation"])
def test_every_precision_trains(configure, fold, data, precision):
    """The loss falls, to within 10 % of what float32 reaches."""
    if DEVICE == "cpu" and precision != "bfloat16":
        pytest.skip("it needs a GPU")
    config = configure(data, training__epochs=5, training__batch_size=16)
    rounded, exact = losses(fold, changed(config, precision=precision)), losses(fold, config)
    assert rounded[-1] < rounded[0]
    assert rounded[-1] == pytest.approx(exact[-1], rel=0.1)


@has("precision", "auto")
def test_auto_is_bfloat16_where_the_gpu_has_it(configure, fold):
    results = set()
    hook = torch.nn.modules.module.register_module_forward_hook(
        lambda module, _, output: results.add(output.dtype) if isinstance(module, torch.nn.Linear) else None
    )
    try:
        run(fold(configure("digits", training__epochs=1, training__precision="auto")))
    finally:
        hook.remove()
    is_rounded = DEVICE == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    assert results == {torch.bfloat16 if is_rounded else torch.float32}


@pytest.mark.parametrize("data", ["text_classification", "language_modelling"])
def test_a_training_that_was_interrupted_ends_with_the_same_bits(configure, fold, tmp_path, data):
    """With dropout, whose numbers the GPU draws."""
    is_gpu = DEVICE == "cuda"
    given = {"model__dropout": 0.2, "training__deterministic": is_gpu, "training__batch_size": 16}
    config = configure(data, training__epochs=4, **given)
    points, result = run(fold(config))
    task = fold(config, resume_dir=str(tmp_path / "state"))
    first = objective.run_fold(task)
    assert [next(first)["loss"] for _ in range(2)] == [point["loss"] for point in points[:2]]
    first.close()
    assert run(task | {"trained": points[1]["epoch"]}) == (points[2:], result)


def test_an_evaluation_in_bfloat16_is_near_to_float32(configure, fold, tmp_path):
    """Of the same weights: the loss to 2 %, and at most one label of fifty changes."""
    config = configure("digits", training__epochs=5)
    folder = str(tmp_path / "checkpoint")
    run(fold(config, size=400, checkpoint_dir=folder))
    test = {"checkpoint_dir": folder, "test": list(range(400, 800)), "threads": 1}
    exact = objective.run_test(test | {"config": config})
    rounded = objective.run_test(test | {"config": changed(config, precision="bfloat16")})
    assert rounded["loss"] == pytest.approx(exact["loss"], rel=0.02)
    assert rounded["accuracy"] == pytest.approx(exact["accuracy"], abs=0.02)


@has("batching", "packed")
@pytest.mark.parametrize("data", ["text_classification", "tagging", "translation"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_packed_batches_train_as_padded_ones(configure, fold, data, precision):
    """One batch holds all, so that both ways have the same: its loss to 1e-5 in float32, and to 1 % in bfloat16."""
    config = configure(data, training__batch_size=1000, training__precision=precision)
    packed, padded = (run(fold(changed(config, batching=each)))[0] for each in ("packed", "shuffled"))
    near = 1e-5 if precision == "float32" else 0.01
    assert packed[0]["train_loss"] == pytest.approx(padded[0]["train_loss"], rel=near)
    assert packed[-1]["loss"] == pytest.approx(padded[-1]["loss"], rel=max(near, 1e-3))


LONG = {"num_layers": 4, "num_heads": 8, "d_model": 64}
HEADS = {
    "all heads": {},
    "grouped": {"model__num_key_heads": 2},
    "alibi": {"model__positions": "alibi"},
    "grouped and alibi": {"model__num_key_heads": 2, "model__positions": "alibi"},
}


@pytest.mark.parametrize("heads", HEADS.values(), ids=[name.replace(" ", "_") for name in HEADS])
@pytest.mark.parametrize("data", ["text_classification", "language_modelling", "translation"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_attention_never_takes_the_quadratic_kernel(configure, fold, data, precision, heads):
    """With padding, and without: torch raises where no other kernel fits."""
    sizes = {f"model__{name}": value for name, value in LONG.items()}
    config = configure(data, training__precision=precision, **(sizes | heads))
    with sdpa_kernel(NOT_QUADRATIC):
        run(fold(config))


@NEEDS_MEMORY
@pytest.mark.parametrize("heads", HEADS.values(), ids=[name.replace(" ", "_") for name in HEADS])
@pytest.mark.parametrize("data", ["text_classification", "language_modelling"])
def test_the_memory_of_long_texts_is_far_below_quadratic(configure, fold, tmp_path, data, heads):
    """Four layers over 4096 tokens take less than the scores of one: 8 heads x 4096 x 4096 numbers a text.

    A bias by distance may be as large as the scores of one text in one layer: all texts and layers share it.
    """
    length, texts = 4096, 8
    sizes = {f"model__{name}": value for name, value in LONG.items()}
    given = {"text_classification": {"data__max_length": length}, "language_modelling": {"data__context": length}}
    config = configure(
        data, training__batch_size=texts, training__precision="bfloat16",
        **(sizes | heads | given[data]),
    )  # fmt: skip
    # Of differing lengths, so that some are padded.
    long = [" ".join(["film", "good"] * (length // 2 - 10 * number)) for number in range(10)]
    lines = [
        f"{text}\t{number % 2}\n" if data == "text_classification" else f"{text}\n" for number, text in enumerate(long)
    ]
    (tmp_path / f"{data}.tsv").write_text("".join(lines))
    task = fold(config)
    with peak_memory() as rose:
        run(task)
    assert rose[0] < texts * 8 * length**2 * 4, f"{rose[0] / GIB:.2f} GiB"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, as it compiles
def test_a_compiled_network_trains_and_is_evaluated_as_the_plain_one(configure, fold):
    config = configure("digits", training__epochs=2)
    assert losses(fold, changed(config, compile=True)) == pytest.approx(losses(fold, config), rel=0.01)


@NEEDS_MEMORY
@pytest.mark.parametrize("data", [each for each in SHAPES if each != "digits"])
def test_predictions_and_attention_maps_are_computed_on_the_gpu(configure, fold, tmp_path, data):
    folder = str(tmp_path / "checkpoint")
    run(fold(configure(data), checkpoint_dir=folder))
    with peak_memory() as rose:
        predicted = objective.predict(folder, ["the film was good", "dull"], {})
    assert (len(predicted), rose[0] > 0) == (2, True)
    with peak_memory() as rose:
        maps = objective.attention(folder, "the film was good", None)["maps"]
    assert rose[0] > 0
    for each in maps:
        assert all(abs(sum(row) - 1) < 1e-3 for head in each["heads"] for row in head)


@NEEDS_MEMORY
def test_the_curve_has_speed_and_memory(configure, fold):
    points = list(objective.run_fold(fold(configure("language_modelling"))))
    for point in points:
        assert point["tokens_per_second"] > 0
        assert point["memory_peak"] > 0
        assert 0 < point.get("share_of_peak", 0.5) < 1


@NEEDS_MEMORY
def test_memory_that_runs_out_costs_one_training(configure, fold):
    """A training that does not fit says so in our words, and the next one in the same process has its memory back."""
    fits = fold(configure("digits"))
    expected = run(fits)
    torch.cuda.empty_cache()
    limit = torch.cuda.memory_reserved() + 2**27
    torch.cuda.set_per_process_memory_fraction(limit / torch.cuda.get_device_properties(0).total_memory)
    try:
        with pytest.raises(OutOfMemoryError, match=r"out of GPU memory with training\.batch_size 64"):
            run(fits | {"config": configure("digits", model__d_model=4096, model__feed_forward_width=4096)})
        assert run(fits)[1]["loss"] == pytest.approx(expected[1]["loss"], rel=0.02)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)


@NEEDS_MEMORY
def test_a_state_is_saved_with_little_more_memory(configure, fold, tmp_path, monkeypatch):
    """Less than 1.3 times what the training holds anyway: weights, momenta, running means."""
    ratios, save = [], Resumable.save

    def watched(self, *given, **named):
        before = torch.cuda.memory_allocated()
        with peak_memory() as rose:
            save(self, *given, **named)
        ratios.append((before + rose[0]) / before)

    monkeypatch.setattr(Resumable, "save", watched)
    config = configure("digits", model__d_model=1024, model__feed_forward_width=4096, training__epochs=1)
    run(fold(config, resume_dir=str(tmp_path / "state")))
    assert ratios
    assert max(ratios) < 1.3
