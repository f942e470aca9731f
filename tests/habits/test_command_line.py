"""What people type on the command line, as they type it."""

import os
import signal
import sys
from pathlib import Path

import pytest

import hpo
from hpo.config.composing.compose import compose_config
from hpo.config.study_config import config_from_dict
from hpo.errors import ConfigError
from hpo.session import session as run
from hpo.study.preparing.preparation import refuse_bad_search
from model.tasks.directions import DIRECTIONS
from tests.hpo.cli.commands import hpo as command
from tests.hpo.cli.commands import refused

SPLITS = ("", "val_", "eval/", "test_", "dev_")

TRAINER = """
def train(config, trial):
    trial.report(epoch=1, score=config["lr"])
    return {"score": config["lr"]}

def silent(config, trial):
    trial.report(epoch=1, score=0.5)
    trial.report(epoch=2, score=config["lr"])

def score(config):
    return {"score": config["lr"]}

def own(config):
    assert set(config) <= {"lr", "model"}, config
    return config["lr"]
"""
OWN = ("study.trials=2", "dispatch=local", "track=none")


@pytest.fixture
def trainer(monkeypatch):
    monkeypatch.syspath_prepend(str(Path.cwd()))
    monkeypatch.delitem(sys.modules, "typed_trainer", raising=False)
    Path("typed_trainer.py").write_text(TRAINER)


@pytest.mark.quick("train(config,trial)")
@pytest.mark.nightly
@pytest.mark.usefixtures("trainer")
@pytest.mark.parametrize("call", ["train(config, trial)", "train(config,trial)", "score(config)"])
def test_an_objective_that_is_called_is_read_as_it_is_typed(capsys, call):
    typed = f"objective=typed_trainer:{call}"
    code, out, err = command(capsys, "search", typed, "+lr=0.01", "space.lr=[0.01,0.1]", *OWN)
    assert code == 0, err
    assert "winner: trial" in out
    for tree in (hpo.compose(typed), compose_config("train", [typed])):
        assert tree["objective"] == f"typed_trainer:{call.replace(',trial', ', trial')}"


@pytest.mark.nightly
@pytest.mark.usefixtures("trainer")
def test_one_that_is_called_gets_its_own_keys_alone(capsys):
    typed = ("objective=typed_trainer:own(config)", "+lr=0.25")
    _, out, err = command(capsys, "search", *typed, "space.lr=[0.25,0.5]", *OWN)
    assert "study own: 2 trials, score (maximize)" in out, err
    assert "winner: trial" in out
    assert "score = 0.25" in command(capsys, "train", *typed)[1]
    chosen = hpo.compose(*typed, "model=decoder", "study.metric=loss")
    assert (chosen["model"]["shape"], chosen["study"]["direction"]) == ("decoder", "minimize")
    assert hpo.compose(*typed, "data=digits")["training"]["epochs"] == 15
    said = refused(capsys, "search", *typed, "training.epochs=3")
    assert said.startswith("error: training.epochs: there is no such key; see `hpo search --cfg job`, or add it with +")


def test_a_command_is_run_once_without_a_search(capsys):
    line = """command.line=echo '{{"score": {lr}}}'"""
    code, out, err = command(capsys, "train", "objective=command", line, "+lr=3", "study.metric=score")
    assert (code, err) == (0, "")
    assert "score = 3" in out


@pytest.mark.nightly
@pytest.mark.usefixtures("trainer")
def test_one_that_is_called_is_trained_alone(capsys):
    code, out, err = command(capsys, "train", "objective=typed_trainer:train(config, trial)", "+lr=0.25")
    assert (code, err) == (0, "")
    assert "score = 0.25" in out
    silent = ("train", "objective=typed_trainer:silent(config, trial)", "+lr=0.25")
    assert "score = 0.5" in command(capsys, *silent)[1]
    assert "score = 0.25" in command(capsys, *silent, "study.score=last")[1]
    assert "'best' or 'last'" in refused(capsys, *silent, "study.score=first")


