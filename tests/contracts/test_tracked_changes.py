"""What MLflow shows of a study that goes on, ends otherwise or is deleted, and the names and views that are sent."""

from dataclasses import replace
from functools import partialmethod
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from mlflow import MlflowClient
from mlflow.utils.validation import _validate_metric_name, _validate_param

from hpo.study.files.folder import StudyFolder
from hpo.study.notes import Notes
from hpo.study.opening import open_study
from hpo.study.results.run import StudyRun
from hpo.track.names import mlflow_name
from hpo.track.projection import fixed_parameters, open_in_tracker
from hpo.track.sink import MlflowSink
from hpo.track.store import delete_study, may_have_study
from hpo.track.tracker import Curve, MlflowTracker
from hpo.track.views import opened, study_views
from hpo.trials.goal import Goal, finished
from hpo.trials.record.user_actions import Raise, UserAction
from hpo.trials.trial import Outcome, Trial
from hpo.workers.training.own_lines import run_name
from tests.faults.test_mlflow import Eventful
from tests.hpo.engine.made import ended
from tests.hpo.report.made_up import trial as made_up_trial
from tests.studies import composed, prepared, refuses, shipped, toy_config
from tests.tracked import assert_shows_the_record, front_study, new_store, run, runs_of, tracked_study

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture
def folder(tmp_path):
    new_store(tmp_path)
    return tmp_path


class InThisProcess(MlflowSink):
    def send(self, call):
        self.apply([call])


def tracker_of(study, folder):
    tracker, record = MlflowTracker(study, InThisProcess(study.config.track.uri, "tests", folder)), open_study(study)
    open_in_tracker(study, StudyRun.of(study, record), tracker)
    study_id = Notes(record).study_id
    record.close()
    return tracker, study_id


def run_ids(children):
    return {number: child.info.run_id for number, child in children.items()}


@pytest.mark.slow
def test_a_study_that_is_interrupted_and_fails_and_gets_a_larger_budget_stays_the_same_runs(folder):
    study = tracked_study(folder)
    with pytest.raises(KeyboardInterrupt):
        run(study, Eventful({4: Mock(side_effect=KeyboardInterrupt)}))
    first, before = runs_of(study)
    assert (first.info.status, first.data.tags["hpo.state"]) == ("KILLED", "interrupted")
    assert "RUNNING" not in {child.info.status for child in before.values()}
    refuses(OSError, "no space", run, study, Eventful({5: Mock(side_effect=OSError("no space left"))}))
    parent = runs_of(study)[0]
    assert (parent.info.status, parent.data.tags["hpo.state"]) == ("FAILED", "failed")
    assert ("toy.lr" in parent.data.params, parent.data.tags["hpo.error"]) == (False, "OSError: no space left")
    run(tracked_study(folder, trials=8))
    parent, children = runs_of(study)
    assert (parent.info.run_id, parent.info.status) == (first.info.run_id, "FINISHED")
    assert [parent.data.tags.get(f"hpo.{name}") for name in ("state", "trials", "error")] == ["ended", "8 of 8", None]
    assert_shows_the_record(study)
    assert run_ids(before).items() <= run_ids(children).items()


@pytest.mark.nightly
def test_the_winners_values_stay_those_of_the_first_a_tag_has_the_present_one_and_a_deleted_run_is_replaced(folder):
    first, study = run(tracked_study(folder, trials=2)).run.winner, tracked_study(folder, trials=12)
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


@pytest.mark.slow
def test_where_a_trial_changes_the_front_only_runs_that_changed_are_written(folder, monkeypatch):
    study, written, set_tag = front_study(folder), [], MlflowClient.set_tag
    tracker, _ = tracker_of(study, folder)
    monkeypatch.setattr(MlflowClient, "set_tag", lambda *given: (written.append(given[2:]), set_tag(*given)))
    for number, values in enumerate([(1, 5, 1), (2, 6, 1), (0, 7, 1), (2, 4, 1)]):
        trial = ended(number, {}, dict(zip(("score", "size", "seconds"), values, strict=True)), study.goal)
        tracker.trial_opened(trial)
        tracker.trial_finished(trial)
    shown = [value for name, value in written if name == "hpo.is_on_front"]
    assert (shown[:3], sorted(shown[3:])) == (["true", "true", "false"], ["false", "false", "true"])


