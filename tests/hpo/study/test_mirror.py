"""A study's copy at a URL: whole whenever it is cut off, of one study only, and enough to go on anywhere."""

import hashlib
import json
import logging
import shutil
from contextlib import chdir
from pathlib import Path

import fsspec
import pytest

from hpo.config.study_config import config_from_dict
from hpo.errors import ConfigError, HpoError, StudyError
from hpo.place import Place
from hpo.session.mirroring import Mirroring, refuse_bad_urls
from hpo.study.files.folder import StudyFolder
from hpo.study.storage.mirror import Manifest, Mirror, restore
from hpo.study.test_log import all_evaluations
from hpo.trials.trial import Outcome
from hpo.workers.dispatch.dispatcher import TaskReport
from tests.studies import rows, run_toy, toy_config


def studied(trials=3, path="runs/toy"):
    run_toy(Path(path).absolute(), toy_config(trials=trials))
    folder = StudyFolder(Path(path))
    (folder.checkpoints_dir / "trial_0000").mkdir(parents=True, exist_ok=True)
    (folder.checkpoints_dir / "trial_0000" / "model").write_text("weights")
    return folder


def mirror_of(folder, url, study_id="one"):
    return Mirror(url, folder, "toy", study_id)


@pytest.mark.slow
def test_it_goes_on_elsewhere_from_its_copy(url, tmp_path):
    folder = studied()
    mirror_of(folder, url).copy()
    (tmp_path / "elsewhere").mkdir()
    with chdir(tmp_path / "elsewhere"):
        restored = restore(url)
        assert (restored.checkpoints_dir / "trial_0000" / "model").read_text() == "weights"
        assert restored.path.stat().st_mode & 0o777 == 0o700
        found = run_toy(restored.path, toy_config(trials=6))
    assert found == run_toy(tmp_path / "whole", toy_config(trials=6))


def test_what_it_opened_is_counted_for_others_where_it_is_restored(tmp_path):
    folder, url = studied(trials=1), f"file://{tmp_path}/mirror"
    folder.test_log_path.write_text('{"time": "once", "study": "toy", "trial": 0, "fingerprint": "f"}\n')
    mirror_of(folder, url).copy()
    restore(url, tmp_path / "elsewhere")
    assert len(all_evaluations(StudyFolder(tmp_path / "elsewhere/another"), "f")) == 1


def test_each_content_is_sent_once_and_goes_when_it_is_no_longer_needed(url):
    folder = studied()
    mirror = mirror_of(folder, url)
    mirror.copy()
    before = set(Place(url, "mirror").names("files"))
    shutil.rmtree(folder.checkpoints_dir)
    (folder.path / "new").write_text("new")
    mirror.copy()
    after = set(Place(url, "mirror").names("files"))
    assert len(before - after) == 1
    assert len(after - before) == 1
    assert after == set(Manifest.at(Place(url, "mirror")).files.values())


def test_a_state_comes_back_with_its_links_its_empty_folders_and_its_hidden_files(url, caplog):
    folder = studied()
    state = folder.states_dir / "x"
    (state / "step_3").mkdir(parents=True)
    (state / "step_3" / ".metadata").write_text("third")
    (state / "empty").mkdir()
    (state / "latest").symlink_to("step_3")
    (state / "file").symlink_to(state / "step_3" / ".metadata")
    (state / "data").symlink_to("/etc")
    mirror = mirror_of(folder, url)
    for _ in range(2):
        mirror.copy()
    assert [line for line in caplog.messages if "states/x/data" in line] == [
        "study.mirror: states/x/data is a link that leads out of the study's folder, and is not copied"
    ]
    shutil.rmtree(folder.path)
    back = restore(url).states_dir / "x"
    assert {path.name: str(path.readlink()) for path in back.iterdir() if path.is_symlink()} == {
        "latest": "step_3",
        "file": "step_3/.metadata",
    }
    assert (back / "latest" / ".metadata").read_text() == "third"
    assert (back / "empty").is_dir()


