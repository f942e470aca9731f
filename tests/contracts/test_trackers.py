"""What the tracker promises: MLflow shows what the record holds, and sending it twice changes nothing."""

import colorsys
import contextlib
import itertools
import json
import uuid
from dataclasses import replace

import pytest
from mlflow import MlflowClient

from hpo.engine.dispatch.local import LocalDispatcher
from hpo.engine.trials.goal import Goal, finished
from hpo.engine.trials.ranking import front
from hpo.engine.trials.table import trials_table
from hpo.engine.trials.trial import Outcome, TaskLayout, Trial
from hpo.report.sections.curves import improvements
from hpo.study.files.folder import StudyFolder
from hpo.study.notes import Notes
from hpo.study.opening import open_study
from hpo.track.messages import close_trial, mlflow_name, run_name
from hpo.track.mlflow.sink import MlflowSink
from hpo.track.mlflow.store import delete_study, may_have_study
from hpo.track.mlflow.tracker import MlflowTracker
from hpo.track.mlflow.views import (
    LARGEST_VIEW,
    color_of_study,
    color_of_trial,
    compared_view,
    opened,
    study_views,
)
from hpo.track.projection import open_in_tracker
from tests.hpo.report.made_up import trial as made_up_trial
from tests.studies import REPOSITORY, shipped, toy_config
from tests.tracked import assert_shows_the_record, front_study, new_store, run, runs_of, synchronise, tracked_study

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

SCORE = Goal({"score": "maximize"})


