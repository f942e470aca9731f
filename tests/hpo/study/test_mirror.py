"""A study's copy at a URL: whole at every moment, of one study only, and enough to continue anywhere."""

import hashlib
import json
import logging
from pathlib import Path

import fsspec
import pytest

from hpo.errors import ConfigError, HpoError, StudyError
from hpo.place import Place
from hpo.session.mirroring import Mirroring, refuse_bad_urls
from hpo.study.storage.mirror import Manifest, Mirror, restore
from hpo.study.test_log import all_evaluations
from hpo.study.view.reader import open_reader
from hpo.trials.trial import Outcome
from hpo.workers.dispatch.dispatcher import TaskReport
from tests.studies import StudyFolder, config_from_dict, refuses, rows, run_toy, toy_config

EMPTY = hashlib.sha256(b"").hexdigest()
MANIFEST = {"format": 1, "name": "toy", "study_id": "one", "files": {"config.yaml": EMPTY}, "links": {}, "folders": []}
MANIFEST |= {"id": "", "generation": 1, "writer": "here", "written": "today"}
LINKS = [{"x": "/etc/passwd"}, {"x": "../y"}, {"x/y": "../.."}, {"../x": "y"}, {"x": "y\0"}, {"x": 1}, []]
LINKS += [{"a/b/up": "..", "a/x": "b/up/../.."}]  # each within the folder by its text, and together out of it
NAMES = [{"files": dict.fromkeys(names, EMPTY)} for names in (["f\0"], ["\ud800"], ["f" * 256], ["f", "f/x"])]
NAMES += [{"files": {"f/x": EMPTY}, "links": {"f": "x"}}]
DIGEST = "0" * 64
FILES = [{"f": digest} for digest in (DIGEST[1:], DIGEST.replace("0", "g"), "../f", None)]
FILES += [dict.fromkeys(names, DIGEST) for names in ([""], ["."], ["/f"], ["a/../../f"], ["f", "./f"])]
BAD_FIELDS = {"name": "../x", "id": 1, "writer": "\x1b[2J", "format": 99}


def mirror_of(folder, url, study_id="one"):
    return Mirror(url, folder, "toy", study_id)


def mirrored(url):
    return config_from_dict(toy_config(study=toy_config()["study"] | {"mirror": url}))


@pytest.fixture
def place(tmp_path):
    return Place(f"file://{tmp_path}/mirror", "mirror")


