"""What the tracker promises: MLflow shows what the record holds, and sending it twice changes nothing."""

import contextlib
import json
from types import SimpleNamespace

import pytest
from mlflow import MlflowClient

from hpo.report.sections.curves import improvements
from hpo.track.names import metric_names
from hpo.track.views import opened, tag_of
from hpo.trials.goal import Goal
from tests.studies import toy_config
from tests.tracked import assert_shows_the_record, front_study, new_store, run, runs_of, synchronise, tracked_study

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def shown(study, **options):
    """Run a study and return it with its result and what MLflow has of it."""
    result = run(study, **options).run
    client = MlflowClient(study.config.track.uri)
    parent, children = runs_of(study)
    given = {"study": study, "result": result, "client": client, "parent": parent, "children": children}
    tags = client.get_experiment_by_name("tests").tags
    return SimpleNamespace(**given, data=parent.data, views=tags, view=tag_of(parent.data.tags["hpo.study_id"]))


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tracked")
    new_store(folder)
    with contextlib.chdir(folder):
        return shown(tracked_study(folder, trials=14, objective="toy_data:odd_names"), has_figures=True)


@pytest.fixture(scope="module")
def front(tmp_path_factory):
    folder = tmp_path_factory.mktemp("front")
    new_store(folder)
    with contextlib.chdir(folder):
        return shown(front_study(folder))


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
def test_mlflow_shows_what_the_record_holds(toy):
    assert_shows_the_record(toy.study)
    for trial in toy.result.history:
        child = toy.children[trial.number]
        assert child.info.run_name.startswith(f"{trial.number:04d} ")
        assert child.data.metrics["trial"] == trial.number
        assert trial.state == "failed" or child.data.metrics["fold_0/final_acc_5___"] == 1.0


@pytest.mark.slow
def test_datasets_are_listed_with_sizes_and_fingerprints(toy):
    datasets = {i.tags[0].value: i.dataset for i in toy.parent.inputs.dataset_inputs}
    assert (set(datasets), len(toy.parent.inputs.dataset_inputs)) == ({"development", "test"}, 2)
    profile = json.loads(datasets["test"].profile)
    assert (profile["size"], profile["fraction"]) == (9, 0.1)
    assert datasets["test"].digest == toy.study.plan.parts["test"]["fingerprint"][:12]


@pytest.mark.slow
def test_a_failed_trial_says_why(toy):
    failed = next(trial for trial in toy.result.history if trial.state == "failed")
    child = toy.children[failed.number]
    assert child.data.tags["hpo.error"] == failed.error
    assert [item.path for item in toy.client.list_artifacts(child.info.run_id)] == ["error.txt"]


@pytest.mark.slow
def test_the_run_of_the_study_has_its_settings_its_winner_and_its_files(toy):
    tags, params, winner = toy.data.tags, toy.data.params, toy.result.winner
    assert toy.parent.info.status == "FINISHED"
    assert (tags["hpo.strategy"], tags["hpo.seed"], params["strategy.population"]) == ("evolutionary", "0", "8")
    assert {key: params[key] for key in toy.study.space.keys} == {k: str(v) for k, v in winner.point.items()}
    assert (params["hpo.winner"], toy.data.metrics["best_score"]) == (f"trial {winner.number}", winner.score)
    assert not [key for key in params if key.startswith("dispatch.")]
    assert "None" not in params.values()
    assert tags["hpo.model"] == "none: toy_data keeps no models: it has no run_test"
    assert toy.client.search_registered_models() == []
    artifacts = {item.path for item in toy.client.list_artifacts(toy.parent.info.run_id)}
    assert {"report.md", "report.html", "report.json", "trials.csv", "config.yaml", "best.yaml"} <= artifacts
    assert f"In MLflow: `hpo ui {toy.study.config.study.name}`" in (toy.study.folder.path / "report.md").read_text()