@pytest.fixture
def folder(tmp_path):
    """Return a folder with an empty MLflow store in it."""
    new_store(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tracked")
    new_store(folder)
    with contextlib.chdir(folder):
        study = tracked_study(folder, trials=14, objective="tests.toy_data:odd_names")
        return study, run(study, has_page=True)


@pytest.fixture(scope="module")
def front_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("front")
    new_store(folder)
    with contextlib.chdir(folder):
        study = front_study(folder)
        return study, run(study)


def everything(study):
    """Return all that MLflow has of a study: every run with every point of every metric."""
    client = MlflowClient(study.config.track.uri)
    parent, children = runs_of(study)
    found = []
    for run_ in (parent, *(children[number] for number in sorted(children))):
        histories = [client.get_metric_history(run_.info.run_id, key) for key in sorted(run_.data.metrics)]
        points = [(p.key, p.step, p.value, p.timestamp) for history in histories for p in history]
        found.append((str(run_.info), run_.data.params, run_.data.tags, str(run_.inputs), points))
    return found


@pytest.mark.slow
def test_mlflow_shows_what_the_record_holds(finished_run):
    study, result = finished_run
    assert_shows_the_record(study)
    _, children = runs_of(study)
    for trial in result.verdict.history:
        assert children[trial.number].info.run_name.startswith(f"{trial.number:04d} ")
        assert children[trial.number].data.metrics["trial"] == trial.number
        assert trial.state == "failed" or children[trial.number].data.metrics["fold_0/final_acc_5___"] == 1.0


def test_datasets_are_listed_with_sizes_and_fingerprints(finished_run):
    study, _ = finished_run
    parent, _ = runs_of(study)
    datasets = {i.tags[0].value: i.dataset for i in parent.inputs.dataset_inputs}
    assert set(datasets) == {"development", "test"}
    assert len(parent.inputs.dataset_inputs) == 2
    profile = json.loads(datasets["test"].profile)
    assert (profile["size"], profile["fraction"]) == (9, 0.1)
    assert datasets["test"].digest == study.plan.parts["test"]["fingerprint"][:12]


@pytest.mark.parametrize(
    ("point", "name"),
    [
        ({"training.lr": 3e-4, "model.layers": 2}, "0007 lr=3e-4 layers=2"),
        ({"a.lr": 0.01, "b.lr": 1e-5}, "0007 a.lr=0.01 b.lr=1e-5"),
        ({"a.dropout": 0.123456, "a.kind": "relu", "a.bias": True}, "0007 dropout=0.123 kind=relu bias=True"),
        ({"a." + "k" * 300: 1}, "0007 " + "k" * 245),
    ],
)
def test_names_are_short_and_bounded(point, name):
    assert run_name(Trial(7, 0, point)) == name


def test_the_spread_over_folds_is_a_metric_beside_their_mean():
    metrics = close_trial(made_up_trial(0, [0.5, 0.7]), SCORE, TaskLayout(2))["metrics"]
    assert metrics["score"] == pytest.approx(0.6)
    assert metrics["score_standard_deviation"] == pytest.approx(0.2 / 2**0.5)
    assert "score_standard_deviation" not in close_trial(made_up_trial(0, [0.5]), SCORE, TaskLayout(1))["metrics"]


@pytest.mark.parametrize("name", ["parameters", "num_parameters"])
def test_the_number_of_parameters_is_one_metric_and_one_column_under_either_name(name):
    """That of the fold with the most, whose vocabulary is the largest."""
    outcomes = {index: Outcome({"score": 0.5, name: size}) for index, size in enumerate((700, 900))}
    trial = finished(Trial(0, 0, {"a.lr": 0.1}), outcomes, SCORE)
    assert trial.num_parameters == 900
    assert trials_table([trial], ["a.lr"], SCORE, TaskLayout(2)).num_parameters.tolist() == [900]
    assert close_trial(trial, SCORE, TaskLayout(2))["metrics"]["num_parameters"] == 900
    assert Trial(0, 0, {}).num_parameters is None


def test_a_failed_trial_says_why(finished_run):
    study, result = finished_run
    failed = [trial for trial in result.verdict.history if trial.state == "failed"]
    assert failed, "the toy objective fails now and then"
    _, children = runs_of(study)
    child = children[failed[0].number]
    assert child.data.tags["hpo.error"] == failed[0].error
    artifacts = MlflowClient(study.config.track.uri).list_artifacts(child.info.run_id)
    assert [item.path for item in artifacts] == ["error.txt"]


def test_the_parent_tells_of_the_study(finished_run):
    study, result = finished_run
    parent, _ = runs_of(study)
    assert parent.info.status == "FINISHED"
    assert parent.data.tags["hpo.strategy"] == "evolutionary"
    assert parent.data.tags["hpo.seed"] == "0"
    assert parent.data.params["strategy.population"] == "8"
    assert parent.data.metrics["best_score"] == result.verdict.winner.score
    client = MlflowClient(study.config.track.uri)
    assert parent.data.tags["hpo.model"] == "none: tests.toy_data keeps no models: it has no run_test"
    assert client.search_registered_models() == []
    artifacts = {item.path for item in client.list_artifacts(parent.info.run_id)}
    assert {"report.md", "report.html", "report.json", "trials.csv", "config.yaml", "best.yaml"} <= artifacts
    assert f"In MLflow: `hpo ui {study.config.study.name}`" in (study.folder.path / "report.md").read_text()


def test_the_parameters_of_a_study_are_what_is_fixed_and_the_values_of_its_winner(finished_run):
    study, result = finished_run
    params = runs_of(study)[0].data.params
    winner = result.verdict.winner
    assert {key: params[key] for key in study.space.keys} == {k: str(winner.point[k]) for k in study.space.keys}
    assert params["hpo.winner"] == f"trial {winner.number}"
    assert not [key for key in params if key.startswith("dispatch.")]
    assert "None" not in params.values()


def test_a_study_is_a_row_in_the_view_of_all_studies(finished_run):
    study, result = finished_run
    parent, _ = runs_of(study)
    client = MlflowClient(study.config.track.uri)
    tags = client.get_experiment(parent.info.experiment_id).tags
    state = opened(tags["mlflow.sharedViewState.hpo-studies"])
    rows = client.search_runs([parent.info.experiment_id], state["searchFilter"])
    assert [row.info.run_id for row in rows] == [parent.info.run_id]
    shown = parent.data.tags | parent.data.metrics
    wanted = [column.partition("`")[2].rstrip("`") for column in state["selectedColumns"]]
    # The test part was not opened.
    assert set(wanted) - set(shown) == {"test_score"}
    assert (shown["hpo.state"], shown["hpo.goal"], shown["hpo.trials"]) == ("ended", "max score", "14 of 14")
    assert f"trial {result.verdict.winner.number}: " in shown["hpo.winner"]
    assert "runs?workflowType=machine_learning&viewStateShareKey=hpo-studies" in tags["mlflow.note.content"]
    assert parent.info.run_id in tags["mlflow.note.content"]


def test_scores_stand_against_the_number_of_the_trial(finished_run):
    study, result = finished_run
    parent, _ = runs_of(study)
    client = MlflowClient(study.config.track.uri)
    points = client.get_metric_history(parent.info.run_id, "trial_score")
    assert {p.step: p.value for p in points} == {
        t.number: t.score for t in result.verdict.history if t.score is not None
    }
    best = [(p.step, p.value) for p in client.get_metric_history(parent.info.run_id, "best_score")]
    assert [value for _, value in best] == sorted(value for _, value in best)
    assert best[-1] == (len(result.verdict.history), result.verdict.winner.score)
    assert [step for step, _ in best[:-1]] == [trial.number for trial in improvements(result.verdict.history)]
    # The page shows them in this order.
    assert next(iter(parent.data.metrics)) == "best_score"


def test_the_note_tells_the_winner_the_best_and_how_to_reproduce(finished_run):
    study, result = finished_run
    parent, children = runs_of(study)
    note = parent.data.tags["mlflow.note.content"]
    winner = result.verdict.winner
    assert note.startswith(f"**Winner: [trial {winner.number}](#/experiments/")
    assert f"{winner.score:.4f}" in note.splitlines()[0]
    assert f"hpo reproduce runs:/{parent.info.run_id}" in note
    assert "14 of 14 trials" in note
    assert "@@" not in note
    best = [trial for trial in result.verdict.history.ranked(5) if trial.state == "complete"]
    rows = [line for line in note.splitlines() if line.startswith("| [")]
    assert [row.partition("]")[0] for row in rows] == [f"| [{trial.number}" for trial in best]
    assert all(children[trial.number].info.run_id in row for trial, row in zip(best, rows, strict=True))


def test_the_table_of_trials_is_a_saved_view_of_the_experiment(finished_run):
    study, _ = finished_run
    parent, _ = runs_of(study)
    tags = MlflowClient(study.config.track.uri).get_experiment_by_name("tests").tags
    view = tags[f"mlflow.sharedViewState.{parent.data.tags['hpo.study_id']}"]
    state = opened(view)
    assert json.loads(view)["name"] == "toy: trials"
    assert parent.info.run_id in state["searchFilter"]
    assert state["selectedColumns"][0] == "metrics.`score`"
    assert set(state["selectedColumns"]) >= {f"params.`{key}`" for key in study.space.keys}


@pytest.mark.slow
def test_of_several_metrics_every_one_is_shown_and_what_is_on_the_front_and_within_the_limits(front_run):
    study, result = front_run
    assert_shows_the_record(study)
    parent, children = runs_of(study)
    verdict, goal = result.verdict, study.goal
    complete = [trial for trial in verdict.history if trial.state == "complete"]
    assert 0 < len(verdict.front) < sum(trial.keeps_limits for trial in complete) < len(complete)
    assert parent.data.metrics["num_on_front"] == len(verdict.front)
    for name in goal.names:
        assert parent.data.metrics[f"chosen/{name}"] == verdict.winner.mean(name)
    assert parent.data.tags["hpo.chosen_trial"] == str(verdict.winner.number)
    assert parent.data.tags["hpo.chosen_as"] == "the knee of the front"
    assert parent.data.tags["hpo.limits"] == "seconds <= 4"
    client = MlflowClient(study.config.track.uri)
    sizes = {point.step: point.value for point in client.get_metric_history(parent.info.run_id, "trial_size")}
    assert sizes == {trial.number: trial.mean("size") for trial in complete}
    # Whatever is better beyond the limits.
    assert parent.data.metrics["best_score"] == max(trial.score for trial in complete if trial.keeps_limits)
    child = children[complete[0].number].data.metrics
    assert child["seconds"] == pytest.approx(complete[0].seconds)
    assert child["metric.seconds"] == complete[0].mean("seconds")


@pytest.mark.slow
def test_of_several_metrics_the_views_have_each_as_column_and_chart_and_one_has_the_front_alone(front_run):
    study, _ = front_run
    parent, _ = runs_of(study)
    tags = MlflowClient(study.config.track.uri).get_experiment_by_name("tests").tags
    key = f"mlflow.sharedViewState.{parent.data.tags['hpo.study_id']}"
    every, alone = (opened(tags[view]) for view in (key, f"{key}-front"))
    metrics = ["score", "size", "metric.seconds"]
    flags = ["tags.`hpo.is_on_front`", "tags.`hpo.is_within_limits`"]
    assert every["selectedColumns"][:5] == [*(f"metrics.`{name}`" for name in metrics), *flags]
    assert (every["orderByKey"], every["orderByAsc"]) == ("metrics.`score`", False)
    axes = [(c["xaxis"]["key"], c["yaxis"]["key"]) for c in every["compareRunCharts"] if c["type"] == "SCATTER"]
    assert axes == [("score", "size"), *(("trial", name) for name in metrics)]
    assert alone | {"searchFilter": ""} == every | {"searchFilter": ""}
    assert f"viewStateShareKey={parent.data.tags['hpo.study_id']}-front" in parent.data.tags["mlflow.note.content"]
    client = MlflowClient(study.config.track.uri)
    found = client.search_runs([parent.info.experiment_id], alone["searchFilter"])
    assert len(found) == parent.data.metrics["num_on_front"]


@pytest.mark.parametrize("count", [1, 2, 30])
def test_a_view_fits_into_a_tag_whatever_the_names(count):
    columns = [f"{place}{'n' * 190}" for place in range(count)]
    message = {"study_id": "1", "name": "s", "time": 0.0, "direction": "minimize", "curves": [f"fold_0/{columns[0]}"]}
    message |= {"others": ["amount"]}
    views = study_views({**message, "metrics": columns, "flags": ["hpo.is_on_front"], "columns": columns}, "r" * 32)
    for view in views.values():
        assert len(view) <= 5000
        assert f"metrics.`{columns[0]}`" in opened(view)["selectedColumns"]


def test_a_view_of_several_studies_has_room_for_hundreds_of_trials_and_no_column_twice():
    keys = [f"training.hyperparameter_{place}" for place in range(20)]
    message = {"name": "a, b: trials", "time": 0.0, "metrics": ["score"], "direction": "minimize", "columns": keys}
    run_ids = [uuid.uuid4().hex for _ in range(600)]
    view = compared_view(message | {"others": ["amount"], "curves": ["fold_0/score"]}, run_ids)
    assert len(view) <= LARGEST_VIEW
    state = opened(view)
    assert all(run_id in state["searchFilter"] for run_id in run_ids)
    assert state["selectedColumns"][:3] == ["metrics.`score`", "tags.`hpo.study`", f"params.`{keys[0]}`"]
    assert len(set(state["columnOrder"])) == len(state["columnOrder"])


def test_the_trials_of_a_study_are_shades_of_its_color_and_other_studies_have_other_hues():
    def hue_of(color):
        red, green, blue = (int(color[at : at + 2], 16) / 255 for at in (1, 3, 5))
        return colorsys.rgb_to_hls(red, green, blue)[0]

    studies = [color_of_study(place) for place in range(6)]
    for one, other in itertools.combinations(map(hue_of, studies), 2):
        assert min(abs(one - other), 1 - abs(one - other)) > 0.08
    shades = {color_of_trial(studies[0], number) for number in range(20)}
    assert len(shades) == 20
    assert all(abs(hue_of(shade) - hue_of(studies[0])) < 0.02 for shade in shades)


class InThisProcess(MlflowTracker):
    """Has a store written by this process, message by message."""

    def __init__(self, study, sink):
        self._goal, self._layout, self._front, self._sink = study.goal, study.layout, (), sink

    def send(self, message):
        self._sink.apply([message])


def test_whether_a_trial_is_on_the_front_stays_true_and_only_runs_that_changed_are_written(folder, monkeypatch):
    study = front_study(folder)
    uri = study.config.track.uri
    tracker = InThisProcess(study, MlflowSink(uri, "tests", folder))
    record = open_study(study)
    open_in_tracker(study, record, tracker)
    record.close()
    written, set_tag = [], MlflowClient.set_tag
    monkeypatch.setattr(MlflowClient, "set_tag", lambda *given: (written.append(given), set_tag(*given)))
    shown, known, left = {}, [], 0
    for number, (score, size, seconds) in enumerate([(1, 5, 1), (2, 5, 9), (2, 4, 1), (3, 6, 2), (3, 4, 4), (0, 4, 1)]):
        outcome = Outcome({"score": score, "size": size, "seconds": seconds})
        known.append(finished(Trial(number, 0, {"toy.layers": number}), {0: outcome}, study.goal))
        tracker.trial_opened(known[-1])
        written.clear()
        tracker.trial_finished(known[-1])
        members = {trial.number for trial in front(known)}
        before, shown = shown, {trial.number: trial.number in members for trial in known}
        left += sum(before[number] > shown[number] for number in before)
        assert len(written) == sum(before.get(number) != shown[number] for number in shown)
        _, children = runs_of(study, uri)
        assert {n: child.data.tags["hpo.is_on_front"] == "true" for n, child in children.items()} == shown
    assert left > 1, "some were on the front for a while"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["finished_run", "front_run"])
