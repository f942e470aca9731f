"""`hpo test --front`: one test evaluation in which every trial of the Pareto front is scored."""

import json
from pathlib import Path

import pytest

import hpo as toolkit
from hpo.trials.space.space import point_key
from hpo.trials.trial import training_seed
from hpo.workers.training.tasks import FINAL_FOLD
from tests.hpo.cli.commands import prints, refused, searched
from tests.studies import refuses, shipped, toy_config

FRONT = {"metrics": {"score": "maximize", "size": "minimize"}, "choose": {"best": "score", "within": {"size": 0.5}}}
SEED = shipped("default", "study")["seed"]


def toy(capsys, folds=1, **changes):
    """Return the folder of a search of three sizes, all of which are its front; the chosen one is in the middle."""
    tree = toy_config("grid", {"toy": {"layers": [2, 3, 4]}}, 3, "toy_models:run_fold")
    tree["study"] |= {"checkpoints": 1} | FRONT | changes
    tree["split"] |= {"folds": folds, "test_fraction": 0.2}
    return searched(capsys, tree)


@pytest.mark.slow
@pytest.mark.nightly("3")
@pytest.mark.parametrize("folds", [1, 3])
def test_the_whole_front_is_scored_in_one_evaluation(capsys, folds):
    folder, before = toy(capsys, folds), Path("kept").read_text().splitlines()
    models = {path.read_text().split()[0] for path in folder.glob("checkpoints/*/layers")}
    assert "3" in models
    report = json.loads((folder / "report.json").read_text())
    chosen, members = report["winner"]["number"], report["front"]["members"]
    assert [each["command"] for each in members] == [f"hpo reproduce toy --trial {each['number']}" for each in members]
    out = prints(capsys, "test", "toy", "--front", "--no-default")
    result = json.loads((folder / "test.json").read_text())
    by_layers = {round(each["validation_metrics"]["size"]): each for each in result["front"]}
    for each in (result, result["front"][0]):
        assert (each["trial"], each["metrics"]) == (chosen, {"score": 2.5})
    assert by_layers[2]["metrics"] == {"score": 1.5}
    assert {size: each["validation_score"] for size, each in by_layers.items()} == {2: 2.0, 3: 3.0, 4: 4.0}
    assert ("four is too many" in by_layers[4]["error"], "metrics" in by_layers[4]) == (True, False)
    assert "four is too many" in out
    # Deleted models were trained again with the seeds of the winner's: on a hold-out or on all folds.
    again = [line.split() for line in Path("kept").read_text().splitlines()[len(before) :]]
    assert {layers for layers, _, _ in again} == {"2", "3", "4"} - models
    for layers, seed, has_validation in again:
        key, fold = point_key({"toy.layers": int(layers)}), FINAL_FOLD if folds > 1 else 0
        assert (int(seed), has_validation) == (training_seed(SEED, key, fold), str(folds == 1))
    for log in (folder / "test_evaluations.jsonl", folder.parent / "test_evaluations.jsonl"):
        (evaluation,) = map(json.loads, log.read_text().splitlines())
        assert sorted(evaluation["scored"]) == [0, 1, 2]
    for way in ([], ["--front"]):
        assert "with 3 configurations" in refused(capsys, "test", "toy", *way)


@pytest.mark.slow
def test_from_python_the_front_is_a_table_and_a_second_evaluation_counts_all(capsys):
    toy(capsys)
    study = toolkit.load("toy")
    assert study.test(with_default=False) == {"score": 2.5}
    refuses(toolkit.HpoError, "used before", study.test_front)
    table = study.test_front(again=True, with_default=False)
    assert (table["is_chosen"].tolist(), table["score"].tolist()[0]) == ([True, False, False], 2.5)
    assert sorted(table["validation.size"]) == [2, 3, 4]
    result = json.loads((study.folder / "test.json").read_text())
    assert (result["evaluations_of_these_data"], result["scored_of_these_data"]) == (2, 4)


def test_with_one_metric_the_front_is_refused_and_nothing_is_evaluated(capsys):
    folder = toy(capsys, metrics=None, choose="knee", limits={"size": 9}, trials=1)
    assert "`--front`" in refused(capsys, "test", "toy", "--front")
    assert not (folder / "test_evaluations.jsonl").exists()
