"""A folder that is copied or sent keeps its links, and none of them leads elsewhere."""

import shutil
from pathlib import Path

import pytest

from hpo.files import copy_tree, entries
from hpo.workers.dispatch.process.task_process import Snapshots

LINKS = {"latest": "step_3", "newest": "latest", "whole": "step_3/f", "to_nothing": "nowhere", "itself": "itself"}


@pytest.fixture
def state(tmp_path):
    """A training's state, reached through a link, as a home often is: the last step by a link, and other links."""
    (tmp_path / "disk" / "state" / "step_3").mkdir(parents=True)
    (tmp_path / "home").symlink_to("disk")
    folder = tmp_path / "home" / "state"
    (folder / "step_3" / "f").write_text("third")
    (folder / "empty").mkdir()
    for name, target in (LINKS | {"whole": str(folder / "step_3" / "f")}).items():
        (folder / name).symlink_to(target)
    return folder


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


def test_a_copy_of_a_state_while_it_is_trained_has_its_links(state, tmp_path, monkeypatch):
    monkeypatch.setattr(Snapshots, "seconds_between", 0.0)
    assert links_in(Path(Snapshots(str(state), str(tmp_path)).take()["snapshot"])) == LINKS
    monkeypatch.setattr(f"{Snapshots.__module__}.copy_tree", lambda *_: (state / "renamed").stat())
    assert Snapshots(str(state), str(tmp_path)).take() == {}
