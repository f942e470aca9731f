"""`hpo remove` and `hpo clean`: a removed study goes with all its files; a cleaned one keeps what something needs."""

import contextlib
import os
import shutil
import time
from pathlib import Path

import pytest

import hpo as toolkit
from hpo.commands.remove import removal_lines, remove_study
from hpo.errors import StudyError
from hpo.study.storage.cleaning import clean, clean_runs
from hpo.study.storage.mirror import Mirror
from hpo.study.storage.removal import find_removal
from hpo.study.test_log import all_evaluations, write_evaluation
from tests.hpo.cli.commands import documented, hpo, printed, refused
from tests.hpo.study.killed import killed_at, tree
from tests.studies import StudyFolder, config_from_dict, refuses, run_toy, toy_config


def lines(removal, **given):
    return [*removal_lines(removal, **{"mirror": False, "runs": True} | given)]


def test_its_test_evaluations_are_counted_for_the_next_study_and_a_second_removal_is_refused(toy):
    write_evaluation(toy, {"time": "once", "study": "toy", "study_id": "1", "trial": 0, "fingerprint": "f"})
    toy.test_log_path.write_text(toy.test_log_path.read_text() * 2)
    toy.test_path.write_text('{"time": "twice", "study": "toy", "trial": 0, "fingerprint": "f"}')
    before, second = len(all_evaluations(toy, "f")), find_removal("toy")
    remove_study(find_removal("toy"))
    refuses(StudyError, "another process has removed", remove_study, second)
    assert (before, len(all_evaluations(StudyFolder(Path("runs/other")), "f"))) == (3, 3)
    assert [path.name for path in Path("runs").iterdir()] == ["test_evaluations.jsonl"]


@pytest.mark.parametrize(("name", "content"), [
    *(("study.db", "x" * 5000), ("study.db", None), ("config.yaml", "study: ["), ("config.yaml", None)),
])  # fmt: skip
def test_a_damaged_study_is_named_and_removed_too(toy, name, content):
    for file in (name, "study.db.mark"):
        (toy.path / file).unlink()
    if content:
        (toy.path / name).write_text(content)
    removal = find_removal("toy")
    assert "runs/toy: " in lines(removal)[0]
    remove_study(removal)
    assert list(Path("runs").iterdir()) == []


def test_links_go_and_their_targets_stay(toy, tmp_path):
    (outside := tmp_path / "outside").mkdir()
    (outside / "precious").write_text("mine")
    toy.logs_dir.mkdir(exist_ok=True)
    (toy.logs_dir / "file").symlink_to(outside / "precious")
    (toy.path / "checkpoints").symlink_to(outside)
    removal = find_removal("toy")
    assert (f"a link to {outside}, which stays" in "\n".join(lines(removal)), removal.config is None) == (True, False)
    toy.path.rename("elsewhere")
    toy.path.symlink_to(Path("elsewhere").absolute())
    before = tree("elsewhere")
    remove_study(find_removal("toy"))
    assert (list(Path("runs").iterdir()), tree("elsewhere")) == ([], before), "the study's folder was a link"
    Path("elsewhere").rename(toy.path)
    remove_study(find_removal("toy"))
    assert (toy.path.exists(), (outside / "precious").read_text()) == (False, "mine")


def test_a_folder_that_is_no_study_is_left_alone(toy, monkeypatch):
    Path("project").mkdir()
    Path("project/config.yaml").write_text("a: 1")
    for name, words in (("project", "no other file of a study"), (".", "there is no"), ("", "there is no")):
        refuses(StudyError, words, find_removal, name)
    monkeypatch.chdir(toy.path)
    refuses(StudyError, "the working directory is inside", find_removal, str(toy.path))


@pytest.mark.parametrize("step", [0, 1, 2])
def test_a_killed_removal_leaves_the_whole_study_or_a_rest_that_is_cleaned(toy, monkeypatch, step):
    before = tree(toy.path)
    with killed_at(monkeypatch, step):
        remove_study(find_removal("toy"))
    if step < 2:
        assert tree(toy.path).items() >= before.items()
        return
    assert not toy.path.exists()
    assert clean_runs(Path("runs")).bytes == 0, "another process may be using it"
    two_days_ago = time.time() - 48 * 3600
    for rest in Path("runs").iterdir():
        os.utime(rest, (two_days_ago, two_days_ago))
    assert clean_runs(Path("runs")).bytes > 0
    assert list(Path("runs").iterdir()) == []


