"""What trainings log to MLflow by themselves: each in a run of its own, which the tracker then completes."""

import multiprocessing
import os
from dataclasses import replace
from pathlib import Path

import mlflow
import pytest
from mlflow import MlflowClient

import hpo
from hpo.track.own_lines import own_lines_of
from hpo.track.sink import MlflowSink
from hpo.track.store import absolute_uri
from hpo.workers.objective.pickled_function import PickledFunction
from hpo.workers.training.own_lines import client_of, own_run
from tests.faults.mlflow_server import free_port
from tests.hpo.cli.commands import hpo as command
from tests.hpo.cli.commands import refused
from tests.tracked import new_store, tracked_study

pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow's own.
LOGS = """\
import random
import mlflow
def train(config, trial):
    with mlflow.start_run(run_name="theirs") as run:
        assert run.info.run_id == trial.mlflow_run_id or trial.mlflow_run_id is None
        mlflow.log_param("lr", f"about {config['lr']}")
        for epoch in range(2):
            mlflow.log_metric("own", config["lr"] + epoch, step=epoch)
            trial.report({"epoch": epoch, "loss": config["lr"], "val": {"top": {"5": 0.5}}})
        mlflow.log_metric("score", 99.0, step=5)
        mlflow.log_text(str(trial.mlflow_run_id), "whose.txt")
    mlflow.log_metric("further", 1.0)
    trial.note("checkpoint", "s3://here")
    trial.note("peak", 3.5)
    (trial.dir / "plot.txt").write_text("x")
    if config["lr"] == 0.3 and trial.repeat == 0:
        raise ValueError("too large")
    return config["lr"] + random.random() / 1000
"""


@pytest.fixture(autouse=True)
def store():
    return new_store(Path.cwd())


def search(capsys, name, *typed):
    Path(f"{name}.py").write_text(LOGS)
    given = (f"objective={name}:train(config, trial)", f"study.name={name}", "+lr=0.1", "space.lr=[0.1,0.2,0.3]")
    goal = ("study.metric=loss", "study.direction=minimize", "study.trials=3")
    code, out, err = command(capsys, "search", *given, *goal, "dispatch=local", "report.figures=false", *typed)
    assert code == 0, err
    return out + err


def runs():
    # MLflow keeps one connection per address, so it must be a whole path.
    client = MlflowClient(absolute_uri("sqlite:///mlflow.db"))
    found = [run for each in client.search_experiments() for run in client.search_runs([each.experiment_id])]
    assert {run.info.experiment_id for run in found} == {client.get_experiment_by_name("hpo").experiment_id}
    assert "RUNNING" not in {run.info.status for run in found}
    return {run.info.run_id: run for run in found}


def below(found, run):
    return [each for each in found.values() if each.data.tags.get("mlflow.parentRunId") == run.info.run_id]


def of_kind(found, kind):
    return [run for run in found.values() if run.data.tags.get("hpo.kind") == kind]


def trials_of(found):
    (study,) = of_kind(found, "study")
    trials = {int(run.data.tags["hpo.trial"]): run for run in below(found, study)}
    assert (sorted(trials), len(of_kind(found, "trial"))) == ([0, 1, 2], 3)
    return trials


@pytest.mark.slow
def test_a_training_logs_to_the_run_of_its_trial_and_neither_writes_over_the_other(capsys, store):
    before = dict(os.environ)
    search(capsys, "whole", "track.artifacts=true")
    assert dict(os.environ) == before
    assert mlflow.active_run() is None
    found, client, table = runs(), MlflowClient(store), hpo.load("whole").trials
    for number, run in trials_of(found).items():
        lr, data = table["lr"][number], run.data
        assert run.info.run_name == f"{number:04d} lr={lr}"
        assert (run.info.status, data.params) == ("FAILED" if lr == 0.3 else "FINISHED", {"lr": f"about {lr}"})
        assert (data.metrics["own"], data.metrics["fold_0/loss"]) == (lr + 1, lr)
        assert data.metrics["fold_0/val/top/5"] == 0.5
        assert "whose.txt" in [file.path for file in client.list_artifacts(run.info.run_id)]
        if lr != 0.3:
            # Its own is kept, and what tables show is the trial's.
            history = [point.value for point in client.get_metric_history(run.info.run_id, "score")]
            assert history == [99.0, data.metrics["score"]] == [99.0, table["score"][number]]
            assert (data.tags["note.checkpoint"], data.metrics["fold_0/final_peak"]) == ("s3://here", 3.5)
            assert [file.path for file in client.list_artifacts(run.info.run_id, "files")] == ["files/plot.txt"]
        (further,) = below(found, run)
        assert further.data.metrics == {"further": 1.0}


