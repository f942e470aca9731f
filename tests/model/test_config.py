import pytest
from pydantic import ValidationError

from model import objective
from tests.model.conftest import compose


def fault(config):
    with pytest.raises(ValidationError) as caught:
        objective.check(config)
    error = caught.value.errors()[0]
    return ".".join(map(str, error["loc"])), error


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("training.lr", -1), ("training.lr", 0), ("training.lr", float("nan")), ("training.lr", "0.1"),
        ("model.dropout", 1.5), ("training.epochs", 0), ("training.epochs", 2.5), ("training.batch_size", 0),
        ("training.optimizer", "adamm"), ("model.num_layers", True), ("data.name", "digit"),
        ("training.learning_rate", 1),        ("model.positions", "sinus"), ("data.path", "digits.csv"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_under_its_full_key(key, value):
    loc, _ = fault(compose(**{key.replace(".", "__"): value}))
    assert loc == key


def test_a_missing_key_is_refused_under_its_full_key():
    config = compose()
    del config["training"]["lr"]
    assert fault(config)[0] == "training.lr"


@pytest.mark.parametrize(
    ("overrides", "keys"),
    [
        ({"model__num_heads": 5}, ["model.d_model", "model.num_heads"]),
        ({"training__momentum": 0.9}, ["training.momentum", "training.optimizer"]),
        ({"training__nesterov": True}, ["training.nesterov", "training.momentum"]),
        ({"model__positions": "rotary", "model__key_width": 7}, ["model.key_width", "model.positions"]),
        ({"model__num_key_heads": 3}, ["model.num_key_heads", "model.num_heads"]),
        ({"model__num_key_heads": 8}, ["model.num_key_heads", "model.num_heads"]),
        ({"training__precision": "tf32", "training__device": "cpu"}, ["training.precision", "training.device"]),
        ({"training__deterministic": True, "training__device": "cpu"}, ["training.deterministic", "training.device"]),
        ({"training__decay_fraction": 0.2}, ["training.decay_fraction", "training.schedule"]),
        (
            {"training__schedule": "wsd", "training__warmup_fraction": 0.9},
            ["training.warmup_fraction", "training.decay_fraction"],
        ),
    ],
)
def test_a_rule_between_keys_names_them_all(overrides, keys):
    _, error = fault(compose(**overrides))
    assert error["type"] == "cross_field"
    assert error["ctx"]["keys"] == keys


@pytest.mark.parametrize("wiring", [{"model__attend": "before"}, {"model__input_feeding": True}])
def test_what_goes_token_by_token_is_not_compiled(wiring):
    _, error = fault(compose("generated", "recurrent_encoder_decoder", training__compile=True, **wiring))
    assert error["ctx"]["keys"] == ["training.compile", "model.attend", "model.input_feeding"]


def test_the_first_token_of_one_direction_is_no_pooling():
    wiring = {"data__path": "texts.tsv", "model__pooling": "first", "model__bidirectional": False}
    _, error = fault(compose("text_classification", "recurrent_encoder", **wiring))
    assert error["ctx"]["keys"] == ["model.pooling", "model.bidirectional"]


def test_pooling_is_for_classification():
    _, error = fault(compose("tagging", data__path="words.tsv", model__pooling="max"))
    assert error["ctx"]["keys"] == ["model.pooling", "data.name"]


def test_heads_need_not_divide_the_width_when_both_head_widths_are_given():
    objective.check(compose(model__num_heads=5, model__key_width=7, model__value_width=3))


@pytest.mark.parametrize(
    ("paths", "word"),
    [({}, "must be given, or data.train"), ({"path": "a.csv", "test": "b.csv"}, "cannot be combined with separate"),
     ({"train": "a.csv"}, "data.validation"), ({"test": "a.csv"}, "must be given")],
)  # fmt: skip
def test_files_must_be_named_in_one_of_the_two_ways(paths, word):
    _, error = fault(compose("text_classification", **{f"data__{key}": value for key, value in paths.items()}))
    assert word in error["msg"]
