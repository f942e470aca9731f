"""`hpo clean`, `move`, `archive` and `remove`: for people, for programs, from Python, and of a study that runs."""

import contextlib
import json
import os
import shutil
from pathlib import Path

import pytest
from mlflow import MlflowClient

import hpo as toolkit
from hpo.cli.main import COMMANDS, usage
from hpo.study.files.folder import StudyFolder
from tests.hpo.cli.commands import documented, hpo, refused, searched
from tests.hpo.study.killed import tree
from tests.studies import toy_config

REFUSED = {
    "clean": ["clean", "made"],
    "archive": ["archive", "made", "made.tar.gz"],
    "remove": ["remove", "made", "--yes"],
}


def shown(capsys, *arguments):
    """Return the object that a command prints, which has to succeed."""
    code, out, err = hpo(capsys, *arguments, "--json")
    assert code == 0, out + err
    return json.loads(out)


@pytest.mark.parametrize("command", REFUSED)
def test_one_that_runs_is_refused_with_who_runs_it_and_stays_as_it_is(capsys, study, command):
    with StudyFolder(study).lock():
        before = tree(study)
        said = refused(capsys, *REFUSED[command])
        assert f"runs/made is being run by process {os.getpid()}" in said
        assert "stop it with `hpo stop made`" in said
        assert tree(study) == before
    assert sorted(path.name for path in Path().iterdir()) == ["runs"]


def test_of_all_studies_one_that_runs_is_passed_over(capsys, study):
    shutil.copytree(study, "runs/other")
    with StudyFolder(study).lock():
        found = {each["study"]: each for each in shown(capsys, "clean")["studies"]}
    assert (list(found["other"]["freed"]), found["other"]["kept"]) == (["data"], None)
    assert (found["made"]["freed"], "is being run by" in found["made"]["kept"]) == ({}, True)
    assert ((study / "data").exists(), Path("runs/other/data").exists()) == (True, False)


def test_what_would_be_freed_is_said_and_nothing_goes(capsys, study):
    code, out, _ = hpo(capsys, "clean", "--dry-run")
    assert (code, out.splitlines()[0].startswith("runs/made: data "), "would be freed" in out) == (0, True, True)
    found = shown(capsys, "clean", "made", "--dry-run")
    assert {*found, *found["studies"][0]} == documented("hpo clean")
    assert (study / "data").exists()
    assert found["bytes"] == toolkit.load("made").clean().bytes > 0
    assert not (study / "data").exists()
    assert hpo(capsys, "clean", "made") == (0, "0 KiB freed\n", "")


def test_it_is_archived_and_comes_back_unasked_where_it_was_made(capsys, study):
    found = shown(capsys, "archive", "made", "made.tar.gz")
    assert set(found) == documented("hpo archive")
    assert found["bytes"] == Path("made.tar.gz").stat().st_size
    assert Path("made.tar.gz").stat().st_mode & 0o077 == 0
    assert "runs/made already exists" in refused(capsys, "archive", "--restore", "made.tar.gz", is_silent=True)
    shutil.rmtree(study)
    assert shown(capsys, "archive", "--restore", "made.tar.gz")["folder"] == str(study.absolute())
    assert toolkit.unarchive("made.tar.gz", "other").best.number == 0
    for wrong in (["made"], ["--restore", "x", "made"], []):
        assert "command line: " in refused(capsys, "archive", *wrong, is_silent=True)
    options = ("--in", "y", "--trust")
    assert "--in, --trust: have no effect without --restore; leave them out" in refused(
        capsys, "archive", "made", "x.tar.gz", *options, is_silent=True
    )


def test_a_strangers_is_only_copied_until_it_is_trusted(capsys, monkeypatch, tmp_path):
    Path("ours.py").write_text("def train(config):\n    return 1.0\n")
    tree = toy_config(trials=1, objective="ours:train")
    searched(capsys, tree)
    hpo(capsys, "archive", "toy", "toy.tar.gz")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    code, _, err = hpo(capsys, "archive", "--restore", "toy.tar.gz", "--in", "first")
    assert (code, "was not made here: it runs ours:train" in err, "the study was only copied" in err) == (2, True, True)
    assert Path("first/toy/config.yaml").exists()
    assert hpo(capsys, "archive", "--restore", "toy.tar.gz", "--in", "second", "--trust")[0] == 0
    assert hpo(capsys, "archive", "--restore", "toy.tar.gz", "--in", "third")[0] == 0


