"""What a study rests on has changed before it goes on: refused with the difference, or allowed and written down."""

import importlib.metadata
import json
import os
import shutil
import signal
import sqlite3
import sys
from pathlib import Path

import pytest
import yaml

from hpo.engine import loop
from hpo.engine.strategies import STRATEGIES
from hpo.engine.strategies.random import RandomSearch
from hpo.study.basis.source_code import describe_code
from hpo.study.files.folder import StudyFolder
from hpo.study.opening import code_of
from hpo.workers.dispatch.local import LocalDispatcher
from hpo.workers.objective.objective import Objective
from hpo.workers.objective.resolution import resolve
from model import objective as model_objective
from tests.faults.driver import finished, gone_on, start, wait_for_line
from tests.faults.driver import hpo as hpo_apart
from tests.hpo.cli.commands import hpo, refused
from tests.studies import SPACES, prepared, rows, run_toy, searched_by, toy_config

FEW, ALL = 4, 9
TRAINER = """
import beside

def run_fold(task):
    return {"score": -abs(task["config"]["toy"]["layers"] - beside.BEST) - task["config"]["toy"]["lr"]}
"""

SLOWLY = """
import os, pathlib, time

def run(config):
    pathlib.Path("process").write_text(str(os.getpid()))
    time.sleep(0.5)
    return {"score": config["lr"]}
"""


def edit(path, old, new):
    text = Path(path).read_text()
    assert old in text
    Path(path).write_text(text.replace(old, new))


def forget(*modules):
    """Let the next command import the modules of the working directory as a new process would."""
    for name in modules:
        sys.modules.pop(name, None)
    importlib.invalidate_caches()
    shutil.rmtree("__pycache__", ignore_errors=True)


@pytest.fixture(scope="module")
def toys(tmp_path_factory):
    """A folder with a study that has come half way, `begun`, and the rows of the same one that nothing disturbed."""
    folder = tmp_path_factory.mktemp("toys")
    run_toy(folder / "begun", toy_config(trials=FEW))
    return folder, run_toy(folder / "whole", toy_config(trials=ALL))


@pytest.fixture
def begun(toys):
    """Put the study that has come half way into runs/toy."""
    shutil.copytree(toys[0] / "begun", "runs/toy")


@pytest.fixture
def whole(toys):
    return toys[1]


@pytest.fixture
def own_trainer(monkeypatch):
    """A study in runs/toy of a trainer in the working directory, with a module beside it."""
    monkeypatch.syspath_prepend(str(Path.cwd()))
    Path("trainer.py").write_text(TRAINER)
    Path("beside.py").write_text("BEST = 3\n")
    forget("trainer", "beside")
    config = toy_config(trials=FEW, objective="trainer:run_fold")
    run_toy(Path("runs/toy"), config, LocalDispatcher(str(Path.cwd())))
    yield
    forget("trainer", "beside")


def allowed_changes():
    return json.loads(Path("runs/toy/report.json").read_text())["study"]["allowed_changes"]


@pytest.mark.slow
def test_an_edited_configuration_is_refused_by_every_command_that_would_use_it(begun, whole, capsys):
    edit("runs/toy/config.yaml", "momentum: 0.5", "momentum: 0.25")
    line = refused(capsys, "resume", "toy", f"study.trials={ALL}")
    assert "toy.momentum was 0.5 and is now 0.25" in line
    assert "hpo resume toy --allow-changes" in line
    for command in ("report", "test"):
        assert "toy.momentum was 0.5 and is now 0.25" in refused(capsys, command, "toy")
    edit("runs/toy/config.yaml", "momentum: 0.25", "momentum: 0.5")
    assert gone_on(trials=ALL) == whole


def test_what_is_allowed_is_noted_once_with_its_time_and_stands_in_the_report(begun, capsys):
    edit("runs/toy/config.yaml", "momentum: 0.5", "momentum: 0.25")
    assert hpo(capsys, "resume", "toy", "study.trials=5", "--allow-changes")[0] == 0
    (allowed,) = allowed_changes()
    assert allowed["changes"] == ["config: toy.momentum was 0.5 and is now 0.25"]
    assert "T" in allowed["time"]
    assert "toy.momentum was 0.5 and is now 0.25" in Path("runs/toy/report.md").read_text()
    # From now on that is what it rests on.
    assert hpo(capsys, "resume", "toy", "study.trials=6")[0] == 0
    assert len(allowed_changes()) == 1


