"""Rules between hyperparameters: what they say, what they cannot say; and nothing of them is ever executed."""

import pytest

from hpo.errors import SpaceError
from hpo.trials.space.constraints import read_constraint
from tests.studies import refuses

KEYS = ("model.d_model", "model.num_heads", "training.optimizer", "training.lr")
FIXED = {"model.num_layers": 2, "data.name": "digits"}


def holds(text, point):
    values = {key: point[name] for key in KEYS if (name := key.rpartition(".")[2]) in point}
    return read_constraint(text, KEYS, FIXED).holds(values)


@pytest.mark.parametrize(("text", "point", "expected"), [
    ("model.d_model % model.num_heads == 0", {"d_model": 64, "num_heads": 4}, True),
    ("model.d_model % model.num_heads == 0", {"d_model": 64, "num_heads": 3}, False),
    ("0 < training.lr <= 0.1", {"lr": 0.2}, False),
    ("training.optimizer in ['adam', 'adamw'] or training.lr > 0.01", {"optimizer": "sgd", "lr": 0.1}, True),
    ("not (training.optimizer == 'sgd' and training.lr < 0.01)", {"optimizer": "sgd", "lr": 0.001}, False),
    ("model.d_model * model.num_layers <= 128", {"d_model": 64}, True), ("-training.lr // 1 == -1", {"lr": 0.5}, True),
    # About a dimension that does not exist.
    ("model.d_model % model.num_heads == 0", {"d_model": 64}, True),
])  # fmt: skip
def test_a_rule_means_what_it_says(text, point, expected):
    assert holds(text, point) is expected


@pytest.mark.parametrize(("text", "word"), [
    ("model.d_model.__class__ == 1", "unknown key"), ("(lambda: 1)() == 1", "is not allowed in a rule"),
    ("model.d_model >", "cannot be read"), ("model.d_modle > 3", "did you mean 'model.d_model'"),
    ("model.num_layers > 1", "must name a searched key"), ("1 + " * 400 + "1 == model.d_model", "expression"),
    ("(" * 300 + "model.d_model" + ")" * 300 + " > 1", "cannot be read"),
])  # fmt: skip
def test_what_is_not_a_rule_is_refused_in_one_line(text, word):
    refuses(SpaceError, rf"space\.require.*{word}", read_constraint, text, KEYS, FIXED)


@pytest.mark.parametrize(("text", "point"), [
    ("training.optimizer * 1000000000 == 'a'", {"optimizer": "a"}),
    ("model.d_model % model.num_heads == 0", {"d_model": 4, "num_heads": 0}),
    (f"model.d_model * 1{'0' * 400} < 1", {"d_model": 1.5}),
])  # fmt: skip
def test_what_cannot_be_computed_says_for_which_values(text, point):
    refuses(SpaceError, r"space\.require: .* cannot be computed for (model|training)\.", holds, text, point)
