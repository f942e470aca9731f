"""Something on which a study's results depend has changed: the study refuses with the difference, or notes it."""

import contextlib
import importlib
import importlib.metadata
import json
import shlex
import shutil
import sqlite3
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

import hpo
from hpo.engine.strategies.random import RandomSearch
from hpo.study.files.folder import StudyFolder
from hpo.workers.dispatch.local import LocalDispatcher
from tests.faults.driver import gone_on
from tests.hpo.cli.commands import hpo as command
from tests.hpo.cli.commands import refused
from tests.hpo.commands.searched import HERE, found, refuses
from tests.studies import rows, run_toy, shipped, toy_config

pytestmark = pytest.mark.slow

FEW, ALL = 4, 9
RESUME = ("resume", "toy", f"study.trials={ALL}")
TRAINER = """
import beside
def run_fold(task):
    return {"score": -abs(task["config"]["toy"]["layers"] - beside.BEST) - task["config"]["toy"]["lr"]}
"""
CALL, LR = {"trials": 1, "direction": "minimize", "settings": HERE}, {"lr": hpo.log(1e-5, 1e-2)}


def config(trials, **changes):
    return toy_config(trials=trials, report=shipped("default", "report") | {"figures": False}, **changes)


def edit(path, old, new):
    text = Path(path).read_text()
    assert old in text
    Path(path).write_text(text.replace(old, new))
    forget()


def forget():
    for name, module in [*sys.modules.items()]:
        if str(getattr(module, "__file__", None)).startswith(str(Path.cwd())):
            del sys.modules[name]
    importlib.invalidate_caches()
    shutil.rmtree("__pycache__", ignore_errors=True)


@pytest.fixture
def modules(monkeypatch):
    monkeypatch.syspath_prepend(str(Path.cwd()))
    yield
    forget()


@pytest.fixture(scope="module")
def toys(tmp_path_factory):
    """Return a folder with a study that is half way, `begun`, and the trials of the same study undisturbed."""
    folder = tmp_path_factory.mktemp("toys")
    run_toy(folder / "begun", config(FEW))
    return folder, run_toy(folder / "whole", config(ALL))


@pytest.fixture
def whole(toys):
    """Put the study that is half way into runs/toy, and return the trials that it will have."""
    shutil.copytree(toys[0] / "begun", "runs/toy")
    return toys[1]


def allowed_changes():
    return json.loads(Path("runs/toy/report.json").read_text())["study"]["allowed_changes"]


def goes_on(capsys, *arguments):
    code, out, err = command(capsys, *(arguments or RESUME))
    assert code == 0, out + err
    return err


def test_an_edited_configuration_is_refused_by_every_command_that_would_use_it(whole, capsys):
    edit("runs/toy/config.yaml", "momentum: 0.5", "momentum: 0.25")
    assert "hpo resume toy --allow-changes" in refused(capsys, *RESUME)
    for words in (RESUME, ("report", "toy"), ("test", "toy")):
        assert "toy.momentum was 0.5 and is now 0.25" in refused(capsys, *words)
    edit("runs/toy/config.yaml", "momentum: 0.25", "momentum: 0.5")
    assert gone_on(trials=ALL) == whole


def test_an_allowed_change_is_noted_once_with_its_time_and_each_trial_keeps_its_configuration(whole, capsys):
    """The winner is from before the change, which makes every later trial worse."""
    line = "config: toy.momentum was 0.5 and is now -100.0"
    goes_on(capsys, "resume", "toy", "study.trials=5", "toy.momentum=-100.0", "--allow-changes")
    goes_on(capsys, "resume", "toy", "study.trials=6", "study.finalists=2")
    (allowed,) = allowed_changes()
    assert (allowed["changes"], "T" in allowed["time"]) == ([line], True)
    assert line.partition(" ")[2] in Path("runs/toy/report.md").read_text()
    assert json.loads(Path("runs/toy/report.json").read_text())["winner"]["number"] < FEW
    assert yaml.safe_load(Path("runs/toy/best.yaml").read_text())["toy"]["momentum"] == 0.5
    code, out, err = command(capsys, "reproduce", "toy", "--trial", "all")
    assert (code, f"allowed after {FEW} trials: {line}" in out) == (0, True), out + err
    assert f"its configuration changed after {FEW} trials" in refused(capsys, "search", "--replay", "toy")


def test_what_makes_another_study_and_a_budget_below_the_trials_are_refused_even_so(whole, capsys):
    given_ones = ("study.seed=1", "study.direction=minimize", "strategy.round_size=6", "split.test_fraction=0.2")
    for given in (*given_ones, "study.metric=unreported"):
        line = refused(capsys, *RESUME, given, "--allow-changes")
        assert given.partition("=")[0] in line
        assert "another study" in line
        assert not Path("runs/toy/study.db.recovered").exists()
    assert "study.trials" in refused(capsys, "resume", "toy", "study.trials=2", "toy.momentum=0.1", "--allow-changes")
    assert gone_on(trials=ALL) == whole


