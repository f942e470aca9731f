import pytest
from pydantic import ValidationError

from model import objective
from tests.model.conftest import compose


def fault(config):
    with pytest.raises(ValidationError) as caught:
        objective.check(config)
    (error,) = caught.value.errors()
    return ".".join(map(str, error["loc"])), error


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("training.lr", -1), ("training.lr", 0), ("training.lr", float("nan")), ("training.lr", "0.1"),
        ("model.dropout", 1.5), ("training.epochs", 0), ("training.epochs", 2.5), ("training.batch_size", 0),
        ("training.optimizer", "adamm"), ("model.num_layers", True), ("data.name", "digit"),
        ("training.learning_rate", 1), ("model.family", "transformers"), ("model.positions", "sinus"),
        ("data.path", "digits.csv"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_under_its_full_key(key, value):
    loc, _ = fault(compose(**{key.replace(".", "__"): value}))
    assert loc == key


def test_a_missing_key_is_refused_under_its_full_key():
    config = compose()
    del config["training"]["lr"]
    assert fault(config)[0] == "training.lr"


DIGITS, TEXTS, TAGS = ("digits", "encoder"), ("text_classification", "recurrent_encoder"), ("tagging", "encoder")
LANGUAGE, PAIRS = ("language_modelling", "decoder"), ("translation", "encoder_decoder")
CONVOLUTIONAL = ("digits", "convolutional_encoder"), ("generated", "convolutional_encoder_decoder")
RECURRENT = ("generated", "recurrent_encoder_decoder")
MUP = {"model__parametrization": "mup"}
RULES = [
    (DIGITS, {"model__num_heads": 5}, "model.d_model model.num_heads"),
    (DIGITS, {"model__positions": "rotary", "model__key_width": 7}, "model.key_width model.positions"),
    (DIGITS, {"model__num_key_heads": 3}, "model.num_key_heads model.num_heads"),
    (DIGITS, {"model__num_key_heads": 8}, "model.num_key_heads model.num_heads"),
    (TEXTS, {"model__pooling": "first", "model__bidirectional": False}, "model.pooling model.bidirectional"),
    (TAGS, {"model__pooling": "max"}, "model.pooling data.name"),
    *((each, {"model__filter_width": 4}, "model.filter_width model.shape") for each in CONVOLUTIONAL),
    (RECURRENT, {"model__attention": "none", "model__input_feeding": True}, "model.input_feeding model.attention"),
    (RECURRENT, {"model__attention": "none", "model__bridge": "zero"}, "model.bridge model.attention"),
    (RECURRENT, {"model__attention": "none", "model__attend": "before"}, "model.attend model.attention"),
    (RECURRENT, {"model__attention": "dot", "model__attention_width": 4}, "model.attention_width model.attention"),
    (RECURRENT, {"model__attend": "before", "model__input_feeding": True}, "model.input_feeding model.attend"),
    (RECURRENT, {"model__num_layers": 2, "model__num_decoder_layers": 1}, "model.num_decoder_layers model.bridge"),
    (RECURRENT, {"model__reverse_source": True, "model__bidirectional": True},
     "model.reverse_source model.bidirectional"),
    (RECURRENT, {"model__hidden_width": 7}, "model.hidden_width model.bidirectional"),
    (RECURRENT, {"model__tied_embeddings": True, "model__d_model": 4},
     "model.tied_embeddings model.d_model model.hidden_width"),
    (LANGUAGE, MUP | {"training__optimizer": "sgd"}, "model.parametrization training.optimizer training.l1"),
    (LANGUAGE, MUP | {"training__l1": 0.1}, "model.parametrization training.optimizer training.l1"),
    (LANGUAGE, MUP | {"model__num_heads": 5, "model__d_model": 40}, "model.base.d_model model.base.feed_forward_width"),
    (LANGUAGE, {"model__gain_rate": 2.0}, "model.gain_rate model.parametrization"),
    (LANGUAGE, {"model__embedding_rate": 2.0}, "model.embedding_rate model.parametrization"),
    (DIGITS, {"training__momentum": 0.9}, "training.momentum training.optimizer"),
    (DIGITS, {"training__nesterov": True}, "training.nesterov training.momentum"),
    (DIGITS, {"training__precision": "tf32", "training__device": "cpu"}, "training.precision training.device"),
    (DIGITS, {"training__deterministic": True, "training__device": "cpu"}, "training.deterministic training.device"),
    (DIGITS, {"training__decay_fraction": 0.2}, "training.decay_fraction training.schedule"),
    (DIGITS, {"training__schedule": "wsd", "training__warmup_fraction": 0.9},
     "training.warmup_fraction training.decay_fraction"),
    # Where they go token by token, in and outside of attention.
    *((RECURRENT, {"training__compile": True} | wiring, "training.compile model.attend model.input_feeding")
      for wiring in ({"model__attend": "before"}, {"model__input_feeding": True})),
    (PAIRS, {"data__format": "aligned"}, "data.source_ending data.target_ending data.format"),
    (PAIRS, {"data__max_size": None}, "data.max_size data.tokens"),
    (PAIRS, {"data__shared_vocabulary": True, "data__target_tokens": "words"},
     "data.shared_vocabulary data.target_tokens"),
]  # fmt: skip


@pytest.mark.parametrize(("names", "overrides", "keys"), RULES)
def test_a_rule_between_keys_names_them_all(names, overrides, keys):
    path = {} if names[0] in ("digits", "generated") else {"data__path": "texts.tsv"}
    _, error = fault(compose(*names, **path, **overrides))
    assert error["type"] == "cross_field"
    assert error["ctx"]["keys"] == keys.split()


def test_what_is_allowed_all_the_same():
    """Heads that do not divide the width where both head widths are given, and an even filter in a decoder."""
    objective.check(compose(model__num_heads=5, model__key_width=7, model__value_width=3))
    objective.check(compose("language_modelling", "convolutional_decoder", data__path="a", model__filter_width=4))


@pytest.mark.parametrize(
    ("paths", "word"),
    [({}, "must be given; for separate"), ({"path": "a.csv", "test": "b.csv"}, "cannot be combined with separate"),
     ({"train": "a.csv"}, "data.validation"), ({"test": "a.csv"}, "must be given")],
)  # fmt: skip
def test_files_must_be_named_in_one_of_the_two_ways(paths, word):
    _, error = fault(compose("text_classification", **{f"data__{key}": value for key, value in paths.items()}))
    assert word in error["msg"]
