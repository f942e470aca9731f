"""`hpo.search` from Python: any function is searched, by the names of its parameters, and refused in one line."""

import contextlib
import functools
import importlib
import re
import shutil
import sys
import threading
from pathlib import Path
from types import FunctionType

import pandas as pd
import pytest

import hpo
from hpo.errors import ConfigError
from hpo.study.preparing.preparation import known_study
from hpo.trials.space.reader import space_from_dict
from hpo.trials.table import point_of, read_rows
from tests import studies
from tests.hpo.cli import commands
from tests.hpo.commands.searched import found, note, noted, refuses, score


def test_a_function_of_a_configuration_is_searched():
    study = found(score, trials=6)
    assert study.trials["state"].tolist() == ["complete"] * 6
    assert study.best.score == max(study.trials["score"]) == score(study.best.config)
    assert set(study.best.point) == {"lr", "net.layers", "net.act", "dropout"}
    assert all(isinstance(layers, int) for layers in study.trials["net.layers"])
    assert f"{study.best.score:.4g}" in study._repr_html_()
    assert (repr(study), study.best.model_dir) == ("hpo.load('runs/score')", None)
    refuses("figure: must be one of", study.plot, "best")


@pytest.mark.slow
def test_the_same_call_returns_the_finished_study_and_a_larger_budget_goes_on():
    def train(config):
        note(config["lr"])
        return config["lr"]

    first = found(train, trials=3)
    assert found(train, trials=3).name == first.name == "train"
    assert len(noted()) == 3
    assert len(found(train, trials=5).trials) == len(noted()) == 5
    assert len(hpo.load("train").resume(7, progress=False).trials) == 7
    assert len(hpo.load("train").resume(8, name="more", progress=False).trials) == 8
    assert len(found(train, trials=3).trials) == len(hpo.load("train").trials) == 7


def test_optional_functions_are_given_by_a_decorator():
    def scored(_config, trial):
        return {"score": float(len(trial.test)), "model": float((trial.checkpoint_dir / "model").read_text())}

    @hpo.objective(describe_data=lambda _: {"size": 20, "labels": [0, 1] * 10}, run_test=scored)
    def train(config, trial):
        if trial.checkpoint_dir:
            trial.checkpoint_dir.mkdir(parents=True, exist_ok=True)
            (trial.checkpoint_dir / "model").write_text(str(config["lr"]))
        return config["lr"] + len(trial.validation or ())

    study = found(train, settings={"split.folds": 2, "split.test_fraction": 0.2})
    assert study.test(with_default=False) == {"score": 4.0, "model": study.best.config["lr"]}
    refuses("was used before", study.test)
    refuses("there is no optional function 'run_tests'; did you mean 'run_test'", hpo.objective, run_tests=scored)


@pytest.mark.parametrize(("arguments", "says"), [
    ({"space": None}, "space: is missing"), ({"direction": None}, "direction: is missing; give 'maximize' or 'min"),
    ({"settings": {"dispatch": {"name": "local"}}}, "settings: dispatch must be one of"),
    ({"settings": {"study.lane": 3}}, "there is no 'study.lane'; did you mean 'study.lanes'"),
    ({"metric": {"a": "max", "b": "minimize"}, "direction": None}, "metric.a: must be 'maximize' or 'minimize'"),
    ({"limits": {"memory": "8 GB"}}, "limits.memory: must be a number"), ({"objective": 3}, "must be a function"),
    ({"space": [1, 2]}, "space: must be a dict, given a list"), ({"space": {"a": (1, 2, 3)}}, "tuple must be a range"),
    ({"space": {1: [1, 2]}}, "space: must have strings as keys, given 1; write '1'"),
    ({"settings": {"study": {"lanes": 3}}}, "settings: 'study' is a section; give its keys one by one"),
    ({"workers": 2, "settings": {"dispatch.workers": 4}}, "workers: must be set once, given 2"),
    ({"strategy": dict}, "strategy: must be a name, a dict with `name` and settings, or 'module:Class' for a class of"),
    ({"metric": {}, "direction": None}, "metric: must have a direction for each metric"),
    ({"metric": {"a": "maximize", "b": "minimize"}}, "direction: has no effect with metric"),
    ({"choose": {"a": 1}}, "choose: must name metrics"), ({"objective": {"a": 1}, "space": None}, "must be a complete"),
    ({"objective": {}, "space": {"lr": (0, 1)}, "metric": "f1"}, "space, metric: have no effect with a"),
    ({"strategy": "cma_es", "space": {"x": (0, 1)}, "limits": {"memory": 3}}, "limits={'memory': 3.0}; choose"),
])  # fmt: skip
def test_what_cannot_be_is_refused_in_one_line(arguments, says):
    refuses(re.escape(says), found, **({"objective": score} | arguments))
    assert not Path("runs").exists()


