"""What the tracker promises: MLflow shows what the record holds, and sending it twice changes nothing."""

import contextlib
import json
from types import SimpleNamespace

import pytest
from mlflow import MlflowClient

from hpo.report.sections.curves import improvements
from hpo.track.views import opened, tag_of
from tests.studies import toy_config
from tests.tracked import assert_shows_the_record, front_study, new_store, run, runs_of, synchronise, tracked_study

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")]


def shown(study, **options):
    result, client = run(study, **options).run, MlflowClient(study.config.track.uri)
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
    client = MlflowClient(study.config.track.uri)
    parent, children = runs_of(study)
    found = []
    for run_ in (parent, *(children[number] for number in sorted(children))):
        histories = [client.get_metric_history(run_.info.run_id, key) for key in sorted(run_.data.metrics)]
        points = [(p.key, p.step, p.value, p.timestamp) for history in histories for p in history]
        found.append((str(run_.info), run_.data.params, run_.data.tags, str(run_.inputs), points))
    return found


def test_mlflow_shows_what_the_record_holds(toy):
    assert_shows_the_record(toy.study)
    for trial in toy.result.history:
        child = toy.children[trial.number]
        assert child.info.run_name.startswith(f"{trial.number:04d} ")
        assert child.data.metrics["trial"] == trial.number
        assert trial.state == "failed" or child.data.metrics["fold_0/final_acc_5___"] == 1.0
        artifacts = [item.path for item in toy.client.list_artifacts(child.info.run_id)]
        assert artifacts == (["error.txt"] if trial.state == "failed" else [])


def test_the_run_of_the_study_has_its_settings_its_data_its_winner_and_its_files(toy):
    tags, params, winner, run_id = toy.data.tags, toy.data.params, toy.result.winner, toy.parent.info.run_id
    assert toy.parent.info.status == "FINISHED"
    assert (tags["hpo.strategy"], tags["hpo.seed"], params["strategy.population"]) == ("evolutionary", "0", "8")
    assert {key: params[key] for key in toy.study.space.keys} == {k: str(v) for k, v in winner.point.items()}
    assert (params["hpo.winner"], toy.data.metrics["best_score"]) == (f"trial {winner.number}", winner.score)
    assert not [key for key in params if key.startswith("dispatch.")]
    datasets = {each.tags[0].value: each.dataset for each in toy.parent.inputs.dataset_inputs}
    assert (set(datasets), json.loads(datasets["test"].profile)["size"]) == ({"development", "test"}, 9)
    assert datasets["test"].digest == toy.study.plan.parts["test"]["fingerprint"][:12]
    note = tags["mlflow.note.content"]
    assert (f"hpo reproduce runs:/{run_id}" in note, "@@" in note) == (True, False)
    assert tags["hpo.model"] == "none: toy_data keeps no models: it has no run_test"
    artifacts = {item.path for item in toy.client.list_artifacts(run_id)}
    assert {"report.md", "report.html", "report.json", "trials.csv", "config.yaml", "best.yaml"} <= artifacts


def test_saved_views_have_a_row_for_each_study_and_each_of_its_trials(toy):
    state, run_id = opened(toy.views["mlflow.sharedViewState.hpo-studies"]), toy.parent.info.run_id
    rows = toy.client.search_runs([toy.parent.info.experiment_id], state["searchFilter"])
    assert [row.info.run_id for row in rows] == [run_id]
    values = toy.data.tags | toy.data.metrics
    assert {column.split("`")[1] for column in state["selectedColumns"]} - set(values) == {"test_score"}
    assert (values["hpo.state"], values["hpo.goal"], values["hpo.trials"]) == ("ended", "max score", "14 of 14")
    trials = opened(toy.views[toy.view])
    assert run_id in trials["searchFilter"]
    assert set(trials["selectedColumns"]) >= {"metrics.`score`", *(f"params.`{key}`" for key in toy.study.space.keys)}


def test_scores_are_drawn_by_the_number_of_the_trial(toy):
    history, points = toy.result.history, toy.client.get_metric_history(toy.parent.info.run_id, "trial_score")
    assert {p.step: p.value for p in points} == {t.number: t.score for t in history if t.score is not None}
    *best, last = [(p.step, p.value) for p in toy.client.get_metric_history(toy.parent.info.run_id, "best_score")]
    assert last == (len(history), toy.result.winner.score)
    assert best == [(trial.number, trial.score) for trial in improvements(history)]


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
    assert metrics["best_score"] == max(trial.score for trial in complete if trial.keeps_limits)
    every, alone = (opened(front.views[view]) for view in (front.view, f"{front.view}-front"))
    flags = ["tags.`hpo.is_on_front`", "tags.`hpo.is_within_limits`"]
    assert {*every["selectedColumns"]} >= {"metrics.`score`", "metrics.`size`", "metrics.`metric.seconds`", *flags}
    found = front.client.search_runs([front.parent.info.experiment_id], alone["searchFilter"])
    assert len(found) == metrics["num_on_front"]
    child = front.children[complete[0].number].data.metrics
    assert child["seconds"] == pytest.approx(complete[0].seconds)
    assert child["metric.seconds"] == complete[0].mean("seconds")


def test_trials_at_a_scale_show_what_it_changes_and_their_cost_and_the_winner_is_of_the_target(tmp_path):
    new_store(tmp_path)
    scales = [{"toy.momentum": 0.1, "toy.layers": layers} for layers in (3, 2, 1)]
    section = toy_config("ladder", trials=11)["study"] | {"scales": scales}
    space = {"toy": {"lr": {"low": 1e-4, "high": 1.0, "log": True}}}
    ladder = shown(tracked_study(tmp_path, strategy="ladder", trials=11, study=section, space=space))
    for trial in ladder.result.history:
        data, values = ladder.children[trial.number].data, {**trial.point, **scales[trial.scale - 1]}
        assert data.params == {key: str(value) for key, value in values.items()}
        assert data.metrics["cost"] == ladder.study.config.strategy["costs"][trial.scale - 1]
    assert ladder.data.params["toy.layers"] == "1"
    assert ladder.data.metrics["best_score"] == ladder.result.winner.score


@pytest.mark.parametrize("name", ["toy", "front"])
def test_sending_it_again_changes_nothing(name, request, monkeypatch):
    study = request.getfixturevalue(name).study
    monkeypatch.chdir(study.folder.path.parent)
    before = everything(study)
    assert synchronise(study)
    assert everything(study) == before
