"""What people of W&B sweeps, NNI, SciPy and NumPy type. Optuna and Ray Tune are in `tests/hpo/integrations`."""

import pytest
from scipy import stats

import hpo
from hpo.config.composing.compose import compose_config
from hpo.config.documents import parse_yaml
from hpo.trials.space.peers import of_peer
from hpo.trials.space.written import as_meant
from tests.hpo.commands.searched import found, outcome_of
from tests.studies import refuses


def nni(kind, value):
    return {"_type": kind, "_value": value}


def wandb(kind, **settings):
    return {"distribution": kind, **settings}


@pytest.mark.parametrize(("given", "read"), [
    ({"min": 0.0, "max": 1}, {"low": 0.0, "high": 1.0}),
    (wandb("int_uniform", min=1, max=8), {"low": 1, "high": 8, "integer": True}),
    (wandb("q_uniform", min=0, max=1, q=0.25), {"low": 0.0, "high": 1.0, "step": 0.25}),
    (wandb("log_uniform_values", min=1e-5, max=0.1), {"low": 1e-5, "high": 0.1, "log": True}),
    (wandb("categorical", values=[3, 1]), {"choices": [3, 1]}), ({"value": "adam"}, {"choices": ["adam"]}),
    # These are our own form, or a group of hyperparameters.
    ({"values": [1, 2]}, None), ({"min": {"low": 1, "high": 2}, "max": [1, 2]}, None),
    (nni("choice", ["relu", "gelu"]), {"choices": ["relu", "gelu"]}),
    (nni("uniform", [0, 1]), {"low": 0.0, "high": 1.0}),
    (nni("loguniform", [1e-5, 1e-1]), {"low": 1e-5, "high": 0.1, "log": True}),
    (nni("quniform", [0, 10, 2]), {"low": 0, "high": 10, "step": 2}),
    (nni("randint", [1, 9]), {"low": 1, "high": 8, "integer": True}),
    (stats.loguniform(1e-5, 1e-1), {"low": 1e-5, "high": 0.1, "log": True}),
    (stats.uniform(2, 3), {"low": 2.0, "high": 5.0}), (stats.randint(1, 9), {"low": 1, "high": 8, "integer": True}),
])  # fmt: skip
def test_a_parameter_of_another_tool_is_a_dimension(given, read):
    dimension = of_peer(given, "space.lr")
    assert dimension == read
    assert all(type(dimension[end]) in (int, float) for end in ("low", "high") if end in (dimension or ()))


@pytest.mark.parametrize(("given", "says"), [
    (wandb("normal", mu=0, sigma=1), "cannot be W&B's normal; give hpo.log"),
    ({"values": [1, 2], "probabilities": [0.9, 0.1]}, "cannot be W&B's probabilities"),
    (nni("normal", [0, 1]), "cannot be NNI's normal; give hpo.log"),
    (nni("quniform", [1, 10, 2]), "cannot be a step 2 from 1 to 10, because both ends must be .*; give a list"),
    (nni("choice", [{"_name": "conv"}]), "cannot be a choice with nested dimensions"),
    (wandb("uniform", min=0), r"W&B's uniform must have numbers as min and max, given \{'distribution': 'uniform', 'm"),
    (nni("uniform", [1]), r"NNI's uniform must have 2 numbers as _value, given \[1\]"),
    (nni("choice", 3), "must have a list of values, given 3"),
    (stats.norm(0, 1), r"cannot be SciPy's .*; give hpo.log\(1e-5, 1e-1\), a range"),
    ({1, 2}, r"must be a dimension, given .*\(a .*set.*\); give hpo.log"),
])  # fmt: skip
def test_what_no_space_has_is_refused(given, says):
    refuses(hpo.HpoError, f"^space.net.lr: {says}", found, lambda config: 1.0, space={"net": {"lr": given}})


@pytest.mark.parametrize(("typed", "read"), [
    ("{distribution: log_uniform_values, min: 1e-5, max: 1e-1}", {"low": 1e-5, "high": 0.1, "log": True}),
    ("{min: 1, max: 8}", {"low": 1, "high": 8, "integer": True}),
    ("{_type: loguniform, _value: [1e-5, 1e-1]}", {"low": 1e-5, "high": 0.1, "log": True}),
])  # fmt: skip
def test_a_parameter_in_yaml_or_on_the_command_line_is_a_dimension(typed, read):
    composed = compose_config("search", ["space=none", f"space.training.lr={typed}"])["space"]
    written = parse_yaml(f"training: {{lr: {typed}}}", "space")
    assert as_meant(composed) == as_meant(written) == {"training": {"lr": read}}


def test_the_groups_of_a_nested_sweep_are_groups_of_the_configuration():
    def train(config):
        optimizer = config["optimizer"]
        assert (optimizer.keys(), optimizer["momentum"]) == ({"learning_rate", "momentum", "schedule"}, 0.9)
        return optimizer["learning_rate"] + optimizer["schedule"]["warmup"]

    schedule = {"parameters": {"warmup": {"min": 0.0, "max": 0.5}}}
    optimizer = {"learning_rate": {"values": [0.01, 0.001]}, "momentum": {"value": 0.9}, "schedule": schedule}
    nested = {"optimizer": {"parameters": optimizer}}
    assert found(train, space=nested).trials["state"].tolist() == ["complete"] * 4
    assert as_meant(nested)["optimizer"].keys() == {"learning_rate", "momentum", "schedule"}
    # A group that the configuration calls so stays one.
    own = {"net": {"parameters": {"lr": {"values": [1, 2]}}}}
    assert as_meant(own, {"net": {"parameters": {"lr": 1}}}) == own


def test_a_whole_sweep_names_its_part():
    sweep = {
        "method": "bayes",
        "metric": {"name": "loss", "goal": "minimize"},
        "parameters": {"lr": {"values": [1, 2]}},
    }
    with pytest.raises(hpo.HpoError, match=r"given the whole sweep; give space=sweep\['parameters'\]"):
        found(lambda config: 1.0, space=sweep)
    assert set(found(lambda config: config["lr"], space=sweep["parameters"]).trials["lr"]) == {1, 2}


def test_groups_of_metrics_are_one_metric_each():
    def train(config, trial):
        trial.report({"val": {"loss": 2 * config["lr"], "top": {"5": 0.5}}})
        trial.report({"val": {"loss": config["lr"], "top": {"5": 1}, "text": "left out"}})

    study = found(train, metric="val/loss", direction="minimize", trials=2)
    assert study.best.score == study.best.config["lr"] == study.trials["score"].min()
    assert outcome_of(study).metrics["val/top/5"] == 1
    assert "val/loss" in (study.folder / "report.md").read_text()
