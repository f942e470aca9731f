"""Searches on one machine see what the others use, whoever runs them, and believe nothing else."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from hpo.machine import user_name
from hpo.show.display import others_in_words
from hpo.workers.dispatch.other_searches import FOLDER, OtherSearch, Use, announce_use, other_searches, total_use
from tests.studies import dispatch_section, environment

ELSEWHERE = """
import sys
from hpo.workers.dispatch.other_searches import Use, announce_use

with announce_use(Use(3.5, 1.5, (0, 2))):
    print("shown", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER, str(tmp_path))
    return tmp_path


@contextmanager
def another():
    command = [sys.executable, "-c", ELSEWHERE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) as process:
        process.stdout.readline()
        yield process


def test_another_process_is_seen_until_it_ends_or_is_killed(folder):
    with another() as process:
        seen = [OtherSearch(process.pid, user_name(), Use(3.5, 1.5, (0, 2)))]
        assert other_searches() == seen
        # This process is no other.
        with announce_use(Use(1)):
            assert other_searches() == seen
        assert len([*folder.iterdir()]) == 1
    assert (other_searches(), [*folder.iterdir()]) == ([], [])
    with another() as process:
        process.kill()
        process.wait()
        assert len([*folder.iterdir()]) == 1
    # What it left is removed.
    assert (other_searches(), [*folder.iterdir()]) == ([], [])


def test_only_a_plain_file_of_a_living_process_is_believed(folder):
    with another() as process:
        (own,) = folder.iterdir()
        name = own.name.replace(f"_{process.pid}_", "_{}_")
        (folder / name.format(process.pid).replace("3.5000", "nan")).touch()
        (folder / name.format(process.pid).replace("3.5000", "1e9")).touch()
        (folder / name.format(process.pid).replace("3.5000", "4.0000")).symlink_to(own)
        (folder / name.format(process.pid).replace("3.5000", "5.0000")).mkdir()
        # Of a process that had this number before.
        old = folder / name.format(process.pid).replace("3.5000", "6.0000")
        old.touch()
        os.utime(old, (1e9, 1e9))
        (folder / name.format(process.pid).replace(os.uname().nodename, "another-machine")).touch()
        assert [other.use.cpus for other in other_searches()] == [3.5]


def test_where_no_file_can_be_made_a_search_runs_unseen(folder, monkeypatch):
    monkeypatch.setenv(FOLDER, str(folder / "missing"))
    with announce_use(Use(1)):
        assert other_searches() == []
    assert not Path(folder / "missing").exists()


def test_the_line_says_what_they_use_and_what_follows():
    ada, bob = OtherSearch(7, "ada", Use(8, 2)), OtherSearch(9, "bob", Use(1))
    says = others_in_words([ada], dispatch_section(workers=None))
    assert says.startswith(
        "another search runs on this machine: process 7 of ada with 8 cores and 2 GPUs; this one takes the remaining "
        "workers, at least one"
    )
    says = others_in_words([ada, bob], dispatch_section(workers=2))
    assert says.endswith("on this machine: process 7 of ada with 8 cores and 2 GPUs, process 9 of bob with 1 core")
    assert total_use([ada, bob]) == Use(9, 2)
