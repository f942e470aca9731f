"""How many workers fit next to other searches of the machine, and which share of a GPU each has."""

import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

from hpo.errors import DispatchError
from hpo.machine import user_name
from hpo.show.display import gpus_in_words, others_in_words, peak_in_words
from hpo.workers.dispatch.dispatcher import Gpus
from hpo.workers.dispatch.other_searches import FOLDER, OtherSearch, Use, announce_use, other_searches, total_use
from hpo.workers.dispatch.ray.shares import Resources, shares_on
from tests.studies import dispatch_section, environment, refuses

EIGHT, SPREAD, ALONE = Resources(64, 8), {"processes_per_task": 2, "process_placement": "strict_spread"}, None
# The nodes, what other searches use, the settings, and the number of workers with the GPUs of each.
FITS = [
    ([Resources(4, 0)], ALONE, {}, (4, 0)), ([EIGHT], ALONE, {}, (8, 1)),
    ([EIGHT], ALONE, {"workers": 20}, (20, 0.3333)), ([EIGHT], ALONE, {"gpus_per_worker": 0}, (64, 0)),
    ([EIGHT], ALONE, {"gpus_per_worker": 0.25}, (32, 0.25)), ([Resources(2, 8)], ALONE, {}, (2, 1)),
    ([Resources(8, 4), Resources(8, 0), Resources(8, 2)], ALONE, {}, (6, 1)),
    # 0.6 of a GPU: two do not share one.
    ([Resources(8, 2)], ALONE, {"gpus_per_worker": 0.6}, (2, 0.6)),
    # Several processes: across nodes, or each process on a node of its own.
    ([Resources(8, 4)] * 2, ALONE, {"processes_per_task": 3}, (2, 1)), ([Resources(3, 0)] * 3, ALONE, SPREAD, (4, 0)),
    ([Resources(9, 0), Resources(1, 0)], ALONE, SPREAD, (1, 0)), ([Resources(2.5, 0)] * 2, ALONE, {}, (4, 0)),
    ([Resources(8, 0)], Use(5), {}, (3, 0)), ([Resources(8, 0)], Use(5), {"cpus_per_worker": 2}, (1, 0)),
    ([Resources(8, 0)], Use(20), {}, (1, 0)), ([EIGHT], Use(6, 3.0), {}, (5, 1)), ([EIGHT], Use(8, 8.0), {}, (1, 1)),
    ([EIGHT], Use(2, 0.5), {"gpus_per_worker": 0.5}, (14, 0.5)),
    ([EIGHT], Use(2, 2.0), {"processes_per_task": 4}, (1, 1)), ([Resources(8, 0)], Use(5), {"workers": 8}, (8, 0))
]  # fmt: skip
PROCESSES = {"processes_per_task": 2, "gpus_per_process": 9, "workers": 1}
ELSEWHERE = """
import sys
from hpo.workers.dispatch.other_searches import Use, announce_use
with announce_use(Use(3.5, 1.5, (0, 2))):
    print("announced", flush=True)
    sys.stdin.read()
"""


def shares(nodes, in_use=ALONE, **settings):
    return shares_on(nodes, dispatch_section(**{"workers": None, "gpus_per_worker": None} | settings), in_use)


@pytest.mark.parametrize(("nodes", "in_use", "settings", "expected"), FITS)
def test_without_a_number_there_are_as_many_workers_as_fit_next_to_other_searches(nodes, in_use, settings, expected):
    found = shares(nodes, in_use, **settings)
    assert (found.workers, found.gpus) == expected


@pytest.mark.parametrize(("nodes", "settings", "words"), [
    ([EIGHT] * 2, {"gpus_per_worker": 9, "workers": 1}, "room for 1 worker.* with 1 CPU and 9 GPU each, but only 0"),
    ([EIGHT] * 2, {"gpus_per_worker": 17, "workers": 1}, "need 17 GPU, but the nodes have 16"),
    ([Resources(4, 0)], {"gpus_per_worker": 1}, "need 1 GPU, but the nodes have 0"),
    ([Resources(2, 0)], {"workers": 3}, "need 3 CPU, but the nodes have 2"),
    ([EIGHT] * 3, PROCESSES, "1 worker.* with 2 processes of 1 CPU and 9 GPU each, .* a process cannot use several"),
    ([EIGHT] * 2, SPREAD | {"processes_per_task": 3, "workers": 1}, "each process needs a separate node"),
    ([Resources(3, 0)] * 2, {"cpus_per_worker": 2, "workers": 3}, "3 worker.* but only 2 fit"),
])  # fmt: skip
def test_what_does_not_fit_on_a_node_is_refused(nodes, settings, words):
    refuses(DispatchError, words, shares, nodes, **settings)