def test_a_study_continues_elsewhere_from_its_copy(toy, url, tmp_path, caplog):
    (toy.path / "old").write_text("old")
    toy.test_log_path.write_text('{"time": "once", "study": "toy", "trial": 0, "fingerprint": "f"}\n')
    state = toy.states_dir / "x"
    for name in ("step_3", "empty"):
        (state / name).mkdir(parents=True)
    (state / "step_3" / ".metadata").write_text("third")
    for name, target in {"latest": "step_3", "file": state / "step_3" / ".metadata", "data": "/etc"}.items():
        (state / name).symlink_to(target)
    mirror, files = mirror_of(toy, url), Place(url, "mirror")
    refuses(StudyError, "by zero", files.write, "other/half", (b"%d" % (1 // piece) for piece in (1, 0)))
    assert files.read("other/half") is None
    mirror.copy()
    before = set(files.names("files"))
    (toy.path / "old").unlink()
    (toy.path / "new").write_text("new")
    mirror.copy()
    after = set(files.names("files"))
    assert (len(before - after), len(after - before), after) == (1, 1, set(Manifest.at(files).files.values()))
    (line,) = [line for line in caplog.messages if "states/x/data" in line]
    assert "a link that leads out of the study's folder" in line
    restored = restore(url, tmp_path / "elsewhere")
    assert restored.path.stat().st_mode & 0o777 == 0o700
    assert len(all_evaluations(StudyFolder(tmp_path / "elsewhere/another"), "f")) == 1
    back = restored.states_dir / "x"
    links = {path.name: str(path.readlink()) for path in back.iterdir() if path.is_symlink()}
    assert links == {"latest": "step_3", "file": "step_3/.metadata"}
    assert ((back / "latest" / ".metadata").read_text(), (back / "empty").is_dir()) == ("third", True)
    assert run_toy(restored.path, toy_config(trials=4)) == run_toy(tmp_path / "whole", toy_config(trials=4))


@pytest.mark.parametrize("fields", [*({"folders": ["a/b"], "links": links} for links in LINKS), *NAMES])
def test_links_that_leave_the_folder_and_impossible_names_are_refused_and_nothing_is_written(place, fields):
    manifest = MANIFEST | fields | {"files": {**MANIFEST["files"], **fields.get("files", {})}}
    place.write("manifest.json", [json.dumps(manifest).encode()])
    place.write(f"files/{EMPTY}", [b""])
    refuses(StudyError, r"this version can read|leads out|outside of the folder|cannot be read", restore, place.url)
    assert not list(Path("runs").glob("*"))
    place.write("manifest.json", [json.dumps(MANIFEST).encode()])
    assert restore(place.url).exists, "without these fields it is a study"


def test_a_copy_that_is_cut_off_within_its_manifest_leaves_the_whole_one_before_it(toy, place, tmp_path, monkeypatch):
    mirror_of(toy, place.url).copy()
    run_toy(toy.path.absolute(), toy_config(trials=4))
    written = Place.write

    def half_written():
        yield b"half"
        raise OSError("no room")

    def cut_off(self, name, content):
        written(self, name, half_written() if name == "manifest.json" else content)

    monkeypatch.setattr(Place, "write", cut_off)
    refuses(StudyError, "no room", mirror_of(toy, place.url).copy)
    toy.path.rename(tmp_path / "lost")
    assert len(rows(restore(place.url).trials_path)) == 2


def test_a_mirror_of_another_study_is_refused_and_left_alone(toy, place, tmp_path):
    mirror_of(toy, place.url).copy()
    before = (tmp_path / "mirror/manifest.json").read_bytes()
    words = "has another study, 'toy'; .*`hpo resume file"
    refuses(StudyError, words, mirror_of(toy, place.url, "two").copy)
    refuses(StudyError, words, refuse_bad_urls, mirrored(place.url), StudyFolder(Path("runs/new")), None)
    assert (tmp_path / "mirror/manifest.json").read_bytes() == before


def test_a_newer_copy_of_another_machine_is_not_overwritten(toy, place, tmp_path, monkeypatch, caplog):
    url = place.url
    mirror_of(toy, url).copy()
    there = restore(url, tmp_path / "elsewhere")
    for folder, trials in ((there.path, 4), (toy.path.absolute(), 3)):
        run_toy(folder, toy_config(trials=trials))
    write = Place.write

    def overtaken(self, *given):
        write(self, *given)
        monkeypatch.setattr(Place, "write", write)
        mirror_of(there, url).copy()

    monkeypatch.setattr(Place, "write", overtaken)
    words = f"{there.path} has continued this study, and wrote copy 2 to {url} at .* UTC; .*`hpo resume"
    refuses(StudyError, words, mirror_of(toy, url).copy)
    refuses(StudyError, words, refuse_bad_urls, mirrored(url), toy, "one")
    refuse_bad_urls(mirrored(url), there, "one")
    copying = Mirroring(mirror_of(toy, url))
    with caplog.at_level(logging.WARNING):
        copying.seconds_between = 0.0
        copying.reported(None, TaskReport(None, outcome=Outcome({"score": 1.0})))
        copying.close()
    during, last = caplog.messages
    assert during.endswith("the search goes on without a mirror")
    assert last.endswith("the mirror lacks the study's last results")
    assert len(rows(restore(url, tmp_path / "third").trials_path)) == 4


@pytest.mark.parametrize("manifest", [
    *("[]", '{"format": 1}', "{", json.dumps(MANIFEST | {"files": {"study.db": DIGEST}})),
    *(json.dumps(MANIFEST | {"files": {**MANIFEST["files"], **files}}) for files in FILES),
    *(json.dumps(MANIFEST | {"folders": folders}) for folders in ("f", ["../f"], ["/f"], [1])),
    *(json.dumps(MANIFEST | {key: bad}) for key, bad in BAD_FIELDS.items()),
])  # fmt: skip
def test_an_invalid_manifest_is_refused_nothing_is_written_and_no_search_copies_onto_it(place, manifest):
    place.write("manifest.json", [manifest.encode()])
    refuses(HpoError, r"manifest|this version can read", restore, place.url)
    assert not Path("runs").exists()
    new = StudyFolder(Path("n"))
    refuses(HpoError, r"manifest|this version can read", refuse_bad_urls, mirrored(place.url), new, None)


@pytest.mark.parametrize("error", [TypeError("two\nlines"), RuntimeError(), OSError("no"), SystemExit(3)])
def test_whatever_a_file_system_raises_is_one_line(monkeypatch, error):
    def broken(*_, **__):
        raise error

    monkeypatch.setattr(fsspec.core, "url_to_fs", broken)
    refuses(ConfigError, r"'file:///x' cannot be used: [^\n]+; for s3:// run", Place, "file:///x", "study.mirror")


def test_a_missing_damaged_or_already_restored_copy_is_refused(toy, place, tmp_path):
    refuses(StudyError, "there is no copy of a study at", restore, place.url)
    mirror_of(toy, place.url).copy()
    refuses(StudyError, "runs/toy already exists", restore, place.url)
    toy.path.rename(tmp_path / "gone")
    (tmp_path / "mirror/files" / Manifest.at(place).files["trials.csv"]).write_text("0,0")
    refuses(StudyError, r"trials\.csv at .* is damaged", restore, place.url)
    (tmp_path / "mirror/files" / Manifest.at(place).files["config.yaml"]).write_text("a: 1")
    with pytest.raises(StudyError, match=r"config\.yaml at .* is damaged"), open_reader(place.url) as view:
        view.snapshot()
    assert not list(Path("runs").iterdir())


def test_an_unreachable_mirror_gives_one_warning_and_the_next_copy_is_complete(toy, place, tmp_path, caplog):
    (tmp_path / "mirror").touch()
    copying = Mirroring(mirror_of(toy, place.url))
    copying.seconds_between = 0.0
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            copying.reported(None, TaskReport(None, outcome=Outcome({"score": 1.0})))
            copying.wait()
    (line,) = caplog.messages
    assert "the search goes on and the next copy has everything" in line
    (tmp_path / "mirror").unlink()
    copying.close()
    assert Manifest.at(place).files.keys() >= {"study.db", "trials.csv"}
