"""How an objective is called: the names of its parameters decide, of a path and of the function itself alike."""

import importlib
import re
import shutil
import sys
from pathlib import Path

import pytest

import hpo
from hpo.errors import ConfigError
from hpo.study.preparing.preparation import known_study
from tests.hpo.cli.commands import hpo as command
from tests.hpo.cli.commands import printed, refused, searched
from tests.hpo.commands.searched import found

TRAINER = """
def of_config(config):
    return 2 * config["lr"]

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

def of_task_and_more(task, trial):
    return 0.0

def of_searched(lr):
    return lr

async def points(config):
    yield config["lr"]

def describe_method(config):
    return {"preprocessing": "as it is"}
"""
FORMS = {"of_config": "(config)", "of_any_name": "(config)", "of_both": "(config, trial)"}
FORMS |= {"of_trial": "(trial)", "of_task": ""}
SPACE = {"lr": (0.25, 0.5)}
TYPED = ("+lr=0.3", "space.lr={low: 0.25, high: 0.5}", "study.trials=2", "study.name=typed")
TYPED += ("dispatch=local", "track=none", "report.figures=false")
NO_TRAINER = ("data=none", "model=none", "training=none", "space=none", "study.metric=score")


@pytest.fixture
def forms(monkeypatch):
    """The module in the working directory."""
    monkeypatch.syspath_prepend(str(Path.cwd()))
    yield written(TRAINER)
    sys.modules.pop("forms", None)


def written(text):
    """Write the module, as an editor does, and import it anew, as the next command does."""
    Path("forms.py").write_text(text)
    shutil.rmtree("__pycache__", ignore_errors=True)
    sys.modules.pop("forms", None)
    return importlib.import_module("forms")


def assert_trained(study, number):
    assert study.trials["state"].tolist() == ["complete"] * number, study.trials["error"].tolist()
    assert (study.trials["score"] == 2 * study.trials["lr"]).all()


@pytest.mark.parametrize("name", FORMS)
def test_a_path_and_its_function_are_the_same_objective(forms, name):
    by_path = found(f"forms:{name}", space=SPACE, trials=2, name="path")
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


@pytest.mark.usefixtures("forms")
def test_the_space_of_optunas_form_is_read_of_a_path_too():
    study = found("forms:of_trial", space=None, trials=2)
    assert study.config["space"] == {"lr": {"low": 0.25, "high": 0.5}}
    assert_trained(study, 2)


def test_tuples_that_optunas_form_suggests_are_tuples():
    def widths(trial):
        chosen = trial.suggest_categorical("widths", [(1, 2), (3, 4)])
        assert isinstance(chosen, tuple)
        return float(sum(chosen))

    assert found(widths, space=None, trials=2).trials["score"].tolist() == [7.0, 3.0]


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
@pytest.mark.usefixtures("forms")
@pytest.mark.parametrize("name", ["of_both", "of_task"])
def test_further_commands_call_it_as_the_study_does(capsys, name):
    study = found(f"forms:{name}", space=SPACE, trials=2, name="typed")
    assert command(capsys, "reproduce", "typed")[0] == 0
    assert command(capsys, "resume", "typed", f"objective=forms:{name}", "study.trials=3")[0] == 0
    assert_trained(hpo.load("typed"), 3)
    assert command(capsys, "search", "--replay", "runs/typed", "dispatch=local", "track=none")[0] == 0
    trained = printed(capsys, "train", "--config", "runs/typed/best.yaml")[0]
    assert trained["metrics"]["score"] == study.best.score


@pytest.mark.slow
@pytest.mark.usefixtures("forms")
def test_a_file_says_it_by_its_names_and_a_typed_form_decides(capsys):
    tree = hpo.compose("objective=forms:of_both", *TYPED)
    for given in ("forms:of_both", "forms:of_both(config, trial)"):
        searched(capsys, {**tree, "objective": given, "study": {**tree["study"], "name": "whole", "trials": 1}})
        assert hpo.load("whole").config["objective"] == "forms:of_both(config, trial)"
    assert hpo.search({**tree, "objective": "forms:of_both"}, progress=False).config["objective"][-1] == ")"
    assert hpo.compose("objective=forms:of_trial(config)")["objective"] == "forms:of_trial(config)"


RENAMED = {"of_task": ("task", "config"), "of_config": ("config", "task"), "of_trial": ("trial", "task")}


@pytest.mark.usefixtures("forms")
@pytest.mark.parametrize("name", RENAMED)
def test_a_study_keeps_how_it_calls_its_objective(name):
    """Its names may change; what the study calls it with does not, and that the code has changed is said."""
    study = found(f"forms:{name}", space=SPACE, trials=1)
    before, after = RENAMED[name]
    head, body = re.search(rf"(def {name}\(.*\):\n)((?: .*\n)+)", TRAINER).groups()
    written(TRAINER.replace(head + body, (head + body).replace(before, after).replace(f"of_{after}", name)))
    with pytest.raises(hpo.HpoError, match=r"forms\.py"):
        study.resume(trials=2, progress=False)
    assert study.reproduce().is_reproduced
    assert_trained(study.resume(trials=2, progress=False, allow_changes=True), 2)
    assert study.config["objective"] == f"forms:{name}{FORMS[name]}"


REFUSED = {
    "of_three": "f(trial) or f(task), given of_three(a, b, c)",
    "of_task_and_more": "f(trial) or f(task), given of_task_and_more(task, trial)",
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


def test_a_package_that_declares_its_objective_is_called_by_its_names(monkeypatch, tmp_path):
    (tmp_path / "site/declared_forms-1.0.dist-info").mkdir(parents=True)
    (tmp_path / "site/declared_forms.py").write_text(TRAINER)
    about = tmp_path / "site/declared_forms-1.0.dist-info"
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: declared-forms\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[hpo.objectives]\ndeclared = declared_forms\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    study = found("declared_forms:of_both", space=SPACE, trials=1)
    assert study.config["objective"] == "declared_forms:of_both(config, trial)"
    assert_trained(study, 1)


def test_values_that_are_no_json_are_refused_where_no_configuration_is_given():
    for objective in (lambda task: 1.0, lambda trial: trial.suggest_float("lr", 0, 1)):
        with pytest.raises(ConfigError, match=r"space.lr: must be a JSON value; to use other values"):
            found(objective, space={"lr": hpo.choices(one={1, 2})})
