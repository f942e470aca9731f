"""What users type and write: objectives that are called, keys with dots, metrics, and words that are nearly right."""

import os
import signal
import sys
from pathlib import Path

import pytest

import hpo
from hpo.config.directions import known_direction
from hpo.errors import ConfigError
from hpo.session import session
from model.tasks.directions import DIRECTIONS
from tests.hpo.cli.commands import hpo as command
from tests.hpo.cli.commands import refused
from tests.hpo.commands.searched import found, note, noted

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
RUN = ("study.trials=2", "dispatch=local", "track=none", "report.figures=false")


@pytest.fixture
def trainer(monkeypatch):
    monkeypatch.syspath_prepend(str(Path.cwd()))
    monkeypatch.delitem(sys.modules, "typed_trainer", raising=False)
    Path("typed_trainer.py").write_text(TRAINER)


@pytest.mark.usefixtures("trainer")
def test_an_objective_of_a_configuration_gets_its_own_keys_alone(capsys):
    typed = ("objective=typed_trainer:own(config)", "+lr=0.25")
    _, out, err = command(capsys, "search", *typed, "space.lr=[0.25,0.5]", *RUN)
    assert "study own: 2 trials, score (maximize)" in out, err
    assert "winner: trial" in out
    chosen = hpo.compose(*typed, "model=decoder", "study.metric=loss")
    assert (chosen["model"]["shape"], chosen["study"]["direction"]) == ("decoder", "minimize")
    assert hpo.compose(*typed, "data=digits")["training"]["epochs"] == 15
    assert refused(capsys, "search", *typed, "training.epochs=3").startswith("error: training.epochs: there is no such")


@pytest.mark.slow
@pytest.mark.usefixtures("trainer")
def test_an_objective_is_trained_once(capsys):
    silent = ("objective=typed_trainer:silent(config, trial)", "+lr=0.25")
    line = """command.line=echo '{{"score": {lr}}}'"""
    for typed, score in (
        ([*silent], "score = 0.5"),
        ([*silent, "study.score=last"], "score = 0.25"),
        (["objective=command", line, "+lr=3", "study.metric=score"], "score = 3"),
    ):
        code, out, err = command(capsys, "train", *typed)
        assert (code, err) == (0, "")
        assert score in out
    assert "'best' or 'last'" in refused(capsys, "train", *silent, "study.score=first")


CALLED = "objective=typed_trainer:train(config, trial)"


@pytest.mark.parametrize(("typed", "says"), [
    (["space.lr=[0.1,0.2]"], "space.lr: nothing reads 'lr'; did you mean 'training.lr'?"),
    (["lr=0.1"], "lr: there is no such key; did you mean 'training.lr'?"),
    (["objective=typed_trainer:train(config, trail)"], "objective: must be package.module:function, given"),
    (["objective=typed_trainer.py:train"], "must name a module, such as typed_trainer:train, not a file"),
    ([CALLED, "space.lr=[0.01,0.1]"], "'lr'; give it a default with +lr=0.01"),
    ([CALLED, "space.split=[0.1,0.2]"], "'split'; give it a default with +objective_config.split=0.1"),
    ([CALLED, "+objective_config.split=1", "+lr=1"], "lr: must be below objective_config, like all keys of"),
    ([CALLED, "+split=0.1"], "for a key of your own with this name, write +objective_config.split"),
])  # fmt: skip
@pytest.mark.usefixtures("trainer")
def test_typed_words_that_are_nearly_right_are_corrected(capsys, typed, says):
    assert says in refused(capsys, "search", *typed, "dispatch=local", "track=none", is_silent=True)


def test_overrides_as_one_list_are_refused():
    with pytest.raises(hpo.HpoError, match=r"overrides: must be separate strings, .* hpo\.compose\(\*overrides\)"):
        hpo.compose(["study.trials=3"])


def test_the_directions_of_a_few_names_are_known_and_any_other_must_be_given():
    """A wrong guess finds the worst configuration."""
    names = {"loss": "minimize", "error": "minimize", "perplexity": "minimize", "score": "maximize"}
    splits = {f"{split}{name}": names[name] for split in ("val_", "eval/", "test_", "dev_") for name in names}
    for metric, direction in (DIRECTIONS | names | splits).items():
        assert known_direction(metric) == direction, metric
    for metric in ("val_bpb", "fid", "logloss", "kl", "runtime", "val_val_loss", "loss_scale", "f1"):
        assert known_direction(metric) is None
    with pytest.raises(ConfigError, match=r"study\.direction: .*study\.metric=fid .* add study\.direction=minimize or"):
        hpo.compose("study.metric=fid")
    assert hpo.compose("study.metrics={fid: minimize}")["study"]["direction"] == "minimize"


@pytest.mark.usefixtures("trainer")
def test_an_interrupt_before_the_first_training_says_so_and_leaves_nothing(capsys, monkeypatch):
    make = session.make_dispatcher
    monkeypatch.setattr(session, "make_dispatcher", lambda *to: (os.kill(os.getpid(), signal.SIGINT), make(*to))[1])
    with pytest.raises(KeyboardInterrupt):
        command(capsys, "search", "objective=typed_trainer:score(config)", "+lr=0.1", "space.lr=[0.1,0.2]", *RUN)
    said = "\nstopped before any training began\nbegin again with: the same command\n"
    assert (capsys.readouterr().err, Path("runs").exists()) == (said, False)


def test_a_dotted_name_is_one_key_unless_the_configuration_has_it_nested():
    def last(space, config):
        found(lambda config: note(config) or config["x"], space=space, config=config, trials=1)
        return noted()[-1]

    assert set(last({"optim.lr": hpo.log(1e-5, 1e-2), "x": [1]}, None)) == {"optim.lr", "x"}
    assert list(last({"optim.lr": [1, 2], "x": [1]}, {"optim": {"lr": 2}})["optim"]) == ["lr"]
    assert last({"optim": {"lr": [1]}, "x": [1]}, {"optim.lr": 2}) == {"optim.lr": 1, "x": 1}
    with pytest.raises(hpo.HpoError, match=r"config: 'optim\.lr' is given twice"):
        last({"x": [1]}, {"optim.lr": 2, "optim": {"lr": 2}})
    with pytest.raises(hpo.HpoError, match=r"config\.optim: must be a dict, as in the space, given 3"):
        last({"optim": {"lr": [1]}}, {"optim": 3})


def test_the_inside_of_a_list_is_not_searched_and_made_a_key_next_to_it():
    for space in ({"layers.0.w": [0.1, 0.2]}, {"layers": {"0": {"w": [0.1, 0.2]}}}):
        with pytest.raises(hpo.HpoError) as error:
            found(lambda config: 1.0, space=space, config={"layers": [{"w": 5}]})
        assert str(error.value) == "space.layers.0.w: is inside a list; search 'layers' as a whole, with choices"
    assert not Path("runs").exists()
