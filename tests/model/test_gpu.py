"""What the model and its trainer promise on a GPU: `python -m pytest -m gpu tests/model/test_gpu.py`.

They need only `model/`, `conf/` and `tests/model/`; `benchmarks/gpu.sh` runs them where there is nothing else. With
TEST_DEVICE=cpu they run on the CPU, except those that look at a GPU's memory: to test the tests.
"""

import os
import random
from typing import get_args

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from model import objective
from model.config.training import TrainingConfig
from model.errors import OutOfMemoryError
from tests.model.conftest import of, run, small

DEVICE = os.environ.get("TEST_DEVICE", "cuda")
IS_MISSING = DEVICE == "cuda" and not torch.cuda.is_available()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(IS_MISSING, reason="there is no GPU here")]
NEEDS_MEMORY = pytest.mark.skipif(DEVICE == "cpu", reason="it looks at a GPU's memory")
# All kernels but the one that writes down the scores of all pairs.
NOT_QUADRATIC = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.CUDNN_ATTENTION]
TEXTS = ("text_classification", "tagging", "language_modelling", "translation")
# A GPU draws other numbers, so there is no dropout where its training is compared with the CPU's.
SETTINGS = of("training", {"device": DEVICE, "precision": "float32", "lr": 0.001}) | {"model__dropout": 0.0}


def allowed(key):
    return get_args(TrainingConfig.model_fields[key].annotation)


@pytest.fixture
def configure(tmp_path):
    def make(data, family="transformer", **overrides):
        random_words, own = random.Random(1), {}
        vocabulary = ["the", "film", "was", "good", "bad", "very", "dull"]
        lines = [random_words.choices(vocabulary, k=1 + number % 9) for number in range(80)]
        if data in TEXTS:
            own["data__path"] = str(tmp_path / f"{data}.tsv")
            texts = {
                "text_classification": (f"{' '.join(line)}\t{number % 2}" for number, line in enumerate(lines)),
                "tagging": ("".join(f"{word}\t{word[0]}\n" for word in line) for line in lines),
                "language_modelling": map(" ".join, lines),
                "translation": (f"{' '.join(line)}\t{' '.join(reversed(line))}" for line in lines),
            }[data]
            (tmp_path / f"{data}.tsv").write_text("".join(f"{text}\n" for text in texts))
        if data == "translation":
            own |= {"data__tokens": "words", "data__max_length": 12}
        if data in ("text_classification", "translation"):
            own["data__header"] = False
        return small(data, family, **(SETTINGS | own | overrides))

    return make


def changed(config, **training):
    return config | {"training": config["training"] | training}


def losses(fold, config, **task):
    return [point["loss"] for point in run(fold(config, **task))[0]]


@pytest.mark.parametrize("family", ["transformer", "recurrent", "convolutional"])
@pytest.mark.parametrize("data", ["digits", *TEXTS])
def test_a_training_is_near_to_the_cpus(configure, fold, data, family):
    config = configure(data, family, training__epochs=3, training__batch_size=16, training__evaluate_every_steps=1)
    here, there = run(fold(config))[0], run(fold(changed(config, device="cpu")))[0]
    assert len(here) == len(there)
    assert here[0]["train_loss"] == pytest.approx(there[0]["train_loss"], rel=5e-5)
    assert here[-1]["loss"] == pytest.approx(there[-1]["loss"], rel=5e-3)


@pytest.mark.parametrize("optimizer", allowed("optimizer"))
def test_every_optimizer_steps_as_on_the_cpu(configure, fold, optimizer):
    config = configure("digits", training__optimizer=optimizer)
    here, there = losses(fold, config), losses(fold, changed(config, device="cpu"))
    assert here[-1] == pytest.approx(there[-1], rel=0.02 if optimizer == "muon" else 5e-3)


@pytest.mark.parametrize("precision", [each for each in allowed("precision") if each not in ("float32", "auto")])
@pytest.mark.parametrize("data", ["digits", "language_modelling", "translation"])
def test_every_precision_trains(configure, fold, data, precision):
    if DEVICE == "cpu" and precision != "bfloat16":
        pytest.skip("it needs a GPU")
    config = configure(data, training__epochs=5, training__batch_size=16)
    rounded, exact = losses(fold, changed(config, precision=precision)), losses(fold, config)
    assert rounded[0] > rounded[-1] == pytest.approx(exact[-1], rel=0.1)


@pytest.mark.parametrize("data", ["text_classification", "language_modelling"])
def test_a_training_that_was_interrupted_ends_with_the_same_bits(configure, fold, tmp_path, data):
    given = of("training", {"deterministic": DEVICE == "cuda", "batch_size": 16, "epochs": 4})
    config = configure(data, model__dropout=0.2, **given)
    points, result = run(fold(config))
    task = fold(config, resume_dir=str(tmp_path / "state"))
    first = objective.run_fold(task)
    assert [next(first)["loss"] for _ in range(2)] == [point["loss"] for point in points[:2]]
    first.close()
    assert run(task | {"trained": points[1]["epoch"]}) == (points[2:], result)


@pytest.mark.parametrize("data", ["text_classification", "tagging", "translation"])
@pytest.mark.parametrize(("precision", "near"), [("float32", 1e-5), ("bfloat16", 0.01)])
def test_packed_batches_train_as_padded_ones(configure, fold, data, precision, near):
    config = configure(data, training__batch_size=1000, training__precision=precision)
    packed, padded = (run(fold(changed(config, batching=each)))[0] for each in ("packed", "shuffled"))
    assert packed[0]["train_loss"] == pytest.approx(padded[0]["train_loss"], rel=near)
    assert packed[-1]["loss"] == pytest.approx(padded[-1]["loss"], rel=max(near, 1e-3))


LARGER = {"num_layers": 4, "num_heads": 8, "d_model": 64}
GROUPED, ALIBI = LARGER | {"num_key_heads": 2}, LARGER | {"positions": "alibi"}
HEADS = {"all_heads": LARGER, "grouped": GROUPED, "alibi": ALIBI, "grouped_and_alibi": GROUPED | ALIBI}


@pytest.mark.parametrize("heads", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("data", ["text_classification", "language_modelling", "translation"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_attention_never_takes_the_quadratic_kernel(configure, fold, data, precision, heads):
    with sdpa_kernel(NOT_QUADRATIC):
        run(fold(configure(data, training__precision=precision, **of("model", heads))))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, as it compiles
def test_a_compiled_network_trains_and_is_evaluated_as_the_plain_one(configure, fold):
    config = configure("digits", training__epochs=2)
    assert losses(fold, changed(config, compile=True)) == pytest.approx(losses(fold, config), rel=0.01)


@NEEDS_MEMORY
def test_the_curve_has_speed_and_memory(configure, fold):
    for point in objective.run_fold(fold(configure("language_modelling"))):
        assert min(point["tokens_per_second"], point["memory_peak"]) > 0
        assert 0 < point.get("share_of_peak", 0.5) < 1


@NEEDS_MEMORY
@pytest.mark.parametrize("data", TEXTS)
def test_predictions_and_attention_maps_are_computed_on_the_gpu(configure, fold, tmp_path, data):
    run(fold(configure(data), checkpoint_dir=str(tmp_path / "checkpoint")))
    for ask, *given in ((objective.predict, ["the film"], {}), (objective.attention, "a", None)):
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        assert ask(str(tmp_path / "checkpoint"), *given)
        assert torch.cuda.max_memory_allocated() > before


@NEEDS_MEMORY
def test_memory_that_runs_out_costs_one_training(configure, fold):
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