@pytest.mark.quick("?relu*")
@pytest.mark.nightly
@pytest.mark.usefixtures("trainer")
@pytest.mark.parametrize(
    ("space", "default"),
    [("[0.01,0.1]", "0.01"), ("[relu,tanh]", "relu"), ("{low: 1e-4, high: 1.0, log: true}", "0.01")],
)
def test_a_searched_key_that_the_configuration_lacks_is_told_what_to_type(capsys, space, default):
    typed = ("search", "objective=typed_trainer:train(config, trial)", f"space.lr={space}", *OWN)
    said = refused(capsys, *typed, is_silent=True)
    assert said == f"error: space.lr: the configuration has no key 'lr'; give it a default with +lr={default}\n"
    if default == "0.01":
        assert command(capsys, *typed, f"+lr={default}")[0] == 0


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["space.lr=[0.1,0.2]"], "space.lr: nothing reads 'lr'; did you mean 'training.lr'?"),
        (["+lr=0.1", "space.lr=[0.1,0.2]"], "space.lr: nothing reads 'lr'; did you mean 'training.lr'?"),
        (["lr=0.1"], "lr: there is no such key; did you mean 'training.lr'?"),
        (["trainng.lr=0.1"], "trainng.lr: there is no such key; did you mean 'training.lr'?"),
        (
            ["objective=typed_trainer:train(config, trail)"],
            "objective: must be package.module:function, given 'typed_trainer:train(config, trail)'",
        ),
        (
            ["objective=typed_trainer.py:train"],
            "objective: must name a module, not a file, such as typed_trainer:train, given 'typed_trainer.py:train'",
        ),
        (
            ["data=text_classification", "data.path=x.csv", "data.header=maybe"],
            "data.header: must be a valid boolean, given 'maybe'",
        ),
    ],
)
@pytest.mark.usefixtures("trainer")
def test_what_is_nearly_right_says_what_is(capsys, typed, said):
    assert refused(capsys, "search", *typed, "dispatch=local", "track=none", is_silent=True) == f"error: {said}\n"


def test_a_helper_that_others_refer_to_is_searched():
    config = config_from_dict(compose_config("search", ["+base=0.1", "training.lr=${base}", "space.base=[0.1,0.2]"]))
    assert refuse_bad_search(config).study.references == {"training.lr": "${base}"}


@pytest.mark.parametrize(
    ("metric", "direction"),
    [
        *DIRECTIONS.items(),
        *((f"{split}{name}", "minimize") for split in SPLITS for name in ("loss", "error", "perplexity")),
        *((f"{split}{name}", "maximize") for split in SPLITS for name in ("score", "accuracy")),
    ],
)
def test_the_direction_of_a_few_names_is_known(metric, direction):
    assert hpo.compose(f"study.metric='{metric}'")["study"]["direction"] == direction


@pytest.mark.parametrize("metric", ["val_bpb", "fid", "logloss", "kl", "runtime", "val_val_loss", "loss_scale", "f1"])
def test_of_any_other_metric_the_direction_must_be_given(metric):
    """A wrong guess finds the worst configuration."""
    says = rf"study.direction: .*study.metric '{metric}' .* add study.direction=minimize or"
    with pytest.raises(ConfigError, match=says):
        hpo.compose(f"study.metric={metric}")
    given = hpo.compose(f"study.metric={metric}", "study.direction=minimize")["study"]
    assert given["direction"] == hpo.compose(f"study.metrics={{{metric}: minimize}}")["study"]["direction"]


@pytest.mark.usefixtures("trainer")
@pytest.mark.parametrize(("called", "is_begun"), [("make_dispatcher", False), ("open_study", True)])
def test_what_an_interrupt_before_the_first_training_says_works(capsys, monkeypatch, called, is_begun):
    search = ("search", "objective=typed_trainer:score(config)", "+lr=0.1", "space.lr=[0.1,0.2]", "study.name=k", *OWN)
    kept = getattr(run, called)

    def interrupted(*given):
        os.kill(os.getpid(), signal.SIGINT)
        return kept(*given)

    monkeypatch.setattr(run, called, interrupted)
    with pytest.raises(KeyboardInterrupt):
        command(capsys, *search)
    monkeypatch.setattr(run, called, kept)
    err = capsys.readouterr().err
    if is_begun:
        assert err == "\nstopped: 0 of 2 trials are saved in runs/k\ncontinue with: hpo resume k\n"
    else:
        assert err == "\nstopped before any training began\nbegin again with: the same command\n"
        assert not Path("runs").exists()
    assert command(capsys, *(("resume", "k") if is_begun else search))[0] == 0