def test_sending_it_again_changes_nothing(name, request, monkeypatch):
    study, _ = request.getfixturevalue(name)
    # What is told of paths is told from here.
    monkeypatch.chdir(study.folder.path.parent)
    before = everything(study)
    assert synchronise(study)
    assert everything(study) == before


class Broken(LocalDispatcher):
    """Ends in an exception after some messages of its workers."""

    def __init__(self, messages, error):
        super().__init__(str(REPOSITORY))
        self._left, self._error = messages, error

    def wait(self, timeout=None):
        self._left -= 1
        if self._left < 0:
            raise self._error
        return super().wait(timeout)


@pytest.mark.slow
def test_a_study_that_is_interrupted_and_fails_and_gets_a_larger_budget_stays_the_same_runs(folder):
    study = tracked_study(folder)
    client = MlflowClient(study.config.track.uri)
    with pytest.raises(KeyboardInterrupt):
        run(study, Broken(7, KeyboardInterrupt()))
    first, before = runs_of(study)
    assert first.info.status == "KILLED"
    assert first.data.tags["hpo.state"] == "interrupted"
    assert "hpo resume" not in first.data.tags["mlflow.note.content"].splitlines()[0]
    assert "RUNNING" not in {child.info.status for child in before.values()}
    with pytest.raises(OSError, match="no space"):
        run(study, Broken(4, OSError("no space left")))
    parent, _ = runs_of(study)
    assert parent.info.status == "FAILED"
    assert parent.data.tags["hpo.state"] == "failed"
    assert "toy.lr" not in parent.data.params
    assert parent.data.tags["hpo.error"] == "OSError: no space left"
    assert "error.txt" in {item.path for item in client.list_artifacts(parent.info.run_id)}
    run(tracked_study(folder, trials=8))
    parent, children = runs_of(study)
    assert (parent.info.run_id, parent.info.status) == (first.info.run_id, "FINISHED")
    assert (parent.data.tags["hpo.state"], parent.data.tags["hpo.trials"]) == ("ended", "8 of 8")
    assert "hpo.error" not in parent.data.tags
    assert_shows_the_record(study)
    assert all(children[number].info.run_id == child.info.run_id for number, child in before.items())