@pytest.mark.parametrize(
    "links",
    [
        *({"x": "/etc/passwd"}, {"x": "../y"}, {"x/y": "../.."}, {"../x": "y"}, {"x": "y\0"}, {"x": ""}, {"x": 1}, []),
        {"a/b/up": "..", "a/x": "b/up/../.."},  # each within the folder by its text, and together out of it
    ],
)
def test_links_of_a_mirror_that_lead_out_of_the_folder_are_refused_and_nothing_is_written(tmp_path, links):
    digest = hashlib.sha256(b"").hexdigest()
    manifest = {"format": 1, "name": "toy", "study_id": "one", "files": {"config.yaml": digest}, "folders": ["a/b"]}
    place = Place(f"file://{tmp_path}/mirror", "mirror")
    place.write("manifest.json", [json.dumps(manifest | {"links": links}).encode()])
    place.write(f"files/{digest}", [b""])
    with pytest.raises(StudyError, match=r"this version can read|link that leads out|outside of the folder"):
        restore(f"file://{tmp_path}/mirror")
    assert not list(Path("runs").glob("*"))


def test_a_copy_that_is_cut_off_leaves_the_whole_one_before_it(tmp_path, monkeypatch):
    folder, url = studied(), f"file://{tmp_path}/mirror"
    mirror = mirror_of(folder, url)
    mirror.copy()
    run_toy(folder.path, toy_config(trials=5))
    written = Place.write

    def cut_off(self, name, content):
        if name == "manifest.json":
            raise StudyError("no network")
        written(self, name, content)

    monkeypatch.setattr(Place, "write", cut_off)
    with pytest.raises(StudyError, match="no network"):
        mirror.copy()
    folder.path.rename(tmp_path / "lost")
    assert len(rows(restore(url).trials_path)) == 3


def test_a_mirror_of_another_study_is_refused_and_left_alone(tmp_path):
    folder, url = studied(), f"file://{tmp_path}/mirror"
    mirror_of(folder, url).copy()
    before = (tmp_path / "mirror/manifest.json").read_bytes()
    words = "has another study, 'toy'; give another URL, or go on with that study by `hpo resume file"
    with pytest.raises(StudyError, match=words):
        mirror_of(folder, url, "two").copy()
    tree = toy_config()
    config = config_from_dict(tree | {"study": tree["study"] | {"mirror": url}})
    with pytest.raises(StudyError, match=words):
        refuse_bad_urls(config, StudyFolder(Path("runs/new")), None)
    refuse_bad_urls(config, folder, "one")
    assert (tmp_path / "mirror/manifest.json").read_bytes() == before


@pytest.fixture
def two(tmp_path):
    """A study that was copied from here, restored elsewhere, and gone on with there: both folders, and the URL."""
    here, url = studied(), f"file://{tmp_path}/mirror"
    mirror_of(here, url).copy()
    there = restore(url, tmp_path / "elsewhere")
    run_toy(there.path, toy_config(trials=5))
    return here, there, url


@pytest.mark.slow
def test_what_another_machine_has_gone_on_with_is_not_written_over(two, tmp_path):
    here, there, url = two
    its_own = mirror_of(here, url)
    its_own.copy()
    there = restore(url, tmp_path / "later")
    run_toy(there.path, toy_config(trials=5))
    mirror_of(there, url).copy()
    run_toy(here.path, toy_config(trials=4))
    words = f"{there.path} has gone on with this study, and wrote copy 3 to {url} at .* UTC; go on from there by `hpo r"
    with pytest.raises(StudyError, match=words):
        its_own.copy()
    tree = toy_config()
    config = config_from_dict(tree | {"study": tree["study"] | {"mirror": url}})
    with pytest.raises(StudyError, match=words):
        refuse_bad_urls(config, here, "one")
    refuse_bad_urls(config, there, "one")
    mirror_of(there, url).copy()
    assert len(rows(restore(url, tmp_path / "third").trials_path)) == 5
    mirror_of(here, f"file://{tmp_path}/its_own").copy()


