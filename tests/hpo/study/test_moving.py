"""A study that is moved: the same there, whichever file system, and never lost on the way."""

import json
import shutil
from pathlib import Path

import pytest

from hpo.config.study_config import config_from_dict
from hpo.errors import StudyError
from hpo.study.files.folder import StudyFolder
from hpo.study.keeping.moving import move, relative_places
from hpo.study.ledger import all_openings, write_opening
from tests.hpo.study.killed import killed_at, tree
from tests.studies import run_toy, toy_config

ELSEWHERE = Path("elsewhere/studies")


@pytest.fixture(params=["one file system", "another file system"])
def anywhere(request, monkeypatch):
    if request.param == "another file system":
        monkeypatch.setattr("hpo.study.keeping.moving.is_one_file_system", lambda *_: False)


def own(files):
    return {name: content for name, content in files.items() if name != "driver.lock"}


@pytest.mark.usefixtures("anywhere")
def test_it_is_the_same_there_with_its_links_and_what_it_opened(toy):
    (toy.path / "states/x").mkdir(parents=True)
    (toy.path / "states/x/last").write_text("state")
    (toy.path / "states/latest").symlink_to(toy.path.absolute() / "states/x")
    write_opening(toy, {"time": "once", "study": "toy", "study_id": "1", "trial": 0, "fingerprint": "f"})
    before = own(tree(toy.path))
    moved = move(toy, ELSEWHERE)
    assert (moved.path, own(tree(moved.path))) == (ELSEWHERE.absolute() / "toy", before)
    assert not toy.path.exists()
    for other in (Path("runs/other"), ELSEWHERE / "other"):
        assert len(all_openings(StudyFolder(other), "f")) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("anywhere")
def test_it_goes_on_there(toy, tmp_path):
    moved = move(toy, ELSEWHERE)
    assert run_toy(moved.path, toy_config(trials=5)) == run_toy(tmp_path / "whole", toy_config(trials=5))
    assert json.loads((moved.path / "report.json").read_text())["counts"]["complete"] > 0


@pytest.mark.usefixtures("anywhere")
def test_wherever_it_is_killed_it_is_whole_somewhere_and_the_same_call_goes_on(toy, monkeypatch):
    for path in toy.path.iterdir():
        if path.name not in ("config.yaml", "study.db"):
            path.unlink()
    before, steps, is_killed = tree(toy.path), 0, True
    shutil.copytree(toy.path, "kept")
    while is_killed:
        with killed_at(monkeypatch, steps) as state:
            move(toy, ELSEWHERE)
        is_killed = state["is_dead"]
        places = [place for place in (toy.path, ELSEWHERE / "toy") if place.exists()]
        assert all(own(tree(place)) == before for place in places)
        assert places
        if toy.path.exists():
            assert own(tree(move(toy, ELSEWHERE).path)) == before
        assert not toy.path.exists()
        shutil.rmtree(ELSEWHERE)
        shutil.copytree("kept", toy.path)
        steps += 1
    assert steps > 1


def test_a_copy_that_differs_is_noticed_and_nothing_is_lost(toy, monkeypatch):
    monkeypatch.setattr("hpo.study.keeping.moving.is_one_file_system", lambda *_: False)
    before = own(tree(toy.path))

    def wrongly(source, target):
        target.write_bytes(source.read_bytes()[:-1])

    monkeypatch.setattr("shutil.copy2", wrongly)
    with pytest.raises(StudyError, match="was copied wrongly; the study stays there"):
        move(toy, ELSEWHERE)
    assert (own(tree(toy.path)), list(ELSEWHERE.iterdir())) == (before, [])


def test_without_room_nothing_is_copied(toy, monkeypatch):
    monkeypatch.setattr("hpo.study.keeping.moving.is_one_file_system", lambda *_: False)
    monkeypatch.setattr("shutil.disk_usage", lambda _: shutil._ntuple_diskusage(10, 10, 0))
    with pytest.raises(StudyError, match="has no room for"):
        move(toy, ELSEWHERE)
    assert (toy.exists, list(ELSEWHERE.iterdir())) == (True, [])


def test_what_is_there_already_is_not_written_over(toy):
    (ELSEWHERE / "toy").mkdir(parents=True)
    (ELSEWHERE / "toy/mine").write_text("mine")
    with pytest.raises(StudyError, match="is there already, and is not a copy"):
        move(toy, ELSEWHERE)
    for inside, why in ((Path("runs"), "runs/toy is in runs already"), (Path("runs/toy/states"), "or inside of it")):
        with pytest.raises(StudyError, match=why):
            move(toy, inside)
    other = Path("runs/other")
    run_toy(other, toy_config("random", trials=1))
    for inside in (other, other / "deeper"):
        with pytest.raises(StudyError, match="would go with it"):
            move(toy, inside)
    assert not (other / "deeper").exists()
    (Path("link")).mkdir()
    (Path("link/toy")).symlink_to("nowhere")
    with pytest.raises(StudyError, match="is a link"):
        move(toy, Path("link"))
    assert toy.exists


def test_another_name_is_refused_with_what_copies_under_it(toy):
    with pytest.raises(StudyError, match="`hpo resume toy --as other` copies it under another"):
        move(toy, Path("runs/other"))
    assert [path.name for path in Path("runs").iterdir()] == ["toy"]
    Path("runs/other").mkdir()
    assert move(toy, Path("runs/other")).path == Path("runs/other/toy").absolute()


def test_relative_places_are_named_as_they_must_be_given_elsewhere(toy, tmp_path):
    tree = toy.config().to_dict()
    assert relative_places(config_from_dict(tree)) == {"track.uri": f"sqlite:///{tmp_path}/mlflow.db"}
    tree["data"] = {"path": "there/x.csv", "test": "/abs/y.csv"}
    tree["track"]["uri"] = "http://127.0.0.1:5000"
    tree["study"]["storage"] = "sqlite:///record.db"
    assert relative_places(config_from_dict(tree)) == {
        "data.path": f"{tmp_path}/there/x.csv",
        "study.storage": f"sqlite:///{tmp_path}/record.db",
    }