@pytest.mark.slow
def test_the_parameters_of_a_study_stay_the_values_of_one_winner_and_a_tag_has_the_present_one(folder):
    first = run(tracked_study(folder, trials=2)).verdict.winner
    study = tracked_study(folder, trials=12)
    last = run(study).verdict.winner
    parent, children = runs_of(study)
    assert last.number != first.number, "otherwise this test shows nothing"
    assert parent.data.params["hpo.winner"] == f"trial {first.number}"
    for key, value in children[first.number].data.params.items():
        assert parent.data.params[key] == value
    assert parent.data.tags["hpo.winner"].startswith(f"trial {last.number}: ")


@pytest.mark.nightly
def test_what_a_race_stops_and_what_halving_does_not_train_on_is_shown_as_killed(folder):
    split = shipped("default", "split") | {"folds": 5, "race_after": 3, "race_level": 0.3}
    changes = {"strategy": "successive_halving", "objective": "tests.toy_data:noisy_continued", "split": split}
    study = tracked_study(folder, trials=8, **changes)
    history = run(study).verdict.history
    _, children = runs_of(study)
    stopped = {trial.number for trial in history if trial.state == "stopped"}
    longest = {trial.number for trial in history if trial.amount == 4}
    continued = {trial.continues for trial in history}
    killed = {number for number, child in children.items() if child.info.status == "KILLED"}
    assert stopped
    assert killed == stopped | (set(children) - longest - continued)
    assert killed > stopped
    assert_shows_the_record(study)