@pytest.mark.nightly
def test_who_writes_while_this_machine_sends_has_the_mirror_whole(two, tmp_path, monkeypatch):
    here, there, url = two
    run_toy(here.path, toy_config(trials=4))
    written = Place.write

    def slow(self, name, content):
        written(self, name, content)
        monkeypatch.setattr(Place, "write", written)
        mirror_of(there, url).copy()

    monkeypatch.setattr(Place, "write", slow)
    with pytest.raises(StudyError, match="has gone on with this study"):
        mirror_of(here, url).copy()
    assert len(rows(restore(url, tmp_path / "third").trials_path)) == 5


def test_nothing_is_deleted_that_the_manifest_names_that_is_there_then(two, tmp_path, monkeypatch):
    here, there, url = two
    mirror_of(there, f"file://{tmp_path}/aside").copy()
    shutil.copytree(tmp_path / "aside" / "files", tmp_path / "mirror" / "files", dirs_exist_ok=True)
    written = Manifest.write

    def overtaken(self, place):
        written(self, place)
        shutil.copy(tmp_path / "aside" / "manifest.json", tmp_path / "mirror")

    monkeypatch.setattr(Manifest, "write", overtaken)
    with pytest.raises(StudyError, match="has gone on with this study"):
        mirror_of(here, url).copy()
    assert len(rows(restore(url, tmp_path / "third").trials_path)) == 5


@pytest.mark.parametrize("before", [True, False])
def test_a_process_that_is_killed_as_it_writes_the_manifest_goes_on_copying(tmp_path, monkeypatch, before):
    folder, url = studied(), f"file://{tmp_path}/mirror"
    mirror_of(folder, url).copy()
    written = Manifest.write

    def killed(self, place):
        if not before:
            written(self, place)
        raise KeyboardInterrupt

    monkeypatch.setattr(Manifest, "write", killed)
    with pytest.raises(KeyboardInterrupt):
        mirror_of(folder, url).copy()
    monkeypatch.undo()
    mirror_of(folder, url).copy()
    assert Manifest.at(Place(url, "mirror")).generation == (2 if before else 3)


DIGEST = "0" * 64


@pytest.mark.parametrize(
    "manifest",
    [
        *("[]", '{"format": 1}', "{", '{"format": 1, "name": "../x", "study_id": "", "files": {}}'),
        *(
            json.dumps(
                {"format": 1, "name": "toy", "study_id": "one"}
                | {**fields, "files": {"config.yaml": DIGEST, **fields.get("files", {})}}
            )
            for fields in (
                *({"files": {"f": digest}} for digest in ("", DIGEST[1:], DIGEST.replace("0", "g"), "../f", None, 1)),
                *({"files": {name: DIGEST}} for name in ("", ".", "/f", "../f", "a/../../f")),
                *({"folders": folders} for folders in ("f", ["../f"], ["/f"], [1])),
                *({"id": 1}, {"writer": "\x1b[2J"}, {"written": []}, {"generation": "1"}),
                *({"files": {"f": DIGEST, "./f": DIGEST}}, {"folders": ["f/" * 3000]}),
            )
        ),
        json.dumps({"format": 1, "name": "toy", "study_id": "one", "files": {"study.db": DIGEST}}),
    ],
)
def test_what_is_no_mirror_is_refused_nothing_is_written_and_no_search_copies_onto_it(tmp_path, manifest):
    url = f"file://{tmp_path}/mirror"
    Place(url, "mirror").write("manifest.json", [manifest.encode()])
    with pytest.raises(HpoError, match=r"manifest|this version can read") as told:
        restore(url)
    assert "\n" not in str(told.value)
    assert not Path("runs").exists()
    tree = toy_config()
    with pytest.raises(HpoError, match=r"manifest|this version can read"):
        refuse_bad_urls(
            config_from_dict(tree | {"study": tree["study"] | {"mirror": url}}), StudyFolder(Path("n")), None
        )


EMPTY = hashlib.sha256(b"").hexdigest()


