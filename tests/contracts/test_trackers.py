"""What the tracker promises: MLflow shows what the record holds, and sending it twice changes nothing."""

import contextlib
import json

import pytest
from mlflow import MlflowClient

from hpo.report.sections.curves import improvements
from hpo.track.views import opened, tag_of
from tests.studies import toy_config
from tests.tracked import assert_shows_the_record, front_study, new_store, run, runs_of, synchronise, tracked_study

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tracked")
    new_store(folder)
    with contextlib.chdir(folder):
        study = tracked_study(folder, trials=14, objective="tests.toy_data:odd_names")
        return study, run(study, has_figures=True)


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
    for trial in result.run.history:
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


def test_a_failed_trial_says_why(finished_run):
    study, result = finished_run
    failed = [trial for trial in result.run.history if trial.state == "failed"]
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
    assert parent.data.metrics["best_score"] == result.run.winner.score
    client = MlflowClient(study.config.track.uri)
    assert parent.data.tags["hpo.model"] == "none: tests.toy_data keeps no models: it has no run_test"
    assert client.search_registered_models() == []
    artifacts = {item.path for item in client.list_artifacts(parent.info.run_id)}
    assert {"report.md", "report.html", "report.json", "trials.csv", "config.yaml", "best.yaml"} <= artifacts
    assert f"In MLflow: `hpo ui {study.config.study.name}`" in (study.folder.path / "report.md").read_text()


def test_the_parameters_of_a_study_are_what_is_fixed_and_the_values_of_its_winner(finished_run):
    study, result = finished_run
    params = runs_of(study)[0].data.params
    winner = result.run.winner
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
    assert f"trial {result.run.winner.number}: " in shown["hpo.winner"]
    assert "runs?workflowType=machine_learning&viewStateShareKey=hpo-studies" in tags["mlflow.note.content"]
    assert parent.info.run_id in tags["mlflow.note.content"]


def test_scores_stand_against_the_number_of_the_trial(finished_run):
    study, result = finished_run
    parent, _ = runs_of(study)
    client = MlflowClient(study.config.track.uri)
    points = client.get_metric_history(parent.info.run_id, "trial_score")
    assert {p.step: p.value for p in points} == {t.number: t.score for t in result.run.history if t.score is not None}
    best = [(p.step, p.value) for p in client.get_metric_history(parent.info.run_id, "best_score")]
    assert [value for _, value in best] == sorted(value for _, value in best)
    assert best[-1] == (len(result.run.history), result.run.winner.score)
    assert [step for step, _ in best[:-1]] == [trial.number for trial in improvements(result.run.history)]
    # The page shows them in this order.
    assert next(iter(parent.data.metrics)) == "best_score"


@pytest.mark.slow
def test_the_scale_of_a_trial_and_its_cost_are_on_the_axes_of_charts(tmp_path):
    new_store(tmp_path)
    scales = [{"toy.momentum": 0.1, "toy.layers": layers} for layers in (3, 2, 1)]
    section = toy_config("ladder", trials=11)["study"] | {"scales": scales}
    space = {"toy": {"lr": {"low": 1e-4, "high": 1.0, "log": True}}}
    study = tracked_study(tmp_path, strategy="ladder", trials=11, study=section, space=space)
    result = run(study)
    parent, children = runs_of(study)
    for trial in result.run.history:
        run_ = children[trial.number].data
        changed = {key: str(value) for key, value in scales[trial.scale - 1].items()}
        assert run_.params == {key: str(value) for key, value in trial.point.items()} | changed
        assert run_.metrics["cost"] == study.config.strategy["costs"][trial.scale - 1]
    experiment = MlflowClient(study.config.track.uri).get_experiment(parent.info.experiment_id)
    state = opened(experiment.tags[tag_of(parent.data.tags["hpo.study_id"])])
    charts = {(card["type"], card.get("xaxis", {}).get("key")): card for card in state["compareRunCharts"]}
    assert ("SCATTER", "cost") in charts
    assert charts["PARALLEL", None]["selectedParams"][0] == "study.scale"
    # The winner's are those of the target, and so is the best score, whatever smaller scales came to.
    assert parent.data.params["toy.layers"] == "1"
    points = MlflowClient(study.config.track.uri).get_metric_history(parent.info.run_id, "best_score")
    scored = {trial.number: trial for trial in result.run.history}
    by_scale = [scored[point.step].scale for point in points if point.step in scored]
    assert by_scale == sorted(by_scale)
    assert {*by_scale} == {1, 2, 3}
    assert points[-1].value == result.run.winner.score
    assert "in 1 hyperparameter at 3 scales" in parent.data.tags["mlflow.note.content"]


def test_the_note_tells_the_winner_the_best_and_how_to_reproduce(finished_run):
    study, result = finished_run
    parent, children = runs_of(study)
    note = parent.data.tags["mlflow.note.content"]
    winner = result.run.winner
    assert note.startswith(f"**Winner: [trial {winner.number}](#/experiments/")
    assert f"{winner.score:.4f}" in note.splitlines()[0]
    assert f"hpo reproduce runs:/{parent.info.run_id}" in note
    assert "14 of 14 trials" in note
    assert "@@" not in note
    best = [trial for trial in result.run.history.ranked(5) if trial.state == "complete"]
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
    verdict, goal = result.run, study.goal
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


@pytest.mark.slow
@pytest.mark.parametrize("name", ["finished_run", "front_run"])
def test_sending_it_again_changes_nothing(name, request, monkeypatch):
    study, _ = request.getfixturevalue(name)
    # What is told of paths is told from here.
    monkeypatch.chdir(study.folder.path.parent)
    before = everything(study)
    assert synchronise(study)
    assert everything(study) == before