@pytest.mark.slow
def test_a_study_is_a_row_in_the_view_of_all_studies(toy):
    state = opened(toy.views["mlflow.sharedViewState.hpo-studies"])
    rows = toy.client.search_runs([toy.parent.info.experiment_id], state["searchFilter"])
    assert [row.info.run_id for row in rows] == [toy.parent.info.run_id]
    values = toy.data.tags | toy.data.metrics
    # There was no test evaluation.
    assert {column.split("`")[1] for column in state["selectedColumns"]} - set(values) == {"test_score"}
    assert (values["hpo.state"], values["hpo.goal"], values["hpo.trials"]) == ("ended", "max score", "14 of 14")
    assert f"trial {toy.result.winner.number}: " in values["hpo.winner"]
    note = toy.views["mlflow.note.content"]
    assert "runs?workflowType=machine_learning&viewStateShareKey=hpo-studies" in note
    assert toy.parent.info.run_id in note


@pytest.mark.slow
def test_scores_are_drawn_by_the_number_of_the_trial(toy):
    history = toy.result.history
    points = toy.client.get_metric_history(toy.parent.info.run_id, "trial_score")
    assert {p.step: p.value for p in points} == {t.number: t.score for t in history if t.score is not None}
    *best, last = [(p.step, p.value) for p in toy.client.get_metric_history(toy.parent.info.run_id, "best_score")]
    assert last == (len(history), toy.result.winner.score)
    assert best == [(trial.number, trial.score) for trial in improvements(history)]
    # The page shows them in this order.
    assert next(iter(toy.data.metrics)) == "best_score"


@pytest.mark.slow
def test_the_note_has_the_winner_the_best_trials_and_how_to_reproduce(toy):
    note, winner = toy.data.tags["mlflow.note.content"], toy.result.winner
    assert note.startswith(f"**Winner: [trial {winner.number}](#/experiments/")
    assert f"{winner.score:.4f}" in note.splitlines()[0]
    assert f"hpo reproduce runs:/{toy.parent.info.run_id}" in note
    assert ("14 of 14 trials" in note, "@@" in note) == (True, False)
    best = [trial for trial in toy.result.history.ranked(5) if trial.state == "complete"]
    rows = [line for line in note.splitlines() if line.startswith("| [")]
    assert [row.partition("]")[0] for row in rows] == [f"| [{trial.number}" for trial in best]
    assert all(toy.children[trial.number].info.run_id in row for trial, row in zip(best, rows, strict=True))


@pytest.mark.slow
def test_the_table_of_trials_is_a_saved_view_of_the_experiment(toy):
    view = toy.views[toy.view]
    state = opened(view)
    assert json.loads(view)["name"] == "toy: trials"
    assert toy.parent.info.run_id in state["searchFilter"]
    assert state["selectedColumns"][0] == "metrics.`score`"
    assert set(state["selectedColumns"]) >= {f"params.`{key}`" for key in toy.study.space.keys}


@pytest.mark.slow
def test_the_scale_of_a_trial_and_its_cost_are_on_the_axes_of_charts(tmp_path):
    new_store(tmp_path)
    scales = [{"toy.momentum": 0.1, "toy.layers": layers} for layers in (3, 2, 1)]
    section = toy_config("ladder", trials=11)["study"] | {"scales": scales}
    space = {"toy": {"lr": {"low": 1e-4, "high": 1.0, "log": True}}}
    ladder = shown(tracked_study(tmp_path, strategy="ladder", trials=11, study=section, space=space))
    history = ladder.result.history
    for trial in history:
        data = ladder.children[trial.number].data
        changed = {key: str(value) for key, value in scales[trial.scale - 1].items()}
        assert data.params == {key: str(value) for key, value in trial.point.items()} | changed
        assert data.metrics["cost"] == ladder.study.config.strategy["costs"][trial.scale - 1]
    cards = opened(ladder.views[ladder.view])["compareRunCharts"]
    charts = {(card["type"], card.get("xaxis", {}).get("key")): card for card in cards}
    assert ("SCATTER", "cost") in charts
    assert charts["PARALLEL", None]["selectedParams"][0] == "study.scale"
    # The winner's are those of the target, and so is the best score, whatever the scores at smaller scales.
    assert ladder.data.params["toy.layers"] == "1"
    points = ladder.client.get_metric_history(ladder.parent.info.run_id, "best_score")
    scaled = {trial.number: trial.scale for trial in history}
    by_scale = [scaled[point.step] for point in points if point.step in scaled]
    assert (by_scale, {*by_scale}) == (sorted(by_scale), {1, 2, 3})
    assert points[-1].value == ladder.result.winner.score
    assert "in 1 hyperparameter at 3 scales" in ladder.data.tags["mlflow.note.content"]


