"""`hpo remove`: only the study, all of it, whatever its state; its test evaluations stay counted."""

import contextlib
import json
import os
import shutil
import sqlite3
import time
from pathlib import Path

import pytest

import hpo as toolkit
from hpo.commands.remove import removal_lines, remove_study
from hpo.config.study_config import config_from_dict
from hpo.errors import StudyError
from hpo.study.files.folder import StudyFolder
from hpo.study.storage.cleaning import clean_runs
from hpo.study.storage.mirror import Manifest, Mirror
from hpo.study.storage.removal import find_removal
from hpo.study.test_log import all_evaluations, write_evaluation
from tests.hpo.cli.commands import documented, hpo, printed, refused
from tests.hpo.study.killed import killed_at, tree
from tests.studies import toy_config


def lines(removal, **given):
    return [*removal_lines(removal, **{"mirror": False, "runs": True} | given)]


def test_its_test_evaluations_are_counted_for_the_next_study(toy):
    """Also an evaluation that only its own folder has, as after a restore from a mirror."""
    write_evaluation(toy, {"time": "once", "study": "toy", "study_id": "1", "trial": 0, "fingerprint": "f"})
    toy.test_log_path.write_text(toy.test_log_path.read_text() * 2)
    toy.test_path.write_text('{"time": "twice", "study": "toy", "trial": 0, "fingerprint": "f"}')
    other = StudyFolder(Path("runs/other"))
    before = len(all_evaluations(toy, "f"))
    remove_study(find_removal("toy"))
    assert (before, len(all_evaluations(other, "f"))) == (3, 3)
    assert [path.name for path in Path("runs").iterdir()] == ["test_evaluations.jsonl"]


def damage_record(folder):
    folder.database_path.write_bytes(b"x" * 5000)
    (folder.path / "study.db.mark").unlink()


