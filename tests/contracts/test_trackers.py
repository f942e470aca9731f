"""What the tracker promises: MLflow shows what the record holds, and sending it twice changes nothing."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest
from mlflow import MlflowClient

from hpo.config import config_from_dict
from hpo.dispatch.local import LocalDispatcher
from hpo.folder import StudyFolder
from hpo.run import run_study
from hpo.study import prepare_study
from hpo.track import make_tracker
from tests.studies import REPOSITORY, toy_config

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory):
    """An MLflow database with its tables; making them takes seconds."""
    path = tmp_path_factory.mktemp("store") / "mlflow.db"
    MlflowClient(f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def folder(empty_store, tmp_path):
    """Return a folder with an empty MLflow store in it."""
    shutil.copy(empty_store, tmp_path)
    return tmp_path


def tracked_study(folder, trials=6, **changes):
    track = {"name": "mlflow", "uri": f"sqlite:///{folder}/mlflow.db", "experiment": "tests"}
    config = config_from_dict(toy_config("evolutionary", trials=trials, track=track, **changes))
    return replace(prepare_study(config), folder=StudyFolder(folder / "study"))


def run(study):
    record = study.open()
    tracker = make_tracker(study.config, study.grid)
    result = run_study(study, record, LocalDispatcher(str(REPOSITORY)), tracker)
    record.close()
    return result


def runs_of(study):
    """Return the parent run and its children by trial number."""
    client = MlflowClient(study.config.track.uri)
    experiment = client.get_experiment_by_name("tests").experiment_id
    found = client.search_runs([experiment], max_results=1000)
    parents = [run for run in found if "mlflow.parentRunId" not in run.data.tags]
    assert len(parents) == 1
    children = [run for run in found if run.data.tags.get("mlflow.parentRunId") == parents[0].info.run_id]
    assert len(children) == len(found) - 1
    return parents[0], {int(run.data.tags["hpo.trial"]): run for run in children}


@pytest.fixture(scope="module")
def finished_run(empty_store, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tracked")
    shutil.copy(empty_store, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        study = tracked_study(folder, trials=14)
        return study, run(study)


def test_there_is_a_child_for_every_trial_with_its_point_and_score(finished_run):
    study, result = finished_run
    _, children = runs_of(study)
    assert sorted(children) == [trial.number for trial in result.history]
    for trial in result.history:
        child = children[trial.number]
        assert child.info.run_name.startswith(f"{trial.number:04d} ")
        assert child.data.params == {key: str(value) for key, value in trial.point.items()}
        assert child.data.metrics["trial"] == trial.number
        assert child.data.metrics.get("score") == trial.score
        assert child.info.status == ("FINISHED" if trial.state == "complete" else "FAILED")


def test_a_failed_trial_says_why(finished_run):
    study, result = finished_run
    failed = [trial for trial in result.history if trial.state == "failed"]
    assert failed, "the toy objective fails now and then"
    _, children = runs_of(study)
    child = children[failed[0].number]
    assert child.data.tags["hpo.error"] == failed[0].error
    artifacts = MlflowClient(study.config.track.uri).list_artifacts(child.info.run_id)
    assert [item.path for item in artifacts] == ["error.txt"]


def test_a_curve_has_its_epochs_as_steps(finished_run):
    study, result = finished_run
    _, children = runs_of(study)
    best = children[result.winner.number]
    points = MlflowClient(study.config.track.uri).get_metric_history(best.info.run_id, "fold_0/score")
    curve = result.winner.outcomes[0].curve
    assert [(p.step, p.value) for p in points] == [(c["epoch"], c["score"]) for c in curve]


def test_the_parent_tells_of_the_study(finished_run):
    study, result = finished_run
    parent, _ = runs_of(study)
    assert parent.info.status == "FINISHED"
    assert parent.data.tags["hpo.strategy"] == "evolutionary"
    assert parent.data.tags["hpo.seed"] == "0"
    assert parent.data.params["strategy.population"] == "6"
    assert parent.data.metrics["best_score"] == result.winner.score
    assert parent.data.tags["mlflow.note.content"].startswith("**Winner: [trial ")
    artifacts = {item.path for item in MlflowClient(study.config.track.uri).list_artifacts(parent.info.run_id)}
    assert {"report.md", "report.json", "trials.csv", "config.yaml", "best.yaml"} <= artifacts


def test_a_second_run_and_a_larger_budget_continue_the_same_runs(folder):
    study = tracked_study(folder, trials=4)
    run(study)
    first, before = runs_of(study)
    run(study)
    larger = tracked_study(folder, trials=8)
    run(larger)
    parent, children = runs_of(larger)
    assert parent.info.run_id == first.info.run_id
    assert sorted(children) == list(range(8))
    for number, child in before.items():
        assert children[number].info.run_id == child.info.run_id
        assert children[number].data.metrics == child.data.metrics


def test_an_interrupted_study_leaves_no_run_running(folder):
    study = tracked_study(folder)

    class Interrupted(LocalDispatcher):
        count = 0

        def wait(self, timeout=None):
            self.count += 1
            if self.count > 7:
                raise KeyboardInterrupt
            return super().wait(timeout)

    record = study.open()
    tracker = make_tracker(study.config, study.grid)
    with pytest.raises(KeyboardInterrupt):
        run_study(study, record, Interrupted(str(REPOSITORY)), tracker)
    record.close()
    parent, children = runs_of(study)
    assert parent.info.status == "KILLED"
    assert "RUNNING" not in {child.info.status for child in children.values()}
    run(study)
    parent, children = runs_of(study)
    assert {parent.info.status, *(c.info.status for c in children.values())} <= {"FINISHED", "FAILED"}


def test_datasets_are_listed_with_sizes_and_fingerprints(folder):
    study = tracked_study(folder, objective="tests.toy_data:score", trials=1)
    run(study)
    run(study)
    parent, _ = runs_of(study)
    datasets = {i.tags[0].value: i.dataset for i in parent.inputs.dataset_inputs}
    assert set(datasets) == {"development", "test"}
    assert len(parent.inputs.dataset_inputs) == 2
    profile = json.loads(datasets["test"].profile)
    assert (profile["size"], profile["fraction"]) == (9, 0.1)
    assert datasets["test"].digest == study.plan.parts["test"]["fingerprint"][:12]


def test_the_study_goes_on_when_mlflow_cannot_be_written(folder, capfd):
    """Nothing listens on the address; the search ends as ever and says that it was not sent."""
    study = tracked_study(folder, trials=3)
    track = study.config.track.model_copy(update={"uri": "http://127.0.0.1:9"})
    study = replace(study, config=study.config.model_copy(update={"track": track}))
    result = run(study)
    assert len(result.history) == 3
    assert not result.is_tracked
    assert capfd.readouterr().err.count("cannot be written") == 1


def test_the_process_ends_when_its_driver_dies():
    process = subprocess.Popen(
        [sys.executable, "-m", "hpo.track.mlflow_process"],
        stdin=subprocess.PIPE,
    )
    process.stdin.close()
    assert process.wait(timeout=60) == 0


def test_names_that_mlflow_refuses_are_written_with_underscores(folder):
    study = tracked_study(folder, objective="tests.toy:odd_names", trials=1)
    assert run(study).is_tracked
    _, children = runs_of(study)
    assert children[0].data.metrics["fold_0/final_acc_5___"] == 1.0
