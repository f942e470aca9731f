"""A node keeps what it was sent: once for all workers, for this user only, and within a size."""

import os
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
    for time, name in enumerate(("used", "old", "recent")):
        digest, pieces = things[name]
        place = (busy if name == "used" else cache).get(digest, lambda pieces=pieces: pieces)
        os.utime(place, (time, time))
    cache.close()
    digest, pieces = things["new"]
    cache.get(digest, lambda: pieces)
    there = {name for name, (digest, _) in things.items() if (tmp_path / "cache" / digest).exists()}
    assert there == {"used", "recent", "new"}


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
