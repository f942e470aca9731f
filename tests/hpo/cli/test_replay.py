"""`hpo search --replay`: the whole search again, compared trial by trial."""

import json
import shutil
from pathlib import Path

import pytest

from hpo.engine.strategies.evolutionary import Evolutionary
from tests.hpo.cli.commands import hpo, refused, searched
from tests.studies import toy_config

TREE = toy_config("evolutionary", trials=9)


def replayed(capsys, study="toy"):
    return hpo(capsys, "search", "--replay", study, "dispatch=local", "track=none")


@pytest.mark.slow
def test_a_trial_that_differs_is_named_and_the_exit_code_is_1(capsys):
    path = searched(capsys, TREE) / "trials.csv"
    lines = path.read_text().splitlines()
    lines[4] = lines[4].replace(",complete,", ",failed,")
    path.write_text("\n".join(lines) + "\n")
    code, _, err = replayed(capsys)
    assert (code, "trials.csv: differs from the file that the report was written with" in err) == (2, True)
    path.with_name("report.json").unlink()
    code, out, _ = replayed(capsys)
    assert code == 1
    assert "trial 3 differs in state" in out
    assert "not replayed: 1 of 9" in out


@pytest.mark.slow
def test_a_search_comes_out_the_same_and_a_second_replay_says_that_it_trains_nothing(capsys):
    path = searched(capsys, TREE) / "trials.csv"
    code, out, _ = replayed(capsys)
    assert (code, f"replayed: all 9 trials are the same as in {path}" in out) == (0, True)
    assert Path("runs/toy-replay/trials.csv").exists()
    assert "exists: only missing trials" not in out
    code, out, _ = replayed(capsys)
    assert (code, "runs/toy-replay exists: only missing trials" in out) == (0, True)


@pytest.mark.slow
def test_another_revision_is_said_and_what_comes_out_is_compared_all_the_same(capsys):
    path = searched(capsys, TREE) / "report.json"
    report = json.loads(path.read_text())
    report["study"]["code"]["revisions"]["strategy evolutionary"] = 7
    path.write_text(json.dumps(report))
    code, _, err = replayed(capsys)
    now = Evolutionary.REVISION
    assert (code, f"code: revision of strategy evolutionary was 7 and is now {now}" in err) == (0, True)


@pytest.mark.slow
def test_what_a_published_search_learned_from_goes_with_it(capsys):
    searched(capsys, TREE)
    shutil.move("runs/toy", "runs/first")
    searched(capsys, TREE | {"study": TREE["study"] | {"imports": "first", "seed": 7}})
    assert hpo(capsys, "report", "toy", "--publish")[0] == 0
    shutil.rmtree("runs")
    code, out, _ = replayed(capsys, "studies/toy")
    assert (code, "replayed: all 9 trials" in out) == (0, True), out
    assert "9 of 9 finished trials of studies/toy/imports.csv are used" in out


@pytest.mark.slow("1.01-0")
@pytest.mark.nightly
@pytest.mark.parametrize(("factor", "expected"), [(1.01, 0), (1.03, 1)])
def test_on_another_machine_scores_may_differ_a_little_and_points_not_at_all(capsys, factor, expected):
    path = searched(capsys, TREE) / "trials.csv"
    path.with_name("report.json").unlink()
    place = path.with_name("environment.json")
    place.write_text(json.dumps({**json.loads(place.read_text()), "processor": "another"}))
    lines = path.read_text().splitlines()
    column = lines[0].split(",").index("score")
    cells = lines[4].split(",")
    cells[column] = repr(float(cells[column]) * factor)
    path.write_text("\n".join([*lines[:4], ",".join(cells), *lines[5:]]) + "\n")
    code, out, _ = replayed(capsys)
    assert code == expected
    assert "what changed: processor: was another" in out
    assert "required: scores within 2.0%" in out
    cells = [*lines[4].split(",")[:4], "77", *lines[4].split(",")[5:]]
    path.write_text("\n".join([*lines[:4], ",".join(cells), *lines[5:]]) + "\n")
    code, out, _ = replayed(capsys)
    assert (code, f"trial 3 differs in {lines[0].split(',')[4]}" in out) == (1, True)


@pytest.mark.nightly
def test_where_it_runs_may_be_chosen_and_nothing_that_decides_trials(capsys):
    searched(capsys, TREE)
    code, out, _ = hpo(capsys, "search", "--replay", "toy", "dispatch=simulated", "dispatch.workers=3", "track=none")
    assert (code, "replayed: all 9 trials" in out) == (0, True)
    for more in (["strategy=grid"], ["--config", "toy.yaml"]):
        refused(capsys, "search", "--replay", "toy", *more)
