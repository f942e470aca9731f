"""What a task gives back: plain values for every dispatcher, and faults of the machine that are no outcomes."""

import errno
import gc
import inspect
import json
import math
import os
import random
import signal
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from hpo.errors import Interruption, MachineError
from hpo.workers.dispatch.local import LocalDispatcher
from hpo.workers.training.tasks import Payload, Task
from hpo.workers.training.worker import outcome_of, run_task


def calls(task):
    """Train by the function in the configuration."""
    made = task["config"]["function"](task)
    return (yield from made) if inspect.isgenerator(made) else made


def payload(function, **changes):
    return replace(Payload(f"{__name__}:calls", {"function": function}, "score"), **changes)


def yielding(*points, result=0.5):
    def train(task):
        yield from points
        return result

    return payload(train)


def raising(error):
    def train(task):
        raise error

    return payload(train)


@pytest.fixture
def ours():
    """Set a handler of signals, as every command does, which tells an interruption from an error of that name."""

    def handler(*_):
        return None

    before = [(number, signal.signal(number, handler)) for number in (signal.SIGINT, signal.SIGTERM)]
    yield handler
    for number, previous in before:
        signal.signal(number, previous)


class Beyond(BaseException):
    pass


def test_a_point_holds_numbers_and_what_is_none_is_a_gap():
    given = [
        {"epoch": 1, 3: 0.5, "per_class": {10: 1.0, 2: 0.5}, "seen": {1}, "none": None, "text": "0.5"},
        {"epoch": np.int64(2), "loss": np.float32(0.5), "gap": math.nan, "far": math.inf, "vast": 10**400},
        {"epoch": 2.5, "matrix": np.ones((2, 2))},
    ]
    *points, last = run_task(yielding(*given))
    first = {"epoch": 1, "3": 0.5, "per_class/10": 1.0, "per_class/2": 0.5}
    assert [point["point"] for point in points] == [first, {"epoch": 2, "loss": 0.5}, {"epoch": 2.5}]
    json.dumps(points, allow_nan=False)
    assert last["outcome"].curve == [point["point"] for point in points]
    assert ([point["units"] for point in points], last["outcome"].units) == ([1, 2, 3], 3)


def test_the_first_gap_of_the_metric_is_reported():
    points = [{"epoch": 1, "score": None}, {"epoch": 2, "score": "0.5"}, {"epoch": 3, "score": math.nan}]
    *steps, last = run_task(yielding(*points, {"epoch": 4, "score": 0.5}))
    (warning,) = [step["warning"] for step in steps if "warning" in step]
    assert "'score' that is not finite" in warning
    assert last["outcome"].curve == [{"epoch": 1}, {"epoch": 2}, {"epoch": 3}, {"epoch": 4, "score": 0.5}]


def test_of_a_result_the_numbers_are_kept_and_the_others_named():
    result = {"score": np.float64(0.5), "matrix": np.ones((2, 2)), "note": "good", "loss": math.nan, "seconds": -1.0}
    warning, seconds, last = run_task(yielding(result=result))
    assert "'matrix', 'loss'" in warning["warning"]
    assert "must be a duration" in seconds["warning"]
    assert last["outcome"].metrics == {"score": 0.5}
    assert 0 <= last["outcome"].seconds < 60


PLACES = [
    ([0.5], "ValueError: the objective must yield dicts of numbers, given 0.5"),
    ([{"epoch": 2}, {"epoch": 1}], "report: epoch must be above 2, the epoch of the previous report, given 1"),
    ([{"step": 2}, {"epoch": 3}], "given epochs after steps"),
    ([{"epoch": -1}], "report: epoch must be 0 or more, given -1"),
]


@pytest.mark.parametrize(("points", "line"), PLACES)
def test_points_are_dicts_and_their_places_rise_and_are_of_one_kind(points, line):
    assert line in outcome_of(run_task(yielding(*points))).error


@pytest.mark.parametrize("same", [{"score": 0.1, "score ": 0.2}, {"score": 1, "a": {"b": 1}, "a/b": 2}])
def test_values_of_one_name_are_refused_and_none_is_taken_for_the_other(same):
    for task in (yielding(same), yielding(result=same)):
        outcome = outcome_of(run_task(task))
        assert outcome.metrics == {}
        assert "several values as '" in outcome.error