@pytest.mark.parametrize(("gpus", "given", "says"), [
    (Gpus(8, 1, ("H100",)), None, "8 GPUs (H100): 1 for each worker; dispatch.workers=16 would run two trainings"),
    (Gpus(8, 1), None, "8 GPUs: 1 for each worker; dispatch.workers=16 would run two trainings"),
    (Gpus(1, 0.25), None, "1 GPU: each worker gets 0.25 of a GPU, with 25% of the GPU's memory"),
    (Gpus(0, 0), None, "None"),
    (Gpus(1, 0), 0, "1 GPU, but the workers use none; dispatch.gpus_per_worker=null gives each worker a share"),
])  # fmt: skip
def test_one_line_says_which_gpus_the_workers_have_and_none_where_there_is_none(monkeypatch, gpus, given, says):
    monkeypatch.setattr("hpo.show.display.gpu_driver", lambda: None)
    assert str(gpus_in_words(gpus, dispatch_section(gpus_per_worker=given))).startswith(says)


def test_a_fraction_of_a_gpu_is_a_part_of_its_memory():
    assert shares([Resources(4, 1)], gpus_per_worker=0.25).memory == 0.25
    assert shares([Resources(4, 1)], gpus_per_worker=0.25, memory_per_worker=0.5).memory == 0.5
    assert shares([Resources(4, 1)], gpus_per_worker=1).memory is None


def test_the_first_peak_says_how_many_would_fit():
    assert peak_in_words(2 * 2**30, 80 * 2**30).startswith("the first training used 2 of 80 GiB of its GPU; about 40")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER, str(tmp_path))
    return tmp_path


@contextmanager
def another():
    command = [sys.executable, "-c", ELSEWHERE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) as process:
        process.stdout.readline()
        yield process


def test_another_search_counts_until_it_ends_or_is_killed(folder):
    with another() as process:
        others = [OtherSearch(process.pid, user_name(), Use(3.5, 1.5, (0, 2)))]
        assert (other_searches(), total_use(others)) == (others, Use(3.5, 1.5, (0, 2)))
        assert f"process {process.pid} of {user_name()}" in others_in_words(others, dispatch_section(workers=None))
        with announce_use(Use(1)):
            assert other_searches() == others
        assert len([*folder.iterdir()]) == 1
    assert (other_searches(), [*folder.iterdir()]) == ([], [])
    with another() as process:
        process.kill()
        process.wait()
    assert len([*folder.iterdir()]) == 1
    assert (other_searches(), [*folder.iterdir()]) == ([], [])


def test_only_a_plain_file_of_a_living_process_of_this_machine_counts(folder):
    with another():
        (own,) = folder.iterdir()
        (folder / own.name.replace("3.5000", "4.0000")).symlink_to(own)
        (folder / own.name.replace("3.5000", "5.0000")).mkdir()
        for cpus in ("nan", "1e9"):
            (folder / own.name.replace("3.5000", cpus)).touch()
        # Of a process that had this number before.
        earlier = folder / own.name.replace("3.5000", "6.0000")
        earlier.touch()
        os.utime(earlier, (1e9, 1e9))
        (folder / own.name.replace(os.uname().nodename, "another-machine")).touch()
        assert [other.use.cpus for other in other_searches()] == [3.5]


def test_where_no_file_can_be_made_a_search_runs_unannounced(folder, monkeypatch):
    monkeypatch.setenv(FOLDER, str(folder / "missing"))
    with announce_use(Use(1)):
        assert other_searches() == []
    assert not (folder / "missing").exists()


def test_the_line_about_other_searches_says_what_they_use_and_what_follows():
    others = [OtherSearch(7, "ada", Use(8, 2)), OtherSearch(9, "bob", Use(1))]
    both = "process 7 of ada with 8 cores and 2 GPUs, process 9 of bob with 1 core"
    assert f"{both}; this search takes the remaining workers" in others_in_words(others, dispatch_section(workers=None))
    assert others_in_words(others, dispatch_section(workers=2)).endswith(both)