def test_a_function_that_cannot_be_sent_names_what_it_holds():
    lock = threading.Lock()

    def train(config):
        with lock:
            return config["lr"]

    def helped(config):
        return train(config)

    partial = functools.partial(lambda inner, config: 1, lock)
    for objective, name in ((train, "`lock`"), (helped, "`lock`"), (partial, r"`objective.args\[0\]`")):
        refuses(f"cannot be sent to workers: it uses {name}, a lock; create such objects inside", found, objective)


METRICS = {"accuracy": "maximize", "size": "minimize"}


def measured(config):
    a, b = config["a"], config["b"]
    return {"accuracy": a * (4 - b), "size": a + 0.01 * b, "memory": b}


def several(objective=measured, **arguments):
    given = {"space": {"a": [1, 2, 3, 4, 5], "b": [1, 2, 3]}, "strategy": "grid", "trials": 15, "direction": None}
    return found(objective, **(given | {"metric": METRICS, "limits": {"memory": {"min": 2}}} | arguments))


def changed_choices(name):
    with contextlib.closing(studies.read_study(known_study(name))) as record:
        return studies.Notes(record).changed_choices


@pytest.mark.slow
def test_front_and_best_are_those_of_all_that_was_measured_and_another_choice_is_noted_once_saved(monkeypatch, capsys):
    study = several(choose="first_within_limits")
    trials, front, best = study.trials, study.front, study.best
    kept = trials[trials.memory >= 2]
    is_best = [((kept.score >= one.score) & (kept["size"] <= one["size"])).sum() == 1 for _, one in kept.iterrows()]
    expected = kept[is_best].sort_values("score", ascending=False)
    assert list(front.number) == list(expected.number)
    pd.testing.assert_series_equal(front.accuracy, expected.score.reset_index(drop=True), check_names=False)
    assert list(front.number[front.is_chosen]) == [best.number] == [front.number[0]]
    assert best.scores == measured(best.point) == {name: front[name][0] for name in ("accuracy", "size", "memory")}
    assert list(front.columns) == ["number", "is_chosen", "accuracy", "size", "memory", "a", "b"]
    smallest = study.choose({"size": 1.0})
    assert (smallest.scores["size"], study.best.number) == (front["size"].min(), best.number)

    def raise_budget_and_lock(folder, lock=studies.StudyFolder.lock):
        folder.freeze((config := folder.config()).with_study(trials=config.study.trials + 1))
        return lock(folder)

    with monkeypatch.context() as patch:
        patch.setattr(studies.StudyFolder, "lock", raise_budget_and_lock)
        assert study.choose({"size": 1.0}, save=True) == study.best == smallest
        study.report(title="kept")
    assert (study.config["study"]["trials"], study.config["report"]["title"]) == (17, "kept")
    assert commands.hpo(capsys, "resume", "measured", "study.choose=knee")[0] == 0
    changes = [(each.before, each.after, each.trials, each.is_test_open) for each in changed_choices("measured")]
    assert changes == [("first_within_limits", {"size": 1.0}, 15, False), ({"size": 1.0}, "knee", 15, False)]
    refuses(r"must name metrics of the study \(accuracy, size\), given memory", study.choose, {"memory": 1.0})