@pytest.mark.nightly
def test_each_of_several_trainings_of_a_trial_has_a_run_below_the_trials(capsys):
    search(capsys, "repeated", "study.repeats=2")
    found = runs()
    for trial in trials_of(found).values():
        tasks = {run.info.run_name: run for run in below(found, trial)}
        assert sorted(tasks) == ["fold_0_repeat_0", "fold_0_repeat_1"]
        assert {run.data.metrics["score"] for run in tasks.values()} == {99.0}
        assert [tasks[name].info.status for name in sorted(tasks)] == [trial.info.status, "FINISHED"]


@pytest.mark.nightly
def test_where_the_server_cannot_be_reached_the_trainings_are_the_same_and_one_line_warns(capsys):
    # Without a run MLflow would draw a name from the training's random numbers.
    search(capsys, "reached")
    said = search(capsys, "away", f"track.uri=http://127.0.0.1:{free_port()}", "track.patience=1")
    assert said.count("the objective's own MLflow logs are lost; the training continues") == 1
    assert [*hpo.load("away").trials["score"].dropna()] == [*hpo.load("reached").trials["score"].dropna()]
    assert not [run for run in runs().values() if run.data.tags.get("hpo.study") == "away"]


@pytest.mark.nightly
def test_two_ray_workers_log_apart(capsys):
    search(capsys, "apart", "dispatch=ray", "dispatch.workers=2")
    for run in trials_of(runs()).values():
        assert run.data.metrics["own"] == float(run.info.run_name.partition("=")[2]) + 1


def lines(store, task=None, **changes):
    there = {"uri": store, "experiment": "hpo", "artifacts": "art", "study_id": "s", "host": os.uname().nodename}
    return {**there, "name": "0004 lr=0.1", "task": task} | changes


@pytest.mark.slow
def test_a_file_on_another_machine_is_said_and_the_training_goes_on(store):
    with own_run(lines(store, host="elsewhere"), 4, {}) as own:
        assert own.id is None
        assert "is a file on elsewhere" in own.warning
        mlflow.log_metric("own", 1.0)
        scratch = mlflow.get_tracking_uri()
    assert not Path(scratch.removeprefix("file://")).exists()
    assert MlflowClient(store).get_experiment_by_name("hpo") is None


@pytest.mark.slow
def test_a_training_that_is_repeated_goes_on_in_its_run(store):
    ids = []
    for task in (None, None, "fold_0", "fold_0"):
        with own_run(lines(store, task), 4, {}) as own:
            mlflow.log_metric("own", 1.0, step=len(ids))
            ids.append(own.id)
    trial, again, fold, fold_again = ids
    assert (trial, fold) == (again, fold_again)
    assert MlflowClient(store).get_run(fold).data.tags["mlflow.parentRunId"] == trial
    assert len(MlflowClient(store).get_metric_history(trial, "own")) == 2


@pytest.mark.slow
def test_what_a_notebook_has_chosen_before_does_not_count_and_counts_again_afterwards(store):
    Path("other").mkdir()
    mlflow.set_tracking_uri(other := new_store(Path.cwd() / "other"))
    mlflow.set_experiment("theirs")
    try:
        with own_run(lines(store), 4, {}) as own, mlflow.start_run() as run:
            assert run.info.run_id == own.id
        assert mlflow.get_tracking_uri() == other
        with mlflow.start_run() as run:
            assert mlflow.get_experiment(run.info.experiment_id).name == "theirs"
        with mlflow.start_run() as run, own_run(lines(store), 4, {}) as own:
            assert run.info.run_id in own.warning
        assert own.id is not None
    finally:
        mlflow.set_tracking_uri(None)