@pytest.mark.slow
def test_every_trial_keeps_the_configuration_that_it_was_trained_with(begun, capsys):
    """The winner is from before the change, which makes every later trial worse."""
    edit("runs/toy/config.yaml", "momentum: 0.5", "momentum: -100.0")
    assert hpo(capsys, "resume", "toy", "study.trials=6", "study.finalists=2", "--allow-changes")[0] == 0
    winner = json.loads(Path("runs/toy/report.json").read_text())["winner"]
    assert winner["number"] < FEW
    assert yaml.safe_load(Path("runs/toy/best.yaml").read_text())["toy"]["momentum"] == 0.5
    for which in ("best", "all"):
        code, out, err = hpo(capsys, "reproduce", "toy", "--trial", which)
        assert code == 0, out + err
        assert f"allowed after {FEW} trials: config: toy.momentum was 0.5 and is now -100.0" in out


@pytest.mark.slow
def test_a_search_in_two_parts_is_not_replayed_as_one(begun, capsys):
    assert hpo(capsys, "resume", "toy", "study.trials=6", "toy.momentum=0.1", "--allow-changes")[0] == 0
    assert f"its configuration changed after {FEW} trials" in refused(capsys, "search", "--replay", "toy")


@pytest.mark.slow
def test_a_budget_below_what_is_there_is_refused_before_anything_is_noted(begun, whole, capsys):
    before = Path("runs/toy/config.yaml").read_bytes()
    assert "study.trials" in refused(capsys, "resume", "toy", "study.trials=2", "toy.momentum=0.1", "--allow-changes")
    assert Path("runs/toy/config.yaml").read_bytes() == before
    assert gone_on(trials=ALL) == whole


@pytest.mark.slow
def test_what_would_make_it_another_study_is_refused_even_so(begun, capsys):
    for given in ("study.seed=1", "study.direction=minimize", "strategy.round_size=6", "split.test_fraction=0.2"):
        line = refused(capsys, "resume", "toy", f"study.trials={ALL}", given, "--allow-changes")
        assert given.partition("=")[0] in line
        assert "another study" in line


@pytest.mark.slow
def test_budget_and_workers_are_no_changes(begun, whole, capsys):
    tree = StudyFolder(Path("runs/toy")).config().to_dict()
    tree["study"]["trials"] = ALL
    tree["dispatch"]["retries"] = 5
    Path("runs/toy/config.yaml").write_text(yaml.safe_dump(tree, sort_keys=False))
    assert gone_on() == whole


def change_noted_code(part, name, value):
    """Write one value into the note of the code."""
    with sqlite3.connect("runs/toy/study.db") as database:
        ((text,),) = database.execute("SELECT value_json FROM study_user_attributes WHERE key = 'code'")
        note = json.loads(text)
        note[part][name] = value
        database.execute("UPDATE study_user_attributes SET value_json = ? WHERE key = 'code'", [json.dumps(note)])
    for name in ("study.db.mark", "study.db.backup"):
        Path("runs/toy", name).unlink(missing_ok=True)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "now"), [("search", loop.REVISION), ("strategy random", RandomSearch.REVISION)])
def test_another_revision_is_refused_in_words_and_may_be_allowed(begun, capsys, name, now):
    change_noted_code("revisions", name, 7)
    line = f"code: revision of {name} was 7 and is now {now}"
    assert line in refused(capsys, "resume", "toy", f"study.trials={ALL}")
    assert hpo(capsys, "resume", "toy", f"study.trials={ALL}", "--allow-changes")[0] == 0
    assert [change["changes"] for change in allowed_changes()] == [[line]]