def change_noted_code(part, name, value):
    with sqlite3.connect("runs/toy/study.db") as database:
        ((text,),) = database.execute("SELECT value_json FROM study_user_attributes WHERE key = 'code'")
        note = json.loads(text)
        note[part][name] = value
        database.execute("UPDATE study_user_attributes SET value_json = ? WHERE key = 'code'", [json.dumps(note)])
    for file in ("study.db.mark", "study.db.backup"):
        Path("runs/toy", file).unlink(missing_ok=True)


def test_another_revision_is_refused_and_may_be_allowed(whole, capsys):
    change_noted_code("revisions", "strategy random", 7)
    line = f"code: revision of strategy random was 7 and is now {RandomSearch.REVISION}"
    assert line in refused(capsys, *RESUME)
    goes_on(capsys, *RESUME, "--allow-changes")
    assert [change["changes"] for change in allowed_changes()] == [[line]]


def test_edits_of_the_toolkit_are_a_warning_a_note_and_a_caution(whole, capsys):
    change_noted_code("toolkit", "files", "0123")
    line = "toolkit: its files were edited (hash 0123, now "
    assert goes_on(capsys).count(f"warning: {line}") == 1
    (allowed,) = allowed_changes()
    assert (allowed["changes"][0].startswith(line), allowed["trials"]) == (True, FEW)
    assert any(line in caution for caution in json.loads(Path("runs/toy/report.json").read_text())["cautions"])
    assert rows(Path("runs/toy/trials.csv")) == whole
    assert "warning" not in goes_on(capsys, "resume", "toy", f"study.trials={ALL + 1}")


def test_another_version_of_a_library_is_a_warning_and_a_note(whole, capsys, monkeypatch):
    known = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: {"numpy": "0.1"}.get(name) or known(name))
    line = f"version: numpy was {known('numpy')} and is now 0.1"
    assert goes_on(capsys).count(f"warning: {line}") == 1
    assert [change["changes"] for change in allowed_changes()] == [[line]]


def test_code_of_an_own_trainer_is_refused_by_file_and_comments_and_docstrings_are_no_change(modules, capsys):
    Path("trainer.py").write_text(TRAINER)
    Path("beside.py").write_text("BEST = 3\n")
    run_toy(Path("runs/toy"), config(FEW, objective="trainer:run_fold"), LocalDispatcher(str(Path.cwd())))
    edit("trainer.py", "def run_fold(task):", 'def run_fold(task):\n    """Train."""')
    edit("beside.py", "BEST = 3", '"""What is best."""\n\nBEST = 3  # by experience')
    goes_on(capsys, "resume", "toy", f"study.trials={FEW + 1}")
    assert allowed_changes() == []
    edit("beside.py", "BEST = 3", "BEST = 2")
    assert "code: beside.py was " in refused(capsys, *RESUME)
    goes_on(capsys, *RESUME, "--allow-changes")
    (allowed,) = allowed_changes()
    assert allowed["changes"][0].startswith("code: beside.py was ")
    assert len(rows(Path("runs/toy/trials.csv"))) == ALL


def test_a_data_file_that_changed_is_refused_by_fingerprint(capsys):
    scores = [f"{layers},{width},{layers * width}" for layers in range(1, 5) for width in (8, 16, 32)]
    Path("table.csv").write_text("\n".join(["layers,width,score", *scores]) + "\n")
    search = ("search", "data=table", "data.path=table.csv", "data.metric=score", "study.name=toy", "dispatch=local")
    assert command(capsys, *search, "track=none", "report.figures=false", "study.trials=3")[0] == 0
    edit("table.csv", "4,32,128", "4,32,129")
    assert "data: table.csv was " in refused(capsys, *RESUME)
    goes_on(capsys, *RESUME, "--allow-changes")
    assert allowed_changes()[0]["changes"][0].startswith("data: table.csv was ")


def test_a_workers_copy_of_the_data_that_changed_is_written_anew(caplog):
    tree = config(3, objective="toy_stored:run_fold")
    whole = run_toy(Path("whole"), tree)
    run_toy(Path("runs/toy"), tree | {"study": tree["study"] | {"trials": 1}})
    edit("runs/toy/data/examples.json", "[0, 14", "[1, 14")
    assert run_toy(Path("runs/toy"), tree) == whole
    assert "the workers' copy of the data was changed" in caplog.text


def by_lr(factor=1):
    """Return a function that no module has."""
    return lambda given: factor * given["lr"]


