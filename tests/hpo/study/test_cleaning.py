"""What `hpo clean` deletes of a study: all that nothing needs, and nothing that something needs."""

import os
import shutil
import time
from pathlib import Path

import pytest

import hpo as toolkit
from hpo.config.study_config import config_from_dict
from hpo.study.files.folder import StudyFolder
from hpo.study.storage.cleaning import clean
from tests.hpo.cli.commands import documented, hpo, printed, refused
from tests.hpo.study.killed import tree
from tests.studies import run_toy, toy_config

ASIDE = (".config.yaml.123", ".data-123", "states/.456-abcdefgh")


@pytest.mark.slow
def test_states_stay_while_a_search_or_a_larger_budget_continues_from_them(tmp_path):
    def config(trials):
        return toy_config("asha", trials=trials, objective="tests.toy:continued")

    run_toy(Path("runs/toy").absolute(), config(4))
    folder = StudyFolder(Path("runs/toy"))
    folder.freeze(config_from_dict(config(8)))
    before = tree(folder.states_dir)
    assert before
    assert str(clean(folder, states=True).kept).startswith("its states and models stay")
    assert tree(folder.states_dir) == before
    run_toy(folder.path.absolute(), config(8))
    cleaned = clean(folder)
    assert ("states" in cleaned.freed, "--states deletes them" in str(cleaned.kept)) == (False, True)
    assert run_toy(folder.path, config(16)) == run_toy(tmp_path / "whole", config(16))
    assert any(folder.states_dir.iterdir())
    clean(folder, states=True)
    assert not any(folder.states_dir.iterdir())


def test_of_a_finished_study_the_winner_stays_and_the_rest_goes(capsys, study):
    folder = StudyFolder(study)
    winners = tree(folder.checkpoints_dir / "trial_0000")
    for left in ("checkpoints/trial_0007", "states/0123_0_0"):
        (study / left).mkdir(parents=True)
        (study / left / "weights").write_bytes(b"x" * 1000)
    for aside in ASIDE:
        (study / aside).write_text("y")
    before = tree("runs")
    expected = clean(folder, dry_run=True)
    assert tree("runs") == before
    cleaned = clean(folder)
    assert expected == cleaned
    assert cleaned.freed["models"] == cleaned.freed["states"] == 1000
    assert cleaned.freed["data"] > 10_000
    assert "leftovers" not in cleaned.freed, "another process may be using them"
    assert tree(folder.checkpoints_dir) == {f"trial_0000/{name}": content for name, content in winners.items()}
    assert not folder.data_dir.exists()
    assert clean(folder).freed == {}
    code, _, err = hpo(capsys, "test", "made")
    assert (code, err) == (0, "")


def test_leftovers_of_a_day_ago_go_and_logs_of_failed_trials_stay(study):
    two_days_ago = time.time() - 48 * 3600
    for aside in (*ASIDE, "checkpoints/.notours"):
        (study / aside).write_text("y")
        os.utime(study / aside, (two_days_ago, two_days_ago))
    (study / "logs").mkdir()
    for number in (0, 1):
        (study / f"logs/trial_{number:04d}_fold_0.log").write_text("said")
    (study / "trials.csv").write_text("number,state\n0,complete\n1,failed\n")
    freed = clean(StudyFolder(study)).freed
    assert (freed["leftovers"], "logs" in freed, (study / "checkpoints/.notours").exists()) == (3, False, True)
    assert clean(StudyFolder(study), logs=True).freed == {"logs": 4}
    assert [path.name for path in (study / "logs").iterdir()] == ["trial_0001_fold_0.log"]


def test_the_copy_of_data_that_no_longer_exist_stays(study):
    text = (study / "config.yaml").read_text().replace("\ndata:\n", "\ndata:\n  path: gone.csv\n")
    (study / "config.yaml").write_text(text)
    assert "data" not in clean(StudyFolder(study)).freed
    assert (study / "data").exists()


def test_a_study_whose_record_cannot_be_read_keeps_its_models(study):
    (study / "checkpoints/trial_0001").mkdir()
    before = tree(study / "checkpoints")
    (study / "study.db").write_bytes(b"x" * 5000)
    assert "its states and models stay: " in str(clean(StudyFolder(study)).kept)
    assert tree(study / "checkpoints") == before
    assert (study / "checkpoints/trial_0001").exists()


def test_the_command_prints_what_it_would_free_and_passes_over_a_running_study_and_copies_in_progress(capsys, study):
    shutil.copytree(study, "runs/other")
    shutil.copytree(study, "runs/.made-123")
    before = tree("runs/.made-123")
    code, out, _ = hpo(capsys, "clean", "--dry-run")
    assert (code, out.splitlines()[0].startswith("runs/made: data "), "would be freed" in out) == (0, True, True)
    found, _ = printed(capsys, "clean", "made", "--dry-run")
    assert {*found, *found["studies"][0]} == documented("hpo clean")
    with StudyFolder(study).lock():
        studies = {each["study"]: each for each in printed(capsys, "clean")[0]["studies"]}
    assert (list(studies["other"]["freed"]), studies["other"]["kept"]) == (["data"], None)
    assert (studies["made"]["freed"], "is being run by" in studies["made"]["kept"]) == ({}, True)
    assert ((study / "data").exists(), Path("runs/other/data").exists()) == (True, False)
    assert found["bytes"] == toolkit.load("made").clean().bytes > 0
    assert not (study / "data").exists()
    assert hpo(capsys, "clean", "made") == (0, "0 KiB freed\n", "")
    assert {view.study for view in toolkit.studies().studies} == {"made", "other"}
    assert refused(capsys, "report", "none").endswith("there are made, other\n")
    assert tree("runs/.made-123") == before
