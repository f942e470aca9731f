"""What a checkpoint predicts, and the attention maps of an input."""

import json
import math
from unittest.mock import Mock

import pytest
import torch
from sklearn.datasets import load_digits

from model import objective
from model.checkpoint import load_checkpoint
from model.data.tokens.vocabulary import END, PADDING, SPECIAL, UNKNOWN
from model.decoding.beam_search import Decoded
from model.decoding.sampling import OPTIONS
from model.errors import CheckpointError
from model.predict import BATCH_SIZE
from model.tasks import sequence_to_sequence
from tests.model.conftest import of, run, small
from tests.studies import refuses

PUZZLE = of("data", {"num_symbols": 6, "max_length": 5, "num_examples": 200})
LONG = {"training__epochs": 15, "training__batch_size": 8}
TRAINED = {}  # the folder of each configuration's checkpoint


@pytest.fixture
def train(fold, tmp_path, tmp_path_factory):
    """Return a function that trains a small network, once a file, and returns the folder of its checkpoint."""

    def make(config):
        key = json.dumps(config).replace(str(tmp_path), "")
        if key not in TRAINED:
            TRAINED[key] = str(tmp_path_factory.mktemp("checkpoint"))
            run(fold(config, checkpoint_dir=TRAINED[key]))
        return TRAINED[key]

    return make


@pytest.fixture
def sentiment(train, reviews):
    return train(small("text_classification", data__path=str(reviews), **LONG))


@pytest.fixture
def tagger(train, tmp_path):
    (tmp_path / "tagged.tsv").write_text("The\tDET\ndog\tNOUN\nruns\tVERB\n\nA\tDET\ncat\tNOUN\n\n" * 30)
    return train(small("tagging", data__path=str(tmp_path / "tagged.tsv"), data__max_length=4, **LONG))


@pytest.fixture
def poet(train, tmp_path):
    def make(positions="learned", tokens="characters"):
        (tmp_path / "poem.txt").write_text("the cat sat on the mat\n" * 30)
        data = of("data", {"path": str(tmp_path / "poem.txt"), "context": 8, "tokens": tokens})
        return train(small("language_modelling", **data, model__positions=positions))

    return make


@pytest.fixture
def reverser(train):
    return lambda family="transformer", **values: train(small("generated", family, **PUZZLE, **values))


def test_texts_get_their_labels_and_words_their_tags_in_the_order_of_the_inputs(sentiment, tagger):
    inputs = ["the film was good", "bad", "a very bad film was a very bad film"] * BATCH_SIZE
    assert objective.predict(sentiment, inputs, {}) == ["1", "0", "0"] * BATCH_SIZE
    predicted = objective.predict(tagger, ["The dog runs", "A cat", "A cat " * 5], {})
    assert predicted == ["DET NOUN VERB", "DET NOUN", " ".join(["DET NOUN"] * 5)]


def test_rows_of_numbers_get_their_labels_nested_or_flat_and_what_is_no_image_is_refused(train):
    folder, digits = train(small("digits", training__epochs=15, training__batch_size=16)), load_digits()
    predicted = objective.predict(folder, digits.images[:200].tolist(), {})
    assert objective.predict(folder, digits.data[:200].tolist(), {}) == predicted
    right = sum(label == str(target) for label, target in zip(predicted, digits.target[:200], strict=True))
    assert right > 60, "far more than the 20 that chance gives"
    for given in ([1.0, 2.0], [[0.0] * 7] * 8, "digit", ["a"] * 64, 3.0, [math.nan] * 64, [10**400] * 64):
        refuses(ValueError, r"64 finite numbers|must not be a text", objective.predict, folder, [given], {})
    with pytest.raises(ValueError, match="top_k: has no effect on a model with data=digits"):
        objective.predict(folder, [[0.0] * 64], {"top_k": 1})
    refuses(ValueError, "data=digits reads rows of numbers", objective.attention, folder, "7", None)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_targets_are_what_the_evaluation_decodes(reverser, beam_size):
    checkpoint = load_checkpoint(folder := reverser(data__beam_size=beam_size))
    task, sources = checkpoint.task, ["1 2 3", "5", "4 4 0 1 2"]
    encoded = task.encode([{"source": source, "target": ""} for source in sources])
    batch = task.batch(encoded, torch.arange(3), torch.device("cpu"))
    assert objective.predict(folder, sources, {}) == task.predict(checkpoint.network, batch)


