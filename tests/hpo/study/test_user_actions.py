"""Actions of users and points of other programs: answered, recorded, repeated by a replay. Notes: none is lost."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import optuna
import pytest
from jsonschema import validate
from toys import score

from hpo.commands.steer import raise_budget
from hpo.commands.study import Study
from hpo.errors import HpoError, StudyError
from hpo.report.sections.report import report_schema
from hpo.session.session import run_to_the_end
from hpo.session.stopping import Stopped
from hpo.session.user_requests import UserRequests
from hpo.show.display import Display
from hpo.study.files.requests import Request, request
from hpo.study.files.status import Status, write_status
from hpo.study.files.user_notes import add_note, read_notes
from hpo.study.reproduce.replay import read_actions, read_added
from hpo.study.view.reader import StudyReader
from hpo.track.note import study_note
from hpo.trials.record.storage import sqlite_url
from tests import tracked
from tests.studies import STRATEGIES, StudyFolder, prepared, refuses, report_again, rows, run_toy, shipped, toy_config

POINT = {"toy.layers": 5, "toy.width": 64, "toy.lr": 0.1}
FEW, MORE = 4, 8
IS_DONE = threading.Event()
CONTINUES = True
FAULTS, SEEDS = {"above": 0.15}, {}


def slow(task):
    for epoch in range(1, 21):
        IS_DONE.wait(0.05)
        yield {"epoch": epoch, "score": epoch * task["config"]["toy"]["lr"]}


def act(folder, actions, answers):
    study = Study(StudyFolder(folder))
    while study.status.state != "running" or not study.status.trials.get("running"):
        time.sleep(0.01)
    for action in actions:
        try:
            answer = action(study)
            answers.append(getattr(answer, "says", answer))
        except HpoError as error:
            answers.append(str(error))
    IS_DONE.set()


@pytest.fixture(autouse=True)
def _reads_requests_at_once(monkeypatch):
    monkeypatch.setattr(UserRequests, "seconds_between", 0.0)


def tree(trials, objective=f"{__name__}:slow"):
    report = shipped("default", "report") | {"figures": False}
    return toy_config("evolutionary", trials=trials, objective=objective, report=report)


def run(folder, trials=FEW, *actions):
    answers = []
    user = threading.Thread(target=act, args=(folder, actions, answers), daemon=True)
    IS_DONE.clear()
    user.start()
    with suppress(Stopped):
        run_to_the_end(prepared(folder, tree(trials)), Display())
    user.join(10)
    return answers


def replayed(folder, config, report):
    study = prepared(folder, config)
    added = read_added(report["added_points"], study.space)
    return run_study_of(replace(study, added=added, actions=read_actions(report.get("user_actions", []))))


def run_study_of(study):
    tracked.run(study)
    return rows(study.folder.trials_path)


def points(made):
    return [{key: type(value)(row[key]) for key, value in POINT.items()} for row in made]


@pytest.mark.slow
def test_actions_take_effect_are_reported_and_repeated_by_a_replay(tmp_path):
    folder = tmp_path / "study"
    asked = [
        (lambda study: study.stop(0), "stops now"), (lambda study: study.add(POINT), "next"),
        (lambda study: study.add(POINT), "already added"), (lambda study: study.add({"toy.lr": 9.0}), "range"),
        (lambda study: study.stop(77), "does not exist"),
        (lambda study: request(StudyFolder(study.folder), "raise", {"trials": MORE}), f"of {MORE} trials are done"),
        (lambda study: request(StudyFolder(study.folder), "raise", {"trials": 2}), "larger"),
    ]  # fmt: skip
    for answer, (_, part) in zip(run(folder, FEW, *(action for action, _ in asked)), asked, strict=True):
        assert part in answer
    made = rows(folder / "trials.csv")
    assert StudyFolder(folder).config().study.trials == len(made) == MORE
    assert ([row["number"] for row in made if row["state"] == "stopped"], points(made).count(POINT)) == (["0"], 1)
    report = report_again(folder, tree(MORE), has_page=False).summary
    assert [act["do"] for act in report["user_actions"]] == ["stop_trial", "raise_budget"]
    assert replayed(tmp_path / "again", tree(MORE), report) == made


@pytest.mark.slow
def test_a_stopped_search_finishes_its_running_trials_and_continues_later(tmp_path):
    folder = tmp_path / "study"
    (answer,) = run(folder, FEW, lambda study: study.stop())
    assert "no further trial" in answer
    status = Study(StudyFolder(folder)).status
    assert (status.state, status.process) == ("interrupted", None)
    assert status.trials["complete"] == 1, "the running trial is fully trained, and no other is started"
    run(folder)
    run(tmp_path / "undisturbed")
    assert rows(folder / "trials.csv") == rows(tmp_path / "undisturbed" / "trials.csv")
    # While the last trial is trained.
    run(tmp_path / "last", 1, lambda study: study.stop())
    status = Study(StudyFolder(tmp_path / "last")).status
    assert (status.state, status.ended_by, status.done) == ("ended", "trials", 1)


@pytest.mark.slow
def test_an_ended_study_takes_points_and_old_requests_have_no_effect(tmp_path):
    folder = StudyFolder(tmp_path / "study")
    run(folder.path)
    study = Study(folder)
    assert f"study.trials={FEW + 1}" in study.add(POINT).says, "its search has ended, so it needs a larger budget"
    refuses(StudyError, "already added", study.add, POINT)
    refuses(StudyError, "not running, so there is nothing to stop", study.stop)
    refuses(StudyError, "has ended, so the request had no effect", request, folder, "stop", {})
    assert raise_budget(folder, folder.config()) is None
    # A killed search leaves a request.
    folder.requests_dir.mkdir(exist_ok=True)
    (folder.requests_dir / "1-1.json").write_text(Request(do="stop", by="ada").model_dump_json())
    run(folder.path, MORE)
    made = rows(folder.trials_path)
    assert (len(made), POINT in points(made)) == (MORE, True)
    assert not [*folder.requests_dir.glob("*.json")]


def test_trainings_after_the_search_refuse_every_action(tmp_path):
    folder = StudyFolder(tmp_path / "study")
    study = Study(folder)
    with folder.lock():
        folder.config_path.touch()
        write_status(folder, Status(name="study", state="running", phase="after the search"))
        for refused in (study.stop, lambda: study.add(POINT), lambda: study.stop(3)):
            refuses(StudyError, "its last trainings are running", refused)
        with pytest.raises(StudyError, match=rf"wait for process .*, then run `hpo resume {folder} study.trials=9`"):
            request(folder, "raise", {"trials": 9})


def queue(folder, *queued, **options):
    theirs = optuna.load_study(study_name="toy", storage=sqlite_url(folder / "study.db"))
    for point in queued:
        theirs.enqueue_trial(point, **options)
    return theirs


def score_and_queue(task):
    queue(Path("study"), POINT, skip_if_exists=True)
    yield from score(task)


@pytest.mark.slow
def test_a_queued_point_is_tried_next_and_repeated_by_a_replay_and_others_are_ignored(tmp_path, caplog):
    folder, config = tmp_path / "study", tree(12, "toys:score")
    before = run_toy(folder, tree(5, "toys:score"))
    assert POINT not in points(before)
    theirs = queue(folder, {"toy.lr": 3.0}, {"lr": 0.1}, points(before)[2], POINT)
    after = run_toy(folder, config)
    said = [
        "toy.lr=3.0 is not in its range",
        "'lr' is not searched",
        "is already trial 2",
        "will be the next new trial",
    ]
    assert [words for words in said if words not in caplog.text] == []
    assert (after[:5], points(after)[5]) == (before, POINT)
    report = report_again(folder, config, has_page=False).summary
    assert [(each["point"], each["after"]) for each in report["added_points"]] == [(POINT, 5)]
    assert replayed(tmp_path / "again", config, report) == after
    states = {trial.state for trial in theirs.get_trials()[5:9]}
    assert states == {optuna.trial.TrialState.WAITING}, "another program's trial has changed"


def test_a_point_queued_during_the_search_is_reported_and_tried_once(caplog):
    for trials in (6, 8):
        tried = points(run_study_of(prepared(Path("study"), tree(trials, f"{__name__}:score_and_queue"))))
    assert caplog.text.count("will be the next new trial if the budget allows") == 1
    assert [number for number, point in enumerate(tried) if point == POINT] == [4], "after the four lanes"


@pytest.mark.parametrize(("given", "line"), [
    ([{"point": POINT | {"toy.lr": 9.0}, "after": 0}], "toy.lr=9.0 is not in its range"),
    ([{"point": POINT, "after": "x"}], "must be a list of points"),
    ([{"point": POINT, "after": 2, "retry_of": 2}], "must be a list of points"), (7, "must be a list of points"),
])  # fmt: skip
def test_bad_added_points_of_a_strangers_report_are_refused_in_one_line(given, line, tmp_path):
    with pytest.raises(HpoError, match=rf"^report\.json: added_points: .*{line}"):
        read_added(given, prepared(tmp_path, toy_config()).space)
    refuses(HpoError, r"^report\.json: user_actions: must be a list of user actions, given 7", read_actions, 7)


def faulty(task):
    lr = task["config"]["toy"]["lr"]
    SEEDS.setdefault(lr, []).append(task["seed"])
    if lr > FAULTS["above"]:
        raise ValueError("the code has a fault")
    for epoch in range(task["trained"] + 1, (task["amount"] or 1) + 1):
        yield {"epoch": epoch, "score": lr}


def with_faults(folder, settings=STRATEGIES["grid"] | {"order": "lexicographic"}, trials=12):
    """Run a study of which two points of four fail; return its configuration, and the study for its next run."""
    FAULTS["above"] = 0.15
    SEEDS.clear()
    config = toy_config(settings, {"toy": {"lr": [0.01, 0.1, 0.2, 0.3]}}, trials=trials, objective=f"{__name__}:faulty")
    run_toy(folder, config)
    FAULTS["above"] = 1.0
    return config, Study(StudyFolder(folder))


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["asha", "successive_halving"])
def test_a_retry_is_trained_by_the_amount_of_the_failed_trial(tmp_path, strategy):
    settings = STRATEGIES[strategy] | {"min_amount": 1, "max_amount": 4, "eta": 2, "counts": "trials"}
    config, study = with_faults(tmp_path / "study", settings, trials=4)
    failed = next(row for row in rows(tmp_path / "study/trials.csv") if row["state"] == "failed")
    study.retry()
    retried = [row for row in run_toy(tmp_path / "study", config) if row["retry_of"] == failed["number"]]
    assert [(row["state"], row["amount"]) for row in retried] == [("complete", failed["amount"])]


@pytest.mark.slow
def test_failed_trials_are_tried_again_outside_of_the_budget(tmp_path):
    config, study = with_faults(tmp_path / "study")
    assert any(step.command.startswith("hpo retry") for step in study.status.next)
    assert "retries of trials 2, 3 (a retry uses no budget)" in study.retry().says
    refuses(StudyError, "there is nothing to retry", study.retry)
    assert study.status.retries == 2
    run_toy(tmp_path / "study", config)
    retried = [(row["state"], row["retry_of"]) for row in run_toy(tmp_path / "study", config)[2:]]
    assert retried == [("failed", ""), ("failed", ""), ("complete", "2"), ("complete", "3")]
    assert all(len({*seeds}) == 1 for seeds in SEEDS.values()), "a retry has the seed of the failed training"
    assert (study.status.done, study.status.best.trial) == (4, 5), "a retry may be the winner"
    assert (study.status.num_failed, study.status.num_retried, study.show(4).to_dict()["retry_of"]) == (2, 2, 2)
    report = report_again(tmp_path / "study", config, has_page=False).summary
    states = [row["state"] for row in replayed(tmp_path / "again", config, report)]
    assert states == ["complete"] * 6, "a replay repeats retries, whether or not the trials fail again"


@pytest.mark.slow
def test_a_used_up_budget_stays_and_added_points_that_failed_are_retries(tmp_path):
    config, study = with_faults(tmp_path / "study", trials=3)
    assert "a retry of trial 2 (a retry uses no budget); `hpo resume study`" in study.add({"toy.lr": 0.2}).says
    for lr, why in {0.1: "is already trial 1", 0.2: "is already added"}.items():
        refuses(StudyError, why, study.add, {"toy.lr": lr})
    for number, why in {0: "is complete", 2: "was already retried", 9: "does not exist"}.items():
        refuses(StudyError, f"trial {number} {why}", study.retry, number)
    assert [row["retry_of"] for row in run_toy(tmp_path / "study", config)] == ["", "", "", "2"]
    made = run_toy(tmp_path / "study", config | {"study": config["study"] | {"trials": 4}})
    assert [row["toy.lr"] for row in made] == ["0.01", "0.1", "0.2", "0.2", "0.3"]


def test_users_who_write_at_once_lose_nothing(tmp_path):
    folder = StudyFolder(tmp_path)
    with ThreadPoolExecutor(8) as users:
        list(users.map(lambda number: add_note(folder, f"note {number} {'x' * 9000}", {}), range(80)))
    assert {note.text.split()[1] for note in read_notes(folder)} == {str(number) for number in range(80)}
    assert (tmp_path / "notes.jsonl").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("tag", [*({key: "x"} for key in ("", "a b", "mlflow.user", "hpo.kind", "x" * 101)), {"x": 1}])
def test_a_bad_tag_is_refused_and_nothing_is_written(tmp_path, tag):
    refuses(StudyError, r"^tag: the (name|value of x) must ", add_note, StudyFolder(tmp_path), "text", tag)
    refuses(StudyError, "note: is empty; give a text, a tag, or both", add_note, StudyFolder(tmp_path), " ", {})
    assert list(tmp_path.iterdir()) == []


def test_a_link_in_its_place_is_not_followed(tmp_path):
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "study").mkdir()
    (tmp_path / "study/notes.jsonl").symlink_to(tmp_path / "mine")
    refuses(StudyError, "is a link that leads out", add_note, StudyFolder(tmp_path / "study"), "text", {})
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_line_that_is_no_note_hides_no_other(tmp_path):
    folder = StudyFolder(tmp_path)
    add_note(folder, "fi\u2028\x85rst", {})
    with (tmp_path / "notes.jsonl").open("ab") as file:
        file.write(b'{"time": 1}\n[]\n\xff\xfe\n{"time": "x", "user": "y", "tags": ["z"]}\n' + b"[" * 100_000 + b"\n\n")
    add_note(folder, "second", {})
    assert [note.text for note in read_notes(folder)] == ["fi\u2028\x85rst", "second"]


def test_notes_are_in_the_report_and_on_the_page_in_mlflow(toy):
    folder = StudyFolder(toy.path.absolute())
    assert "notes" not in json.loads((folder.path / "report.json").read_text())
    add_note(folder, "the seeds of\nrun 3 were *odd*", {"phase": "first"})
    written = report_again(folder.path, toy_config(trials=2), has_page=False)
    validate(json.loads(json.dumps(written.summary)), report_schema())
    (noted,) = written.summary["notes"]["notes"]
    assert (noted["text"], written.summary["notes"]["tags"]) == ("the seeds of\nrun 3 were *odd*", {"phase": "first"})
    assert "## Notes\n\nTags: `phase=first`." in (folder.path / "report.md").read_text()
    assert "the seeds of run 3 were \\*odd\\*" in study_note(StudyReader(folder, "toy").view()).splitlines()[-1]
