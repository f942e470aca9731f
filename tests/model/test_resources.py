"""What a network takes: parameters, bytes, operations, and its cost on a study's clock."""

import pytest
import torch
from safetensors.torch import load_file
from torch.utils.flop_counter import FlopCounterMode

from model import objective
from model.checkpoint import WEIGHTS
from model.config.whole import parse
from model.cost import work_of
from model.networks.encoder_decoder import EncoderDecoder
from model.networks.language_model import LanguageModel
from model.tasks.choose import TASKS
from model.tasks.resources import MEASURED, RESOURCES
from model.training.speed import Speed, operations_per_token, peak_of
from tests.model.conftest import of, run, small

COUNTED = ("parameters", "cost_per_example", "model_bytes")
LENGTH, VOCABULARY = 20, 40
ATTENTIONS = [
    {"attention": attention, "attend": attend, "input_feeding": is_fed, "attention_width": inner}
    for attention, inner in (("mlp", None), ("mlp", 40), ("dot", None), ("bilinear", None))
    for attend, is_fed in (("before", False), ("after", False), ("after", True))
]
UNATTENDED = {"attention": "none", "bridge": "copy"}
NETWORKS = [
    ("generated", "transformer", {"num_decoder_layers": 2, "num_key_heads": 1}),
    ("language_modelling", "transformer", {"nonlinearity": "swiglu"}),
    ("generated", "convolutional", {"filter_width": 5}),
    ("language_modelling", "convolutional", {}),
    ("language_modelling", "recurrent", {"cell": "gru", "hidden_width": 24}),
    ("generated", "recurrent", UNATTENDED),
    ("generated", "recurrent", UNATTENDED | {"bidirectional": False}),
    *(("generated", "recurrent", {"bridge": "copy", "hidden_width": 24} | attention) for attention in ATTENTIONS),
]


@pytest.mark.filterwarnings("ignore:TF32 acceleration")
@pytest.mark.parametrize(("data", "family", "settings"), NETWORKS)
def test_products_are_those_that_torch_counts_in_a_forward_pass(data, family, settings):
    config = parse(small(data, family, **of("model", settings))).model
    tokens = torch.zeros(1, LENGTH, dtype=torch.long)
    if data == "generated":
        sizes = {"source_size": VOCABULARY, "target_size": VOCABULARY, "max_length": LENGTH}
        network, inputs = EncoderDecoder(config, **sizes, shared=False), (tokens, None, tokens)
    else:
        network, inputs = LanguageModel(config, vocabulary_size=VOCABULARY, max_length=LENGTH), (tokens,)
    # oneDNN's cells are one operation, in which torch counts nothing.
    with torch.backends.mkldnn.flags(enabled=False), FlopCounterMode(display=False) as counter:
        network(*inputs)
    assert 2 * LENGTH * work_of(config, LENGTH, VOCABULARY).products == counter.get_total_flops()


def test_the_clock_counts_a_text_in_blocks_of_its_context_and_the_same_tokens_an_epoch():
    for length in (16, 64):
        config = small("language_modelling", data__path="a.txt", data__context=length, training__batch_size=1)
        step = config | {"training": config["training"] | {"evaluate_every_steps": 1}}
        assert objective.describe_cost(step) == pytest.approx(length * objective.describe_cost(config))


def test_what_is_counted_is_that_of_the_checkpoint_and_the_same_for_all_seeds_and_splits(fold, tmp_path):
    config, folder = small(training__epochs=1), tmp_path / "checkpoint"
    task = fold(config, checkpoint_dir=str(folder))
    _, result = run(task)
    weights = load_file(folder / WEIGHTS).values()
    assert result["model_bytes"] == sum(weight.nbytes for weight in weights)
    assert result["parameters"] == sum(weight.numel() for weight in weights)
    swapped = {"train": task["validation"], "validation": task["train"]}
    test = {"config": config, "checkpoint_dir": str(folder), "test": [5, 3], "threads": 1}
    others = [run(task | swapped | {"seed": 8})[1], run(task | {"validation": []})[1], objective.run_test(test)]
    counted = [{name: each[name] for name in COUNTED} for each in (result, *others)]
    assert counted == counted[:1] * 4


@pytest.mark.parametrize("data", TASKS)
def test_every_metric_has_a_definition_a_direction_and_bounds_and_the_shares_are_of_independent_examples(data):
    method = objective.describe_method(small(data, **({} if data in ("digits", "generated") else {"data__path": "a"})))
    names = {*TASKS[data].metric_names, *RESOURCES}
    assert method["metrics"].keys() == method["directions"].keys() == method["bounds"].keys() == names
    assert set(method["measured"]) == {*MEASURED} < names
    assert method["metrics"]["parameters"].endswith(f"with the best {TASKS[data].metric_names[0]}")
    shares = {"digits": ["accuracy"], "text_classification": ["accuracy"], "tagging": [], "language_modelling": []}
    assert method["shares"] == shares.get(data, ["exact_match"])
    assert all(method["bounds"][name] == [0, 1] for name in method["shares"])


@pytest.mark.parametrize("is_tied", [False, True])
def test_the_operations_of_a_token_are_those_of_palm(is_tied):
    """6 N + 12 L H Q T, N being all parameters but the embedding, where that is no head."""
    sizes = {"num_layers": 3, "num_heads": 2, "d_model": 16, "tied_embeddings": is_tied, "positions": "rotary"}
    config = parse(small("language_modelling", **of("model", sizes))).model
    network = LanguageModel(config, vocabulary_size=50, max_length=40)
    counted = sum(parameter.numel() for parameter in network.parameters()) - (0 if is_tied else 50 * 16)
    assert operations_per_token(network, 40) == 6 * counted + 12 * 3 * 2 * 8 * 40


def test_a_share_of_the_peak_is_that_of_all_devices_whose_peak_goes_by_their_name(monkeypatch):
    others = (("NVIDIA L40", None), ("NVIDIA A100-SXM4-40GB", 312e12), ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", None))
    for name, peak in (("NVIDIA H100 80GB HBM3", 989.4e12), ("NVIDIA H100 PCIe", 756e12), *others):
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda _, name=name: name)
        assert (peak_of(torch.device("cuda", 0)), peak_of(torch.device("cpu"))) == (peak, None)
    monkeypatch.setattr("model.training.speed.peak_of", lambda device: 1e6)
    monkeypatch.setattr("model.training.speed.time.perf_counter", iter([0.0, 2.0, 5.0, 7.0]).__next__)
    speed = Speed(torch.nn.Linear(100, 10, bias=False), torch.tensor([3, 7, 90]), torch.device("cpu"), 2)
    for _ in range(2):
        speed.begin()
        speed.add([torch.tensor([0]), torch.tensor([1, 1])])
        speed.end()
    assert speed.measured() == {"tokens_per_second": 34 / 4, "share_of_peak": 6 * 1000 * 34 / 4 / 2e6}
    assert speed.measured() == {}
