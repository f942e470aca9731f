"""Configurations: a wrong value, a missing key and a broken rule between keys are refused under their full keys."""

import pytest
from pydantic import ValidationError

from model import objective
from tests.model.conftest import compose, of


def fault(config):
    with pytest.raises(ValidationError) as caught:
        objective.check(config)
    (error,) = caught.value.errors()
    return ".".join(map(str, error["loc"])), error


@pytest.mark.parametrize(("key", "value"), [
    ("training.lr", 0), ("training.lr", float("nan")), ("training.lr", "0.1"), ("model.dropout", 1.5),
    ("training.epochs", 2.5), ("training.optimizer", "adamm"), ("model.num_layers", True), ("data.name", "digit"),
    ("training.learning_rate", 1), ("model.family", "transformers"), ("data.path", "digits.csv"),
])  # fmt: skip
def test_a_wrong_value_is_refused_under_its_full_key(key, value):
    assert fault(compose(**{key.replace(".", "__"): value}))[0] == key


DIGITS, TEXTS, TAGS = ("digits", "encoder"), ("text_classification", "recurrent_encoder"), ("tagging", "encoder")
LANGUAGE, PAIRS = ("language_modelling", "decoder"), ("translation", "encoder_decoder")
RECURRENT = ("generated", "recurrent_encoder_decoder")
MUP = {"parametrization": "mup"}
# What is given of `model` or `data`, and of `training`; and the keys of the rule, `model.` where they have no group.
RULES = [
    (DIGITS, {"positions": "rotary", "key_width": 7}, {}, "key_width positions"),
    (DIGITS, {"num_key_heads": 3}, {}, "num_key_heads num_heads"),
    (TEXTS, {"pooling": "first", "bidirectional": False}, {}, "pooling bidirectional"),
    (TAGS, {"pooling": "max"}, {}, "pooling data.name"),
    (("digits", "convolutional_encoder"), {"filter_width": 4}, {}, "filter_width shape"),
    (RECURRENT, {"attention": "none", "input_feeding": True}, {}, "input_feeding attention"),
    (RECURRENT, {"attend": "before", "input_feeding": True}, {}, "input_feeding attend"),
    (RECURRENT, {"num_layers": 2, "num_decoder_layers": 1}, {}, "num_decoder_layers bridge"),
    (RECURRENT, {"reverse_source": True, "bidirectional": True}, {}, "reverse_source bidirectional"),
    (RECURRENT, {"tied_embeddings": True, "d_model": 4}, {}, "tied_embeddings d_model hidden_width"),
    (RECURRENT, {"attend": "before"}, {"compile": True}, "training.compile attend input_feeding"),
    (LANGUAGE, MUP, {"l1": 0.1}, "parametrization training.optimizer training.l1"),
    (LANGUAGE, MUP | {"num_heads": 5, "d_model": 40}, {}, "base.d_model base.feed_forward_width"),
    (LANGUAGE, {"gain_rate": 2.0}, {}, "gain_rate parametrization"),
    (DIGITS, {}, {"momentum": 0.9}, "training.momentum training.optimizer"),
    (RECURRENT, {"attention": "none", "bridge": "zero"}, {}, "bridge attention"),
    (RECURRENT, {"attention": "none", "attend": "before"}, {}, "attend attention"),
    (RECURRENT, {"attention": "dot", "attention_width": 4}, {}, "attention_width attention"),
    (RECURRENT, {"hidden_width": 7}, {}, "hidden_width bidirectional"),
    (RECURRENT, {}, {"activation_checkpointing": True}, "training.activation_checkpointing family"),
    (RECURRENT, {"data__min_length": 9, "data__max_length": 8}, {}, "data.min_length data.max_length"),
    (RECURRENT, {"data__num_examples": 10**8, "data__max_length": 10**5}, {}, "data.num_examples data.max_length"),
    (DIGITS, {}, {"nesterov": True}, "training.nesterov training.momentum"),
    (DIGITS, {}, {"deterministic": True, "device": "cpu"}, "training.deterministic training.device"),
    (DIGITS, {}, {"decay_fraction": 0.2}, "training.decay_fraction training.schedule"),
    (TEXTS, {}, {"batch_tokens": 9}, "training.batch_tokens training.batching"),
    (TEXTS, {"data__subset": "x"}, {}, "data.subset data.format"),
    (TAGS, {"data__tag_column": "x"}, {}, "data.tag_column data.format"),
    (LANGUAGE, {"data__test_fraction": 0.99}, {}, "data.validation_fraction data.test_fraction"),
    (PAIRS, {"data__max_size": None}, {}, "data.max_size data.tokens"),
    (DIGITS, {}, {"precision": "tf32", "device": "cpu"}, "training.precision training.device"),
    (DIGITS, {}, {"batching": "packed"}, "training.batching data.name"),
    (TEXTS, {}, {"batching": "packed"}, "training.batching model.family"),
    (LANGUAGE, {"data__tokens": "subwords", "data__max_size": 255}, {}, "data.max_size data.tokens"),
    (DIGITS, {}, {"schedule": "wsd", "warmup_fraction": 0.9}, "training.warmup_fraction training.decay_fraction"),
    (PAIRS, {"data__format": "aligned"}, {}, "data.source_ending data.target_ending data.format"),
    (PAIRS, {"data__shared_vocabulary": True, "data__target_tokens": "words"}, {},
     "data.shared_vocabulary data.target_tokens"),
]  # fmt: skip


@pytest.mark.parametrize(("names", "given", "training", "keys"), RULES)
def test_a_rule_between_keys_names_them_all(names, given, training, keys):
    values = {key if "__" in key else f"model__{key}": value for key, value in given.items()}
    path = {} if names[0] in ("digits", "generated") else {"data__path": "texts.tsv"}
    _, error = fault(compose(*names, **path, **values, **of("training", training)))
    groups = ("data.", "model.", "training.")
    assert error["type"] == "cross_field"
    assert error["ctx"]["keys"] == [key if key.startswith(groups) else f"model.{key}" for key in keys.split()]


def test_a_filter_of_a_decoder_may_be_even():
    objective.check(compose("language_modelling", "convolutional_decoder", data__path="a", model__filter_width=4))


@pytest.mark.parametrize(("paths", "content"), [
    ({}, "data.train"), ({"path": "a.csv", "test": "b.csv"}, "cannot be combined with separate"),
    ({"train": "a.csv"}, "data.validation"), ({"test": "a.csv"}, "must be given"),
])  # fmt: skip
def test_files_must_be_named_in_one_of_the_two_ways(paths, content):
    assert content in fault(compose("text_classification", **of("data", paths)))[1]["msg"]