@pytest.mark.slow
def test_of_several_metrics_every_one_is_shown_and_which_trials_are_on_the_front_and_within_the_limits(front):
    assert_shows_the_record(front.study)
    result, metrics, tags = front.result, front.data.metrics, front.data.tags
    complete = [trial for trial in result.history if trial.state == "complete"]
    assert 0 < len(result.front) < sum(trial.keeps_limits for trial in complete) < len(complete)
    assert metrics["num_on_front"] == len(result.front)
    for name in front.study.goal.names:
        assert metrics[f"chosen/{name}"] == result.winner.mean(name)
    assert (tags["hpo.chosen_trial"], tags["hpo.limits"]) == (str(result.winner.number), "seconds <= 4")
    assert tags["hpo.chosen_as"] == "the knee of the front"
    points = front.client.get_metric_history(front.parent.info.run_id, "trial_size")
    assert {point.step: point.value for point in points} == {trial.number: trial.mean("size") for trial in complete}
    # Whatever is better beyond the limits.
    assert metrics["best_score"] == max(trial.score for trial in complete if trial.keeps_limits)
    child = front.children[complete[0].number].data.metrics
    assert child["seconds"] == pytest.approx(complete[0].seconds)
    assert child["metric.seconds"] == complete[0].mean("seconds")


@pytest.mark.slow
def test_of_several_metrics_the_views_have_each_as_column_and_chart_and_one_has_the_front_alone(front):
    every, alone = (opened(front.views[view]) for view in (front.view, f"{front.view}-front"))
    metrics = ["score", "size", "metric.seconds"]
    flags = ["tags.`hpo.is_on_front`", "tags.`hpo.is_within_limits`"]
    assert every["selectedColumns"][:5] == [*(f"metrics.`{name}`" for name in metrics), *flags]
    assert (every["orderByKey"], every["orderByAsc"]) == ("metrics.`score`", False)
    axes = [(c["xaxis"]["key"], c["yaxis"]["key"]) for c in every["compareRunCharts"] if c["type"] == "SCATTER"]
    assert axes == [("score", "size"), *(("trial", name) for name in metrics)]
    assert alone | {"searchFilter": ""} == every | {"searchFilter": ""}
    share_key = f"viewStateShareKey={front.data.tags['hpo.study_id']}-front"
    assert share_key in front.data.tags["mlflow.note.content"]
    found = front.client.search_runs([front.parent.info.experiment_id], alone["searchFilter"])
    assert len(found) == front.data.metrics["num_on_front"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["toy", "front"])
def test_sending_it_again_changes_nothing(name, request, monkeypatch):
    study = request.getfixturevalue(name).study
    # Printed paths are relative to here.
    monkeypatch.chdir(study.folder.path.parent)
    before = everything(study)
    assert synchronise(study)
    assert everything(study) == before


def test_a_metric_with_a_name_of_ours_has_another_name():
    names = metric_names(Goal({"accuracy": "maximize", "cost": "minimize", "num_parameters": "minimize"}))
    assert [*names.values()] == ["accuracy", "metric.cost", "metric.num_parameters"]