LINES = [
    (Beyond("out"), "Beyond", "out"),
    (GeneratorExit("out"), "GeneratorExit", "out"),
    (KeyboardInterrupt("out"), "KeyboardInterrupt", "out"),
]


@pytest.mark.parametrize(("error", "name", "text"), LINES)
def test_whatever_an_objective_raises_is_a_failure(ours, error, name, text):
    (last,) = run_task(raising(error))
    line = raising.__code__.co_firstlineno + 2
    assert last["outcome"].error == f"{name} at test_worker.py:{line}: {text}"


@pytest.mark.parametrize("error", [Interruption(15), KeyboardInterrupt()])
def test_only_who_stops_this_process_interrupts_it(error):
    with pytest.raises(type(error)):
        list(run_task(raising(error)))


def test_where_a_training_goes_the_search_does_not_follow():
    def wanders_and_removes_its_folder(task):
        Path("gone").mkdir()
        os.chdir("gone")
        yield {"epoch": 1}
        yield {"epoch": 2, "is_there": float(Path.cwd().name == "gone")}
        Path("../gone").rmdir()
        return 1.0

    here, messages = Path.cwd(), []
    for message in run_task(payload(wanders_and_removes_its_folder)):
        assert Path.cwd() == here
        messages.append(message)
    assert messages[-1]["outcome"].curve[1]["is_there"] == 1.0
    assert messages[-1]["outcome"].error is None


def test_random_numbers_begin_from_the_seed_of_the_task_unless_it_seeds_them_itself():
    def drawn(seed, own_seed=None):
        def draws(task):
            if own_seed is not None:
                np.random.seed(own_seed)
            return {"score": random.random(), "numpy": np.random.random(), "torch": torch.rand(()).item()}

        return outcome_of(run_task(payload(draws, seed=seed))).metrics

    first, second = drawn(1), drawn(2)
    assert all(first[name] != second[name] for name in first)
    assert drawn(1) == first
    assert drawn(2**40 + 1, own_seed=7)["numpy"] == np.random.RandomState(7).random()


def test_handlers_of_signals_and_the_umask_are_a_tasks_own_only_while_it_runs(ours):
    def changes(task):
        """Report at each step what it found."""
        yield {"umask": os.umask(0), "ours": signal.getsignal(signal.SIGINT) is ours}
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        yield {"umask": 0}
        signal.raise_signal(signal.SIGINT)
        yield {"umask": os.umask(0o007)}
        return 1.0

    def found():
        os.umask(umask := os.umask(0o077))
        return signal.getsignal(signal.SIGINT), umask

    before, messages = found(), []
    for message in run_task(payload(changes)):
        assert found() == before
        messages.append(message)
    first = {"epoch": 1, "umask": before[1], "ours": 1}
    assert messages[-1]["outcome"].curve == [first, {"epoch": 2, "umask": 0}, {"epoch": 3, "umask": 0}]


def into_another_time_zone():
    os.environ["TZ"] = "Asia/Tokyo"
    time.tzset()


# How a task changes it, and how it is read.
STATES = {
    "variables": (lambda: os.environ.update(LEFT=os.environ.pop("HOME"), PATH="there"), lambda: dict(os.environ)),
    "warnings": (lambda: warnings.simplefilter("ignore"), lambda: warnings.filters[:]),
    "torch's type": (lambda: torch.set_default_dtype(torch.float64), torch.get_default_dtype),
    "torch's gradients": (lambda: torch.set_grad_enabled(False), torch.is_grad_enabled),
    "errors of numpy": (lambda: np.seterr(all="ignore"), np.geterr),
    "recursion": (lambda: sys.setrecursionlimit(5000), sys.getrecursionlimit),
    "garbage": (gc.disable, gc.isenabled),
    "time zone": (into_another_time_zone, lambda: time.localtime(0).tm_gmtoff),
}


@pytest.mark.parametrize("state", STATES)
def test_what_a_task_changes_of_its_process_is_put_back_at_its_end(state):
    change, read = STATES[state]
    before = read()

    def train(task):
        change()
        return float(read() != before)

    assert outcome_of(run_task(payload(train))).metrics == {"score": 1.0}
    assert read() == before


