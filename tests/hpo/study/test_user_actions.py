"""A user on a running search: what it asks is answered, written before it takes effect, and repeated by a replay."""

import os
import threading
import time
from contextlib import suppress
from dataclasses import replace

import pytest

from hpo.commands.steer import raise_budget
from hpo.commands.study import Study
from hpo.errors import HpoError, StudyError
from hpo.session.session import run_study, run_to_the_end
from hpo.session.stopping import Stopped
from hpo.session.user_requests import UserRequests
from hpo.show.display import Display
from hpo.study.files.folder import StudyFolder
from hpo.study.files.requests import Request, request
from hpo.study.files.status import Status, write_status
from hpo.study.opening import open_study
from hpo.study.reproduce.replay import read_actions, read_added
from hpo.workers.dispatch.local import LocalDispatcher
from tests.studies import REPOSITORY, prepared, report_again, rows, toy_config

POINT = {"toy.layers": 5, "toy.width": 64, "toy.lr": 0.1}
FEW, MORE = 4, 8
HAS_ASKED = threading.Event()


def slow(task):
    """Report six points, with time between them while a user asks."""
    for epoch in range(1, 7):
        HAS_ASKED.wait(0.3)
        yield {"epoch": epoch, "score": epoch * task["config"]["toy"]["lr"]}


class UserThread(threading.Thread):
    """Asks a study one thing after another while its search runs in the main thread; keeps what was answered."""

    def __init__(self, folder, *asks):
        super().__init__(daemon=True)
        self.study, self.asks, self.answers = Study(StudyFolder(folder)), asks, []

    def run(self):
        while self.study.status.state != "running" or not self.study.status.trials.get("running"):
            time.sleep(0.01)
        for ask in self.asks:
            try:
                answer = ask(self.study)
                self.answers.append(getattr(answer, "says", answer))
            except HpoError as error:
                self.answers.append(str(error))
        HAS_ASKED.set()


@pytest.fixture(autouse=True)
def _looks_at_once(monkeypatch):
    monkeypatch.setattr(UserRequests, "seconds_between", 0.0)


def run(folder, trials=FEW, *asks):
    """Run a study to its end, or until a user stops it, and return the answers."""
    asking = UserThread(folder, *asks)
    if asks:
        HAS_ASKED.clear()
        asking.start()
    else:
        HAS_ASKED.set()
    config = toy_config("evolutionary", trials=trials, objective=f"{__name__}:slow")
    with suppress(Stopped):
        run_to_the_end(prepared(folder, config), Display())
    if asks:
        asking.join(10)
    return asking.answers


def points(folder):
    return [{key: float(row[key]) for key in POINT} for row in rows(folder / "trials.csv")]


def again(folder, report, trials):
    """Run the search of a report again, as a replay does; return its rows."""
    study = prepared(folder, toy_config("evolutionary", trials=trials, objective=f"{__name__}:slow"))
    added = read_added(report["added_points"], study.space)
    record = open_study(replace(study, added=added, actions=read_actions(report["user_actions"])))
    run_study(study, record, LocalDispatcher(str(REPOSITORY)), None)
    record.close()
    return rows(study.folder.trials_path)


def test_what_it_asks_is_done_told_in_the_report_and_repeated(tmp_path):
    folder = tmp_path / "study"
    answers = run(
        folder,
        FEW,
        lambda study: study.stop(0),
        lambda study: study.add(POINT),
        lambda study: study.add(POINT),
        lambda study: study.add({"toy.lr": 9.0}),
        lambda study: study.stop(77),
        lambda study: request(StudyFolder(study.folder), "raise", {"trials": MORE}),
        lambda study: request(StudyFolder(study.folder), "raise", {"trials": 2}),
    )
    parts = ("stops now", "next", "already added", "range", "does not exist", f"of {MORE} trials are done", "larger")
    for answer, part in zip(answers, parts, strict=True):
        assert part in answer
    made = rows(folder / "trials.csv")
    config = toy_config("evolutionary", trials=MORE, objective=f"{__name__}:slow")
    assert prepared(folder, config).folder.config().study.trials == MORE
    assert [row["state"] for row in made].count("stopped") == 1
    assert made[0]["state"] == "stopped"
    assert len(made) == MORE
    assert points(folder).count(POINT) == 1
    report = report_again(folder, config, has_page=False).summary
    assert [act["do"] for act in report["user_actions"]] == ["stop_trial", "raise_budget"]
    assert again(tmp_path / "again", report, MORE) == made


