import functools
import itertools
import json
import math
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import nn

from model import objective
from model.config.whole import parse
from model.data.tokens.subwords import RESERVED, ByteSubwords
from model.data.tokens.tokens import tokens_from_dict
from model.data.tokens.unknown import UnknownTokens
from model.data.tokens.vocabulary import END, PADDING, SPECIAL, START, Vocabulary
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


class Unigram(nn.Module):
    """Predicts each token by its share of the training part, whatever came before, and never the special ones."""

    def __init__(self, task, text):
        super().__init__()
        counts = torch.bincount(torch.tensor(task.vocabulary.encode(text)), minlength=len(task.vocabulary))
        self.logits = (counts.double() / counts.sum()).log()

    def forward(self, tokens):
        return self.logits.expand(*tokens.shape, -1)


def score(text, network=None, of=None, **settings):
    """The metrics of the training part, or the text `of`, by the training part's unigram or another network."""
    config = parse(small("language_modelling", "decoder", **{f"data__{key}": value for key, value in settings.items()}))
    task = LanguageModelling.from_dict(LanguageModelling.learn(config, [{"text": text}], [0]).to_dict())
    encoded = task.encode([{"text": of or text}])
    places = torch.arange(len(encoded))
    return task.metrics(encoded, [task.measure(network or Unigram(task, text), encoded, places, torch.device("cpu"))])


@pytest.fixture(scope="module")
def natural():
    """A text with frequent and rare letters, as languages have them (Zipf's law)."""
    letters = [chr(97 + number) for number in range(200)]
    rng = random.Random(0)
    return "".join(rng.choices(letters, [1 / rank for rank in range(1, 201)], k=5_000))


@pytest.mark.parametrize("tokens", ["characters", "words"])
def test_reading_more_symbols_as_unknown_does_not_lower_the_bits_of_a_text(natural, tokens):
    text = natural if tokens == "characters" else " ".join(natural)
    by_count = [score(text, tokens=tokens, min_count=count) for count in (1, 2, 10, 100, 400)]
    by_size = [score(text, tokens=tokens, max_size=size) for size in (None, 100, 20, 5, 1)]
    for metrics in (by_count, by_size):
        for name in ("bits_per_character", "bits_per_byte"):
            scores = [each[name] for each in metrics]
            assert scores == sorted(scores)
            assert scores[0] < scores[-1]


def test_bits_are_those_of_all_tokens_and_of_what_the_unknown_are_over_characters_and_bytes():
    class Uniform(nn.Module):
        def forward(self, tokens):
            return torch.zeros(*tokens.shape, 6)

    # Known: a, b and four special ones. Left out: c, d, once each, so that both have 1/4, and all others 1/2.
    metrics = score("aaabbbcd", Uniform(), of="acdÄ", min_count=2)
    bits = 3 * math.log2(6) + 2 + 2 + (1 + math.log2(0x110000 - 0x800))
    assert metrics["loss"] == pytest.approx(math.log(6))
    assert metrics["bits_per_character"] == pytest.approx(bits / 3)
    assert metrics["bits_per_byte"] == pytest.approx(bits / 3 / (5 / 4))


@pytest.mark.parametrize("texts", [["ab ab bc", "a a"], ["ab cc aab", "dd ab dd"], ["aa aa", ""]])
@pytest.mark.parametrize("unit", ["characters", "words"])
@pytest.mark.parametrize("min_count", [1, 2])
def test_the_tokens_that_an_unknown_one_may_be_have_probabilities_that_sum_to_one_at_most(texts, unit, min_count):
    vocabulary = Vocabulary.learn(texts, unit=unit, lowercase=False, min_count=min_count, max_size=None)
    unknown = UnknownTokens.learn(texts, vocabulary)
    letters = ["a", "b", "c", "d", "Ä"]
    longest = 1 if unit == "characters" else 4
    tokens = {"".join(each) for length in range(1, longest + 1) for each in itertools.product(letters, repeat=length)}
    others = {*unknown.left_out, *tokens} - set(vocabulary.tokens)
    share = math.fsum(2 ** -unknown.bits(token) for token in others)
    assert 0 < share <= 1
    # All of Unicode's other letters are as likely as Ä.
    if unit == "characters" and min_count == 1:
        assert 2 ** -unknown.bits("Ä") * (0x110000 - 0x800) == pytest.approx(1)


def test_one_file_is_cut_into_stretches_at_line_breaks(poem):
    described = objective.describe_data(text_config(poem, data__test_fraction=0.2))
    assert described["parts"] == {"train": 42, "validation": 6, "test": 12}
    assert described["labels"] is None


@functools.cache
def subwords(lowercase):
    learned = ByteSubwords.learn(["the cat sat\n", "the mat\n"], lowercase=lowercase, min_count=2, max_size=300)
    return tokens_from_dict(json.loads(json.dumps(learned.to_dict())))


@given(st.text() | st.sampled_from([*SPECIAL, *RESERVED]), st.booleans())
def test_byte_level_subwords_give_every_text_back(text, lowercase):
    tokens = subwords(lowercase)
    numbers = tokens.encode(text)
    assert tokens.decode([START, *numbers, END, PADDING]) == tokens.normalize(text)
    assert lowercase or tokens.normalize(text) == text
    assert all(number >= len(SPECIAL) for number in numbers)
    assert tokens.names(tokens.encode("the cat")) == ["the", "Ġ", "c", "at"]  # GPT-2's letter for a blank


def test_a_text_is_read_as_subwords_of_which_none_is_unknown(poem):
    config = parse(text_config(poem, data__tokens="subwords", data__max_size=270))
    items = [{"text": line} for line in poem.read_text().splitlines(keepends=True)]
    task = LanguageModelling.learn(config, items, range(40))
    assert len(task.vocabulary) <= 270 + len(SPECIAL)
    lines = [*items[40:], {"text": "ein Mäuschen 猫\n"}]
    data = task.encode(lines)
    stream = data.blocks.flat.tolist()
    text = "".join(line["text"] for line in lines)
    assert task.vocabulary.decode(stream) == text
    assert len(stream) < len(text) / 2
    assert data.bytes_per_token * len(stream) == pytest.approx(len(text.encode()))
    assert data.unknown_bits == 0.0
    assert LanguageModelling.from_dict(task.to_dict()).to_dict() == task.to_dict()
    method = objective.describe_method(text_config(poem, data__tokens="subwords", data__max_size=270))
    assert method["vocabulary"].endswith("no text is unknown")
    assert "unknown" not in method["metrics"]["bits_per_byte"]


@pytest.mark.parametrize("size", [None, 255])
def test_subwords_have_room_for_every_byte(poem, size):
    with pytest.raises(
        ValidationError, match=f"at least 256 with data.tokens=subwords, because each byte is a token, given {size}"
    ):
        parse(text_config(poem, data__tokens="subwords", data__max_size=size))


@pytest.mark.slow
@pytest.mark.parametrize("tokens", ["characters", "subwords"])
def test_a_repetitive_text_is_learned(poem, tmp_path, tokens):
    config = text_config(poem, training__epochs=30, training__batch_size=8, data__tokens=tokens, data__max_size=300)
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
    assert set(points[0]) >= {"loss", "perplexity", "bits_per_character", "bits_per_byte"}
    options = {"max_tokens": 40, "temperature": 0.0}
    assert objective.predict(str(tmp_path / "checkpoint"), ["the 3 cats"], options)[0].startswith(" sat on the mat\n")
