"""A study's status, as those read it who only look on: whose it is, how far it is, and what is left of it."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hpo
from hpo.commands.show import studies
from hpo.errors import StudyError
from hpo.show.page.reading import PageReader
from hpo.study.files.folder import StudyFolder
from hpo.study.files.status import Status, read_running, read_status
from hpo.study.opening import read_study
from hpo.study.preparing.preparation import known_study
from hpo.study.results.run import StudyRun
from hpo.study.view.one_trial import read_trial
from hpo.study.view.reader import StudyReader
from tests.hpo.commands.searched import found
from tests.studies import environment

KEPT = Path(__file__).parents[2] / "end_to_end" / "kept" / "0.1.0"
PUBLISHED = Path(__file__).parents[3] / "studies" / "digits_grid"


def contents(folder):
    """Return what lies in a folder, by name, but for the log's index, in which SQLite notes who reads."""
    paths = [path for path in Path(folder).rglob("*") if path.name != "study.db-shm"]
    return {str(path): (path.stat().st_mtime_ns, path.is_file() and path.read_bytes()) for path in paths}


def looked(folder):
    """Look at a study in every way, which has to leave it as it is; return its status and its trials."""
    study, before = StudyFolder(Path(folder)), contents(folder)
    status, trials = read_status(study), StudyRun.read(study).trials
    read_running(study)
    assert contents(folder) == before
    return status, trials


def counts_of(study):
    """Return what its report, written now, says of trials that are not finished."""
    study.report()
    counts = json.loads((study.folder / "report.json").read_text())["counts"]
    return {name: counts[name] for name in ("running", "interrupted") if name in counts}


def trains(config, trial):
    """In its third trial it notes how the study looks from elsewhere, and what a kill at that moment would leave."""
    if trial.number == 2:
        trial.report(epoch=1, score=2.5)
        deadline, folder = time.monotonic() + 20, StudyFolder(Path("runs/trains"))
        while not (tasks := [task for task in read_running(folder) if task.point]) and time.monotonic() < deadline:
            time.sleep(0.01)
        # Until the last write of the keeper's thread.
        time.sleep(0.2)
        status, seen = looked(folder.path)
        assert status.state == "running"
        assert [trial.state for trial in seen] == ["complete", "complete", "running"]
        Path("seen.json").write_text(json.dumps([status.model_dump(), [task.model_dump() for task in tasks]]))
        shutil.copytree(folder.path, "killed")
    return config["lr"]


@pytest.fixture
def ran(monkeypatch):
    """Run `trains` to its end; its status is written at once."""
    monkeypatch.setattr("hpo.session.status_writer.StatusWriter.seconds_between", 0.01)
    return found(trains, trials=4, direction="minimize")


def test_while_it_runs_at_its_end_and_what_a_kill_leaves(ran):
    during, (task,) = json.loads(Path("seen.json").read_text())
    assert (during["state"], during["phase"]) == ("running", "search")
    assert during["holder"]["process"] == os.getpid()
    assert (during["done"], during["budget"], during["trials"]["running"]) == (2, 4, 1)
    assert (task["trial"], task["worker"], task["point"], task["curve"]) == (
        2,
        0,
        {"epoch": 1, "score": 2.5},
        [[1, 2.5]],
    )

    status, trials = looked("runs/trains")
    best = min(trials, key=lambda trial: trial.loss)
    assert (status.state, status.ended_by, status.holder, status.phase) == ("ended", "trials", None, None)
    assert (status.done, status.trials) == (4, {"complete": 4, "failed": 0, "stopped": 0, "running": 0})
    assert (status.best, status.score) == (best.number, best.score)
    assert read_running(StudyFolder(Path("runs/trains"))) == []
    assert Path("runs/trains/driver.lock").read_text() == ""

    # Of a process that has died the number may be that of another, such as this one.
    killed = Path("killed/driver.lock").read_text()
    assert killed.startswith(f"process {os.getpid()} ")
    status, trials = looked("killed")
    assert (status.state, status.holder, status.done, status.phase) == ("interrupted", None, 2, None)
    assert [trial.state for trial in trials] == ["complete", "complete", "running"]
    assert read_running(StudyFolder(Path("killed"))) == []


def test_of_a_killed_search_the_record_is_read_for_every_look(ran):
    # The last status of a killed process may be seconds old.
    path = Path("killed/status.json")
    written = json.loads(path.read_text())
    before = {"done": 0, "best": None, "scores": {}, "texts": {"score": "of then"}, "trials": {}}
    path.write_text(json.dumps(written | before))
    best = min(trial.score for trial in looked("killed")[1] if trial.score is not None)
    shutil.copytree("killed", "runs/killed")
    (listed,) = studies(Path("runs"), "name=killed").studies
    views = [
        StudyReader(StudyFolder(Path("killed")), "killed").snapshot().status,
        PageReader(StudyFolder(Path("killed"))).read().snapshot.status,
    ]
    for status in views:
        assert (status.state, status.done, status.score, status.texts) == ("interrupted", 2, best, {})
    for view in (listed, hpo.load("killed").status):
        assert (view.state, view.done, view.best.score) == ("interrupted", 2, best)


