"""What is sent to a node: packed, known by its content, and kept once for all workers of one search."""

import os
import tarfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest

from hpo.errors import MachineError, StudyError
from hpo.workers.store.disk import DiskStore
from hpo.workers.store.packing import packed, unpack


def written(folder, tree):
    folder.mkdir(parents=True)
    for parts, content in tree.items():
        place = folder.joinpath(*(f"d{part}" for part in parts[:-1]), parts[-1])
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    return folder


def content(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_folder_comes_back_and_its_digest_depends_on_its_content_alone(tmp_path):
    tree = {("é 1",): b"one", ("a", "b", "c"): b"", ("a", "-_"): bytes(200)}
    one, other = written(tmp_path / "one", tree), written(tmp_path / "other", dict(reversed(tree.items())))
    changed = written(tmp_path / "changed", tree | {("a", "-_"): bytes(201)})
    for path in other.rglob("*"):
        os.utime(path, (1, 1))
    with packed(one) as first, packed(other) as second, packed(changed) as third:
        assert first.digest == second.digest != third.digest
        unpack(first.pieces(), tmp_path / "back")
    assert content(tmp_path / "back") == content(one)


def test_links_within_the_folder_travel_as_links_and_their_targets_count(tmp_path):
    for name, target in {"one": "step_3", "other": "step_4"}.items():
        folder = written(tmp_path / name, {("step_3", "f"): b"third", ("step_4", "f"): b"fourth"})
        (folder / "latest").symlink_to(f"d{target}")
        os.link(folder / "dstep_4" / "f", folder / "same")
        (folder / "absolute").symlink_to(folder / "dstep_3" / "f")
    with packed(tmp_path / "one") as first, packed(tmp_path / "other") as second:
        assert first.digest != second.digest
        unpack(first.pieces(), tmp_path / "back")
    links = {path.name: str(path.readlink()) for path in (tmp_path / "back").iterdir() if path.is_symlink()}
    assert links == {"latest": "dstep_3", "absolute": "dstep_3/f"}
    assert (tmp_path / "back" / "same").read_bytes() == b"fourth"


def test_a_link_that_leads_out_of_the_folder_is_refused_by_name(tmp_path):
    (written(tmp_path / "state", {("step", "f"): b""}) / "dstep" / "data").symlink_to("/etc")
    with pytest.raises(StudyError, match=r"state/dstep/data: must not be a link out of .*, given a link to /etc;"):
        packed(tmp_path / "state").__enter__()


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


@pytest.fixture
def sent(tmp_path):
    with packed(written(tmp_path / "driver", {("f",): b"data"})) as package:
        return package.digest, list(package.pieces())


@pytest.fixture
def store_of(tmp_path):
    with ExitStack() as stack:
        yield lambda search: stack.enter_context(closing(DiskStore(search, tmp_path / "root")))


def test_workers_of_one_search_that_want_it_at_once_fetch_it_once(store_of, sent, tmp_path):
    digest, pieces = sent
    fetched, stores = [], [store_of("one") for _ in range(4)]
    with ThreadPoolExecutor() as pool:
        places = {*pool.map(lambda store: store.get(digest, lambda: fetched.append(1) or pieces), stores)}
    assert (len(places), len(fetched), (places.pop() / "f").read_bytes()) == (1, 1, b"data")
    assert (tmp_path / "root").stat().st_mode & 0o777 == 0o700


def test_what_one_search_writes_no_other_finds(store_of, sent):
    digest, pieces = sent
    one, other = (store_of(search).get(digest, lambda: pieces) for search in ("one", "other"))
    (one / "worked_out").touch()
    (one / "f").write_text("written over")
    assert ([path.name for path in other.iterdir()], (other / "f").read_bytes()) == (["f"], b"data")


def test_the_folder_of_a_search_goes_when_none_of_its_workers_is_left(tmp_path, sent):
    digest, pieces = sent
    first, second = (DiskStore("one", tmp_path / "root") for _ in range(2))
    place = first.get(digest, lambda: pieces)
    first.close()
    DiskStore("other", tmp_path / "root").close()
    assert place.is_dir()
    second.close()
    with closing(DiskStore("third", tmp_path / "root")):
        assert [path.name for path in (tmp_path / "root").iterdir()] == ["third"]


def test_a_scratch_folder_goes_with_its_block_and_what_a_killed_worker_left_with_the_next_worker(store_of, tmp_path):
    with store_of("one").scratch() as scratch:
        (scratch / "f").touch()
        store_of("one")
        assert (scratch / "f").exists()
    left = tmp_path / "root" / "left"
    left.mkdir()
    store_of("one")
    assert not scratch.exists()
    assert not left.exists()


def test_a_folder_that_others_can_read_is_refused(tmp_path):
    (tmp_path / "root").mkdir(mode=0o755)
    with pytest.raises(MachineError, match="only this user"):
        DiskStore("one", tmp_path / "root")
