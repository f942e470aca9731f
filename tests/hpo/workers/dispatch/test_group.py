"""Several processes that train one task: the first reports, and one that ends early ends them all."""

import os
import time
from pathlib import Path

import psutil
import pytest

from hpo.workers.dispatch.process.child import Child
from hpo.workers.dispatch.process.group import VARIABLES, Seat, run_here, variables_of
from hpo.workers.training.tasks import Payload
from tests.studies import REPOSITORY

MINE = """
import os, sys, time
from pathlib import Path
RANK = int(os.environ["RANK"])
def meets():
    Path(f"{os.environ['MASTER_PORT']}_{RANK}").touch()
    while len(list(Path().glob(f"{os.environ['MASTER_PORT']}_*"))) < int(os.environ["WORLD_SIZE"]):
        time.sleep(0.01)
def all_return(task):
    meets()
    yield {"epoch": 1, "score": RANK + 1}
    return {"score": RANK + 1, "world": int(os.environ["WORLD_SIZE"])} if RANK == 0 else None
def other_returns(task):
    meets()
    return {"score": 1.0} if RANK == 1 else None
def raises(task):
    meets()
    if RANK == task["config"]["rank"]:
        raise ValueError("no luck")
    time.sleep(100)
def other_dies(task):
    meets()
    if RANK == 1:
        os._exit(7)
    time.sleep(0.2)
    raise RuntimeError("connection closed by peer")
"""


def ended(objective, processes=3, config=None):
    Path("mine.py").write_text(MINE)
    before = set(psutil.Process().children())
    payload = Payload(f"mine:{objective}", config or {}, "score", processes=processes)
    messages, deadline = list(run_here(payload, str(Path.cwd()))), time.monotonic() + 10
    while set(psutil.Process().children()) - before:
        assert time.monotonic() < deadline, "a process is left"
        time.sleep(0.05)
    return messages


@pytest.mark.slow
def test_the_first_process_reports_and_only_it_must_have_a_score():
    *points, last = ended("all_return")
    assert [message["point"] for message in points] == [{"epoch": 1, "score": 1}]
    assert last["outcome"].metrics == {"score": 1, "world": 3}


@pytest.mark.quick("other_dies-*")
@pytest.mark.slow
@pytest.mark.parametrize(("objective", "config", "words"), [
    ("other_dies", {}, ("rank 1 died (exit code 7)",)), ("raises", {"rank": 0}, ("ValueError", "no luck")),
    ("raises", {"rank": 1}, ("rank 1: ValueError", "no luck")),
    ("other_returns", {}, ("rank 1 returned a score, but only rank 0's counts; return it in rank 0",))
])  # fmt: skip
def test_one_that_ends_early_ends_them_all_and_says_why(monkeypatch, objective, config, words):
    monkeypatch.setattr("hpo.workers.dispatch.process.group.SECONDS_ALONE", 0.5)
    error = ended(objective, processes=2, config=config)[-1]["outcome"].error
    assert all(word in error for word in words), error


def test_each_process_finds_the_others_and_its_gpu():
    ranks = variables_of([Seat("a", ("0",)), Seat("b", ("3",)), Seat("a", ("1",))])
    names = ("RANK", "LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "CUDA_VISIBLE_DEVICES")
    assert [tuple(rank[name] for name in names) for rank in ranks] == [
        ("0", "0", "0", "3", "2", "0,1"),
        ("1", "0", "1", "3", "1", "3"),
        ("2", "1", "0", "3", "2", "0,1"),
    ]
    assert len({rank["MASTER_PORT"] for rank in ranks}) == 1
    assert not set(variables_of([Seat()])[0]) & {"CUDA_VISIBLE_DEVICES"}
    assert "RANK" not in os.environ


def variables_seen(task):
    return float(len(set(VARIABLES) & set(os.environ)))


@pytest.mark.slow
def test_a_task_of_one_process_sees_nothing_of_a_group_that_the_search_is_started_in(monkeypatch):
    for number, name in enumerate(VARIABLES):
        monkeypatch.setenv(name, str(number))
    payload, before = Payload(f"{__name__}:variables_seen", {}, "score"), dict(os.environ)
    child = Child(str(REPOSITORY))
    (here,), (elsewhere,) = run_here(payload), child.run(payload, "a call")
    child.close()
    assert [message["outcome"].metrics for message in (here, elsewhere)] == [{"score": 0.0}] * 2
    assert dict(os.environ) == before