@pytest.mark.parametrize("positions", ["learned", "rotary", "alibi"])
def test_the_likeliest_continuation_is_the_one_of_the_plain_forward_pass(poet, positions):
    """Prompts of different length, shorter and longer than the context, side by side and past the context."""
    checkpoint = load_checkpoint(folder := poet(positions))
    vocabulary, prompts, expected = checkpoint.task.vocabulary, ["t", "the cat", "on the mat and the cat"], []
    for prompt in prompts:
        numbers = vocabulary.encode(prompt)
        for _ in range(12):
            logits = checkpoint.network(torch.tensor([numbers[-8:]]))[0, -1]
            numbers.append(len(SPECIAL) + int(logits[len(SPECIAL) :].argmax()))
        expected.append(vocabulary.decode(numbers[-12:]))
    assert objective.predict(folder, prompts, {"temperature": 0.0, "max_tokens": 12}) == expected


def test_a_continuation_depends_on_the_seed_and_on_no_other_input(poet):
    def continued(*prompts, max_tokens=20, seed=3):
        return objective.predict(poet(), prompts, {"max_tokens": max_tokens, "seed": seed})

    both = continued("the cat", "on")
    assert both == continued("the cat", "on") != continued("the cat", "on", seed=4)
    assert both[:1] == continued("the cat")
    assert [text[:20] for text in continued("the cat", "on", max_tokens=30)] == both


@pytest.mark.parametrize(("data", "inputs"), [("digits", "rows"), ("language_modelling", "text"), ("tagging", "text")])
def test_what_a_model_reads_is_described_by_its_configuration(data, inputs):
    described = objective.describe_prediction(small(data))
    assert (described["inputs"], "top_k" in described["options"]) == (inputs, data == "language_modelling")


def test_inputs_that_are_cut_are_reported_once_with_numbers(reverser, caplog):
    objective.predict(reverser(), ["1 2 3 4 5"], {})
    assert not caplog.messages
    objective.predict(reverser(), ["1 2 3 4 5", "1 2 3 4 5 1 2", "1 2 3 4 5 1"], {})
    (message,) = caplog.messages
    says = "2 of 3 inputs are cut to the first data.max_length=5 tokens (the longest, input 2, has 7"
    assert message.startswith(says)
    objective.attention(reverser(), "1 2 3 4 5 1", None)
    assert caplog.messages[1].startswith("1 of 1 inputs")


BAD_OPTIONS = [
    ({"temperature": -1.0}, "temperature: must be 0 or more and finite, given -1.0"),
    ({"temperature": float("nan")}, "temperature: must be"),
    ({"max_tokens": 0}, "max_tokens: must be 1 or more, given 0"),
    *(({name: "hot"}, f"{name}: must be a .*number.*, given hot") for name in OPTIONS),
    ({"top_k": 0}, "top_k: must be 1 or more, given 0"),
    ({"top_p": 1.5}, "top_p: must be above 0 and at most 1, given 1.5"),
    ({"seed": -1}, "seed: must be 0 or more, given -1"),
    ({"temperature": 0.0, "top_k": 3}, "temperature: .*top_k"),
    ({"heat": 1}, "heat: has no effect on a model with data=language_modelling.*max_tokens, seed"),
]


def test_bad_options_and_inputs_are_refused_in_one_line(poet, sentiment, reverser, tmp_path):
    for options, message in BAD_OPTIONS:
        refuses(ValueError, message, objective.predict, poet(), ["the"], options)
    for model, inputs, message in (
        (sentiment, [[1.0, 2.0]], "texts"),
        (sentiment, [], "at least one input"),
        (sentiment, ["good", "a\ud83d"], r"^input 2: .*\\ud83d"),
        (sentiment, ["good", " "], "^input 2: must not be empty; give some text"),
        (poet(tokens="words"), ["the", " "], "^input 2: must hold words, given none"),
    ):
        refuses(ValueError, message, objective.predict, model, inputs, {})
    no_effect = "^target: has no effect on a model with data=text_classification; leave the target out"
    for model, text, target, message in (
        (sentiment, " ", None, "^input: must not be empty; give some text"),
        (sentiment, "a\ud83d", None, r"^input: .*\\ud83d"),
        (sentiment, "good", "1", no_effect),
        (reverser(), "1 2", " ", "^target: must not be empty; give some text, or leave the target out"),
    ):
        refuses(ValueError, message, objective.attention, model, text, target)
    refuses(CheckpointError, "not a usable checkpoint", objective.predict, str(tmp_path), ["good"], {})


