"""Data that are given to a search: split before it, given without the test split, and kept with the study."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import hpo
from hpo.cli.main import main
from hpo.workers.objective.given_data import GivenData
from tests.hpo.commands.searched import found, note, noted, refuses

ROWS, FOLDS = 40, 4
SPACE = {"lr": (0.1, 1.0)}


def frame(shift=0):
    """Rows whose `x` tells them apart; classes of 10 and 30."""
    x = np.arange(ROWS) + shift
    columns = {"x": x, "y": (x % 4 == 0).astype("int8"), "text": [f"row {each}" for each in x]}
    return pd.DataFrame(columns, index=x[::-1])


X = np.arange(ROWS)
TWICE = np.stack([X, 2 * X], axis=1)
FORMS = [frame(), X, [X, TWICE], (X, TWICE), {"x": X, "file": TWICE}]


def xs(data):
    if isinstance(data, pd.DataFrame | dict):
        data = data["x"]
    return np.asarray(data[0] if isinstance(data, list | tuple) else data)


def tells(config, trial):
    seen = xs(trial.data)
    parts = (seen[part].tolist() for part in (trial.train, trial.validation))
    note([trial.fold, type(trial.data).__name__, seen.tolist(), *parts])
    return config["lr"]


@pytest.mark.parametrize("data", FORMS, ids=[type(form).__name__ for form in FORMS])
def test_a_training_gets_the_development_rows_alone_and_folds_divide_them(data):
    study = found(tells, space=SPACE, trials=2, data=data, folds=FOLDS)
    study.test(with_default=False)
    *searched, (_, _, everything, *tested) = noted()
    assert len(searched) == 2 * FOLDS
    development = searched[0][2]
    assert len(development) == 36
    for fold, kind, seen, train, validation in searched:
        assert (kind, seen, sorted(train + validation)) == (type(data).__name__, development, development)
        assert validation == searched[fold][4]
    assert sorted(x for line in searched[:FOLDS] for x in line[4]) == development
    assert (everything, tested[0]) == ([*range(ROWS)], development)
    assert sorted(tested[1] + development) == [*range(ROWS)]
    (path,) = (study.folder / "data").iterdir()
    stored = pd.read_parquet(path) if path.suffix == ".parquet" else np.load(path)["arr_0"]
    assert sorted(xs(stored).tolist()) == development
    data = json.loads((study.folder / "report.json").read_text())["data"]
    assert (data["split"]["is_test_within_reach"], "given_data" in data["files"]) == (False, True)
    refuses("used before", study.test)


def test_the_rows_come_back_as_they_were_given(tmp_path):
    columns = {
        "category": pd.Categorical(["b", "a", "b"], ["a", "b", "c"], ordered=True),
        "whole": pd.array([1, None, 3], dtype="Int64"),
        "time": pd.to_datetime(["2020-01-01", None, "2021-01-01"]).tz_localize("Europe/Berlin"),
        "text": ["x", None, "z"],
        "small": np.array([1.5, np.nan, 2.5], dtype="float16"),
    }
    given = pd.DataFrame(columns, index=["p", "q", "p"])
    data = GivenData.of(given)
    data.write(tmp_path / "rows", [2, 0])
    pd.testing.assert_frame_equal(data.read(tmp_path / "rows"), given.iloc[[2, 0]])
    arrays = {"texts": np.array(["a", "bc"]), "times": np.array(["2020", "NaT"], "M8[D]"), "file": np.zeros((2, 0, 3))}
    data = GivenData.of(arrays)
    data.write(tmp_path / "arrays")
    read = data.read(tmp_path / "arrays")
    assert [each.dtype for each in read.values()] == [each.dtype for each in arrays.values()]
    assert [each.tolist() for each in read.values()] == [each.tolist() for each in arrays.values()]


def numbered(config, trial):
    assert (trial.data, trial.train.dtype.kind) == (None, "i")
    note([trial.fold, [*map(int, trial.train)], [*map(int, trial.validation)]])
    return float(trial.train.size)


def test_with_a_number_a_training_gets_indices_and_the_report_says_what_it_could_reach(capsys):
    study = found(numbered, space=SPACE, trials=1, data=ROWS, folds=2, progress=True)
    assert "can also read the test split" in capsys.readouterr().out
    first, second = [sorted(train + validation) for _, train, validation in noted()]
    assert (first == second, len(first), {*first} < {*range(ROWS)}) == (True, 36, True)
    report = json.loads((study.folder / "report.json").read_text())
    assert report["data"]["split"]["is_test_within_reach"] is True
    assert any("read test examples" in line for line in report["cautions"])
    assert study.test(with_default=False)["score"] == 36
    assert not (study.folder / "given_data").exists()


def test_parts_have_their_share_of_every_class():
    study = found(tells, space=SPACE, trials=1, data=frame(), folds=2, stratify_by="y")
    report = json.loads((study.folder / "report.json").read_text())
    labels = {name: part["labels"] for name, part in report["data"]["split"]["parts"].items()}
    assert labels == {"development": {"0": 27, "1": 9}, "test": {"0": 3, "1": 1}}


@pytest.mark.slow
def test_the_split_and_the_scores_are_the_same_for_any_workers():
    def scores(config, trial):
        return float(trial.data.iloc[trial.validation]["x"].sum() * config["lr"])

    def of(name, **arguments):
        study = found(scores, space=SPACE, trials=3, data=frame(), folds=FOLDS, name=name, **arguments)
        return study.trials[["lr", *(f"fold_{fold}" for fold in range(FOLDS))]]

    pd.testing.assert_frame_equal(of("here"), of("there", settings={"dispatch": "ray"}, workers=2))


@pytest.mark.slow
def test_other_data_are_another_study_and_are_refused_under_its_name():
    arguments = {"space": SPACE, "trials": 1, "folds": 2}
    assert [found(tells, data=frame(shift), **arguments).name for shift in (0, 0, 100)] == ["tells", "tells", "tells-2"]
    others = [frame(100), frame().rename(columns={"x": "z"}), frame().astype({"x": "float64"}), ROWS]
    for data, says in zip(others, [*["development was"] * 3, "was a DataFrame and is now a number"], strict=True):
        refuses(f"data:? {says}", found, tells, data=data, name="tells", **arguments)


@pytest.mark.slow
def test_it_continues_is_tested_trained_and_repeated_from_its_folder_alone(capsys):
    """The data of the script are gone; a copy of the folder elsewhere, or without the workers' copy, is enough."""
    found(tells, space=SPACE, trials=1, data=frame(), folds=2)
    shutil.rmtree("runs/tells/data")
    assert main(["resume", "tells", "study.trials=2"]) == 0
    assert main(["reproduce", "tells", "--trial", "all"]) == 0
    assert "what changed: nothing" in capsys.readouterr().out
    assert "score" in hpo.load("tells").train(progress=False)
    assert main(["search", "--replay", "runs/tells", "study.name=again", "dispatch=local", "track=none"]) == 0
    main(["archive", "tells", "tells.tar.gz"])
    hpo.unarchive("tells.tar.gz", "elsewhere")
    assert (main(["test", "elsewhere/tells"]), main(["report", "tells", "--publish"])) == (0, 0)
    assert Path("studies/tells/report.json").exists()
    assert not [*Path("studies").rglob("*given_data*")]
    Path("runs/tells/given_data/rows.parquet").write_bytes(b"PAR1")
    refuses(r"given_data/rows.parquet: cannot be read .* restore the file", hpo.load("tells").test)