def test_no_column_is_lost_to_another_of_its_name():
    space = {"x": [1, 2], "is_chosen": [3, 4], "excess": [5, 6], "is_on_front": [7], "b_standard_error": [8]}
    names = ("a", "a_standard_error", "b", "amount")
    study = several(
        lambda config: {name: config["x"] * (place + 1) for place, name in enumerate(names)},
        **{"space": space, "metric": dict.fromkeys(names[:3], "maximize"), "limits": {"amount": 4}},
        **{"settings": {"study.repeats": 2}, "name": "clashing"},
    )
    front, trials, best = study.front, study.trials, study.best
    assert front.shape == (4, 2 + 2 * len(names) + len(space))
    (chosen,) = front[front.is_chosen].to_numpy().tolist()
    assert {*chosen} == {best.number, True, 0.0, *best.scores.values(), *best.point.values()}
    assert (sorted(set(trials.excess)), set(trials.is_on_front)) == ([0.0, 1.0], {True, False})
    rows = read_rows(study.folder / "trials.csv", ("number",))
    assert sorted(point_of(row, space_from_dict(space))["excess"] for row in rows) == [5] * 4 + [6] * 4


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


@pytest.mark.slow("of_any_name", "of_both", "of_task")
@pytest.mark.parametrize("name", FORMS)
def test_a_path_its_function_and_a_command_line_are_the_same_objective(forms, capsys, name):
    by_path = found(f"forms:{name}", space=None if name == "of_trial" else SPACE, trials=2, name="path")
    study = found(getattr(forms, name), space=SPACE, trials=2, name="function")
    assert by_path.config["objective"] == study.config["objective"] == f"forms:{name}{FORMS[name]}"
    assert_trained(study, 2)
    assert by_path.trials["score"].tolist() == study.trials["score"].tolist()
    assert known_study("function").described.method == {"preprocessing": "as it is"}
    assert study.reproduce().is_reproduced
    typed = (f"objective=forms:{name}", *TYPED, *(() if FORMS[name] else NO_TRAINER))
    assert commands.hpo(capsys, "search", *typed)[0] == 0
    assert hpo.load("typed").config["objective"] == hpo.compose(*typed)["objective"] == f"forms:{name}{FORMS[name]}"
    assert_trained(hpo.load("typed"), 2)


def test_a_function_without_a_module_may_take_a_task():
    study = found(lambda task: 2 * task["config"]["lr"], space=SPACE, trials=2)
    assert study.config["objective"] == "objective.pkl:objective"
    assert_trained(study, 2)
    assert (study.reproduce().is_reproduced, study.train(progress=False)["score"]) == (True, study.best.score)
    shutil.copy(study.folder / "report.json", "mailed.json")
    refuses("is stored only in the folder of its study; give that", hpo.reproduce, "mailed.json", trust=True)


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


@pytest.mark.parametrize(("objective", "space", "says"), [
    (TWO[0], None, "its source line must have exactly one lambda with the parameter 'trial'; give the space yourself"),
    (FunctionType(helped.__code__.replace(co_filename="gone"), {}), None, "the function's source code cannot be read"),
    (lambda trial: trial.suggest_normal("x", 0), None, "must be one of suggest_float, suggest_int, suggest_cat"),
    (lambda trial: trial.suggest_int("x", 1, 2) + trial.suggest_int("x", 1, 3), None, "suggests 'x' twice with "),
    (lambda config: 1.0, helped, "space: helped(trial): passes 'trial' to other code, so its space cannot be read; "),
    (lambda task: 1.0, OBJECTS, "space.lr: must be a JSON value; to use other values, give the objective as a fun"),
])  # fmt: skip
def test_a_space_that_its_function_does_not_show_or_cannot_get_is_refused(objective, space, says):
    studies.refuses(ConfigError, re.escape(says), found, objective, space=space)


@pytest.mark.usefixtures("forms")
@pytest.mark.parametrize(("name", "says"), [
    ("of_three", "f(trial) or f(task), given of_three(a, b, c)"),
    ("of_searched", ", given of_searched(lr); read searched values from config, such as config['lr']"),
    ("points", "'points' must not be an asynchronous generator; write `async def points(config, trial)`"),
    ("nowhere", "module 'forms' has no function 'nowhere'"),
])  # fmt: skip
def test_what_cannot_be_called_is_refused_wherever_it_is_named(capsys, name, says):
    with pytest.raises(ConfigError) as refusal:
        found(f"forms:{name}", space=SPACE)
    assert says in str(refusal.value)
    assert commands.refused(capsys, "search", f"objective=forms:{name}", *TYPED) == f"error: {refusal.value}\n"
    assert not Path("runs").exists()
