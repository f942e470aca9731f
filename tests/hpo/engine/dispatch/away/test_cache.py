"""A node keeps what it was sent: once for all workers, for this user only, and within a size."""

import fcntl
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest

from hpo.engine.dispatch.away.cache import NodeCache
from hpo.engine.dispatch.away.parcel import packed
from hpo.errors import MachineError

KIB = 1024


def sent(tmp_path, name, size=100 * KIB):
    folder = tmp_path / "driver" / name
    folder.mkdir(parents=True)
    (folder / "f").write_bytes(name.encode() * (size // len(name)))
    with packed(folder) as parcel:
        return parcel.digest, list(parcel.pieces())


def pieces_content(tmp_path):
    return (tmp_path / "driver" / "data" / "f").read_bytes()


@pytest.fixture
def cache_in(tmp_path):
    """Return a function that makes another worker's view of the cache."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(closing(NodeCache(tmp_path / "cache", **options)))


def never():
    raise AssertionError("it is there already")


def test_what_one_worker_fetched_the_others_find(cache_in, tmp_path):
    digest, pieces = sent(tmp_path, "data")
    first, second = cache_in(), cache_in()
    place = first.get(digest, lambda: pieces)
    assert second.get(digest, never) == place == first.get(digest, never)
    assert (place / "f").read_bytes().startswith(b"datadata")
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700


def test_what_was_used_longest_ago_goes_but_nothing_that_is_in_use(cache_in, tmp_path):
    things = {name: sent(tmp_path, name) for name in ("used", "old", "recent", "new")}
    busy, cache = cache_in(), cache_in(most_bytes=250 * KIB)
    for moment, name in enumerate(("used", "old", "recent")):
        digest, pieces = things[name]
        place = (busy if name == "used" else cache).get(digest, lambda pieces=pieces: pieces)
        os.utime(place, (moment, moment))
    cache.close()
    digest, pieces = things["new"]
    cache.get(digest, lambda: pieces)
    there = {name for name, (digest, _) in things.items() if (tmp_path / "cache" / digest).exists()}
    assert there == {"used", "recent", "new"}


def test_what_is_shared_is_read_only_and_what_one_search_writes_no_other_finds(cache_in, tmp_path):
    digest, pieces = sent(tmp_path, "data")
    cache = cache_in()
    one, other = (cache.own(digest, owner, lambda: pieces) for owner in ("one", "other"))
    assert cache_in().own(digest, "one", never) == one != other
    (one / "worked_out").touch()
    (one / "f").unlink()
    (one / "f").write_text("written over")
    shared = cache.get(digest, never)
    assert (shared / "f").stat().st_mode & 0o777 == 0o400
    assert [path.name for path in (*shared.iterdir(), *other.iterdir())] == ["f", "f"]
    assert (shared / "f").read_bytes() == (other / "f").read_bytes() == pieces_content(tmp_path)


@pytest.mark.parametrize("is_writable", [True, False])
def test_a_file_is_a_second_name_where_nobody_can_write_by_it_and_a_copy_where_root_can(
    cache_in, tmp_path, monkeypatch, is_writable
):
    digest, pieces = sent(tmp_path, "data")
    monkeypatch.setattr(os, "access", lambda path, mode: is_writable)
    cache = cache_in()
    own = cache.own(digest, "one", lambda: pieces)
    assert (own / "f").samefile(cache.get(digest, never) / "f") != is_writable
    assert (own / "f").stat().st_mode & 0o777 == (0o600 if is_writable else 0o400)
    assert (own / "f").read_bytes() == pieces_content(tmp_path)


def test_a_file_with_two_names_counts_once(cache_in, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    (old, old_pieces), (digest, pieces), (new, new_pieces) = (sent(tmp_path, name) for name in ("old", "data", "new"))
    with closing(NodeCache(tmp_path / "cache")) as before:
        before.get(old, lambda: old_pieces)
    cache = cache_in(most_bytes=250 * KIB)
    cache.own(digest, "one", lambda: pieces)
    cache.get(new, lambda: new_pieces)
    assert (tmp_path / "cache" / old).exists()


def test_the_folder_of_a_search_goes_when_none_of_its_workers_is_left(tmp_path):
    digest, pieces = sent(tmp_path, "data")
    first, second = (NodeCache(tmp_path / "cache") for _ in range(2))
    own = first.own(digest, "one", lambda: pieces)
    second.own(digest, "one", never)
    first.close()
    NodeCache(tmp_path / "cache")
    assert own.is_dir()
    second.close()
    NodeCache(tmp_path / "cache")
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == sorted(
        [digest, f"{digest}.fetching", f"{digest}.using"]
    )


def test_who_waited_for_a_lock_that_was_deleted_has_the_new_one(tmp_path):
    digest, pieces = sent(tmp_path, "data")
    cleaner, worker = NodeCache(tmp_path / "cache"), NodeCache(tmp_path / "cache")
    lock = cleaner._lock(f"{digest}.of-one", "using", fcntl.LOCK_EX)
    with ThreadPoolExecutor() as pool, closing(worker):
        waiting = pool.submit(worker.own, digest, "one", lambda: pieces)
        time.sleep(0.1)
        (tmp_path / "cache" / f"{digest}.of-one.using").unlink()
        lock.close()
        own = waiting.result(10)
        NodeCache(tmp_path / "cache")
        assert own.is_dir()


def test_a_scratch_folder_goes_with_its_block_and_what_a_killed_worker_left_with_the_next_worker(tmp_path):
    cache = NodeCache(tmp_path / "cache")
    with cache.scratch() as scratch:
        (scratch / "f").touch()
    left = tmp_path / "cache" / ".4194305-abc"  # above the largest number of a process
    left.mkdir()
    NodeCache(tmp_path / "cache")
    assert not scratch.exists()
    assert not left.exists()


def test_a_folder_that_others_can_read_is_refused(tmp_path):
    (tmp_path / "cache").mkdir(mode=0o755)
    with pytest.raises(MachineError, match="only this user"):
        NodeCache(tmp_path / "cache")