@pytest.mark.parametrize(
    "fields",
    [
        *({"files": {"f\0": EMPTY}}, {"files": {"\ud800": EMPTY}}, {"folders": ["f\0"]}, {"files": {"f" * 256: EMPTY}}),
        *({"files": {"f": EMPTY, "f/x": EMPTY}}, {"files": {"f/x": EMPTY}, "links": {"f": "x"}}),
        *({"files": {"f": EMPTY}, "folders": ["f"]}, {"files": {"f": EMPTY}, "folders": ["f/x"]}),
        *({"links": {"f": "x/" * 2500 + "x"}}, {"links": {"f": "x" * 5000}}),
    ],
)
def test_names_that_no_folder_can_have_at_once_are_refused_and_nothing_is_written(tmp_path, fields):
    manifest = {"format": 1, "name": "toy", "study_id": "one"} | fields
    manifest["files"] = {"config.yaml": EMPTY, **fields.get("files", {})}
    place = Place(f"file://{tmp_path}/mirror", "mirror")
    place.write("manifest.json", [json.dumps(manifest).encode()])
    place.write(f"files/{EMPTY}", [b""])
    with pytest.raises(StudyError, match=r"this version can read|cannot be read|outside of the folder"):
        restore(place.url)
    assert not list(Path("runs").glob("*"))


def test_a_file_that_is_cut_off_is_not_there(tmp_path):
    place = Place(f"file://{tmp_path}/mirror", "mirror")
    place.write("f", [b"whole"])

    def cut_off():
        yield b"part"
        raise OSError("no room")

    with pytest.raises(StudyError, match="no room"):
        place.write("f", cut_off())
    assert place.read("f") == b"whole"


@pytest.mark.parametrize(
    ("url", "words"),
    [("backup", "must be a URL, such as s3://"), ("nope://x", "'nope://x' cannot be used: Protocol not known")],
)
def test_what_is_no_url_is_refused(url, words):
    with pytest.raises(ConfigError, match=words):
        Place(url, "study.mirror")


@pytest.mark.parametrize("error", [TypeError("two\nlines"), RuntimeError(), OSError("no"), SystemExit(3)])
def test_whatever_a_file_system_raises_as_it_is_made_is_told_in_one_line(monkeypatch, error):
    def broken(*_, **__):
        raise error

    monkeypatch.setattr(fsspec.core, "url_to_fs", broken)
    with pytest.raises(ConfigError, match=r"'file:///x' cannot be used: [^\n]+; for s3:// run"):
        Place("file:///x", "study.mirror")


def test_what_is_not_there_or_damaged_or_there_already_is_told(tmp_path):
    url = f"file://{tmp_path}/mirror"
    with pytest.raises(StudyError, match="there is no copy of a study at"):
        restore(url)
    folder = studied()
    mirror_of(folder, url).copy()
    with pytest.raises(StudyError, match="runs/toy already exists; go on with it by `hpo resume toy`"):
        restore(url)
    folder.path.rename(tmp_path / "gone")
    files = json.loads((tmp_path / "mirror/manifest.json").read_text())["files"]
    (tmp_path / "mirror/files" / files["trials.csv"]).write_text("0,0")
    with pytest.raises(StudyError, match=r"trials\.csv at .* is damaged"):
        restore(url)
    assert not list(Path("runs").iterdir())


def test_an_unreachable_mirror_is_told_once_and_the_next_copy_brings_all(tmp_path, caplog):
    folder = studied()
    (tmp_path / "mirror").touch()
    copying = Mirroring(mirror_of(folder, f"file://{tmp_path}/mirror"), seconds_between=0.0)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            copying.reported(None, TaskReport(None, outcome=Outcome({"score": 1.0})))
            copying.wait()
    assert len(caplog.messages) == 1
    assert "the search goes on and the next copy has everything" in caplog.messages[0]
    (tmp_path / "mirror").unlink()
    copying.close()
    assert Manifest.at(Place(f"file://{tmp_path}/mirror", "study.mirror")).files.keys() >= {"study.db", "trials.csv"}


@pytest.mark.nightly
def test_that_another_machine_has_gone_on_is_told_once_while_it_searches(two, caplog):
    here, there, url = two
    mirror_of(there, url).copy()
    copying = Mirroring(mirror_of(here, url))
    with caplog.at_level(logging.WARNING):
        copying.close()
        copying.close()
    (line,) = caplog.messages
    assert line.endswith("or give another study.mirror; the search goes on without a mirror")