def test_its_mirror_stays_without_the_option_or_if_a_copy_or_another_study_uses_it(toy, tmp_path):
    url, manifest = f"file://{tmp_path}/mirror", tmp_path / "mirror/manifest.json"
    toy.freeze(config_from_dict(toy_config(trials=2, study=toy.config().to_dict()["study"] | {"mirror": url})))
    Mirror(url, toy, "toy", "another").copy()
    refuses(StudyError, "has another study", remove_study, find_removal("toy"), mirror=True)
    assert (toy.exists, manifest.exists()) == (True, True)
    shutil.rmtree(tmp_path / "mirror")
    Mirror(url, toy, "toy", find_removal("toy").study_id).copy()
    shutil.copytree(toy.path, "runs/copy")
    shutil.copytree(toy.path, "kept")
    both = find_removal("copy"), find_removal("toy")
    said = "\n".join(line for removal in both for line in lines(removal, mirror=True))
    assert all(f"runs/{name} is a copy of this study" in said for name in ("copy", "toy"))
    assert [remove_study(removal, mirror=True).mirror for removal in both] == [None, None]
    shutil.copytree("kept", toy.path)
    removal = find_removal("toy")
    assert any("stays; --mirror removes it" in line for line in lines(removal))
    assert (remove_study(removal).mirror, manifest.exists()) == (None, True)
    shutil.copytree("kept", toy.path)
    assert (remove_study(removal, mirror=True).mirror, tree(tmp_path / "mirror")) == (url, {})


@pytest.mark.slow
def test_the_command_removes_only_after_a_yes(capsys, monkeypatch, study):
    assert "give --yes" in refused(capsys, "remove", "made")
    for stream in ("stdin", "stdout"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda _: (_ for _ in ()).throw(EOFError))
    assert "nothing was removed" in refused(capsys, "remove", "made")
    monkeypatch.setattr("builtins.input", lambda _: "yes")
    code, out, _ = hpo(capsys, "remove", "made")
    assert (code, "removed runs/made\n" in out, study.exists()) == (0, True, False)
    assert "there is no 'made'" in refused(capsys, "remove", "made", "--yes", is_silent=True)


def test_several_are_removed_or_none_and_from_python_without_a_question(capsys, study):
    for name in ("other", "third"):
        shutil.copytree(study, f"runs/{name}")
    refused(capsys, "remove", "made", "none", "--yes")
    assert study.exists()
    found = printed(capsys, "remove", "made", "other", "runs/made", "--yes")[0]["removed"]
    assert [(each["study"], each["runs"]) for each in found] == [("made", 0), ("other", 0)]
    assert all({"removed", *each} == documented("hpo remove") for each in found)
    toolkit.load("third").remove()
    assert list(Path("runs").iterdir()) == []


@pytest.mark.parametrize("command", ["clean made", "archive made x.tar.gz", "remove made --yes"])
def test_a_running_study_is_refused_with_its_driver_and_stays_as_it_is(capsys, study, command):
    with StudyFolder(study).lock():
        before = tree(Path())
        said = refused(capsys, *command.split())
        assert f"runs/made is being run by process {os.getpid()}" in said
        assert "stop it with `hpo stop made`" in said
        assert tree(Path()) == before


def test_an_error_says_which_studies_are_already_removed(capsys, study, monkeypatch):
    shutil.copytree(study, "runs/other")
    refuse_running, calls = StudyFolder.refuse_running, []

    def starts_meanwhile(folder):
        calls.append(folder)
        with StudyFolder(Path("runs/other")).lock() if len(calls) > 2 else contextlib.nullcontext():
            refuse_running(folder)

    monkeypatch.setattr(StudyFolder, "refuse_running", starts_meanwhile)
    said = refused(capsys, "remove", "made", "other", "--yes")
    assert ("runs/other is being run" in said, said.endswith("before the error: removed runs/made\n")) == (True, True)


