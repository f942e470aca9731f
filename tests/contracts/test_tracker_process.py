"""What the process that writes to MLflow promises: curves while they grow, and no run left behind, whoever dies."""

import socket
import subprocess
import sys
import time
from dataclasses import replace

import psutil
import pytest
from mlflow import MlflowClient

from hpo.study.opening import open_study
from hpo.study.results.run import StudyRun
from hpo.track.make import make_tracker
from hpo.track.projection import open_in_tracker
from hpo.track.tracker import Curve
from hpo.trials.trial import Outcome, Trial
from tests.studies import environment
from tests.tracked import new_store, run, runs_of, tracked_study

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")]
TRIAL = Trial(0, 0, {"toy.lr": 0.1})
KILLED = """
import os, psutil, sys, time
from pathlib import Path
from tests.contracts.test_tracker_process import tracked_study, tracker_with_a_trial
tracker_with_a_trial(tracked_study(Path(sys.argv[1])))
time.sleep(0.5)
(writer,) = [p for p in psutil.Process().children() if 'hpo.track.process' in p.cmdline()]
print(writer.pid, flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def folder(tmp_path):
    new_store(tmp_path)
    return tmp_path


def tracker_with_a_trial(study):
    tracker, record = make_tracker(study), open_study(study)
    open_in_tracker(study, StudyRun.of(study, record), tracker)
    record.close()
    tracker.trial_opened(TRIAL)
    return tracker


def wait(condition, limit):
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < limit
        time.sleep(0.05)
    return time.monotonic() - start


def test_a_live_curve_is_there_within_five_seconds_and_has_each_point_once(folder):
    study = tracked_study(folder)
    tracker, client = tracker_with_a_trial(study), MlflowClient(study.config.track.uri)
    wait(lambda: client.get_experiment_by_name("tests") and len(client.search_runs(["1"])) == 2, 120)
    _, children = runs_of(study)
    points, curve = [{"epoch": epoch, "score": epoch / 10} for epoch in (1, 2, 3)], Curve("fold_0")

    def scores():
        return client.get_metric_history(children[0].info.run_id, "fold_0/score")

    for epoch, point in enumerate(points, 1):
        tracker.mlflow.curve(number=0, **curve.point(point))
        assert wait(lambda epoch=epoch: len(scores()) == epoch, 60) < 5
    trial = replace(TRIAL, outcomes={0: Outcome({"score": 0.3}, points)}, state="complete", score=0.3)
    tracker.trial_known(trial)
    tracker.trial_recorded(trial)
    tracker.close()
    # MLflow promises no order among points; its charts sort by step.
    assert sorted((point.step, point.value) for point in scores()) == [(1, 0.1), (2, 0.2), (3, 0.3)]


def test_the_study_goes_on_when_mlflow_cannot_be_written(folder, capfd):
    result = run(tracked_study(folder, trials=3, patience=1.0, uri="http://user:secret-word@127.0.0.1:9"))
    assert (len(result.run.history), result.is_tracked) == (3, False)
    said = capfd.readouterr().err
    assert (said.count("cannot be written"), "secret-word" in said) == (1, False)


def test_no_other_user_sees_a_password_among_the_processes_and_a_silent_server_costs_the_patience_alone(folder):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"user:secret-word@127.0.0.1:{silent.getsockname()[1]}"
        tracker = tracker_with_a_trial(tracked_study(folder, uri=f"http://{address}"))
        arguments = str([process.cmdline() for process in psutil.Process().children(recursive=True)])
        assert ("hpo.track.process" in arguments, "secret-word" in arguments) == (True, False)
        with silent.accept()[0]:
            assert wait(lambda: not tracker.close(0.1), 60) < 5


def test_a_driver_that_died_leaves_no_run_running(folder):
    command = [sys.executable, "-c", KILLED, str(folder)]
    process = int(subprocess.run(command, env=environment(), capture_output=True, text=True, check=False).stdout)
    wait(lambda: not psutil.pid_exists(process) or psutil.Process(process).status() == "zombie", 60)
    parent, children = runs_of(tracked_study(folder))
    assert {parent.info.status, children[0].info.status} == {"KILLED"}


def test_one_process_at_a_time_writes_a_study(folder):
    study = tracked_study(folder)
    assert [tracker.close() for tracker in [tracker_with_a_trial(study) for _ in range(2)]] == [True, True]
    assert list(runs_of(study)[1]) == [0]
