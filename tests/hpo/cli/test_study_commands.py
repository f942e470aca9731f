"""The commands on a real, small study of the digits: search, resume, test, report, train."""

import contextlib
import json
import shutil
from pathlib import Path

import pytest
import yaml
from pydantic import TypeAdapter

from hpo.cli.main import COMMANDS, main, usage
from hpo.report.pages.checklist import render_checklist
from hpo.report.sections import tested
from hpo.trials.estimate import Estimate
from tests.hpo.cli.commands import QUICK, hpo, prints, refused, searched
from tests.studies import compose_config, rows, toy_config

MODEL = Path("checkpoints/final")


@pytest.fixture(scope="module")
def finished_study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    with contextlib.chdir(folder):
        assert main(["search", *QUICK]) == 0
    return folder


@pytest.fixture
def study(finished_study):
    shutil.copytree(finished_study / "runs", "runs")
    return Path("runs/digits")


def report(study):
    return json.loads((study / "report.json").read_text())


def test_a_search_leaves_its_files_and_a_report(study):
    """The data without the test split, and the winner's model, trained again on all folds."""
    assert len((study / "data" / "examples.jsonl").read_text().splitlines()) == 1617
    assert [path.name for path in (study / "checkpoints").iterdir()] == ["final"]
    names = {"config.yaml", "environment.json", "study.db", "trials.csv", "best.yaml", "report.md", "report.json"}
    assert names <= {path.name for path in study.iterdir()}
    columns = {"score", "training.lr", "fold_0", "fold_1", "fold_2", "loss", "macro_f1", "best_epoch"}
    assert columns <= {*rows(study / "trials.csv")[0]}
    found = report(study)
    model, values = found["winner"]["model"], found["winner"]["values"]
    assert (model["checkpoint_dir"], model["epochs"]) == ("checkpoints/final", 2)
    assert found["winner"]["score"] == pytest.approx(sum(values.values()) / 3)
    counts = {"budget": 2, "ended_by": "trials", "proposed": 2, "complete": 2, "tasks_per_trial": 3}
    assert found["counts"].items() >= counts.items()
    parts = found["data"]["split"]["parts"]
    assert (parts["development"]["size"], parts["test"]["size"]) == (1617, 180)


def test_resume_takes_another_dispatch_and_track_but_no_other_strategy(capsys, study):
    frozen = yaml.safe_load((study / "config.yaml").read_text())
    frozen["track"]["uri"] = "sqlite:///elsewhere.db"
    frozen["dispatch"] |= {"name": "ray", "workers": 2, "threads": 2}
    Path("frozen.yaml").write_text(yaml.safe_dump(frozen))
    chosen = compose_config("search", ["dispatch.workers=1", "track=none", "dispatch=local"], config_file="frozen.yaml")
    # The earlier address is where `hpo sync` sends the rest; the number of threads decides last digits.
    assert chosen["track"] == {**frozen["track"], "name": "none"}
    assert chosen["dispatch"] == {**frozen["dispatch"], "name": "local", "workers": 1, "threads": 2, "retries": 0}
    assert "did you mean 'none'" in refused(capsys, "resume", "digits", "track=nonne")
    assert "dispatch, track, report" in refused(capsys, "resume", "digits", "strategy=grid")


@pytest.mark.slow
def test_the_test_split_is_evaluated_once_with_the_default_and_counted(capsys, study, finished):
    code, out, _ = hpo(capsys, "test", "digits")
    assert (code, "180 examples, evaluated 1 time" in out) == (0, True)
    first, found = json.loads((study / "test.json").read_text()), report(study)
    assert TypeAdapter(tested.TestPart).validate_python(first) == first
    default, winner = (found["overtuning"]["default_on_test"][name] for name in ("default", "winner"))
    text = Estimate(**first["estimates"]["accuracy"]).text("{:.4f}".format)
    assert f"accuracy = {text}" in out
    assert f"the default configuration: accuracy = {default:.4f}" in out
    page = (study / "report.md").read_text()
    assert f"Test accuracy: **{first['metrics']['accuracy']:.4f}** (95 % " in page
    assert f"test {text}, evaluated once" in render_checklist(found)
    assert f"The default configuration in the same test: {default:.4f} (95 % " in page
    assert f"The winner's score minus the default's score: {winner - default:.4f} (95 % " in page
    assert found["test"]["evaluations_of_these_data"] == 1
    assert any("overtuned" in caution for caution in found["cautions"]) == (winner <= default)
    assert "--again" in refused(capsys, "test", "digits")
    assert json.loads((study / "test.json").read_text()) == first
    config = Path(shutil.copytree(finished / "runs/made", "runs/made"), "config.yaml")
    assert "by study 'digits'" in refused(capsys, "test", "made"), "another study of the same data"
    config.write_text(config.read_text().replace("trials: 1", "trials: 2"))
    assert "1 of 2 trials" in refused(capsys, "test", "made"), "an unfinished search"
    assert "evaluated 2 time" in prints(capsys, "test", "digits", "--again", "--no-default")
    assert "evaluated **2 times**" in (study / "report.md").read_text()


def test_the_winner_trains_alone_as_its_first_fold_was_trained(capsys, study):
    best = max(rows(study / "trials.csv"), key=lambda row: float(row["score"]))
    out = prints(capsys, "train", "--config", str(study / "best.yaml"))
    assert f"accuracy = {float(best['fold_0']):.6g}" in out


@pytest.mark.slow
def test_a_missing_or_changed_model_is_refused_costs_no_evaluation_and_is_trained_again(capsys, study):
    (study / MODEL).rename(study / "moved")
    assert "model is missing" in refused(capsys, "test", "digits")
    (study / "moved").rename(study / MODEL)
    weights = study / MODEL / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")
    assert "weights.safetensors: has changed since" in refused(capsys, "reproduce", "digits")
    assert "was changed" in refused(capsys, "test", "digits")
    assert not Path("runs/test_evaluations.jsonl").exists()
    assert hpo(capsys, "resume", "digits", "report.figures=false")[0] == 0
    assert report(study)["winner"]["model"]["checkpoint_dir"] == str(MODEL)
    assert hpo(capsys, "test", "digits", "--no-default")[0] == 0


def test_exclusions_are_in_the_report_and_the_checklist(capsys, study):
    assert hpo(capsys, "report", "digits", "report.exclusions=none", "report.figures=false", "--checklist")[0] == 0
    assert report(study)["data"]["exclusions"] == "none"
    assert "Excluded: none" in (study / "checklist.md").read_text()


def test_a_dollar_in_a_value_is_no_interpolation(capsys):
    space = {"toy": {"nonlinearity": {"choices": ["${x}", "y"]}}}
    searched(capsys, toy_config(space=space, trials=2, objective="toys:constant"))
    assert hpo(capsys, "resume", "toy")[::2] == (0, "")


def test_the_help_names_every_command_once_with_examples(capsys):
    lines = [line for line in usage().partition("examples:")[0].splitlines() if line.startswith("  ")]
    assert sorted(line.split()[0] for line in lines) == sorted(COMMANDS)
    for command in COMMANDS:
        assert main([command, "--help"]) == 0
        assert "examples:" in capsys.readouterr().out


def test_a_dimension_that_changes_the_examples_is_refused(capsys):
    for name, count in {"texts": 80, "other": 81}.items():
        Path(f"{name}.csv").write_text("text,label\n" + "".join(f"text {i},{'ab'[i % 2]}\n" for i in range(count)))
    given = ("data=text_classification", "data.path=texts.csv", *QUICK, "space.data.path=[texts.csv,other.csv]")
    assert "changes the examples" in refused(capsys, "search", *given)