@pytest.mark.slow
def test_states_stay_while_a_search_or_a_larger_budget_continues_from_them(tmp_path):
    def config(trials):
        return toy_config("asha", trials=trials, objective="toys:continued")

    run_toy(Path("runs/toy").absolute(), config(4))
    folder = StudyFolder(Path("runs/toy"))
    folder.freeze(config_from_dict(config(8)))
    before = tree(folder.states_dir)
    assert before
    assert str(clean(folder, states=True).kept).startswith("the study's states and models stay")
    assert tree(folder.states_dir) == before
    run_toy(folder.path.absolute(), config(8))
    cleaned = clean(folder)
    assert ("states" in cleaned.freed, "`hpo clean --states` deletes them" in str(cleaned.kept)) == (False, True)
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
    before, expected = tree("runs"), clean(folder, dry_run=True)
    assert tree("runs") == before
    cleaned = clean(folder)
    assert expected == cleaned
    assert cleaned.freed["models"] == cleaned.freed["states"] == 1000
    assert cleaned.freed["data"] > 10_000
    assert tree(folder.checkpoints_dir) == {f"trial_0000/{name}": content for name, content in winners.items()}
    assert not folder.data_dir.exists()
    assert hpo(capsys, "test", "made")[::2] == (0, "")


def test_leftovers_of_a_day_ago_go_and_those_of_now_and_other_files_stay(study):
    two_days_ago = time.time() - 48 * 3600
    for name in (".config.yaml.123", ".data-123", "states/.456-abcdefgh", "checkpoints/.notours"):
        (study / name).write_text("y")
        os.utime(study / name, (two_days_ago, two_days_ago))
    (study / ".config.yaml.124").write_text("another process may be using it")
    assert clean(StudyFolder(study)).freed["leftovers"] == 3
    assert [(study / name).exists() for name in ("checkpoints/.notours", ".config.yaml.124")] == [True, True]


def test_logs_go_on_request_and_those_of_failed_trials_stay(study):
    (study / "logs").mkdir()
    for number in (0, 1):
        (study / f"logs/trial_{number:04d}_fold_0.log").write_text("said")
    (study / "trials.csv").write_text("number,state\n0,complete\n1,failed\n")
    assert "logs" not in clean(StudyFolder(study)).freed
    assert clean(StudyFolder(study), logs=True).freed == {"logs": 4}
    assert [path.name for path in (study / "logs").iterdir()] == ["trial_0001_fold_0.log"]


def test_the_copy_of_data_that_no_longer_exist_stays(study):
    text = (study / "config.yaml").read_text().replace("\ndata:\n", "\ndata:\n  path: gone.csv\n")
    (study / "config.yaml").write_text(text)
    assert "data" not in clean(StudyFolder(study)).freed
    assert (study / "data").exists()


def test_a_study_whose_record_cannot_be_read_keeps_its_models(study):
    (study / "checkpoints/trial_0001").mkdir()
    (study / "study.db").write_bytes(b"x" * 5000)
    assert "the study's states and models stay: " in str(clean(StudyFolder(study)).kept)
    assert (study / "checkpoints/trial_0001").exists()


def test_the_command_prints_what_it_would_free_and_passes_over_a_running_study_and_copies_in_progress(capsys, study):
    shutil.copytree(study, "runs/other")
    shutil.copytree(study, "runs/.made-123")
    before = tree("runs/.made-123")
    assert "would be freed" in hpo(capsys, "clean", "--dry-run")[1]
    found, _ = printed(capsys, "clean", "made", "--dry-run")
    assert {*found, *found["studies"][0]} == documented("hpo clean")
    with StudyFolder(study).lock():
        studies = {each["study"]: each for each in printed(capsys, "clean")[0]["studies"]}
    assert (list(studies["other"]["freed"]), studies["other"]["kept"]) == (["data"], None)
    assert (studies["made"]["freed"], "is being run by" in studies["made"]["kept"]) == ({}, True)
    assert ((study / "data").exists(), Path("runs/other/data").exists()) == (True, False)
    assert found["bytes"] == toolkit.load("made").clean().bytes > 0
    assert hpo(capsys, "clean", "made") == (0, "0 B freed\n", "")
    assert ({view.study for view in toolkit.studies().studies}, tree("runs/.made-123")) == ({"made", "other"}, before)