def test_a_function_of_optunas_shape_and_one_of_a_module_get_the_rows(monkeypatch):
    def shaped(trial):
        return trial.suggest_float("lr", 0.1, 1.0) + len(trial.data)

    assert found(shaped, space=None, data=frame(), trials=1, folds=2).trials["score"][0] > 36
    Path("own_training.py").write_text("def train(config, trial):\n    return trial.data.iloc[trial.train].size\n")
    monkeypatch.syspath_prepend(str(Path.cwd()))
    assert found("own_training:train", space=SPACE, data=frame(), trials=1, folds=2).trials["score"][0] == 18 * 3


HELD = frame()
DESCRIBES = hpo.objective(describe_data=lambda _: {"size": 3})(lambda config, trial: 1.0)


@pytest.mark.parametrize(("given", "says"), [
    ({"data": frame()["x"]}, "given a Series; series.to_frame() makes a DataFrame"),
    ({"data": [1, 2]}, "given a list of int; call numpy.asarray(...) to convert a list or tuple to an array"),
    ({"data": [np.zeros(3), np.zeros(4)]}, "all arrays must have the same length, given 3, 4"),
    ({"data": 0}, "must be at least 1, given 0"),
    ({"data": {"x": frame()}}, "put all columns into one DataFrame"),
    ({"data": frame().iloc[:4], "folds": 5}, "number of examples outside the test split (3), given 5"),
    ({"stratify_by": "y"}, "stratify_by: has no effect without data"),
    ({"data": X, "objective": {}, "space": None}, "data: has no effect with a complete configuration"),
    ({"data": []}, "given an empty list"),
    ({"data": {1: X}}, "the keys of a dict must be texts, given 1"),
    ({"data": np.array(1)}, "given an array without rows"),
    ({"data": np.array([None, 1])}, "an array of Python objects cannot be written"),
    ({"data": frame().iloc[:0]}, "must have at least one row"),
    ({"data": frame().rename(columns={"x": 1})}, "use texts as column names"),
    ({"data": frame().assign(y=np.nan), "stratify_by": "y"}, "stratify_by: 'y' has rows without a class"),
    ({"data": {"y": TWICE}, "stratify_by": "y"}, "stratify_by: 'y' must have one class per row, given the shape"),
    ({"data": X, "stratify_by": "y"}, "stratify_by: must be left out, given 'y'"),
    ({"data": pd.concat([frame(), frame()[["x"]]], axis=1)}, "must have unique column names, given 'x' twice"),
    ({"data": frame().assign(bag=[[1]] * ROWS)}, "would change column 'bag' (object)"),
    ({"data": frame(), "stratify_by": "z"}, "stratify_by: must be one of x, y, text, given 'z'"),
    ({"data": 40, "stratify_by": "y"}, "if data is a number"),
    ({"folds": 5}, "no data to split; set folds=1, or give `data` from Python"),
    ({"data": frame(), "objective": lambda config: 1.0}, "data: cannot be read by objective(config)"),
    ({"data": HELD, "objective": lambda config, trial: len(HELD)}, "uses the variable `HELD`"),
    ({"data": frame(), "objective": DESCRIBES}, "has a function describe_data"),
])  # fmt: skip
def test_bad_data_are_refused_in_one_line_and_nothing_is_created(given, says):
    refuses(re.escape(says), found, **{"objective": tells, "space": SPACE, **given})
    assert not Path("runs").exists()
