"""A node keeps what a search was sent: once for all of its workers, for this user and this search only."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest

from hpo.errors import MachineError
from hpo.workers.store.disk import DiskStore
from hpo.workers.store.packing import packed


@pytest.fixture
def sent(tmp_path):
    """The digest and the pieces of a folder."""
    (tmp_path / "driver").mkdir()
    (tmp_path / "driver" / "f").write_bytes(b"data")
    with packed(tmp_path / "driver") as package:
        return package.digest, list(package.pieces())


@pytest.fixture
def store_of(tmp_path):
    """Return a function that makes another worker's view of the store of a search."""
    with ExitStack() as stack:
        yield lambda search: stack.enter_context(closing(DiskStore(search, tmp_path / "root")))


def never():
    raise AssertionError("it is there already")


def test_what_one_worker_fetched_the_others_of_its_search_find(store_of, sent, tmp_path):
    digest, pieces = sent
    first, second = store_of("one"), store_of("one")
    place = first.get(digest, lambda: pieces)
    assert second.get(digest, never) == place == first.get(digest, never)
    assert (place / "f").read_bytes() == b"data"
    assert (tmp_path / "root").stat().st_mode & 0o777 == 0o700


def test_it_is_fetched_once_by_workers_that_want_it_at_once(store_of, sent):
    digest, pieces = sent
    fetched = []
    with ThreadPoolExecutor() as pool:
        places = pool.map(
            lambda store: store.get(digest, lambda: fetched.append(1) or pieces), [store_of("one") for _ in range(4)]
        )
        assert len(set(places)) == len(fetched) == 1


def test_what_one_search_writes_no_other_finds(store_of, sent):
    digest, pieces = sent
    one, other = (store_of(search).get(digest, lambda: pieces) for search in ("one", "other"))
    (one / "worked_out").touch()
    (one / "f").write_text("written over")
    assert [path.name for path in other.iterdir()] == ["f"]
    assert (other / "f").read_bytes() == b"data"


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
