"""What is cleaned of a study: all that nothing needs, and nothing that something needs."""

import os
import time
from pathlib import Path

import pytest

from hpo.config.study_config import config_from_dict
from hpo.study.files.folder import StudyFolder
from hpo.study.storage.cleaning import clean
from tests.hpo.cli.commands import hpo
from tests.hpo.study.killed import tree
from tests.studies import run_toy, toy_config

# Its trainings go on from states, and fail without them.
BY_AMOUNT = {"strategy": "asha", "objective": "tests.toy:continued"}


def interrupted(path, trials, of, **changes):
    """Return the folder of a search that has done some of its trials."""
    run_toy(Path(path).absolute(), toy_config(trials=trials, **changes))
    folder = StudyFolder(Path(path))
    folder.freeze(config_from_dict(toy_config(trials=of, **changes)))
    return folder


@pytest.mark.slow
def test_one_that_is_not_over_goes_on_with_the_same_trials(tmp_path):
    folder = interrupted("runs/toy", 4, 7, **BY_AMOUNT)
    before = tree(folder.states_dir)
    assert before
    assert str(clean(folder, states=True).kept).startswith("its states and models stay")
    assert tree(folder.states_dir) == before
    assert run_toy(folder.path, toy_config(trials=7, **BY_AMOUNT)) == run_toy(
        tmp_path / "whole", toy_config(trials=7, **BY_AMOUNT)
    )


@pytest.mark.slow
def test_states_that_a_larger_budget_goes_on_from_stay_unless_they_are_asked_for(tmp_path):
    run_toy(Path("runs/toy").absolute(), toy_config(trials=8, **BY_AMOUNT))
    folder = StudyFolder(Path("runs/toy"))
    cleaned = clean(folder)
    assert ("states" in cleaned.freed, "--states deletes them" in str(cleaned.kept)) == (False, True)
    assert run_toy(folder.path, toy_config(trials=16, **BY_AMOUNT)) == run_toy(
        tmp_path / "whole", toy_config(trials=16, **BY_AMOUNT)
    )
    assert any(folder.states_dir.iterdir())
    clean(folder, states=True)
    assert not any(folder.states_dir.iterdir())


def test_of_one_that_is_over_the_winner_stays_and_the_rest_goes(capsys, study):
    folder = StudyFolder(study)
    winners = tree(folder.checkpoints_dir / "trial_0000")
    for left in ("checkpoints/trial_0007", "states/0123_0_0"):
        (study / left).mkdir(parents=True)
        (study / left / "weights").write_bytes(b"x" * 1000)
    for aside in (".config.yaml.123", ".data-123", "states/.456-abcdefgh"):
        (study / aside).write_text("y")
    found = clean(folder, dry_run=True)
    cleaned = clean(folder)
    assert found == cleaned
    assert cleaned.freed["models"] == cleaned.freed["states"] == 1000
    assert cleaned.freed["data"] > 10_000
    assert "leftovers" not in cleaned.freed, "a process may be at work on them"
    assert tree(folder.checkpoints_dir) == {f"trial_0000/{name}": content for name, content in winners.items()}
    assert not folder.data_dir.exists()
    assert clean(folder).freed == {}
    code, _, err = hpo(capsys, "test", "made")
    assert (code, err) == (0, "")


def test_leftovers_of_a_day_ago_go(study):
    two_days_ago = time.time() - 48 * 3600
    for aside in (".config.yaml.123", ".data-123", "states/.456-abcdefgh", "checkpoints/.notours"):
        (study / aside).write_text("y")
        os.utime(study / aside, (two_days_ago, two_days_ago))
    assert clean(StudyFolder(study)).freed["leftovers"] == 3
    assert (study / "checkpoints/.notours").exists()


def test_logs_of_trials_that_failed_stay(study):
    (study / "logs").mkdir()
    for number in (0, 1):
        (study / f"logs/trial_{number:04d}_fold_0.log").write_text("said")
    (study / "trials.csv").write_text("number,state\n0,complete\n1,failed\n")
    assert "logs" not in clean(StudyFolder(study)).freed
    assert clean(StudyFolder(study), logs=True).freed == {"logs": 4}
    assert [path.name for path in (study / "logs").iterdir()] == ["trial_0001_fold_0.log"]


def test_to_look_changes_nothing(study):
    before = tree("runs")
    clean(StudyFolder(study), dry_run=True, logs=True, states=True)
    assert tree("runs") == before


def test_the_copy_of_data_that_are_gone_stays(study):
    text = (study / "config.yaml").read_text().replace("\ndata:\n", "\ndata:\n  path: gone.csv\n")
    (study / "config.yaml").write_text(text)
    assert "data" not in clean(StudyFolder(study)).freed
    assert (study / "data").exists()


def test_what_cannot_be_read_keeps_what_it_has(study):
    (study / "checkpoints/trial_0001").mkdir()
    before = tree(study / "checkpoints")
    (study / "study.db").write_bytes(b"x" * 5000)
    assert "its states and models stay: " in str(clean(StudyFolder(study)).kept)
    assert tree(study / "checkpoints") == before
    assert (study / "checkpoints/trial_0001").exists()
