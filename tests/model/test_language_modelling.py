import pytest
import torch
from torch import nn

from model import objective
from model.config.whole import parse
from model.networks.language_model import LanguageModel
from model.tasks.language_modelling import LanguageModelling
from tests.model.conftest import run, small


def text_config(path, **overrides):
    return small("language_modelling", "decoder", data__path=str(path), data__context=8, **overrides)


@pytest.fixture
def poem(tmp_path):
    path = tmp_path / "poem.txt"
    path.write_text("".join(f"the {number % 7} cats sat on the mat\n" for number in range(60)))
    return path


def build(positions="sinusoidal", **overrides):
    torch.manual_seed(0)
    keys = {"positions": positions, "dropout": 0.0} | overrides
    config = parse(small("language_modelling", "decoder", **{f"model__{key}": value for key, value in keys.items()}))
    return LanguageModel(config.model, vocabulary_size=13, max_length=32).eval()


def test_tied_embeddings_are_counted_once():
    free, tied = (build(tied_embeddings=tied) for tied in (False, True))
    count = [sum(parameter.numel() for parameter in network.parameters()) for network in (free, tied)]
    assert count[0] - count[1] == 13 * 16


def test_every_token_but_the_first_is_predicted_once(poem):
    config = parse(text_config(poem))
    items = [{"text": "abcdefghijklm\n"}, {"text": "nopqrstuv\n"}]
    task = LanguageModelling.learn(config, items, [0, 1])
    data = task.encode(items)
    batch = task.batch(data, torch.arange(len(data)), torch.device("cpu"))
    predicted = batch.targets[batch.targets >= 0]
    assert task.vocabulary.decode(predicted.tolist()) == "bcdefghijklm\nnopqrstuv\n"
    assert task.count(data, torch.arange(len(data))) == 23
    before = task.vocabulary.decode(batch.inputs[batch.targets >= 0].tolist())
    assert before == "abcdefghijklm\nnopqrstuv"


def test_a_uniform_models_perplexity_is_the_size_of_the_vocabulary():
    config = parse(small("language_modelling", "decoder"))
    task = LanguageModelling.learn(config, [{"text": "abcd" * 9}], [0])

    class Uniform(nn.Module):
        def forward(self, tokens):
            return torch.zeros(*tokens.shape, len(task.vocabulary))

    encoded = task.encode([{"text": "abcd" * 9}])
    whole = torch.arange(len(encoded))
    measured = task.measure(Uniform(), encoded, whole, torch.device("cpu"))
    metrics = task.metrics(encoded, [measured])
    assert metrics["perplexity"] == pytest.approx(len(task.vocabulary)) == pytest.approx(8)
    assert metrics["bits_per_character"] == pytest.approx(3)
    assert metrics["perplexity"] == pytest.approx(2 ** metrics["bits_per_character"])


def test_one_file_is_cut_into_stretches_at_line_breaks(poem):
    described = objective.describe_data(text_config(poem, data__test_fraction=0.2))
    assert described["parts"] == {"train": 42, "validation": 6, "test": 12}
    assert described["labels"] is None


@pytest.mark.slow
def test_a_repetitive_text_is_learned(poem, tmp_path):
    config = text_config(poem, training__epochs=30, training__batch_size=8)
    described = objective.describe_data(config)
    size = described["size"]
    objective.prepare_data(config, list(range(size)), str(tmp_path / "data"))
    cut = described["parts"]["train"]
    task = {
        "config": config, "train": list(range(cut)), "validation": list(range(cut, size)), "metric": "perplexity",
        "direction": "minimize", "data_dir": str(tmp_path / "data"), "amount": None, "seed": 0, "threads": 1,
        "checkpoint_dir": str(tmp_path / "checkpoint"),
    }  # fmt: skip
    points, result = run(task)
    assert result["perplexity"] < 2
    assert set(points[0]) >= {"loss", "perplexity", "bits_per_character"}