def test_what_ones_own_study_reaches_elsewhere_is_known_to_oneself_alone(capsys, monkeypatch, tmp_path):
    tree = toy_config(trials=1)
    tree["study"]["storage"] = f"sqlite:///{tmp_path}/else.db"
    searched(capsys, tree)
    hpo(capsys, "archive", "toy", "toy.tar.gz")
    assert hpo(capsys, "archive", "--restore", "toy.tar.gz", "--in", "first")[0] == 0
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "another"))
    code, _, err = hpo(capsys, "archive", "--restore", "toy.tar.gz", "--in", "second")
    assert (code, f"goes to study.storage=sqlite:///{tmp_path}/else.db" in err) == (2, True)


def test_it_is_removed_only_by_a_yes(capsys, monkeypatch, study):
    assert "give --yes" in refused(capsys, "remove", "made")
    assert "give --yes" in json.loads(hpo(capsys, "remove", "made", "--json")[1])["error"]
    for stream in ("stdin", "stdout"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda _: "no")
    assert "nothing was removed" in refused(capsys, "remove", "made")
    monkeypatch.setattr("builtins.input", lambda _: "yes")
    code, out, _ = hpo(capsys, "remove", "made")
    assert (code, out.splitlines()[0].startswith("runs/made: "), "removed runs/made\n" in out) == (0, True, True)
    assert not study.exists()
    assert "there is no 'made'" in refused(capsys, "remove", "made", "--yes", is_silent=True)


def test_several_are_removed_or_none(capsys, study):
    shutil.copytree(study, "runs/other")
    refused(capsys, "remove", "made", "none", "--yes")
    assert study.exists()
    found = shown(capsys, "remove", "made", "other", "runs/made", "--yes")["removed"]
    assert [each["study"] for each in found] == ["made", "other"]
    assert all({"removed", *each} == documented("hpo remove") for each in found)
    assert all(each["files"] > 5 and each["bytes"] > 10_000 for each in found)
    assert [each["runs"] for each in found] == [0, 0]


def test_from_python_nothing_is_asked(study):
    (gone,) = toolkit.load("made").remove().removed
    assert (gone.folder, study.exists()) == (study.absolute(), False)


def test_what_is_gone_is_said_where_the_rest_stays(capsys, study, monkeypatch):
    shutil.copytree(study, "runs/other")
    refuse_running = StudyFolder.refuse_running

    def runs_since_it_was_found(folder, calls=[]):  # noqa: B006 -- it counts
        calls.append(folder)
        with StudyFolder(Path("runs/other")).lock() if len(calls) > 2 else contextlib.nullcontext():
            refuse_running(folder)

    monkeypatch.setattr(StudyFolder, "refuse_running", runs_since_it_was_found)
    said = refused(capsys, "remove", "made", "other", "--yes")
    assert (
        "runs/other is being run" in said,
        said.endswith("before the error: removed runs/made\n"),
    ) == (True, True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_mlflow_has_its_tags_and_loses_its_runs_with_it(capsys):
    tree = toy_config(trials=2, track={"name": "mlflow", "uri": "sqlite:///mlflow.db", "experiment": "tests"})
    searched(capsys, tree)
    hpo(capsys, "note", "toy", "odd", "--tag", "phase=final")
    assert hpo(capsys, "sync", "toy")[0] == 0
    client = MlflowClient(f"sqlite:///{Path('mlflow.db').absolute()}")
    experiment = client.get_experiment_by_name("tests").experiment_id
    (parent,) = client.search_runs([experiment], "tags.`hpo.kind` = 'study'")
    assert (parent.data.tags["phase"], "odd" in parent.data.tags["mlflow.note.content"]) == ("final", True)
    shutil.copytree("runs/toy", "runs/copy")
    assert shown(capsys, "remove", "copy", "--yes")["removed"][0]["runs"] == 0
    assert shown(capsys, "remove", "toy", "--yes")["removed"][0]["runs"] == 3
    assert client.search_runs([experiment]) == []


def test_help_names_every_command_once():
    lines = [line for line in usage().partition("examples:")[0].splitlines() if line.startswith("  ")]
    assert sorted(line.split()[0] for line in lines) == sorted(COMMANDS)


def test_what_is_being_copied_or_removed_is_no_study(capsys, study):
    shutil.copytree(study, "runs/.made-123")
    before = tree("runs/.made-123")
    assert [view.study for view in toolkit.studies().studies] == ["made"]
    assert refused(capsys, "report", "none").endswith("there are made\n")
    shown(capsys, "clean")
    assert tree("runs/.made-123") == before


def test_a_command_that_is_named_takes_a_study_where_it_is(capsys, study):
    Path("elsewhere").mkdir()
    shutil.move("runs/made", "elsewhere/made")
    with StudyFolder(Path("elsewhere/made")).lock():
        assert "stop it with `hpo stop elsewhere/made`" in refused(capsys, "clean", "elsewhere/made", is_silent=True)
