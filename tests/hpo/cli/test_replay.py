"""`hpo search --replay`: the whole search again, compared trial by trial."""

import contextlib
import json
import shutil
from pathlib import Path

import pytest
import yaml

from hpo.cli.main import main
from hpo.engine.strategies.evolutionary import Evolutionary
from tests.hpo.cli.commands import change_row, hpo, printed, refused, searched
from tests.studies import rows, toy_config

TREE = toy_config("evolutionary", trials=9)
ARGUMENTS = ("search", "--replay", "toy", "track=none")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    with contextlib.chdir(folder):
        Path("toy.yaml").write_text(yaml.safe_dump(TREE))
        assert main(["search", "--config", "toy.yaml"]) == 0
    return folder


@pytest.fixture
def toy(made):
    """Put a copy of a finished study into the working directory, and return its folder."""
    shutil.copytree(made / "runs", "runs")
    return Path("runs/toy")


@pytest.mark.slow
def test_a_search_comes_out_the_same_and_a_second_replay_says_that_it_trains_nothing(capsys, toy):
    # Where it runs may be chosen, and another revision is said.
    report = json.loads((toy / "report.json").read_text())
    report["study"]["code"]["revisions"]["strategy evolutionary"] = 7
    (toy / "report.json").write_text(json.dumps(report))
    code, out, err = hpo(capsys, *ARGUMENTS, "dispatch=simulated", "dispatch.workers=3")
    assert f"code: revision of strategy evolutionary was 7 and is now {Evolutionary.REVISION}" in err
    assert (code, f"replayed: all 9 trials are the same as in {toy / 'trials.csv'}" in out) == (0, True)
    code, out, _ = hpo(capsys, *ARGUMENTS, "dispatch=local")
    assert (code, "runs/toy-replay exists: only missing trials" in out) == (0, True)
    replayed, _ = printed(capsys, *ARGUMENTS, "dispatch=local")
    assert replayed["replay"] == {"of": str(toy.absolute()), "trials": 9, "tolerance": 0, "differing": {}}
    for more in (["strategy=grid"], ["--config", "toy.yaml"]):
        refused(capsys, *ARGUMENTS, *more)


@pytest.mark.slow
def test_a_trial_that_differs_is_named_and_the_exit_code_is_1(capsys, toy):
    change_row(toy / "trials.csv", 3, state="failed")
    code, _, err = hpo(capsys, *ARGUMENTS, "dispatch=local")
    assert (code, "trials.csv: differs from the file that the report was written with" in err) == (2, True)
    (toy / "report.json").unlink()
    code, out, _ = hpo(capsys, *ARGUMENTS, "dispatch=local")
    assert code == 1
    assert "trial 3 differs in state" in out
    assert "not replayed: 1 of 9" in out


@pytest.mark.slow
def test_the_trials_that_a_published_search_imported_go_with_it(capsys, toy):
    toy.rename("runs/first")
    searched(capsys, TREE | {"study": TREE["study"] | {"imports": "first", "seed": 7}})
    assert hpo(capsys, "report", "toy", "--publish")[0] == 0
    shutil.rmtree("runs")
    code, out, _ = hpo(capsys, "search", "--replay", "studies/toy", "dispatch=local", "track=none")
    assert (code, "replayed: all 9 trials" in out) == (0, True), out
    assert "9 of 9 finished trials of studies/toy/imports.csv are used" in out


@pytest.mark.slow
def test_on_another_machine_scores_may_differ_a_little_and_points_not_at_all(capsys, toy):
    path, place = toy / "trials.csv", toy / "environment.json"
    (toy / "report.json").unlink()
    place.write_text(json.dumps({**json.loads(place.read_text()), "processor": "another"}))
    third, fourth = (float(row["score"]) for row in rows(path)[3:5])
    change_row(path, 3, score=str(third * 1.01))
    code, out, _ = hpo(capsys, *ARGUMENTS, "dispatch=local")
    assert (code, "what changed: processor: was another" in out) == (0, True)
    assert "required: scores within 2.0%" in out
    change_row(path, 4, score=str(fourth * 1.03))
    change_row(path, 5, **{"toy.width": "77"})
    code, out, _ = hpo(capsys, *ARGUMENTS, "dispatch=local")
    assert (code, "trial 4 differs in score" in out, "trial 5 differs in toy.width" in out) == (1, True, True), out
