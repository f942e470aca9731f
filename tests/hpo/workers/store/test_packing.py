"""What was packed is what is unpacked, and its name is its content's."""

import os
import shutil
import tarfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hpo.errors import StudyError
from hpo.workers.store import packing
from hpo.workers.store.packing import packed, unpack

NAMES = st.text("abcé _-", min_size=1, max_size=8).map(lambda name: f"f{name}")
TREES = st.dictionaries(st.lists(NAMES, min_size=1, max_size=3).map(tuple), st.binary(max_size=200), max_size=6)


def written(folder, tree):
    folder.mkdir(parents=True)
    for parts, content in tree.items():
        place = folder.joinpath(*(f"d{part}" for part in parts[:-1]), parts[-1])
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    return folder


def content(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
@given(tree=TREES)
def test_a_folder_comes_back_and_its_digest_depends_on_its_content_alone(tmp_path_factory, tree):
    root = tmp_path_factory.mktemp("parcel")
    one, other = written(root / "one", tree), written(root / "other", dict(reversed(tree.items())))
    for path in other.rglob("*"):
        os.utime(path, (1, 1))
    with packed(one) as first, packed(other) as second:
        assert first.digest == second.digest
        unpack(first.pieces(), root / "back")
    assert content(root / "back") == content(one)


def test_links_within_the_folder_travel_as_links_and_their_targets_count(tmp_path):
    """A training that keeps its last state by a link would begin anew without it."""
    for name, target in {"one": "step_3", "other": "step_4"}.items():
        written(tmp_path / name, {("step_3", "f"): b"third", ("step_4", "f"): b"fourth"})
        (tmp_path / name / "latest").symlink_to(f"d{target}")
        os.link(tmp_path / name / "dstep_4" / "f", tmp_path / name / "same")
    (tmp_path / "one" / "absolute").symlink_to(tmp_path / "one" / "dstep_3" / "f")
    with packed(tmp_path / "one") as first, packed(tmp_path / "other") as second:
        assert first.digest != second.digest
        unpack(first.pieces(), tmp_path / "back")
    shutil.rmtree(tmp_path / "one")
    links = {path.name: str(path.readlink()) for path in (tmp_path / "back").iterdir() if path.is_symlink()}
    assert links == {"latest": "dstep_3", "absolute": "dstep_3/f"}
    assert (tmp_path / "back" / "same").read_bytes() == b"fourth"


def test_a_link_that_leads_out_of_the_folder_is_refused_by_name(tmp_path):
    written(tmp_path / "state", {("step", "f"): b""})
    (tmp_path / "state" / "dstep" / "data").symlink_to("/etc")
    with (
        pytest.raises(StudyError, match=r"state/dstep/data: must not be a link out of the folder"),
        packed(tmp_path / "state"),
    ):
        pass


def test_it_comes_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(packing, "PIECE_BYTES", 1000)
    written(tmp_path / "data", {("f",): bytes(10_000)})
    with packed(tmp_path / "data") as made:
        pieces = list(made.pieces())
    assert {len(piece) for piece in pieces[:-1]} == {1000}
    assert sum(map(len, pieces)) == made.size


def test_a_file_is_unpacked_under_its_name(tmp_path):
    (tmp_path / "objective.pkl").write_bytes(b"by value")
    with packed(tmp_path / "objective.pkl") as made:
        unpack(made.pieces(), tmp_path / "back")
    assert content(tmp_path / "back") == {"objective.pkl": b"by value"}


def test_what_was_there_is_replaced_and_a_damaged_package_leaves_it(tmp_path):
    written(tmp_path / "new", {("f",): b"new"})
    written(tmp_path / "there", {("f",): b"old", ("gone",): b""})
    with packed(tmp_path / "new") as made:
        whole = list(made.pieces())
    with pytest.raises(tarfile.TarError):
        unpack([whole[0][:700]], tmp_path / "there")
    assert content(tmp_path / "there") == {"f": b"old", "gone": b""}
    unpack(whole, tmp_path / "there")
    assert content(tmp_path / "there") == {"f": b"new"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "there"]


def test_nothing_is_written_outside_of_the_folder(tmp_path):
    with tarfile.open(tmp_path / "evil.tar", "w") as archive:
        archive.add(__file__, "../outside.py")
    with pytest.raises(tarfile.TarError):
        unpack([(tmp_path / "evil.tar").read_bytes()], tmp_path / "inner" / "folder")
    assert not (tmp_path / "inner" / "outside.py").exists()
