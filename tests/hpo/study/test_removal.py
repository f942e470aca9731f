"""A study that is removed: only itself, wholly, whatever state it is in; and what it opened stays counted."""

import contextlib
import json
import os
import shutil
import sqlite3
import time
from pathlib import Path

import pytest

from hpo.commands.remove import removal_lines, remove_study
from hpo.config.study_config import config_from_dict
from hpo.errors import StudyError
from hpo.study.files.folder import StudyFolder
from hpo.study.storage.cleaning import clean_runs
from hpo.study.storage.mirror import Manifest, Mirror
from hpo.study.storage.removal import find_removal
from hpo.study.test_log import all_evaluations, write_evaluation
from tests.hpo.study.killed import killed_at, tree
from tests.studies import toy_config


def opening(time):
    return {"time": time, "study": "toy", "study_id": "1", "trial": 0, "fingerprint": "f"}


def test_what_it_opened_is_counted_for_the_next_study(toy):
    """Also an opening that only its own folder knows, as after it came from a mirror."""
    write_evaluation(toy, opening("once"))
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


@pytest.mark.parametrize(
    "damage",
    [
        damage_record,
        lambda folder: folder.config_path.write_text("study: ["),
        lambda folder: folder.config_path.unlink(),
        lambda folder: folder.database_path.unlink(),
    ],
    ids=["record", "configuration", "no configuration", "no record"],
)
def test_a_damaged_one_goes_too_and_it_is_said_what_stays(toy, damage):
    damage(toy)
    removal = find_removal("toy")
    assert "runs/toy: " in next(removal_lines(removal, mirror=False, runs=True))
    remove_study(removal)
    assert list(Path("runs").iterdir()) == []


def test_one_of_another_format_goes_too(toy):
    """Of before the first release, or of a later one: it is named, and removed without being read."""
    environment = json.loads(toy.environment_path.read_text())
    toy.environment_path.write_text(json.dumps(environment | {"format": 2}))
    assert remove_study(find_removal("runs/toy")).files > 5
    assert list(Path("runs").iterdir()) == []


def test_of_a_link_in_its_place_only_the_link_goes(toy):
    toy.path.rename("elsewhere")
    Path("runs/toy").symlink_to(Path("elsewhere").absolute())
    before = tree("elsewhere")
    remove_study(find_removal("toy"))
    assert (list(Path("runs").iterdir()), tree("elsewhere")) == ([], before)


def test_of_a_link_out_of_it_only_the_link_goes(toy, tmp_path):
    (outside := tmp_path / "outside").mkdir()
    (outside / "precious").write_text("mine")
    toy.logs_dir.mkdir(exist_ok=True)
    (toy.logs_dir / "file").symlink_to(outside / "precious")
    (toy.path / "checkpoints").symlink_to(outside)
    removal = find_removal("toy")
    says = [*removal_lines(removal, mirror=False, runs=True)]
    assert {line for line in says if "which stays" in line} == {
        f"  logs/file: a link to {outside / 'precious'}, which stays",
        f"  checkpoints: a link to {outside}, which stays",
    }
    remove_study(removal)
    assert not toy.path.exists()
    assert (outside / "precious").read_text() == "mine"


def test_runs_in_mlflow_are_named_where_there_may_be_some(toy):
    def says():
        return "\n".join(removal_lines(find_removal("toy"), mirror=False, runs=True))

    assert "MLflow" not in says()
    # That of other studies.
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


def test_what_is_no_study_is_left_alone(toy, monkeypatch):
    Path("project").mkdir()
    Path("project/config.yaml").write_text("a: 1")
    for name, words in (("project", "no other file of a study"), (".", "there is no"), ("", "there is no")):
        with pytest.raises(StudyError, match=words):
            find_removal(name)
    monkeypatch.chdir(toy.path)
    with pytest.raises(StudyError, match="the working directory is inside"):
        find_removal(str(toy.path))
    assert toy.exists


def test_of_two_hands_one_removes_it_and_nothing_is_made_again(toy):
    first, second = find_removal("toy"), find_removal("toy")
    remove_study(first)
    with pytest.raises(StudyError, match="has been removed meanwhile"):
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
    assert clean_runs(Path("runs")).bytes == 0, "a process may be at work there"
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


def test_its_mirror_stays_unless_it_is_asked_for(toy, tmp_path):
    removal = mirrored(toy, tmp_path)
    assert any("stays; --mirror removes it" in line for line in removal_lines(removal, mirror=False, runs=True))
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


def test_a_copy_by_hand_leaves_the_original_its_mirror(toy, tmp_path):
    mirrored(toy, tmp_path)
    shutil.copytree(toy.path, "runs/copy")
    removal = find_removal("copy")
    assert any(
        "runs/toy is a copy of the same study" in line for line in removal_lines(removal, mirror=True, runs=True)
    )
    remove_study(removal, mirror=True)
    assert (tmp_path / "mirror/manifest.json").exists()
    assert remove_study(find_removal("toy"), mirror=True).mirror is not None
