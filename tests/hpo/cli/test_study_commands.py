"""The commands on a real, small study of the digits: search, resume, test, report, train."""

import contextlib
import csv
import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml
from pydantic import TypeAdapter

from hpo.cli.main import main
from hpo.config.composing.compose import compose_config
from hpo.report.pages.checklist import render_checklist
from hpo.report.pages.report_page import render_report_page
from hpo.report.sections import tested
from hpo.trials.estimate import Estimate
from hpo.trials.table import TIMES
from tests.hpo.cli.commands import QUICK, hpo, refused
from tests.studies import rows


@pytest.fixture(scope="module")
def finished_study(tmp_path_factory):
    """The folder in which the quick study was run to its end; tests that change it work on a copy."""
    folder = tmp_path_factory.mktemp("finished")
    with contextlib.chdir(folder):
        assert main(["search", *QUICK]) == 0
    return folder


@pytest.fixture
def study(finished_study, tmp_path, monkeypatch):
    shutil.copytree(finished_study, tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    return Path("runs/digits")


def test_a_search_leaves_its_files(study):
    """Of the data just what is not the test part, and of the winner what was trained once more on all folds."""
    assert len((study / "data" / "examples.jsonl").read_text().splitlines()) == 1617
    assert [path.name for path in (study / "checkpoints").iterdir()] == ["final"]
    model = json.loads((study / "report.json").read_text())["winner"]["model"]
    assert (model["checkpoint_dir"], model["epochs"]) == ("checkpoints/final", 2)
    names = {"config.yaml", "environment.json", "study.db", "trials.csv", "best.yaml", "report.md", "report.json"}
    assert names <= {path.name for path in study.iterdir()}
    with (study / "trials.csv").open() as file:
        header = next(csv.reader(file))
    folds = ["fold_0", "fold_1", "fold_2"]
    first = ["number", "round", "learned", "cost", "state", "score"]
    decided = [*first, "training.lr", *folds, "num_parameters", *TIMES, "error"]
    assert header[: len(decided)] == decided
    assert {"loss", "macro_f1", "best_epoch"} <= {*header[len(decided) :]}, "what else the objective returned"


def test_the_report_tells_what_was_done(study):
    report = json.loads((study / "report.json").read_text())
    assert report["counts"] | {"failures": {}} == {
        "budget": 2,
        "ended_by": "trials",
        "proposed": 2,
        "complete": 2,
        "failed": 0,
        "running": 0,
        "stopped": 0,
        "tasks_saved": 0,
        "failures": {},
        "tasks_per_trial": 3,
    }
    parts = report["data"]["split"]["parts"]
    assert (parts["development"]["size"], parts["test"]["size"]) == (1617, 180)
    assert report["winner"]["score"] == pytest.approx(sum(report["winner"]["values"].values()) / 3)
    page = (study / "report.md").read_text()
    for text in ("1,617 | 90.0%", "`training.lr`", "`round_size`", "hpo search --config", "torch 2."):
        assert text in page


@pytest.mark.nightly
def test_resume_chooses_anew_what_decides_no_trial(capsys, study):
    frozen = yaml.safe_load((study / "config.yaml").read_text())
    frozen["track"]["uri"] = "sqlite:///elsewhere.db"
    frozen["dispatch"] |= {"name": "ray", "workers": 2, "threads": 2}
    Path("frozen.yaml").write_text(yaml.safe_dump(frozen))
    chosen = compose_config("search", ["dispatch.workers=1", "track=none", "dispatch=local"], config_file="frozen.yaml")
    # Where it was shown before is where `hpo sync` sends the rest; the number of threads decides last digits.
    assert chosen["track"] == {**frozen["track"], "name": "none"}
    assert chosen["dispatch"] == {**frozen["dispatch"], "name": "local", "workers": 1, "threads": 2, "retries": 0}
    code, _, err = hpo(capsys, "resume", "digits", "study.trials=3", "track=mlflow", "dispatch=local", "report=default")
    assert (code, err) == (0, "")
    assert Path("mlflow.db").exists()
    code, _, err = hpo(capsys, "resume", "digits", "track=nonne")
    assert (code, err.count("\n"), "did you mean 'none'" in err) == (2, 1, True), err
    err = refused(capsys, "resume", "digits", "strategy=grid")
    assert "strategy: cannot be chosen again" in err
    assert "only dispatch, track, report can be chosen again" in err


def test_the_test_part_is_opened_once_and_counted(capsys, study):
    code, out, _ = hpo(capsys, "test", "digits")
    assert (code, "180 examples, evaluated 1 time" in out) == (0, True)
    first = json.loads((study / "test.json").read_text())
    assert set(first["metrics"]) >= {"accuracy", "macro_f1"}
    estimate = Estimate(**first["estimates"]["accuracy"])
    assert f"accuracy = {estimate.text('{:.4f}'.format)}" in out
    assert f"Test accuracy: **{first['metrics']['accuracy']:.4f}** (95 % " in (study / "report.md").read_text()
    answers = render_checklist(json.loads((study / "report.json").read_text()))
    assert f"test {estimate.text('{:.4f}'.format)}, evaluated once" in answers
    assert TypeAdapter(tested.TestPart).validate_python(first) == first

    assert "--again" in refused(capsys, "test", "digits")
    assert json.loads((study / "test.json").read_text()) == first

    code, out, _ = hpo(capsys, "test", "digits", "--again")
    assert (code, "evaluated 2 time" in out) == (0, True)
    assert "evaluated **2 times**" in (study / "report.md").read_text()


@pytest.mark.slow
def test_another_study_of_the_same_data_counts_too(capsys, study):
    assert hpo(capsys, "test", "digits")[0] == 0
    assert hpo(capsys, "search", *QUICK, "study.name=second", "study.seed=3")[0] == 0
    assert "by study 'digits'" in refused(capsys, "test", "second")


def test_an_unfinished_search_cannot_be_tested(capsys, finished):
    shutil.copytree(finished / "runs", "runs")
    config = Path("runs/made/config.yaml")
    config.write_text(config.read_text().replace("trials: 1", "trials: 2"))
    assert "1 of 2 trials" in refused(capsys, "test", "made")
    assert not Path("runs/test_evaluations.jsonl").exists()


def test_the_winner_trains_alone_as_its_first_fold_was_trained(capsys, study):
    code, out, _ = hpo(capsys, "train", "--config", str(study / "best.yaml"))
    best = max(rows(study / "trials.csv"), key=lambda row: float(row["score"]))
    assert code == 0
    assert f"accuracy = {float(best['fold_0']):.6g}" in out


def test_every_trial_failed_is_exit_code_1(capsys):
    code, out, _ = hpo(capsys, "search", *QUICK, "objective=tests.toy:raises")
    assert code == 1
    assert "every trial failed" in out
    assert "no luck today" in out


def test_help_of_every_command(capsys):
    from hpo.cli.main import COMMANDS

    for command in COMMANDS:
        assert main([command, "--help"]) == 0
        assert "examples:" in capsys.readouterr().out


def test_a_changed_model_is_no_longer_the_studys(capsys, study):
    weights = study / "checkpoints" / "final" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")
    err = refused(capsys, "reproduce", "digits")
    assert "weights.safetensors: differs from the file that the report was written with" in err


def test_a_model_that_is_trained_again_is_the_studys_whatever_the_report_before_says(capsys, study):
    path = study / "report.json"
    report = json.loads(path.read_text())
    report["files"]["checkpoints/final/weights.safetensors"] = "0" * 64
    path.write_text(json.dumps(report))
    assert "model is missing or was replaced" in refused(capsys, "test", "digits")
    assert hpo(capsys, "resume", "digits")[0] == 0
    assert json.loads(path.read_text())["winner"]["model"]["checkpoint_dir"] == "checkpoints/final"
    assert hpo(capsys, "test", "digits", "--no-default")[0] == 0


def test_the_default_is_scored_in_the_same_opening_unless_it_is_not_wanted(capsys, study):
    _, out, _ = hpo(capsys, "test", "digits")
    report = json.loads((study / "report.json").read_text())
    default, winner = (report["overtuning"]["default_on_test"][name] for name in ("default", "winner"))
    assert f"the default configuration: accuracy = {default:.4f}" in out
    first_screen = render_report_page(report, (), pd.read_csv(study / "trials.csv")).partition("id='part-1'")[0]
    for page in (first_screen, (study / "report.md").read_text()):
        assert f"The default configuration in the same test: {default:.4f} (95 % " in page
        assert f"The winner minus the default: {winner - default:.4f} (95 % " in page
    assert report["test"]["evaluations_of_these_data"] == 1
    assert any("overtuned" in caution for caution in report["cautions"]) == (winner <= default)
    assert hpo(capsys, "test", "digits", "--again", "--no-default")[0] == 0
    report = json.loads((study / "report.json").read_text())
    assert "did not score" in report["overtuning"]["default_on_test"]["missing"]


@pytest.mark.nightly
def test_what_only_a_person_knows_is_kept_and_changes_no_trial(capsys, study):
    before = (study / "trials.csv").read_text()
    assert (
        hpo(capsys, "report", "digits", "report.title=Is one layer enough, or not?", "report.exclusions=none")[0] == 0
    )
    report = json.loads((study / "report.json").read_text())
    assert (report["study"]["title"], report["data"]["exclusions"]) == ("Is one layer enough, or not?", "none")
    page = (study / "report.md").read_text()
    assert page.startswith("# Is one layer enough, or not?\n\nStudy digits\n\n")
    assert hpo(capsys, "report", "digits", "report.title=null", "--checklist", "--latex")[0] == 0
    report = json.loads((study / "report.json").read_text())
    assert "report.title" in report["study"]["title"]["missing"]
    assert hpo(capsys, "resume", "digits")[0] == 0
    assert (study / "trials.csv").read_text() == before
    assert "Excluded: none" in (study / "checklist.md").read_text()
    assert r"\texttt{training.lr}" in (study / "tables.tex").read_text()


CSV = ["data=text_classification", "data.path=texts.csv", "data.min_count=1", "study.name=texts", *QUICK]


def write_texts(count):
    lines = [f"word{i % 7} number{i},{'ab'[i % 2]}" for i in range(count)]
    Path("texts.csv").write_text("\n".join(["text,label", *lines]) + "\n")


def test_a_dimension_that_changes_the_examples_is_refused(capsys):
    write_texts(80)
    Path("other.csv").write_text(Path("texts.csv").read_text() + "more,a\n")
    assert "changes the examples" in refused(capsys, "search", *CSV, "space.data.path=[texts.csv,other.csv]")


def test_a_missing_model_does_not_use_up_the_opening(capsys, study):
    (study / "checkpoints" / "final").rename(study / "moved")
    assert "model is missing" in refused(capsys, "test", "digits")
    assert not Path("runs/test_evaluations.jsonl").exists()


@pytest.mark.slow
def test_a_study_in_another_folder_keeps_its_ledger_beside_it(capsys, study, monkeypatch, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    code, out, _ = hpo(capsys, "resume", str(tmp_path / "project/runs/digits"))
    assert (code, f"hpo test {tmp_path}/project/runs/digits" in out) == (0, True)
    assert hpo(capsys, "test", str(tmp_path / "project/runs/digits"))[0] == 0
    assert (tmp_path / "project/runs/test_evaluations.jsonl").exists()


@pytest.mark.slow
def test_a_literal_dollar_survives_the_freezing(capsys):
    arguments = ["objective=tests.toy:constant", "study.metric=score", "+toy.text=x", "space.toy.text=['$' ,y]"]
    assert hpo(capsys, "search", *QUICK, "~space.training", *arguments)[0] == 0
    config = Path("runs/digits/config.yaml")
    config.write_text(config.read_text().replace("$", "${x}"))
    _, _, err = hpo(capsys, "resume", "digits")
    assert "Interpolation" not in err


def test_what_a_driver_left_that_was_killed_while_creating_the_study_is_not_used(capsys, study):
    """Without its frozen configuration there is no study: record and data of the attempt are made anew."""
    (study / "config.yaml").unlink()
    write_texts(80)
    arguments = [a for a in CSV if not a.startswith("study.name")]
    assert hpo(capsys, "search", *arguments, "study.name=digits", "study.seed=5")[0] == 0
    assert len((study / "data" / "examples.jsonl").read_text().splitlines()) == 72
    assert len(rows(study / "trials.csv")) == 2
