"""How an objective is called: the names of its parameters decide, of a path and of the function itself alike."""

import importlib
import shutil
import sys
from pathlib import Path
from types import FunctionType

import pytest

import hpo
from hpo.errors import ConfigError
from hpo.study.preparing.preparation import known_study
from tests.hpo.cli.commands import hpo as command
from tests.hpo.cli.commands import refused
from tests.hpo.commands.searched import found, refuses

TRAINER = """
def of_any_name(settings):
    return 2 * settings["lr"]

def of_both(config, trial):
    trial.report(epoch=1, score=config["lr"])
    return 2 * config["lr"]

def of_trial(trial):
    return 2 * trial.suggest_float("lr", 0.25, 0.5)

def of_task(task):
    yield {"epoch": 1, "score": task["config"]["lr"]}
    return {"score": 2 * task["config"]["lr"]}

def of_three(a, b, c):
    return 0.0

def of_searched(lr):
    return lr

async def points(config):
    yield config["lr"]

def describe_method(config):
    return {"preprocessing": "as it is"}
"""
FORMS = {"of_any_name": "(config)", "of_both": "(config, trial)", "of_trial": "(trial)", "of_task": ""}
SPACE = {"lr": (0.25, 0.5)}
TYPED = ("+lr=0.3", "space.lr={low: 0.25, high: 0.5}", "study.trials=2", "study.name=typed")
TYPED += ("dispatch=local", "track=none", "report.figures=false")
NO_TRAINER = ("data=none", "model=none", "training=none", "space=none", "study.metric=score")


@pytest.fixture
def forms(monkeypatch):
    monkeypatch.syspath_prepend(str(Path.cwd()))
    Path("forms.py").write_text(TRAINER)
    yield importlib.import_module("forms")
    sys.modules.pop("forms", None)


def assert_trained(study, number):
    assert study.trials["state"].tolist() == ["complete"] * number, study.trials["error"].tolist()
    assert (study.trials["score"] == 2 * study.trials["lr"]).all()


@pytest.mark.parametrize("name", FORMS)
def test_a_path_and_its_function_are_the_same_objective(forms, name):
    # The space of Optuna's form is read of a path, too.
    by_path = found(f"forms:{name}", space=None if name == "of_trial" else SPACE, trials=2, name="path")
    study = found(getattr(forms, name), space=SPACE, trials=2, name="function")
    assert by_path.config["objective"] == study.config["objective"] == f"forms:{name}{FORMS[name]}"
    assert_trained(study, 2)
    assert by_path.trials["score"].tolist() == study.trials["score"].tolist()
    assert known_study("function").described.method == {"preprocessing": "as it is"}
    assert study.reproduce().is_reproduced


def test_a_function_without_a_module_may_take_a_task():
    study = found(lambda task: 2 * task["config"]["lr"], space=SPACE, trials=2)
    assert study.config["objective"] == "objective.pkl:objective"
    assert_trained(study, 2)
    assert study.reproduce().is_reproduced
    assert study.train(progress=False)["score"] == study.best.score
    shutil.copy(study.folder / "report.json", "mailed.json")
    with pytest.raises(hpo.HpoError, match="is stored only in the folder of its study; give that folder instead of"):
        hpo.reproduce("mailed.json", trust=True)


@pytest.mark.usefixtures("forms")
@pytest.mark.parametrize("name", FORMS)
def test_a_command_line_calls_it_by_its_names(capsys, name):
    """Of one that takes a task the keys of the toolkit's trainer stay, as they may be meant."""
    typed = (f"objective=forms:{name}", *TYPED, *(() if FORMS[name] else NO_TRAINER))
    assert command(capsys, "search", *typed)[0] == 0
    study = hpo.load("typed")
    assert study.config["objective"] == hpo.compose(*typed)["objective"] == f"forms:{name}{FORMS[name]}"
    assert_trained(study, 2)


@pytest.mark.slow
def test_a_study_keeps_how_it_calls_its_objective_when_names_change(forms):
    study = found("forms:of_any_name", space=SPACE, trials=1)
    Path("forms.py").write_text(TRAINER.replace("settings", "task"))
    sys.modules.pop("forms")
    refuses(r"forms\.py", study.resume, 2, progress=False)
    assert_trained(study.resume(2, progress=False, allow_changes=True), 2)
    assert study.config["objective"] == "forms:of_any_name(config)"


def helped(trial):
    return forms(trial)


TWO = (lambda trial: trial.suggest_int("x", 1, 2), lambda trial: trial.suggest_int("x", 1, 2))
OBJECTS = {"lr": hpo.choices(one={1, 2})}
UNREADABLE = [
    (helped, None, "helped(trial): passes 'trial' to other code, so its space cannot be read; give the space yourself"),
    (TWO[0], None, "its source line must have exactly one lambda with the parameter 'trial'; give the space yourself"),
    (FunctionType(helped.__code__.replace(co_filename="gone"), {}), None, "the function's source code cannot be read"),
    (lambda trial: trial.suggest_normal("x", 0), None, "must be one of suggest_float, suggest_int, suggest_cat"),
    (lambda trial: trial.suggest_int("x", 1, 2) + trial.suggest_int("x", 1, 3), None, "suggests 'x' twice with "),
    (lambda config: 1.0, helped, "space: helped(trial): passes 'trial' to other code, so its space cannot be read; "),
    (lambda task: 1.0, OBJECTS, "space.lr: must be a JSON value; to use other values, give the objective as a fun"),
    (lambda trial: trial.suggest_int("lr", 1, 2), OBJECTS, "space.lr: must be a JSON value; to use other values"),
]


def test_a_space_that_its_function_does_not_show_or_cannot_get_is_refused():
    for objective, space, says in UNREADABLE:
        with pytest.raises(ConfigError) as refusal:
            found(objective, space=space)
        assert says in str(refusal.value)


REFUSED = {
    "of_three": "f(trial) or f(task), given of_three(a, b, c)",
    "of_searched": ", given of_searched(lr); read searched values from config, such as config['lr']",
    "points": "'points' must not be an asynchronous generator; write `async def points(config, trial)`",
    "nowhere": "module 'forms' has no function 'nowhere'",
}


@pytest.mark.usefixtures("forms")
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_called_is_refused_wherever_it_is_named(capsys, name):
    with pytest.raises(ConfigError) as refusal:
        found(f"forms:{name}", space=SPACE)
    assert REFUSED[name] in str(refusal.value)
    assert refused(capsys, "search", f"objective=forms:{name}", *TYPED) == f"error: {refusal.value}\n"
    assert not Path("runs").exists()