@pytest.mark.nightly
def test_what_is_trained_to_its_end_after_the_search_is_added_to_its_run(folder):
    study = tracked_study(folder, trials=5, strategy="asha", objective="tests.toy_data:noisy_continued")
    verdict = run(study).verdict
    _, children = runs_of(study)
    assert verdict.further_trained
    for trial in verdict.further_trained:
        data = children[trial.number].data
        assert (data.tags["hpo.amount"], data.metrics["score"]) == ("4", trial.score)
    assert_shows_the_record(study)


@pytest.mark.slow
def test_a_study_that_is_deleted_takes_its_trials_and_views_along_and_leaves_the_others_alone(folder):
    studies = {name: tracked_study(folder, study={**toy_config()["study"], "name": name}) for name in "ab"}
    uri, ids = studies["a"].config.track.uri, {}
    for name, study in studies.items():
        study = replace(study, folder=StudyFolder(folder / name))
        record = open_study(study)
        tracker = InThisProcess(study, MlflowSink(uri, "tests", folder))
        open_in_tracker(study, record, tracker)
        ids[name] = Notes(record).study_id
        record.close()
        for number in range(3):
            tracker.trial_opened(made_up_trial(number, [0.5]))
    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("tests")
    assert may_have_study(uri, ids["a"])
    assert delete_study(uri, ids["a"]) == 4
    assert [may_have_study(uri, ids[name]) for name in "ab"] == [False, True]
    assert delete_study(uri, ids["a"]) == 0
    left = client.search_runs([experiment.experiment_id])
    assert [run.info.run_name for run in left if run.data.tags["hpo.kind"] == "study"] == ["b"]
    assert len(left) == 4
    tags = client.get_experiment_by_name("tests").tags
    assert ids["b"] in str(tags.keys())
    assert ids["a"] not in str(tags.keys())


def test_nothing_is_deleted_of_a_store_that_does_not_exist(tmp_path):
    assert delete_study(f"sqlite:///{tmp_path}/mlflow.db", "1") == 0
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["a//b", "../a", "a/", "/a", ".", "a/./b", "x" * 400, "é@%", "a/b", "loss"])
def test_every_name_becomes_one_that_mlflow_takes(name):
    from mlflow.utils.validation import _validate_metric_name, _validate_param

    _validate_metric_name(f"fold_0_repeat_1/final_{mlflow_name(name)}")
    _validate_param(mlflow_name(name), "1")
    assert mlflow_name(name) == name or name not in ("a/b", "loss", "é")
