"""A study's status, as readers see it, from its start: who runs it, how far it is, what is wrong with its files."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

import hpo as toolkit
from hpo.errors import DispatchError, StudyError
from hpo.session import session
from hpo.study.files.status import read_running, read_status
from hpo.study.view.one_trial import read_trial
from hpo.study.view.reader import StudyReader, open_reader
from tests.hpo.cli.commands import hpo, printed, refused
from tests.hpo.commands.searched import found
from tests.studies import REPOSITORY, StudyFolder, StudyRun, refuses

KEPT = REPOSITORY / "tests/end_to_end/kept/0.1.0"
STATUS = b'{"format": 1, "name": "x", "state": '


def contents(folder):
    """Return all files of a folder by name, without the log's index, in which SQLite notes its readers."""
    paths = [path for path in Path(folder).rglob("*") if path.name != "study.db-shm"]
    return {str(path): (path.stat().st_mtime_ns, path.is_file() and path.read_bytes()) for path in paths}


def read_everything(folder):
    study, before = StudyFolder(Path(folder)), contents(folder)
    status, trials = read_status(study), StudyRun.read(study).trials
    read_running(study)
    assert contents(folder) == before
    return status, trials


def counts_of(study):
    study.report()
    counts = json.loads((study.folder / "report.json").read_text())["counts"]
    return {name: counts[name] for name in ("running", "interrupted") if name in counts}


def test_after_a_signal_it_is_interrupted():
    def train(config, trial):
        if trial.number == 2:
            os.kill(os.getpid(), signal.SIGTERM)
            trial.report(loss=1.0)
        return config["lr"]

    with pytest.raises(KeyboardInterrupt):
        found(train)
    status, _ = read_everything("runs/train")
    assert (status.state, status.done, status.trials["running"], status.holder) == ("interrupted", 2, 1, None)
    assert counts_of(toolkit.load("train")) == {"running": 0, "interrupted": 1}
    assert "running 0, interrupted 1." in Path("runs/train/report.md").read_text()
    Path("runs/train/status.json").unlink()
    derived, _ = read_everything("runs/train")
    assert (derived.state, derived.done, derived.trials) == (status.state, status.done, status.trials)


def test_a_trial_that_is_trained_elsewhere_is_not_interrupted():
    given = {"direction": "maximize", "trials": 2, "settings": {"track": "none"}}
    with toolkit.open({"lr": (0.1, 1.0)}, name="lab", **given) as session:
        session.ask()
    assert (read_everything("runs/lab")[0].state, counts_of(toolkit.load("lab"))) == ("open", {"running": 1})
    assert read_trial(StudyReader(StudyFolder(Path("runs/lab")), "lab"), 0).state == "running"


@pytest.mark.slow
def test_after_a_fault_it_says_which(monkeypatch):
    def fail(*_):
        raise OSError("no memory")

    monkeypatch.setattr("hpo.session.session.make_final_model", fail)
    with pytest.raises(OSError, match="no memory"):
        found(lambda config: config["lr"], name="toy", trials=2)
    status, _ = read_everything("runs/toy")
    assert (status.state, status.error, status.done, status.words) == ("failed", "no memory", 2, "failed: no memory")
    counts = json.loads(Path("runs/toy/report.json").read_text())["counts"]
    assert counts["proposed"] == 2, "the search is reported"


@pytest.fixture
def kept(tmp_path):
    return shutil.copytree(KEPT, tmp_path / "clock")


def test_one_whose_status_was_removed_is_derived(kept):
    (kept / "status.json").unlink()
    status, _ = read_everything(kept)
    report = json.loads((kept / "report.json").read_text())
    assert (status.state, status.done) == ("ended", report["counts"]["proposed"])
    assert (status.best, status.score) == (report["winner"]["number"], pytest.approx(report["winner"]["score"]))
    (kept / "report.json").unlink()
    status, _ = read_everything(kept)
    assert (status.state, status.trials["complete"]) == ("interrupted", report["counts"]["complete"])