def test_an_edited_toolkit_goes_on_and_is_said_noted_and_a_caution(begun, whole, capsys):
    """Nothing that its revisions cover has changed, or the tests of those fail; who resumes is told all the same."""
    change_noted_code("toolkit", "files", "0123")
    code, _, err = hpo(capsys, "resume", "toy", f"study.trials={ALL}")
    line = "toolkit: its files were edited (hash 0123, now "
    assert (code, err.count(f"warning: {line}")) == (0, 1)
    (allowed,) = allowed_changes()
    assert (allowed["changes"][0].startswith(line), allowed["trials"]) == (True, FEW)
    assert any(line in caution for caution in json.loads(Path("runs/toy/report.json").read_text())["cautions"])
    assert rows(Path("runs/toy/trials.csv")) == whole
    assert "warning" not in hpo(capsys, "resume", "toy", f"study.trials={ALL + 1}")[2]


def test_the_search_its_strategies_and_an_objective_of_the_toolkit_are_noted_by_revision():
    """Of a ladder also the strategy of its first scale; of a user's own strategy none."""
    config = toy_config("ladder", searched_by("ladder", SPACES["mixed"]), objective="tests.toy:score")
    assert code_of(prepared(Path("ladder"), config)).revisions == {
        "search": loop.REVISION, "strategy ladder": 1, "strategy evolutionary": 2,
    }  # fmt: skip
    told = describe_code(resolve("model.objective:run_fold"), {"own": type("Own", (), {"__module__": "tests.toy"})})
    assert told.revisions == {"search": loop.REVISION, "objective model.objective": model_objective.REVISION}
    assert all(piece.endswith(" (strategy)") for piece in told.pieces)
    for name, (_, strategy) in STRATEGIES.items():
        assert isinstance(strategy.REVISION, int), name


@pytest.mark.quick("trainer.py-*")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "old", "new"), [("trainer.py", "- task", "- 2 * task"), ("beside.py", "BEST = 3", "BEST = 2")]
)
def test_code_of_an_own_trainer_or_beside_it_is_refused_by_file(own_trainer, capsys, file, old, new):
    edit(file, old, new)
    forget("trainer", "beside")
    line = refused(capsys, "resume", "toy", f"study.trials={ALL}")
    assert f"code: {file} was " in line
    assert hpo(capsys, "resume", "toy", f"study.trials={ALL}", "--allow-changes")[0] == 0
    (allowed,) = allowed_changes()
    assert allowed["changes"][0].startswith(f"code: {file} was ")
    assert len(rows(Path("runs/toy/trials.csv"))) == ALL


@pytest.mark.nightly
def test_a_search_stops_whose_code_changes_while_it_runs_and_goes_on_once_that_is_undone():
    """The worker that replaces another would import it; nothing of the budget is spent by other code."""
    Path("mine.py").write_text(SLOWLY)
    study = ("objective='mine:run(config)'", "+lr=0.1", "space=none", "+space.lr={low: 0.0, high: 1.0}")
    study = (*study, "study.name=toy", "study.metric=score", "study.trials=5", "track=none")
    driver = start("search", *study, "dispatch.workers=1")
    wait_for_line(driver, "2/5 ")
    edit("mine.py", '"score": ', '"score": 1000 + ')
    os.kill(int(Path("process").read_text()), signal.SIGKILL)
    _, err = driver.communicate(timeout=60)
    said = "mine.py has changed while the search runs: undo the change, or resume with --allow-changes"
    assert (driver.returncode, err.count("\n"), said in err, "`hpo resume toy`" in err) == (1, 1, True, True), err
    assert "code: mine.py was " in hpo_apart("resume", "toy")[2]
    edit("mine.py", '"score": 1000 + ', '"score": ')
    after = finished("resume", "toy")
    shutil.rmtree("runs")
    assert (finished("search", *study, "dispatch=local"), len(after)) == (after, 5)


@pytest.mark.slow
def test_words_about_an_own_trainer_are_no_change(own_trainer, capsys):
    edit("beside.py", "BEST = 3", '"""What is best."""\n\nBEST = 3  # by experience')
    edit("trainer.py", "def run_fold(task):", 'def run_fold(task):\n    """Train."""')
    forget("trainer", "beside")
    assert hpo(capsys, "resume", "toy", f"study.trials={ALL}")[0] == 0
    assert allowed_changes() == []


