"""What MLflow shows of a study that goes on, ends otherwise than planned, or is deleted."""

from dataclasses import replace

import pytest
from mlflow import MlflowClient

from hpo.study.files.folder import StudyFolder
from hpo.study.notes import Notes
from hpo.study.opening import open_study
from hpo.study.results.run import StudyRun
from hpo.track.projection import open_in_tracker
from hpo.track.sink import MlflowSink
from hpo.track.store import delete_study, may_have_study
from hpo.track.tracker import MlflowTracker
from tests.faults.test_mlflow import Eventful
from tests.hpo.report.made_up import trial as made_up_trial
from tests.studies import shipped, toy_config
from tests.tracked import assert_shows_the_record, new_store, run, runs_of, tracked_study

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture
def folder(tmp_path):
    """Return a folder with an empty MLflow store in it."""
    new_store(tmp_path)
    return tmp_path


class InThisProcess(MlflowSink):
    """Has a store written by this process, call by call."""

    def send(self, call):
        self.apply([call])


def tracker_of(study, folder):
    """Return a tracker of a study that has begun, which writes at once, and the study's id."""
    sink = InThisProcess(study.config.track.uri, "tests", folder)
    tracker, record = MlflowTracker(study, sink), open_study(study)
    open_in_tracker(study, StudyRun.of(study, record), tracker)
    study_id = Notes(record).study_id
    record.close()
    return tracker, study_id


def raising(error):
    raise error


def run_ids(children):
    return {number: child.info.run_id for number, child in children.items()}


@pytest.mark.slow
def test_a_study_that_is_interrupted_and_fails_and_gets_a_larger_budget_stays_the_same_runs(folder):
    study = tracked_study(folder)
    with pytest.raises(KeyboardInterrupt):
        run(study, Eventful({4: lambda: raising(KeyboardInterrupt())}))
    first, before = runs_of(study)
    assert (first.info.status, first.data.tags["hpo.state"]) == ("KILLED", "interrupted")
    assert "RUNNING" not in {child.info.status for child in before.values()}
    with pytest.raises(OSError, match="no space"):
        run(study, Eventful({5: lambda: raising(OSError("no space left"))}))
    parent, _ = runs_of(study)
    assert (parent.info.status, parent.data.tags["hpo.state"]) == ("FAILED", "failed")
    assert "toy.lr" not in parent.data.params
    assert parent.data.tags["hpo.error"] == "OSError: no space left"
    run(tracked_study(folder, trials=8))
    parent, children = runs_of(study)
    assert (parent.info.run_id, parent.info.status) == (first.info.run_id, "FINISHED")
    assert (parent.data.tags["hpo.state"], parent.data.tags["hpo.trials"]) == ("ended", "8 of 8")
    assert "hpo.error" not in parent.data.tags
    assert_shows_the_record(study)
    assert run_ids(before).items() <= run_ids(children).items()


@pytest.mark.slow
def test_the_winners_values_stay_those_of_the_first_a_tag_has_the_present_one_and_a_deleted_run_is_replaced(folder):
    first = run(tracked_study(folder, trials=2)).run.winner
    study = tracked_study(folder, trials=12)
    last = run(study).run.winner
    parent, children = runs_of(study)
    assert last.number != first.number, "otherwise this test shows nothing"
    assert parent.data.params["hpo.winner"] == f"trial {first.number}"
    assert children[first.number].data.params.items() <= parent.data.params.items()
    assert parent.data.tags["hpo.winner"].startswith(f"trial {last.number}: ")
    MlflowClient(study.config.track.uri).delete_run(parent.info.run_id)
    run(tracked_study(folder, trials=13))
    new, after = runs_of(study)
    assert (new.info.run_id != parent.info.run_id, len(after)) == (True, 13)
    assert run_ids(children).items() <= run_ids(after).items()
    assert_shows_the_record(study)


@pytest.mark.slow
def test_what_a_race_stops_and_what_halving_does_not_train_on_is_shown_as_killed(folder):
    split = shipped("default", "split") | {"folds": 5, "race_after": 3, "race_level": 0.3}
    changes = {"strategy": "successive_halving", "objective": "toy_data:noisy_continued", "split": split}
    study = tracked_study(folder, trials=8, **changes)
    history = run(study).run.history
    killed = {number for number, child in runs_of(study)[1].items() if child.info.status == "KILLED"}
    assert killed > {trial.number for trial in history if trial.state == "stopped"} > set()
    assert_shows_the_record(study)


@pytest.mark.nightly
def test_what_is_fully_trained_after_the_search_is_added_to_its_run(folder):
    study = tracked_study(folder, trials=5, strategy="asha", objective="toy_data:noisy_continued")
    assert run(study).run.further_trained
    assert_shows_the_record(study)


def test_a_study_that_is_deleted_takes_its_trials_and_views_along_and_leaves_the_others_alone(folder):
    ids = {}
    for name in "ab":
        study = tracked_study(folder, study={**toy_config()["study"], "name": name})
        tracker, ids[name] = tracker_of(replace(study, folder=StudyFolder(folder / name)), folder)
        for number in range(3):
            tracker.trial_opened(made_up_trial(number, [0.5]))
    uri = study.config.track.uri
    client = MlflowClient(uri)
    assert may_have_study(uri, ids["a"])
    assert delete_study(uri, ids["a"]) == 4
    assert [may_have_study(uri, ids[name]) for name in "ab"] == [False, True]
    assert delete_study(uri, ids["a"]) == 0
    experiment = client.get_experiment_by_name("tests")
    left = client.search_runs([experiment.experiment_id])
    assert [run.info.run_name for run in left if run.data.tags["hpo.kind"] == "study"] == ["b"]
    assert len(left) == 4
    assert [ids[name] in str(experiment.tags.keys()) for name in "ab"] == [False, True]


def test_nothing_is_deleted_of_a_store_that_does_not_exist(tmp_path):
    assert delete_study(f"sqlite:///{tmp_path}/mlflow.db", "1") == 0
    assert not list(tmp_path.iterdir())