def test_a_search_that_is_stopped_ends_with_its_running_trials_and_goes_on_later(tmp_path):
    folder = tmp_path / "study"
    (answer,) = run(folder, FEW, lambda study: study.stop())
    assert "no further trial" in answer
    status = Study(StudyFolder(folder)).status
    assert (status.state, status.process) == ("interrupted", None)
    assert status.trials["complete"] == 1, "the one that ran is trained to its end, and no other is begun"
    run(folder)
    straight = tmp_path / "straight"
    run(straight)
    assert rows(folder / "trials.csv") == rows(straight / "trials.csv")


def test_a_point_is_added_to_a_study_that_no_process_runs(tmp_path):
    folder = tmp_path / "study"
    run(folder)
    study = Study(StudyFolder(folder))
    answer = study.add(POINT)
    assert f"study.trials={FEW + 1}" in answer.says, "its budget is used up, so that going on alone tries nothing"
    with pytest.raises(StudyError, match="already added"):
        study.add(POINT)
    with pytest.raises(StudyError, match="not running, so there is nothing to stop"):
        study.stop()
    assert raise_budget(StudyFolder(study.folder), StudyFolder(study.folder).config()) is None
    run(folder, MORE)
    assert POINT in points(folder)


def test_a_request_to_a_search_that_ends_is_withdrawn(tmp_path):
    folder = StudyFolder(tmp_path / "study")
    run(folder.path)
    with pytest.raises(StudyError, match="has ended, so the request had no effect"):
        request(folder, "stop", {})
    # While what follows is trained, too.
    write_status(folder, Status(name="toy", state="running", phase="after the search"))
    with folder.lock(), pytest.raises(StudyError, match=rf"`hpo resume {folder} study.trials=9` .*, once process"):
        request(folder, "raise", {"trials": 9})
    assert not list(folder.requests_dir.iterdir())


def test_what_was_asked_of_a_killed_search_is_not_done_to_the_next(tmp_path):
    folder = StudyFolder(tmp_path / "study")
    run(folder.path)
    folder.requests_dir.mkdir(exist_ok=True)
    left = folder.requests_dir / "1-1.json"
    left.write_text(Request(do="stop", by="ada").model_dump_json())
    run(folder.path, FEW + 1)
    assert len(rows(folder.trials_path)) == FEW + 1
    assert not left.exists()


def test_answers_that_nobody_reads_go_as_the_study_is_run(tmp_path):
    folder = StudyFolder(tmp_path / "study")
    run(folder.path)
    folder.requests_dir.mkdir(exist_ok=True)
    unread, new = folder.requests_dir / "1-1.answer", folder.requests_dir / "2-2.answer"
    for answer in (unread, new):
        answer.write_text("{}")
    os.utime(unread, (0, 0))
    run(folder.path)
    assert [*folder.requests_dir.iterdir()] == [new], "it may be read yet"


def test_two_hands_at_once_are_both_obeyed(tmp_path):
    folder, other = tmp_path / "study", {**POINT, "toy.width": 8}
    second = UserThread(folder, lambda study: study.add(other), lambda study: study.add(POINT))
    second.start()
    first = run(folder, MORE, lambda study: study.add(POINT), lambda study: study.stop(0))
    second.join(10)
    tried = points(folder)
    assert (tried.count(POINT), tried.count(other)) == (1, 1)
    assert sum("already" in answer for answer in [*first, *second.answers]) == 1, "who came second is told so"


def test_what_follows_the_search_takes_nothing_but_a_stop_at_once(tmp_path):
    folder = StudyFolder(tmp_path / "study")
    study = Study(folder)
    with folder.lock():
        folder.config_path.touch()
        write_status(folder, Status(name="study", state="running", phase="after the search"))
        for ask in (study.stop, lambda: study.add(POINT), lambda: study.stop(3)):
            with pytest.raises(StudyError, match="its last trainings are running"):
                ask()
        assert not folder.requests_dir.exists()


def test_a_search_that_is_complete_when_a_stop_takes_effect_ends_as_complete(tmp_path):
    folder = tmp_path / "study"
    (answer,) = run(folder, 1, lambda study: study.stop())
    assert "no further trial" in answer
    status = Study(StudyFolder(folder)).status
    assert (status.state, status.ended_by, status.done) == ("ended", "trials", 1)
    assert (folder / "report.html").exists()