@pytest.mark.slow
def test_a_version_that_changed_is_told_and_stands_in_the_report(begun, capsys, monkeypatch):
    known = importlib.metadata.version
    other = {"numpy": "0.1"}
    monkeypatch.setattr(importlib.metadata, "version", lambda name: other.get(name) or known(name))
    line = f"version: numpy was {known('numpy')} and is now 0.1"
    code, _, err = hpo(capsys, "resume", "toy", f"study.trials={ALL}")
    assert (code, err.count(f"warning: {line}")) == (0, 1)
    (allowed,) = allowed_changes()
    assert allowed["changes"] == [line]


def test_a_data_file_that_changed_is_refused_by_fingerprint(capsys):
    scores = [f"{layers},{width},{layers * width}" for layers in range(1, 5) for width in (8, 16, 32)]
    Path("table.csv").write_text("\n".join(["layers,width,score", *scores]) + "\n")
    search = ("search", "data=table", "data.path=table.csv", "data.metric=score", "study.name=toy", "dispatch=local")
    assert hpo(capsys, *search, "track=none", "study.trials=3")[0] == 0
    edit("table.csv", "4,32,128", "4,32,129")
    line = refused(capsys, "resume", "toy", "study.trials=5")
    assert "data: part table.csv was " in line
    assert hpo(capsys, "resume", "toy", "study.trials=5", "--allow-changes")[0] == 0
    assert allowed_changes()[0]["changes"][0].startswith("data: part table.csv was ")


@pytest.mark.nightly
def test_a_workers_copy_of_the_data_that_changed_is_written_anew(caplog):
    tree = toy_config(trials=ALL, objective="tests.faults.stored:run_fold")
    whole = run_toy(Path("whole"), tree)
    few = tree | {"study": tree["study"] | {"trials": FEW}}
    run_toy(Path("runs/toy"), few)
    edit("runs/toy/data/examples.json", "[0, 14", "[1, 14")
    assert run_toy(Path("runs/toy"), tree) == whole
    assert "the workers' copy of the data was changed" in caplog.text


def test_code_is_described_whatever_lies_around_the_objective(monkeypatch, tmp_path):
    """A package beside it counts; a link that leads nowhere and a module of another Python do no harm."""
    folder = tmp_path / "own"
    (folder / "helpers").mkdir(parents=True)
    (folder / "helpers" / "inner.py").write_text("from math import pi as A\n")
    (folder / "helpers" / ".#inner.py").symlink_to("nobody@nowhere.1")
    (folder / "old.py").write_text("print 'hello'\n")
    (folder / "trainer.py").write_text(
        "import helpers.inner\ntry:\n    import old\nexcept SyntaxError:\n    old = None\n"
    )
    monkeypatch.syspath_prepend(str(folder))
    forget("trainer", "helpers", "old")
    importlib.import_module("trainer")
    before = describe_code(Objective("trainer:run_fold", print), {"random": RandomSearch}).pieces
    assert {"trainer.py", "old.py", "helpers/inner.py"} == before.keys()
    (folder / "helpers" / "inner.py").write_text("from math import e as A\n")
    after = describe_code(Objective("trainer:run_fold", print), {"random": RandomSearch}).pieces
    assert {name for name in before if before[name] != after[name]} == {"helpers/inner.py"}


def test_all_of_an_objectives_own_package_is_described(monkeypatch, tmp_path):
    files = {"ns/obj.py": "from .net import run\nfrom . import other\n", "ns/net.py": "def run(task): ...\n"}
    files |= {"ns/other.py": "A = 1\n"}
    for name, text in files.items():
        (tmp_path / "own" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "own" / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path / "own"))
    importlib.import_module("ns.obj")
    assert files.keys() <= describe_code(Objective("ns.obj:run", print), {"random": RandomSearch}).pieces.keys()
    forget("ns", "ns.obj", "ns.net", "ns.other", "trainer", "helpers", "helpers.inner", "old")