def test_after_a_signal_it_is_interrupted():
    def train(config, trial):
        if trial.number == 2:
            os.kill(os.getpid(), signal.SIGTERM)
            trial.report(loss=1.0)
        return config["lr"]

    with pytest.raises(KeyboardInterrupt):
        found(train)
    status, _ = looked("runs/train")
    assert (status.state, status.done, status.trials["running"], status.holder) == ("interrupted", 2, 1, None)
    # Its report tells of no training that nobody does.
    assert counts_of(hpo.load("train")) == {"running": 0, "interrupted": 1}
    assert "running 0, interrupted 1." in Path("runs/train/report.md").read_text()
    Path("runs/train/status.json").unlink()
    derived, _ = looked("runs/train")
    assert (derived.state, derived.done, derived.trials) == (status.state, status.done, status.trials)


def test_a_trial_that_is_trained_elsewhere_is_not_interrupted():
    with hpo.open(
        {"lr": (0.1, 1.0)}, name="lab", direction="maximize", trials=2, settings={"track": "none"}
    ) as session:
        session.ask()
    assert looked("runs/lab")[0].state == "open"
    assert counts_of(hpo.load("lab")) == {"running": 1}
    assert read_trial(StudyReader(StudyFolder(Path("runs/lab")), "lab"), 0).state == "running"


def test_after_a_fault_it_says_which(monkeypatch):
    def fail(*_):
        raise OSError("no memory")

    monkeypatch.setattr("hpo.session.session.make_final_model", fail)
    with pytest.raises(OSError, match="no memory"):
        found(lambda config: config["lr"], name="toy", trials=2)
    status, _ = looked("runs/toy")
    assert (status.state, status.error, status.done) == ("failed", "no memory", 2)
    assert status.words == "failed: no memory"


@pytest.mark.slow
def test_after_a_kill_it_is_interrupted():
    code = """
import os, time, hpo
def train(config, trial):
    if trial.number == 2:
        print("there", flush=True)
        time.sleep(60)
    return config["lr"]
hpo.search(train, {"lr": (0.1, 1.0)}, trials=4, direction="minimize", progress=False,
           settings={"dispatch": "local", "track": "none"})
"""
    driver = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment())
    assert driver.stdout.readline() == "there\n"
    during, _ = looked("runs/train")
    assert (during.state, during.holder.process) == ("running", driver.pid)
    assert counts_of(hpo.load("train")) == {"running": 1}
    driver.kill()
    driver.communicate()
    status, trials = looked("runs/train")
    assert (status.state, status.holder, len(trials)) == ("interrupted", None, 3)
    assert counts_of(hpo.load("train")) == {"running": 0, "interrupted": 1}


def test_one_whose_status_was_removed_is_derived_and_read_as_by_optuna(tmp_path):
    folder = shutil.copytree(KEPT, tmp_path / "kept")
    (folder / "status.json").unlink()
    status, _ = looked(folder)
    report = json.loads((folder / "report.json").read_text())
    assert (status.state, status.done) == ("ended", report["counts"]["proposed"])
    assert (status.best, status.score) == (report["winner"]["number"], pytest.approx(report["winner"]["score"]))
    (folder / "report.json").unlink()
    status, _ = looked(folder)
    assert (status.state, status.trials["complete"]) == ("interrupted", report["counts"]["complete"])
    study = known_study(str(folder))
    record = read_study(study)
    assert record.trials() == StudyRun.read(StudyFolder(folder)).record.trials()
    record.close()


def test_one_that_was_published_is_derived():
    status, trials = looked(PUBLISHED)
    best = max(trials, key=lambda trial: trial.score)
    assert (status.state, status.budget, len(trials)) == ("ended", 24, 24)
    assert (status.best, status.score) == (best.number, pytest.approx(best.score))
    assert status.test["accuracy"] == json.loads((PUBLISHED / "test.json").read_text())["metrics"]["accuracy"]


FOREIGN = {
    "nothing": b"",
    "no JSON": b"running",
    "no text": b"\xff\xfe\x00",
    "a list": b"[]",
    "another program's": b'{"format": 1, "status": "ok"}',
    "no such state": b'{"format": 1, "name": "x", "state": "well"}',
    "a text for a number": b'{"format": 1, "name": "x", "state": "ended", "done": "many"}',
    "no number": b'{"format": 1, "name": "x", "state": "ended", "minutes": NaN}',
}


@pytest.mark.parametrize("name", ["status.json", "report.json"])
@pytest.mark.parametrize("case", FOREIGN)
def test_a_foreign_file_is_named_or_ignored(tmp_path, name, case):
    folder = shutil.copytree(KEPT, tmp_path / "clock")
    (folder / name).write_bytes(FOREIGN[case])
    status = read_status(StudyFolder(folder))
    assert status.state == "unreadable" or name == "report.json"
    assert status.state != "unreadable" or (name in status.error and "\n" not in status.error)
    # Without it the status is as good as before.
    assert status.state != "unreadable" or name == "report.json" or "; remove it: " in status.error