@pytest.mark.slow
def test_a_study_that_is_deleted_takes_its_trials_and_views_along_and_leaves_the_others_alone(folder, monkeypatch):
    ids = {}
    for name in "ab":
        study = tracked_study(folder, study={**toy_config()["study"], "name": name})
        tracker, ids[name] = tracker_of(replace(study, folder=StudyFolder(folder / name)), folder)
        for number in range(3):
            tracker.trial_opened(made_up_trial(number, [0.5]))
    uri, missing = f"{study.config.track.uri}?timeout=30", f"sqlite:///{folder}/no.db"
    client, search, is_there = MlflowClient(uri), MlflowClient.search_experiments, may_have_study(uri, ids["a"])
    client.create_experiment("later")
    monkeypatch.setattr(MlflowClient, "search_experiments", partialmethod(search, max_results=1))
    assert (is_there, [delete_study(each, ids["a"]) for each in (uri, uri, missing)]) == (True, [4, 0, 0])
    assert [*(may_have_study(uri, ids[name]) for name in "ab"), (folder / "no.db").exists()] == [False, True, False]
    experiment = client.get_experiment_by_name("tests")
    left = client.search_runs([experiment.experiment_id])
    assert [run.info.run_name for run in left if run.data.tags["hpo.kind"] == "study"] == ["b"]
    assert (len(left), [ids[name] in str(experiment.tags.keys()) for name in "ab"]) == (4, [False, True])


@pytest.mark.parametrize(("point", "name"), [
    ({"training.lr": 3e-4, "model.layers": 2}, "0007 lr=3e-4 layers=2"),
    ({"a.lr": 0.01, "b.lr": 1e-5}, "0007 a.lr=0.01 b.lr=1e-5"), ({"a." + "k" * 300: 1}, "0007 " + "k" * 245),
    ({"a.dropout": 0.123456, "a.kind": "relu", "a.bias": True}, "0007 dropout=0.123 kind=relu bias=True"),
])  # fmt: skip
def test_names_are_short_and_bounded(point, name):
    assert run_name(Trial(7, 0, point)) == name


@pytest.mark.parametrize(("epochs", "steps", "expected"), [
    ([1, 2, 2.5], [50, 100, 125], [1, 2, 3]), ([0.5, 1, 1.5], [50, 100, 150], [50, 100, 150]),
    ([0.5, 1, 0.5, 1.5], [None] * 4, [1, 2, 1, 3]), ([None] * 2, [50, 100], [50, 100])
])  # fmt: skip
def test_a_curve_is_at_its_epochs_and_where_these_are_fractions_at_its_steps(epochs, steps, expected):
    curve, given = Curve("fold_0"), [{"epoch": at, "step": step} for at, step in zip(epochs, steps, strict=True)]
    found = [curve.point({key: place for key, place in point.items() if place is not None}) for point in given]
    assert [point["step"] for point in found] == expected


def test_a_trial_has_the_spread_over_folds_and_the_parameters_of_the_largest_fold(tmp_path):
    config, sent = toy_config(objective="toy_data:noisy", split=shipped("default", "split") | {"folds": 2}), []
    metrics = ({"score": 0.5 + 0.2 * fold, "parameters": 700 + 200 * fold, "f1(a)": 1, "f1[a]": 2} for fold in (0, 1))
    outcomes = dict(enumerate(map(Outcome, metrics)))
    trial = finished(Trial(0, 0, {"toy.lr": 0.1}), outcomes, Goal({"score": "maximize"}))
    tracker = MlflowTracker(prepared(tmp_path, config), SimpleNamespace(send=sent.append))
    tracker.user_acted(UserAction(Raise(trials=9)))
    tracker.trial_finished(trial)
    ((_, closed),) = sent
    expected = {"score_standard_deviation": 0.2 / 2**0.5, "fold_0/final_f1_a_": 1, "fold_0/final_f1_a__": 2}
    expected |= {"score": 0.6, "num_parameters": 900}
    assert {name: closed["metrics"][name] for name in expected} == pytest.approx(expected)
    assert (closed["done"], trial.num_parameters, Trial(0, 0, {}).num_parameters) == ("1 of 9", 900, None)


def test_settings_of_a_study_have_no_value_of_a_searched_mapping_and_of_references_the_text():
    space = "space={m: {choices: [{w: 1, d: 2}, {w: 3, d: 4}]}}"
    study = composed("objective=toys:score", "study.metric=score", "+m={w: 1, d: 2}", "+k=${m.w}", space)
    params = fixed_parameters(study)
    assert {key: value for key, value in params.items() if key[:2] in ("k", "m.")} == {"k": "${m.w}"}


@pytest.mark.parametrize("count", [1, 2, 30])
def test_a_view_fits_into_a_tag_whatever_the_names(count):
    columns = [f"{place}{'n' * 190}" for place in range(count)]
    table = {"direction": "minimize", "curves": [f"fold_0/{columns[0]}"], "others": ["amount"]}
    table |= {"metrics": columns, "flags": ["hpo.is_on_front"], "keys": columns}
    for view in study_views("1", "s", 0.0, table, "r" * 32).values():
        assert (len(view) <= 5000, f"metrics.`{columns[0]}`" in opened(view)["selectedColumns"]) == (True, True)


@pytest.mark.parametrize("name", ["a//b", "../a", "a/", "/a", ".", "a/./b", "x" * 400, "é@%", "a/b", "loss"])
def test_every_name_becomes_one_that_mlflow_takes(name):
    _validate_metric_name(f"fold_0_repeat_1/final_{mlflow_name(name)}")
    _validate_param(mlflow_name(name), "1")
    assert mlflow_name(name) == name or name not in ("a/b", "loss", "é")