DAMAGES = {
    "record": damage_record,
    "configuration": lambda folder: folder.config_path.write_text("study: ["),
    "no configuration": lambda folder: folder.config_path.unlink(),
    "no record": lambda folder: folder.database_path.unlink(),
    "another format": lambda folder: folder.environment_path.write_text(json.dumps({"format": 2})),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_study_is_named_and_removed_too(toy, damage):
    DAMAGES[damage](toy)
    removal = find_removal("toy")
    assert "runs/toy: " in lines(removal)[0]
    assert remove_study(removal).files > 5
    assert list(Path("runs").iterdir()) == []


def test_if_its_folder_is_a_link_only_the_link_goes(toy):
    toy.path.rename("elsewhere")
    Path("runs/toy").symlink_to(Path("elsewhere").absolute())
    before = tree("elsewhere")
    remove_study(find_removal("toy"))
    assert (list(Path("runs").iterdir()), tree("elsewhere")) == ([], before)


def test_links_out_of_it_go_and_their_targets_stay(toy, tmp_path):
    (outside := tmp_path / "outside").mkdir()
    (outside / "precious").write_text("mine")
    toy.logs_dir.mkdir(exist_ok=True)
    (toy.logs_dir / "file").symlink_to(outside / "precious")
    (toy.path / "checkpoints").symlink_to(outside)
    removal = find_removal("toy")
    stay = {line.partition(": a link to ")[2] for line in lines(removal) if "which stays" in line}
    assert stay == {f"{outside / 'precious'}, which stays", f"{outside}, which stays"}
    remove_study(removal)
    assert not toy.path.exists()
    assert (outside / "precious").read_text() == "mine"


def test_runs_in_mlflow_are_named_if_there_may_be_any(toy):
    def says():
        return "\n".join(lines(find_removal("toy")))

    assert "MLflow" not in says()
    # A store of other studies.
    with contextlib.closing(sqlite3.connect("mlflow.db")) as store:
        store.execute("CREATE TABLE runs (run_uuid, lifecycle_stage)")
        store.execute("CREATE TABLE tags (run_uuid, key, value)")
        store.commit()
        assert "MLflow" not in says()
        store.execute("INSERT INTO runs VALUES (1, 'active')")
        store.execute("INSERT INTO tags VALUES (1, 'hpo.study_id', ?)", (find_removal("toy").study_id,))
        store.commit()
    assert "its runs in MLflow" in says()
    Path("mlflow.db").write_text("not to be read")
    assert "its runs in MLflow" in says()


def test_a_folder_that_is_no_study_is_left_alone(toy, monkeypatch):
    Path("project").mkdir()
    Path("project/config.yaml").write_text("a: 1")
    for name, words in (("project", "no other file of a study"), (".", "there is no"), ("", "there is no")):
        with pytest.raises(StudyError, match=words):
            find_removal(name)
    monkeypatch.chdir(toy.path)
    with pytest.raises(StudyError, match="the working directory is inside"):
        find_removal(str(toy.path))
    assert toy.exists


def test_of_two_processes_one_removes_it_and_nothing_is_created_again(toy):
    first, second = find_removal("toy"), find_removal("toy")
    remove_study(first)
    with pytest.raises(StudyError, match="another process has removed"):
        remove_study(second)
    assert list(Path("runs").iterdir()) == []


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


def mirrored(toy, tmp_path, writer=None):
    """Let a study have a mirror, also of another one's id."""
    url = f"file://{tmp_path}/mirror"
    toy.freeze(config_from_dict(toy_config(trials=2, study=toy.config().to_dict()["study"] | {"mirror": url})))
    Mirror(url, toy, "toy", writer or find_removal("toy").study_id).copy()
    return find_removal("toy")


def test_its_mirror_stays_unless_mirror_is_given(toy, tmp_path):
    removal = mirrored(toy, tmp_path)
    assert any("stays; --mirror removes it" in line for line in lines(removal))
    shutil.copytree(toy.path, "kept")
    assert remove_study(removal).mirror is None
    assert (tmp_path / "mirror/manifest.json").exists()
    shutil.copytree("kept", toy.path)
    assert remove_study(removal, mirror=True).mirror == f"file://{tmp_path}/mirror"
    assert tree(tmp_path / "mirror") == {}


def test_a_mirror_of_another_study_is_refused_and_nothing_is_removed(toy, tmp_path):
    removal = mirrored(toy, tmp_path, writer="another")
    with pytest.raises(StudyError, match="has another study"):
        remove_study(removal, mirror=True)
    assert toy.exists
    assert Manifest.model_validate_json((tmp_path / "mirror/manifest.json").read_text()).study_id == "another"


def test_a_copied_folder_leaves_the_original_its_mirror(toy, tmp_path):
    mirrored(toy, tmp_path)
    shutil.copytree(toy.path, "runs/copy")
    removal = find_removal("copy")
    assert any("runs/toy is a copy of the same study" in line for line in lines(removal, mirror=True))
    remove_study(removal, mirror=True)
    assert (tmp_path / "mirror/manifest.json").exists()
    assert remove_study(find_removal("toy"), mirror=True).mirror is not None


def test_the_command_removes_only_after_a_yes(capsys, monkeypatch, study):
    assert "give --yes" in refused(capsys, "remove", "made")
    assert "give --yes" in printed(capsys, "remove", "made", code=2)[0]["error"]
    for stream in ("stdin", "stdout"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda _: "no")
    assert "nothing was removed" in refused(capsys, "remove", "made")
    monkeypatch.setattr("builtins.input", lambda _: "yes")
    code, out, _ = hpo(capsys, "remove", "made")
    assert (code, out.splitlines()[0].startswith("runs/made: "), "removed runs/made\n" in out) == (0, True, True)
    assert not study.exists()
    assert "there is no 'made'" in refused(capsys, "remove", "made", "--yes", is_silent=True)


def test_several_are_removed_or_none_and_from_python_without_a_question(capsys, study):
    for name in ("other", "third"):
        shutil.copytree(study, f"runs/{name}")
    refused(capsys, "remove", "made", "none", "--yes")
    assert study.exists()
    found = printed(capsys, "remove", "made", "other", "runs/made", "--yes")[0]["removed"]
    assert [(each["study"], each["runs"]) for each in found] == [("made", 0), ("other", 0)]
    assert all({"removed", *each} == documented("hpo remove") for each in found)
    assert all(each["files"] > 5 and each["bytes"] > 10_000 for each in found)
    (gone,) = toolkit.load("third").remove().removed
    assert (gone.folder, gone.folder.exists()) == (Path("runs/third").absolute(), False)


def test_an_error_says_which_studies_are_already_removed(capsys, study, monkeypatch):
    shutil.copytree(study, "runs/other")
    refuse_running, calls = StudyFolder.refuse_running, []

    def starts_meanwhile(folder):
        calls.append(folder)
        with StudyFolder(Path("runs/other")).lock() if len(calls) > 2 else contextlib.nullcontext():
            refuse_running(folder)

    monkeypatch.setattr(StudyFolder, "refuse_running", starts_meanwhile)
    said = refused(capsys, "remove", "made", "other", "--yes")
    assert "runs/other is being run" in said
    assert said.endswith("before the error: removed runs/made\n")


COMMANDS = {
    "clean": ["clean", "made"],
    "archive": ["archive", "made", "x.tar.gz"],
    "remove": ["remove", "made", "--yes"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_running_study_is_refused_with_its_driver_and_stays_as_it_is(capsys, study, command):
    with StudyFolder(study).lock():
        before = tree(study)
        said = refused(capsys, *COMMANDS[command])
        assert f"runs/made is being run by process {os.getpid()}" in said
        assert "stop it with `hpo stop made`" in said
        assert tree(study) == before
    assert [path.name for path in Path().iterdir()] == ["runs"]
    Path("elsewhere").mkdir()
    shutil.move("runs/made", "elsewhere/made")
    with StudyFolder(Path("elsewhere/made")).lock():
        assert "stop it with `hpo stop elsewhere/made`" in refused(capsys, "clean", "elsewhere/made", is_silent=True)