@pytest.mark.slow("True")
@pytest.mark.parametrize("has_second", [False, True])
def test_a_run_whose_worker_died_before_it_could_say_so_is_found_and_a_second_is_put_below_it(store, has_second):
    sink, client = MlflowSink(store, "hpo", Path("art")), MlflowClient(store)
    table = {"metrics": ["score"], "direction": "minimize", "flags": [], "keys": [], "others": [], "curves": []}
    begun = {"params": {}, "tags": {"hpo.trials": "0 of 9"}, "note": "", "datasets": [], "table": table}
    sink.open_study(study_id="s", name="a", time=1.0, **begun)
    sink.open_trial(4, "0004 lr=0.1", {"lr": 0.1}, {}, 1.0, has_own_lines=True)
    with own_run(lines(store), 4, {}) as own:
        pass
    if has_second:
        tags = {"hpo.study_id": "s", "hpo.trial": "4", "hpo.kind": "trial"}
        second = client.create_run(client.get_experiment_by_name("hpo").experiment_id, tags=tags).info.run_id
        for run_id in (own.id, second):
            sink.apply([("adopt_run", {"number": 4, "task": None, "run_id": run_id})])
        assert client.get_run(second).data.tags["mlflow.parentRunId"] == own.id
    ended = {"files": None, "status": "FINISHED", "metrics": {"score": 1.0}, "of_study": {}, "done": "1 of 9"}
    sink.apply([("close_trial", {"number": 4, "details": "", "time": 2.0, "tags": {}, **ended})])
    sink.abandon_study()
    assert [run.info.run_id for run in of_kind(runs(), "trial")] == [own.id]
    assert client.get_run(own.id).data.params == {"lr": "0.1"}


def logging(config):
    mlflow.log_metric("own", 1.0)


def choosing(config):
    mlflow.set_experiment("mine")


@pytest.mark.parametrize(("code", "key", "wanted"), [
    ("import mlflow", None, True), ("import mlflow\nmlflow.set_experiment('mine')", None, False),
    ("from mlflow.sklearn import autolog", None, True), ("import mlflow", False, False),
    ("import mlflows", None, False), ("import json", True, True), (logging, None, True), (of_kind, None, False),
    (choosing, None, False)
])  # fmt: skip
def test_only_an_objective_that_uses_mlflow_and_chooses_no_place_has_a_run(tmp_path, monkeypatch, code, key, wanted):
    monkeypatch.syspath_prepend(Path.cwd())
    study = tracked_study(tmp_path)
    if isinstance(code, str):
        name = f"lines{abs(hash((code, key)))}"
        Path(f"{name}.py").write_text(f"{code}\n")
        objective = replace(study.objective, path=f"{name}:train", revision=None)
    else:
        of_script = type(code)(code.__code__, {"mlflow": mlflow, "__name__": "__main__"}, code.__name__)
        objective = replace(study.objective, pickled=PickledFunction.of(of_script, code.__name__))
    for name, expected in (("mlflow", wanted), ("none", False)):
        track = study.config.track.model_copy(update={"own_lines": key, "name": name})
        config = study.config.model_copy(update={"track": track})
        assert (own_lines_of(replace(study, config=config, objective=objective), "s") is not None) == expected


def test_a_run_of_its_own_without_mlflow_is_refused(capsys):
    given = ("search", "track=none", "track.own_lines=true")
    assert refused(capsys, *given) == "error: track.own_lines: has an effect only with track=mlflow; remove the key\n"


def open_store(uri):
    client_of(uri).search_experiments()


@pytest.mark.nightly
def test_processes_that_open_a_new_file_at_once_make_its_tables_once(tmp_path):
    context, uri = multiprocessing.get_context("spawn"), f"sqlite:///{tmp_path}/new.db"
    processes = [context.Process(target=open_store, args=(uri,)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