@pytest.mark.parametrize("content", [
    *(b"", b"running", b"\xff\xfe\x00", b"[]", b'{"format": 1, "status": "ok"}', STATUS + b'"well"}'),
    *(STATUS + b'"ended", "done": "many"}', STATUS + b'"ended", "minutes": NaN}'),
])  # fmt: skip
def test_a_foreign_status_is_named_and_a_foreign_report_or_list_of_running_tasks_is_ignored(kept, content):
    folder = StudyFolder(kept)
    folder.running_path.write_bytes(content)
    with folder.lock():
        assert read_running(folder) == []
    (kept / "report.json").write_bytes(content)
    read_status(folder)
    (kept / "status.json").write_bytes(content)
    status = read_status(folder)
    assert (status.state, "status.json" in status.error, "\n" in status.error) == ("unreadable", True, False)
    assert "; remove the file" in status.error, "without it the status is as good as before"


def test_what_is_no_study_is_unreadable(kept, tmp_path):
    (kept / "status.json").unlink()
    (kept / "report.json").unlink()
    (kept / "study.db").write_bytes(b"no database")
    assert "study.db" in read_status(StudyFolder(kept)).error
    (kept / "config.yaml").write_text("a: 1\n")
    assert read_status(StudyFolder(kept)).state == "unreadable"
    os.mkfifo(kept / "status.json")
    assert "pipe" in read_status(StudyFolder(kept)).error
    (kept / "status.json").unlink()
    (kept / "status.json").mkdir()
    assert read_status(StudyFolder(kept)).state == "unreadable"
    assert read_status(StudyFolder(tmp_path / "nothing")).state == "unreadable"


def test_a_study_without_its_record_says_what_to_do(toy):
    (toy.path / "study.db").unlink()
    toy.trials_path.write_text("number,state,score\nfirst,complete,1\n")
    refuses(StudyError, r"record: runs/toy has no valid record \(.*'first'.*\); restore its files", StudyRun.read, toy)
    toy.trials_path.unlink()
    refuses(StudyError, r"study\.db is missing; `hpo resume toy` restores the record from", StudyRun.read, toy)


def test_it_is_shown_listed_and_followed(capsys, monkeypatch):
    make, followed = session.make_dispatcher, []
    monkeypatch.setattr("hpo.study.view.reader.StudyReader.seconds", 0.0)
    monkeypatch.setattr(session, "make_dispatcher", lambda *given: (view_it(), make(*given))[1])

    def view_it():
        assert "mine: starting since " in hpo(capsys, "show", "mine")[1]
        shown, _ = printed(capsys, "show", "mine")
        assert (shown["state"], shown["phase"], shown["fault"]) == ("running", "starting", None)
        assert "is just starting" in refused(capsys, "show", "mine", "--trial", "0", is_silent=True)
        assert f"process {os.getpid()} on" in refused(capsys, "stop", "mine", is_silent=True)
        (listed,) = printed(capsys, "list")[0]["studies"]
        assert (listed["study"], listed["state"], listed["process"]["process"]) == ("mine", "running", os.getpid())
        with open_reader("mine") as view:
            followed.append(view.follow())
        assert next(followed[0]).status.phase == "starting"

    found(lambda config: 1.0, space={"lr": [0.1, 0.5]}, trials=2, name="mine")
    (last,) = followed[0]
    assert (last.status.state, last.status.done) == ("ended", 2)


def test_a_study_that_is_never_created_leaves_nothing_and_is_no_longer_followed(monkeypatch):
    followed = []

    def fail(*_):
        with open_reader("mine") as view:
            followed.append(view.follow())
        assert next(followed[0]).status.phase == "starting"
        raise DispatchError("no workers")

    monkeypatch.setattr("hpo.study.view.reader.StudyReader.seconds", 0.0)
    monkeypatch.setattr(session, "make_dispatcher", fail)
    with pytest.raises(DispatchError):
        found(lambda config: 1.0, name="mine")
    assert not Path("runs").exists()
    refuses(StudyError, "'mine' was not created: the process that was starting it has ended", next, followed[0])


def test_a_running_comparison_is_not_listed_as_a_starting_study(capsys):
    folder = StudyFolder(Path("runs/compare-two"))
    folder.make()
    (folder.path / "comparison.yaml").write_text("")
    with folder.lock():
        assert printed(capsys, "list")[0]["studies"] == []
        for command in (("show",), ("watch", "--wait", "0.1")):
            assert "runs a comparison there, or is still" in refused(capsys, *command, "compare-two", is_silent=True)