def test_an_alarm_that_a_task_leaves_counts_only_while_it_runs():
    def sets_an_alarm(task):
        signal.alarm(100)
        yield {"score": 0.0}
        yield {"score": float(90 < signal.getitimer(signal.ITIMER_REAL)[0] < 110)}
        return 1.0

    messages = []
    for message in run_task(payload(sets_an_alarm)):
        messages.append(message)
        assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0
    assert [point["score"] for point in messages[-1]["outcome"].curve] == [0.0, 1.0]


def test_a_fault_of_the_machine_is_raised_wherever_an_outcome_is_waited_for():
    full_disk = raising(OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(MachineError, match="No space left"):
        outcome_of(run_task(full_disk))
    dispatcher = LocalDispatcher()
    dispatcher.submit(Task(0, 0, full_disk))
    (report,) = dispatcher.wait()
    with pytest.raises(MachineError, match="trial 0 cannot be trained"):
        report.settled()


LIMITS = [
    ([], 3, 0.9, None),
    ([(1, 0.2), (2, 0.4), (3, 0.9)], 3, 0.9, None),
    ([(1, 0.2), (2, 0.5)], 2, 0.4, "at point 2 (0.4, median 0.5)"),
    ([(0.5, 0.9)], 1, 0.2, "at point 1 (0.2, median 0.9)"),
    ([(1.5, 0.9), (4, 0.1)], 3, 0.9, None),
]


@pytest.mark.parametrize(("limits", "points", "score", "stopped"), LIMITS)
def test_a_training_that_falls_behind_its_limits_is_closed_where_it_does_unless_it_is_over(
    tmp_path, limits, points, score, stopped
):
    def rises(task):
        try:
            for place, score in enumerate((0.2, 0.4, 0.3), start=1):
                yield {"epoch": place, "score": score, "more": place < 3}
        finally:
            (tmp_path / "closed").touch()
        return 0.9

    *steps, last = run_task(payload(rises, direction="maximize", limits=limits))
    assert [message["units"] for message in steps] == list(range(1, points + 1))
    assert [message["goes_on"] for message in steps] == [True] * (points - 1) + [False]
    outcome = last["outcome"]
    assert (outcome.metrics, outcome.stopped, outcome.error) == ({"score": score}, stopped, None)
    assert (len(outcome.curve), outcome.units) == (points, points)
    assert (tmp_path / "closed").exists()


def test_a_training_without_a_curve_that_takes_too_long_has_failed():
    outcome = outcome_of(run_task(payload(lambda task: time.sleep(0.05) or 1.0, limit_minutes=0.05 / 120)))
    assert outcome.error == "took longer than study.trial_minutes=0.000416667"
    assert (outcome.metrics, outcome.units) == ({}, 1)


# A link, where the training makes it, how many reports come first, and why it fails.
LINKS = [
    ("step_1", "in a step", 2, None),
    ("/etc", "in a step", 1, "latest: must not be a link out of the folder, given a link to /etc;"),
    ("../../x", "at the end", 2, "latest: must not be a link out of the folder, given a link to ../../x;"),
]


@pytest.mark.parametrize("kind", ["resume_dir", "checkpoint_dir"])
@pytest.mark.parametrize(("target", "moment", "reports", "error"), LINKS)
def test_a_link_out_of_a_state_or_a_model_fails_its_training_and_is_gone(
    monkeypatch, tmp_path, kind, target, moment, reports, error
):
    def train(task):
        folder = Path(task[kind])
        (folder / "step_1").mkdir(parents=True)
        yield {"epoch": 1, "score": 1.0}
        if moment == "in a step":
            (folder / "latest").symlink_to(target)
        yield {"epoch": 2, "score": 0.5}
        if moment == "at the end":
            (folder / "latest").symlink_to(target)
        return {"score": 1.0}

    monkeypatch.setattr("hpo.workers.training.worker.BETWEEN_CHECKS", (0.0, 0.0))
    folder = tmp_path / "there"
    *points, end = run_task(payload(train, **{kind: str(folder)}))
    found = end["outcome"].error
    assert found is None if error is None else f"{kind}/{error}" in found
    assert len(points) == reports
    inside = folder / "state" if kind == "resume_dir" else folder
    assert all(link.resolve().is_relative_to(folder) for link in inside.iterdir())
