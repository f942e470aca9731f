"""What people of W&B sweeps type."""

import math

import pytest

import hpo
from hpo.config.composing.compose import compose_config
from hpo.config.documents import parse_yaml
from hpo.trials.space.peers import of_peer
from hpo.trials.space.written import as_meant
from tests.hpo.cli.commands import refused
from tests.hpo.commands.searched import found


def test_groups_of_metrics_are_one_metric_each():
    def train(config, trial):
        trial.report({"val": {"loss": 2 * config["lr"]}})
        trial.report({"val": {"loss": config["lr"], "text": "left out"}})

    study = found(train, metric="val/loss", direction="minimize", trials=2)
    assert study.best.score == study.best.config["lr"]


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"min": 0.0, "max": 1}, {"low": 0.0, "high": 1.0}),
        ({"min": 1, "max": 8}, {"low": 1, "high": 8, "integer": True}),
        ({"distribution": "uniform", "min": 0, "max": 1}, {"low": 0.0, "high": 1.0}),
        ({"distribution": "int_uniform", "min": 1, "max": 8}, {"low": 1, "high": 8, "integer": True}),
        ({"distribution": "q_uniform", "min": 0, "max": 1, "q": 0.25}, {"low": 0.0, "high": 1.0, "step": 0.25}),
        ({"distribution": "q_uniform", "min": 2, "max": 8}, {"low": 2, "high": 8, "step": 1}),
        (
            {"distribution": "log_uniform_values", "min": 1e-5, "max": 0.1},
            {"low": 1e-5, "high": 0.1, "log": True},
        ),
        (
            {"distribution": "log_uniform", "min": -3, "max": 0},
            {"low": math.exp(-3), "high": 1.0, "log": True},
        ),
        ({"distribution": "categorical", "values": [3, 1]}, {"choices": [3, 1]}),
        ({"distribution": "constant", "value": 3}, {"choices": [3]}),
        ({"value": "adam"}, {"choices": ["adam"]}),
        ({"values": [1, 2]}, None),
        ({"min": {"low": 1, "high": 2}, "max": [1, 2]}, None),
        ({"value": [1, 2]}, None),
    ],
)
def test_a_parameter_of_a_sweep_is_a_dimension(given, read):
    assert of_peer(given, "space.lr") == read


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"distribution": "normal", "mu": 0, "sigma": 1}, "cannot be W&B's normal; give hpo.log"),
        ({"values": [1, 2], "probabilities": [0.9, 0.1]}, "cannot be W&B's probabilities"),
        (
            {"distribution": "q_log_uniform_values", "min": 1, "max": 64, "q": 2},
            "cannot be a step on a logarithmic scale",
        ),
        ({"distribution": "uniform", "min": 0}, "W&B's uniform must have numbers as min and max"),
        ({"distribution": "categorical"}, "must have a list of values"),
    ],
)
def test_what_no_space_says_is_refused(given, says):
    with pytest.raises(hpo.HpoError, match=f"^space.net.lr: {says}"):
        found(lambda config: 1.0, space={"net": {"lr": given}})


NESTED = {
    "optimizer": {
        "parameters": {
            "learning_rate": {"values": [0.01, 0.001]},
            "momentum": {"value": 0.9},
            "schedule": {"parameters": {"warmup": {"min": 0.0, "max": 0.5}}},
        }
    }
}


def test_the_groups_of_a_nested_sweep_are_groups_of_the_configuration():
    def train(config):
        optimizer = config["optimizer"]
        assert optimizer.keys() == {"learning_rate", "momentum", "schedule"}
        assert optimizer["momentum"] == 0.9
        return optimizer["learning_rate"] + optimizer["schedule"]["warmup"]

    study = found(train, space=NESTED)
    assert study.trials["state"].tolist() == ["complete"] * 4
    assert as_meant(NESTED)["optimizer"].keys() == {"learning_rate", "momentum", "schedule"}


def test_a_group_of_ones_own_called_parameters_stays_one():
    own = {"net": {"parameters": {"lr": {"values": [1, 2]}}}}
    study = found(
        lambda config: config["net"]["parameters"]["lr"], space=own, config={"net": {"parameters": {"lr": 1}}}
    )
    assert set(study.trials["score"]) == {1, 2}
    assert as_meant(mine := {"net": {"parameters": {"lr": [1, 2]}}}) == mine


def test_a_whole_sweep_names_its_part():
    sweep = {
        "method": "bayes",
        "metric": {"name": "loss", "goal": "minimize"},
        "parameters": {"lr": {"values": [1, 2]}},
    }
    with pytest.raises(hpo.HpoError, match=r"given the whole sweep; give space=sweep\['parameters'\]"):
        found(lambda config: 1.0, space=sweep)
    study = found(lambda config: config["lr"], space=sweep["parameters"])
    assert set(study.trials["lr"]) <= {1, 2}


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        (
            "{distribution: log_uniform_values, min: 1e-5, max: 1e-1}",
            {"training": {"lr": {"low": 1e-5, "high": 0.1, "log": True}}},
        ),
        ("{min: 1, max: 8}", {"training": {"lr": {"low": 1, "high": 8, "integer": True}}}),
        (
            "{distribution: q_uniform, min: 0, max: 1, q: 0.25}",
            {"training": {"lr": {"low": 0.0, "high": 1.0, "step": 0.25}}},
        ),
        ("{value: adam}", {"training": {"lr": {"choices": ["adam"]}}}),
    ],
)
def test_a_parameter_in_yaml_or_on_the_command_line_is_a_dimension(typed, read):
    assert as_meant(compose_config("search", ["space=none", f"space.training.lr={typed}"])["space"]) == read
    assert as_meant(parse_yaml(f"training: {{lr: {typed}}}", "space")) == read


def test_a_parameter_that_no_space_says_is_refused_as_it_was_typed(capsys):
    said = refused(capsys, "search", "space.training.lr={distribution: normal, mu: 0, sigma: 1}")
    assert said.startswith("error: space.training.lr: cannot be W&B's normal; give ")


def test_a_categorical_parameter_of_texts_that_look_like_numbers_is_refused():
    with pytest.raises(
        hpo.HpoError, match=r"^space.lr.choices: must not hold only texts that look like numbers, such as '1e-5'"
    ):
        as_meant(parse_yaml("lr: {distribution: categorical, values: [1e-5, 1e-3]}", "space"))