@pytest.mark.parametrize("case", FOREIGN)
def test_foreign_words_on_what_runs_are_ignored(tmp_path, case):
    folder = StudyFolder(shutil.copytree(KEPT, tmp_path / "clock"))
    folder.running_path.write_bytes(FOREIGN[case])
    with folder.lock():
        assert read_running(folder) == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["mean", "missing", "a"]), inner, max_size=2)
    ),
    max_leaves=4,
)
REPORTED = (
    "study",
    "winner",
    "counts",
    "data",
    "cost",
    "cautions",
    "study.ended",
    "winner.number",
    "winner.scores",
    "counts.complete",
)


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    status=st.dictionaries(st.sampled_from([*Status.model_fields]), JSON, max_size=3) | JSON,
    report=st.dictionaries(st.sampled_from(REPORTED), JSON, max_size=3) | JSON,
    test=st.dictionaries(st.just("metrics"), JSON) | JSON,
    row=st.lists(st.text(st.characters(codec="utf-8"), max_size=4), min_size=14, max_size=14),
)
def test_whatever_lies_there_nothing_but_a_line_comes_of_it(tmp_path, status, report, test, row):
    folder = tmp_path / "clock"
    shutil.copytree(PUBLISHED, folder, dirs_exist_ok=True)
    there = json.loads((folder / "report.json").read_text())
    for key, value in report.items() if isinstance(report, dict) else ():
        *above, last = key.split(".")
        part = there[above[0]] if above else there
        if isinstance(part, dict):
            part[last] = value
    header, *rows = (folder / "trials.csv").read_text().splitlines()
    (folder / "trials.csv").write_text("\n".join([header, ",".join(row), *rows]))
    for name, values in {"report.json": there if isinstance(report, dict) else report, "test.json": test}.items():
        (folder / name).write_text(json.dumps(values))
    for is_written in (False, True):
        if is_written:
            (folder / "status.json").write_text(json.dumps(status))
        assert "\n" not in (read_status(StudyFolder(folder)).error or "")
        with contextlib.suppress(hpo.HpoError):
            StudyReader(StudyFolder(folder), "clock").view().to_dict()
    (folder / "status.json").unlink()


def test_what_is_no_study_is_unreadable(tmp_path):
    folder = shutil.copytree(KEPT, tmp_path / "clock")
    (folder / "status.json").unlink()
    report = json.loads((folder / "report.json").read_text())
    for change in (
        {"counts": {"complete": "four"}},
        {"winner": {"number": "best"}},
        {"winner": {"number": 0, "scores": 1}},
    ):
        (folder / "report.json").write_text(json.dumps(report | change))
        assert read_status(StudyFolder(folder)).state in ("unreadable", "ended")
    (folder / "config.yaml").write_text("a: 1\n")
    assert read_status(StudyFolder(folder)).state == "unreadable"
    (folder / "report.json").unlink()
    shutil.copyfile(KEPT / "config.yaml", folder / "config.yaml")
    (folder / "study.db").write_bytes(b"no database")
    assert "study.db" in read_status(StudyFolder(folder)).error
    assert read_status(StudyFolder(tmp_path / "nothing")).state == "unreadable"
    (folder / "status.json").mkdir()
    assert read_status(StudyFolder(folder)).state == "unreadable"
    os.mkfifo(tmp_path / "pipe")
    shutil.rmtree(folder / "status.json")
    (tmp_path / "pipe").rename(folder / "status.json")
    assert "pipe" in read_status(StudyFolder(folder)).error


def test_a_folder_without_rights_is_unreadable(tmp_path):
    folder = shutil.copytree(KEPT, tmp_path / "clock")
    folder.chmod(0o000)
    try:
        # Who may read everything reads it.
        assert read_status(StudyFolder(folder)).state == ("ended" if os.geteuid() == 0 else "unreadable")
    finally:
        folder.chmod(0o700)


def test_a_lock_in_the_place_of_which_something_else_lies_is_held_by_nobody(tmp_path):
    study = shutil.copytree(KEPT, tmp_path / "clock")
    lock = study / "driver.lock"
    for make in (lock.mkdir, lambda: os.mkfifo(lock), lambda: lock.symlink_to("/etc/passwd")):
        make()
        assert read_status(StudyFolder(study)).holder is None
        lock.rmdir() if lock.is_dir() else lock.unlink()


def test_a_study_without_its_record_says_what_to_do(toy):
    for name in ("study.db", "trials.csv"):
        (toy.path / name).unlink()
    with pytest.raises(StudyError, match=r"study\.db is missing; `hpo resume toy` replaces it by its backup"):
        StudyRun.read(toy)
