"""How many workers fit, and which share of a GPU each has."""

import pytest

from hpo.errors import DispatchError
from hpo.show.display import gpus_in_words, peak_in_words
from hpo.workers.dispatch.dispatcher import Gpus
from hpo.workers.dispatch.other_searches import Use
from hpo.workers.dispatch.ray.shares import Resources, Shares, shares_on
from tests.studies import dispatch_section

EIGHT = [Resources(64, 8)]


def shares(nodes, **settings):
    return shares_on(nodes, dispatch_section(**{"workers": None, "gpus_per_worker": None} | settings))


@pytest.mark.parametrize(
    ("nodes", "settings", "expected"),
    [
        ([Resources(4, 0)], {}, Shares(4, 0)),
        (EIGHT, {}, Shares(8, 1)),
        (EIGHT, {"workers": 3}, Shares(3, 1)),
        (EIGHT, {"workers": 16}, Shares(16, 0.5)),
        (EIGHT, {"workers": 20}, Shares(20, 0.3333)),
        (EIGHT, {"gpus_per_worker": 0}, Shares(64, 0)),
        (EIGHT, {"gpus_per_worker": 0.25}, Shares(32, 0.25)),
        (EIGHT, {"gpus_per_worker": 2, "workers": 4}, Shares(4, 2)),
        ([Resources(2, 8)], {}, Shares(2, 1)),
        ([Resources(8, 4), Resources(8, 0), Resources(8, 2)], {}, Shares(6, 1)),
        # 0.6 of a GPU: two do not share one.
        ([Resources(8, 2)], {"gpus_per_worker": 0.6}, Shares(2, 0.6)),
        # Teams of several processes: across nodes, or each process on a node of its own.
        (EIGHT, {"processes_per_task": 4}, Shares(2, 1)),
        ([Resources(8, 4)] * 2, {"processes_per_task": 3}, Shares(2, 1)),
        ([Resources(3, 0)] * 3, {"processes_per_task": 2, "process_placement": "strict_spread"}, Shares(4, 0)),
        (
            [Resources(9, 0), Resources(1, 0)],
            {"processes_per_task": 2, "process_placement": "strict_spread"},
            Shares(1, 0),
        ),
        # Half a CPU is left on each node.
        ([Resources(2.5, 0), Resources(2.5, 0)], {}, Shares(4, 0)),
    ],
)
def test_what_is_left_open_is_what_fits(nodes, settings, expected):
    found = shares(nodes, **settings)
    assert (found.workers, found.gpus) == (expected.workers, expected.gpus)


@pytest.mark.parametrize(
    ("node", "in_use", "settings", "expected"),
    [
        (Resources(8, 0), Use(5), {}, Shares(3, 0)),
        (Resources(8, 0), Use(5), {"cpus_per_worker": 2}, Shares(1, 0)),
        # One at least, also where more is in use than there is.
        (Resources(8, 0), Use(20), {}, Shares(1, 0)),
        # Each still has a whole GPU.
        (EIGHT[0], Use(6, 3.0), {}, Shares(5, 1)),
        (EIGHT[0], Use(8, 8.0), {}, Shares(1, 1)),
        (EIGHT[0], Use(2, 0.5), {"gpus_per_worker": 0.5}, Shares(14, 0.5)),
        (EIGHT[0], Use(2, 2.0), {"processes_per_task": 4}, Shares(1, 1)),
        # A number that is given stays.
        (Resources(8, 0), Use(5), {"workers": 8}, Shares(8, 0)),
    ],
)
def test_next_to_another_search_what_is_left_open_is_what_is_left(node, in_use, settings, expected):
    section = dispatch_section(**{"workers": None, "gpus_per_worker": None} | settings)
    found = shares_on([node], section, in_use)
    assert (found.workers, found.gpus) == (expected.workers, expected.gpus)


@pytest.mark.parametrize(
    ("nodes", "settings", "says"),
    [
        (
            [Resources(64, 8)] * 2,
            {"gpus_per_worker": 9, "workers": 1},
            "1 worker.* of 1 CPU and 9 GPU each must fit on the nodes, but only 0",
        ),
        ([Resources(64, 8)] * 2, {"gpus_per_worker": 17, "workers": 1}, "need 17, but there are 16"),
        (
            [Resources(8, 8)] * 2,
            {"processes_per_task": 2, "gpus_per_process": 9, "workers": 1},
            "1 worker.* of 2 processes of 1 CPU and 9 GPU each must fit .* only 0 can: a process cannot use several",
        ),
        (
            [Resources(8, 8)] * 2,
            {"processes_per_task": 3, "process_placement": "strict_spread", "workers": 1},
            "only 0 can: each process needs a separate node",
        ),
        ([Resources(4, 0)], {"gpus_per_worker": 1}, "need 1, but there are 0"),
        ([Resources(3, 0)] * 2, {"cpus_per_worker": 2, "workers": 3}, "3 worker.* but only 2 can"),
        ([Resources(2, 0)], {"workers": 3}, "need 3, but there are 2"),
    ],
)
def test_what_does_not_fit_on_a_node_is_refused(nodes, settings, says):
    with pytest.raises(DispatchError, match=says):
        shares(nodes, **settings)


@pytest.mark.parametrize(
    ("gpus", "given", "says"),
    [
        (Gpus(0, 0), None, None),
        (Gpus(8, 1), None, "8 GPUs: 1 for each worker; dispatch.workers=16 would train two on each"),
        (Gpus(8, 1), 1, "8 GPUs: 1 for each worker"),
        (Gpus(1, 0.25), None, "1 GPU: 0.25 of one for each worker, which may use 25% of its memory"),
        (Gpus(2, 1, ("H100",)), 1, "2 GPUs (H100): 1 for each worker"),
        (Gpus(1, 0), 0, "1 GPU, but the workers use none: dispatch.gpus_per_worker=null gives each a share"),
    ],
)
def test_it_is_told_in_one_line(monkeypatch, gpus, given, says):
    monkeypatch.setattr("hpo.show.display.gpu_driver", lambda: None)
    told = gpus_in_words(gpus, dispatch_section(gpus_per_worker=given))
    assert told == says if says is None else told.startswith(says)


def test_a_fraction_of_a_gpu_is_a_part_of_its_memory():
    assert shares([Resources(4, 1)], gpus_per_worker=0.25).memory == 0.25
    assert shares([Resources(4, 1)], gpus_per_worker=0.25, memory_per_worker=0.5).memory == 0.5
    assert shares([Resources(4, 1)], gpus_per_worker=1).memory is None


def test_the_first_peak_says_how_many_would_fit():
    assert peak_in_words(2 * 2**30, 80 * 2**30).startswith("the first training used 2 of 80 GiB of its GPU: about 40")