def maps_of(folder, text, target=None, heads=2):
    maps = objective.attention(folder, text, target)["maps"]
    for one in maps:
        assert len(one["heads"]) == heads
        for head in one["heads"]:
            assert len(head) == len(one["rows"])
            assert all(len(row) == len(one["columns"]) and sum(row) == pytest.approx(1) for row in head)
    return maps


def test_an_encoders_map_has_the_tokens_it_reads(sentiment, tagger):
    (encoder,) = maps_of(sentiment, "The film was GOOD zebra")
    assert encoder["name"] == "encoder layer 0"
    assert encoder["rows"] == encoder["columns"] == ["the", "film", "was", "good", "<unknown>"]
    assert maps_of(tagger, "The zebra runs")[0]["rows"] == ["The", "zebra", "runs"]


def test_a_long_sentences_maps_are_those_of_the_pieces_that_the_tagger_reads(tagger):
    maps = maps_of(tagger, "The dog runs A cat")
    assert [one["name"] for one in maps] == ["encoder layer 0, words 1 to 4", "encoder layer 0, words 5 to 5"]
    assert [one["rows"] for one in maps] == [["The", "dog", "runs", "A"], ["cat"]]
    assert [one["heads"] for one in maps_of(tagger, "The dog runs A")] == [maps[0]["heads"]]


@pytest.mark.parametrize("positions", ["learned", "rotary", "alibi"])
def test_a_decoder_attends_to_nothing_later_and_to_what_its_prediction_reads_of_a_long_text(poet, positions):
    (decoder,) = maps_of(poet(positions), "on the mat and the cat")
    assert decoder["rows"] == list(" the cat")
    for head in decoder["heads"]:
        assert torch.tensor(head).triu(1).eq(0).all()


@pytest.mark.parametrize(("family", "settings", "names", "heads"), [
    ("transformer", {"num_decoder_layers": 1}, ["encoder 0", "decoder 0", "cross 0"], 2),
    ("recurrent", {"attend": "after"}, ["cross 0"], 1),
    ("recurrent", {"attend": "before"}, ["cross 0"], 1),
    ("convolutional", {}, ["cross 0", "cross 1", "cross 2"], 1),
])  # fmt: skip
def test_an_encoder_decoder_has_a_map_of_each_layer_and_kind(reverser, family, settings, names, heads):
    maps = maps_of(reverser(family, **of("model", settings)), "1 2 3", "3 2", heads)
    kinds = {"encoder": "encoder layer", "decoder": "decoder layer", "cross": "cross-attention layer"}
    assert [one["name"] for one in maps] == [f"{kinds[name.split()[0]]} {name.split()[1]}" for name in names]
    source, target = ["1", "2", "3"], ["<start>", "3", "2"]
    for one in maps:
        is_encoder, is_decoder = (one["name"].startswith(name) for name in ("encoder", "decoder"))
        assert (one["rows"], one["columns"]) == (source if is_encoder else target, target if is_decoder else source)


def test_without_attention_there_is_no_map(reverser):
    with pytest.raises(ValueError, match="this network has no attention"):
        objective.attention(reverser("recurrent", model__attention="none"), "1 2 3", "3 2")


def test_without_a_target_the_decoder_reads_the_predicted_tokens_and_not_their_text(reverser, monkeypatch):
    (predicted,) = objective.predict(folder := reverser(), ["1 2 3"], {})
    assert maps_of(folder, "1 2 3")[1]["rows"] == ["<start>", *predicted.split()]
    known = load_checkpoint(folder).task.target_tokens.encode("1")[0]
    for found, rows in (([UNKNOWN, *[known] * 5], "<unknown> 1 1 1 1"), ([UNKNOWN, END, *[PADDING] * 4], "<unknown>")):
        decoded = Decoded(torch.tensor([found]), torch.zeros(1))
        monkeypatch.setattr(sequence_to_sequence, "beam_search", Mock(return_value=decoded))
        assert maps_of(folder, "1 2 3")[1]["rows"] == ["<start>", *rows.split()]
