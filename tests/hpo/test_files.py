"""A folder that is copied or sent keeps its links, and none of them leads elsewhere."""

import shutil
from pathlib import Path

import pytest

from hpo.files import copy_tree, entries
from hpo.study.files.folder import StudyFolder
from hpo.study.storage.copy import copy_study
from hpo.workers.dispatch.process.task_process import Snapshots
from tests.studies import run_toy, toy_config


@pytest.fixture
def state(tmp_path):
    """A training's state, reached through a link, as a home often is: the last step by a link, and other links."""
    (tmp_path / "disk" / "state" / "step_3").mkdir(parents=True)
    (tmp_path / "home").symlink_to("disk")
    folder = tmp_path / "home" / "state"
    (folder / "step_3" / "f").write_text("third")
    (folder / "empty").mkdir()
    for name, target in {"latest": "step_3", "newest": "latest", "whole": str(folder / "step_3" / "f")}.items():
        (folder / name).symlink_to(target)
    return folder


LINKS = {"latest": "step_3", "newest": "latest", "whole": "step_3/f"}


def links_in(folder):
    return {path.name: str(path.readlink()) for path in folder.iterdir() if path.is_symlink()}


def test_links_within_the_folder_lead_to_the_copy(state, tmp_path):
    copy_tree(state, tmp_path / "copy")
    shutil.rmtree(state)
    assert links_in(tmp_path / "copy") == LINKS
    assert (tmp_path / "copy" / "newest" / "f").read_text() == (tmp_path / "copy" / "whole").read_text() == "third"
    assert (tmp_path / "copy" / "empty").is_dir()


@pytest.mark.parametrize("target", ["/etc/passwd", "..", "../../disk", "latest/../..", "gone/../../x"])
def test_a_link_that_leaves_the_folder_on_its_way_is_known_as_one(state, target):
    (state / "out").symlink_to(target)
    assert {entry.name: entry.target for entry in entries(state) if entry.kind == "link"} == LINKS | {"out": None}


@pytest.mark.parametrize("target", ["nowhere", "to_itself"])
def test_a_link_that_leads_to_nothing_stays_one(state, tmp_path, target):
    (state / "to_itself").symlink_to(target)
    copy_tree(state, tmp_path / "copy")
    assert links_in(tmp_path / "copy")["to_itself"] == target


def test_a_copy_of_a_state_while_it_is_trained_has_its_links(state, tmp_path):
    taken = Snapshots(str(state), str(tmp_path), seconds_between=0.0).take()
    assert links_in(Path(taken["snapshot"])) == LINKS


def test_a_copy_of_a_study_has_the_links_of_its_states_and_files_that_are_named_like_its_own(state):
    run_toy(Path("runs/toy").absolute(), toy_config(trials=1))
    folder = StudyFolder(Path("runs/toy"))
    folder.freeze(folder.config())
    copy_tree(state, folder.states_dir / "x")
    (folder.states_dir / "x" / "report.json").touch()
    copied = copy_study(folder, "other")
    assert links_in(copied.states_dir / "x") == LINKS
    assert (copied.states_dir / "x" / "report.json").exists()