@pytest.fixture(scope="module")
def called(tmp_path_factory):
    folder = tmp_path_factory.mktemp("called")
    with contextlib.chdir(folder):
        hpo.search(by_lr(), LR, name="train", progress=False, **CALL)
    return folder


@pytest.mark.parametrize(("given", "words"), [
    ({"space": {"lr": (0.0, 0.5)}}, "space.lr was log 1e-05 to 0.01 and is now 0.0 to 0.5; choose another name="),
    ({"space": {**LR, "net": {"act": ["relu"]}}}, "space.net.act was missing and is now ['relu']; choose"),
    ({"strategy": "tpe"}, "strategy= was 'random' and is now 'tpe'; choose another name="),
    ({"seed": 7}, "seed= was 0 and is now 7"), ({"score": "last"}, "score= was 'best' and is now 'last'"),
    ({"objective": by_lr(2)}, "its start: the function changed (its code, or a value that it uses); undo")
])  # fmt: skip
def test_a_changed_call_from_python_says_what_changed_as_it_is_typed(called, given, words):
    shutil.copytree(called / "runs", "runs")
    with pytest.raises(hpo.HpoError) as refusal:
        hpo.search(**{"objective": by_lr(), "space": LR, "name": "train", "progress": False, **CALL, **given})
    assert words in str(refusal.value)


def test_a_changed_function_and_changed_data_continue_a_study_where_that_is_allowed():
    def scores(factor, trials):
        study = hpo.search(
            lambda config, trial: factor * trial.data.sum(), LR, data=np.full(20, factor), allow_changes=True, folds=1,
            **CALL | {"trials": trials, "name": "goes_on", "progress": False},
        )  # fmt: skip
        return [*(study.trials["score"] / study.trials["score"][0])], (study.folder / "report.md").read_text()

    assert scores(1.0, 2)[0] == [1, 1]
    again, report = scores(2.0, 3)
    assert (again, "the function changed" in report, "data: train was" in report) == ([1, 1, 4], True, True)


def test_a_new_study_without_a_name_says_what_changed(capsys):
    def searched(space, factor=2, **given):
        return hpo.search(by_lr(factor), space, **CALL, **given).name, capsys.readouterr().out

    name, out = searched(LR)
    assert "a new study" not in out
    more = {"lr": [1, 2, 3], "gamma": (0.0, 1.0)}
    second, out = searched(more)
    assert f"a new study, {second}: space.lr, space.gamma changed" in out
    assert searched(LR)[0] == name != second
    changed = {"strategy": "evolutionary", "metric": "loss", "seed": 1, "score": "last"}
    assert ": strategy=, seed=, metric= and 1 more changed" in searched(more, **changed)[1]
    assert ": objective (its code, or a value that it uses) changed" in searched(more, factor=3)[1]
    assert "a new study" not in searched({"lr": [1, 2]}, progress=False)[1]


def test_a_function_from_python_is_read_again_from_its_study_alone(capsys):
    def train(config, trial):
        return config["lr"] + trial.seed % 7

    study = found(train, trials=2)
    study.report(title="why?")
    report = json.loads((study.folder / "report.json").read_text())
    assert report["study"]["title"] == "why?"
    assert any("was given from Python and is stored in objective.pkl" in caution for caution in report["cautions"])
    assert command(capsys, *shlex.split(report["study"]["rerun"])[1:], "dispatch=local", "track=none")[0] == 0
    again = study.reproduce("all").table
    assert (again["recorded"] == again["reproduced"]).all()
    refuses("start a study from Python", hpo.search, StudyFolder(study.folder).config().to_dict(), name="other")
    (study.folder / "objective.pkl").unlink()
    refuses("was given from Python and is stored only in its study's folder", study.resume, 5, progress=False)


def test_a_function_that_was_not_pickled_here_is_not_read():
    study = found(by_lr(), trials=1)
    path = study.folder / "objective.pkl"
    path.write_bytes(path.read_bytes().replace(b"lr", b"lx"))
    for use in (lambda: hpo.load(study.name).best, lambda: hpo.load(study.name).reproduce()):
        refuses(r"have not run or trusted this study|was not made on this machine", use)


def test_once_the_code_of_failed_trials_has_changed_it_says_how_to_train_them_again(modules, capsys):
    Path("mine.py").write_text("def train(config):\n    assert config['lr'] < 0.5\n    return config['lr']\n")
    space = {"lr": [0.1, 0.2, 0.6, 0.7]}
    hpo.search("mine:train", space, strategy="grid", direction="maximize", name="m", settings=HERE, progress=False)
    edit("mine.py", "    assert config['lr'] < 0.5\n", "")
    printed = "".join(command(capsys, "resume", "m", "--allow-changes")[1:])
    assert "2 trials failed before the configuration, data or code changed; retry them with `hpo retry m`" in printed
