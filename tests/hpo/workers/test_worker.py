"""What a task gives back: plain values for every dispatcher, and faults of the machine that are no outcomes."""

import decimal
import errno
import gc
import importlib
import json
import math
import os
import random
import signal
import socket
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hpo.errors import Interruption, MachineError
from hpo.workers.dispatch.local import LocalDispatcher
from hpo.workers.training.tasks import Payload, Task
from hpo.workers.training.worker import outcome_of, run_task


def odd_points(task):
    yield {"epoch": 1, 3: 0.5, "per_class": {10: 1.0, 2: 0.5}, "seen": {1}, "none": None, "text": "0.5"}
    yield {"epoch": np.int64(2), "loss": np.float32(0.5), "gap": math.nan, "far": math.inf, "vast": 10**400}
    yield {"epoch": 2.5, "matrix": np.ones((2, 2))}
    return 1.0


def gaps(task):
    yield {"epoch": 1, "score": None}
    yield {"epoch": 2, "score": "0.5"}
    yield {"epoch": 3, "score": math.nan}
    yield {"epoch": 4, "score": 0.5}
    return 0.5


def odd_result(task):
    return {"score": np.float64(0.5), "matrix": np.ones((2, 2)), "note": "good", "loss": math.nan, "seconds": -1.0}


def odd_steps(task):
    yield 0.5
    return 1.0


def same_names(task):
    yield task["config"]["point"]
    return task["config"]["result"]


class SpeechlessError(Exception):
    def __str__(self):
        raise RuntimeError("no words")


class StoppingError(Exception):
    def __str__(self):
        raise KeyboardInterrupt


class LeavingError(Exception):
    def __str__(self):
        raise SystemExit(9)


class Beyond(BaseException):
    pass


def rising(task):
    """Its closing is seen in its configuration."""
    try:
        for place, score in enumerate(task["config"]["curve"], start=1):
            yield {"epoch": place, "score": score, "more": place < len(task["config"]["curve"])}
    finally:
        Path(task["config"]["closed"]).touch()
    return 0.9


ERRORS = {
    "speechless": SpeechlessError,
    "stopping": StoppingError,
    "leaving": LeavingError,
    "beyond": Beyond,
    "generator": GeneratorExit,
    "interrupt": KeyboardInterrupt,
}


def raises_any(task):
    raise ERRORS[task["config"]["error"]]("out")


RAISES = raises_any.__code__.co_firstlineno + 1


def interrupted(task):
    raise Interruption(15)


def wanders(task):
    """Change the working directory, on the way and at the end."""
    os.chdir("..")
    yield {"epoch": 1, "was_there": float(Path("inner").is_dir())}
    yield {"epoch": 2, "was_there": float(Path("inner").is_dir())}
    return 1.0


def removes_its_folder(task):
    Path("gone").mkdir()
    os.chdir("gone")
    Path("../gone").rmdir()
    return 1.0


def full_disk(task):
    raise OSError(errno.ENOSPC, "No space left on device")


def draws(task):
    if "own_seed" in task["config"]:
        np.random.seed(task["config"]["own_seed"])
    drawn = {"python": random.random(), "numpy": np.random.random(), "torch": sys.modules["torch"].rand(()).item()}
    return {"score": 1.0, **drawn}


def changes_its_process(task):
    """Say of each step what it found."""
    torch = sys.modules["torch"]
    yield {"umask": os.umask(0), "ours": signal.getsignal(signal.SIGINT) is task["config"]["handler"]}
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, changes_its_process)
    os.environ["LEFT"] = "1"
    del os.environ["TAKEN"]
    os.environ["CHANGED"] = "1"
    warnings.simplefilter("ignore")
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    np.seterr(all="ignore")
    decimal.getcontext().prec = 5
    socket.setdefaulttimeout(3)
    sys.setrecursionlimit(5000)
    np.set_printoptions(precision=1)
    gc.disable()
    os.environ["TZ"] = "Asia/Tokyo"
    time.tzset()
    yield {"umask": 0}
    signal.raise_signal(signal.SIGINT)
    yield {"umask": os.umask(0o007), "own": signal.getsignal(signal.SIGTERM) is changes_its_process}
    return 1.0


def sets_timers(task):
    """Leave an alarm, and timers of the process's own time, at each step."""
    for timer in TIMERS:
        signal.setitimer(timer, 100.0)
    yield {"score": 0.0}
    left = [signal.getitimer(timer)[0] for timer in TIMERS]
    yield {"score": float(all(90 < seconds < 110 for seconds in left))}
    signal.alarm(50)
    return 1.0


TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)


def payload(name, **config):
    return Payload(f"{__name__}:{name}", config, "score")


def test_a_point_holds_numbers_and_what_is_none_is_a_gap():
    *points, last = run_task(payload("odd_points"))
    first = {"epoch": 1, "3": 0.5, "per_class/10": 1.0, "per_class/2": 0.5}
    assert [point["point"] for point in points] == [first, {"epoch": 2, "loss": 0.5}, {"epoch": 2.5}]
    json.dumps(points, allow_nan=False)
    assert last["outcome"].curve == [point["point"] for point in points]
    assert ([point["units"] for point in points], last["outcome"].units) == ([1, 2, 3], 3)


def test_the_first_gap_of_the_metric_is_told():
    *steps, last = run_task(payload("gaps"))
    assert [step["warning"] for step in steps if "warning" in step] == [
        "the objective reported a 'score' that is not finite, so its curve has a gap"
    ]
    assert last["outcome"].curve == [{"epoch": 1}, {"epoch": 2}, {"epoch": 3}, {"epoch": 4, "score": 0.5}]


def test_of_a_result_the_numbers_are_kept_and_the_others_named():
    warning, seconds, last = run_task(payload("odd_result"))
    assert "'matrix', 'loss': ignored" in warning["warning"]
    assert "must be a duration" in seconds["warning"]
    assert last["outcome"].metrics == {"score": 0.5}
    assert 0 <= last["outcome"].seconds < 60


def test_what_is_no_point_fails_with_what_it_is():
    (last,) = run_task(payload("odd_steps"))
    assert last["outcome"].error == "ValueError: the objective must yield dicts of numbers, given 0.5"


@pytest.mark.parametrize(
    "same", [{"score": 0.1, "score ": 0.2}, {"a": {"b": 1}, "a/b": 2}, {"score": 0.1, "a\nb": 1, "a b": 2}]
)
@pytest.mark.parametrize("where", ["point", "result"])
def test_values_of_one_name_are_refused_and_none_is_taken_for_the_other(where, same):
    *_, last = run_task(payload("same_names", **{"point": {"score": 0.5}, "result": {"score": 0.5}, where: same}))
    assert last["outcome"].metrics == {}
    assert "several values as '" in last["outcome"].error


@pytest.mark.parametrize(
    ("error", "line"),
    [
        ("speechless", "SpeechlessError: (its text cannot be read: RuntimeError)"),
        ("stopping", "StoppingError: (its text cannot be read: KeyboardInterrupt)"),
        ("leaving", "LeavingError: (its text cannot be read: SystemExit)"),
        ("beyond", "Beyond: out"),
        ("generator", "GeneratorExit: out"),
    ],
)
def test_whatever_an_objective_raises_is_a_failure(error, line):
    # As in every command, whose handler tells an interruption from an error of that name.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        (last,) = run_task(payload("raises_any", error=error))
    finally:
        signal.signal(signal.SIGINT, before)
    assert last["outcome"].error == f"{line.partition(':')[0]} at test_worker.py:{RAISES}:{line.partition(':')[2]}"


def test_only_who_stops_this_process_interrupts_it(monkeypatch):
    """Under a handler of ours a plain KeyboardInterrupt can only be the objective's own."""
    with pytest.raises(Interruption):
        list(run_task(payload("interrupted")))
    own = payload("raises_any", error="interrupt")
    with pytest.raises(KeyboardInterrupt):
        list(run_task(own))
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        (last,) = run_task(own)
    finally:
        signal.signal(signal.SIGINT, before)
    assert last["outcome"].error == f"KeyboardInterrupt at test_worker.py:{RAISES}: out"


def test_where_a_training_goes_the_search_does_not_follow(monkeypatch):
    Path("inner").mkdir()
    monkeypatch.chdir("inner")
    here, messages = Path.cwd(), []
    for message in run_task(payload("wanders")):
        assert Path.cwd() == here
        messages.append(message)
    assert [point["was_there"] for point in messages[-1]["outcome"].curve] == [1.0, 1.0]
    assert list(run_task(payload("removes_its_folder")))[-1]["outcome"].error is None
    assert Path.cwd() == here


def drawn(seed, **config):
    (last,) = run_task(replace(payload("draws", **config), seed=seed))
    return last["outcome"].metrics


def test_random_numbers_begin_from_the_seed_of_the_task_unless_it_seeds_them_itself():
    """Torch's where it has been imported."""
    importlib.import_module("torch")
    first, second = drawn(1), drawn(2)
    assert all(first[name] != second[name] for name in ("python", "numpy", "torch"))
    assert drawn(1) == first
    assert drawn(2**40 + 1, own_seed=7)["numpy"] == drawn(3, own_seed=7)["numpy"] == np.random.RandomState(7).random()


def test_what_a_task_changes_of_its_process_is_put_back_at_each_step_or_at_its_end(monkeypatch):
    torch = importlib.import_module("torch")
    monkeypatch.setenv("TAKEN", "here")
    monkeypatch.setenv("CHANGED", "0")

    def ours(*_):
        return None

    def look():
        handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        os.umask(umask := os.umask(0o077))
        return handlers, umask

    def look_at_the_rest():
        of_torch = torch.get_default_dtype(), torch.is_grad_enabled()
        of_python = np.geterr(), decimal.getcontext().prec, socket.getdefaulttimeout(), sys.getrecursionlimit()
        others = np.get_printoptions(), gc.isenabled(), time.localtime(0).tm_gmtoff
        return dict(os.environ), warnings.filters[:], of_torch, of_python, others

    before = [(number, signal.signal(number, ours)) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        found, rest = look(), look_at_the_rest()
        messages = []
        for message in run_task(payload("changes_its_process", handler=ours)):
            assert look() == found
            messages.append(message)
        assert look_at_the_rest() == rest
    finally:
        for number, handler in before:
            signal.signal(number, handler)
    *curve, last = messages
    assert last["outcome"].error is None
    points = [message["point"] for message in curve]
    assert points == [
        {"epoch": 1, "umask": found[1], "ours": 1}, {"epoch": 2, "umask": 0}, {"epoch": 3, "umask": 0, "own": 1}
    ]  # fmt: skip


@pytest.mark.parametrize("ours", [0, 1000])
def test_an_alarm_that_a_task_leaves_counts_only_while_it_runs(ours):
    before = signal.setitimer(signal.ITIMER_REAL, ours)
    try:
        messages = []
        for message in run_task(payload("sets_timers")):
            messages.append(message)
            left = [signal.getitimer(timer)[0] for timer in TIMERS]
            assert left[1:] == [0.0, 0.0]
            assert left[0] == ours if not ours else 900 < left[0] <= ours
        outcome = messages[-1]["outcome"]
        assert outcome.error is None
        # What another program has set takes the place of the training's own.
        assert [point["score"] for point in outcome.curve] == [0.0, float(not ours)]
    finally:
        signal.setitimer(signal.ITIMER_REAL, *before)


def test_a_fault_of_the_machine_is_raised_wherever_an_outcome_is_waited_for():
    with pytest.raises(MachineError, match="No space left"):
        outcome_of(run_task(payload("full_disk")))
    dispatcher = LocalDispatcher()
    dispatcher.submit(Task(0, 0, payload("full_disk")))
    (report,) = dispatcher.wait()
    with pytest.raises(MachineError, match="trial 0 cannot be trained"):
        report.settled()


@pytest.mark.parametrize(
    ("limits", "points", "score", "stopped"),
    [
        ([], 3, 0.9, None),
        ([(1, 0.2), (2, 0.4), (3, 0.9)], 3, 0.9, None),
        ([(1, 0.2), (2, 0.5)], 2, 0.4, "at point 2 (0.4, median 0.5)"),
        ([(2, 0.3), (3, 0.9)], 3, 0.9, None),
        ([(1, 0.3)], 1, 0.2, "at point 1 (0.2, median 0.3)"),
        ([(0.5, 0.9)], 1, 0.2, "at point 1 (0.2, median 0.9)"),
        ([(1.5, 0.9), (4, 0.1)], 3, 0.9, None),
    ],
)
def test_a_training_that_falls_behind_its_limits_is_closed_where_it_does_unless_it_is_over(
    tmp_path, limits, points, score, stopped
):
    config = {"curve": [0.2, 0.4, 0.3], "closed": str(tmp_path / "closed")}
    *said, last = run_task(Payload(f"{__name__}:rising", config, "score", "maximize", limits=limits))
    assert [message["units"] for message in said] == list(range(1, points + 1))
    assert [message["goes_on"] for message in said] == [True] * (points - 1) + [False]
    outcome = last["outcome"]
    assert (outcome.metrics, outcome.stopped, outcome.error) == ({"score": score}, stopped, None)
    assert (len(outcome.curve), outcome.units) == (points, points)
    assert (tmp_path / "closed").exists()


def slow(task):
    time.sleep(0.05)
    return 1.0


def test_a_training_without_a_curve_that_takes_too_long_has_failed():
    *_, last = run_task(Payload(f"{__name__}:slow", {}, "score", limit_minutes=0.05 / 120))
    assert last["outcome"].error == "took longer than study.trial_minutes=0.000416667"
    assert (last["outcome"].metrics, last["outcome"].units) == ({}, 1)


def linking(task):
    """Keeps its second step by a link, and when it is closed its last."""
    config, folder = task["config"], Path(task[task["config"]["kind"]])
    (folder / "step_1").mkdir(parents=True)
    (folder / "latest").symlink_to("step_1")
    try:
        yield {"epoch": 1, "score": 1.0}
        if "link" in config:
            (folder / "step_2").symlink_to(config["link"])
        yield {"epoch": 2, "score": 0.5}
    finally:
        if "last" in config:
            (folder / "step_3").symlink_to(config["last"])
    return {"score": 1.0}


@pytest.mark.parametrize("looks", ["at each step", "at the end"])
@pytest.mark.parametrize("kind", ["resume_dir", "checkpoint_dir"])
@pytest.mark.parametrize(("links", "limits", "error"), [
    ({}, (), None), ({"link": "step_1"}, (), None), ({"link": "gone"}, (), None),
    ({"link": "/etc"}, (), "step_2: must not be a link out of the folder, given a link to /etc;"),
    ({"link": "../../x"}, (), "step_2: must not be a link out of the folder, given a link to ../../x;"),
    ({"last": "/etc"}, (), "step_3: must not be a link"), ({"last": "/etc"}, [(2, 0.9)], "step_3: must not be a link"),
])  # fmt: skip
def test_a_link_out_of_a_state_or_a_model_fails_its_training_and_is_gone(tmp_path, kind, links, limits, error, looks):
    between = (0.0, 0.0) if looks == "at each step" else (math.inf, 0.0)
    folder = tmp_path / "there"
    inside = folder / "state" if kind == "resume_dir" else folder
    *points, last = run_task(
        Payload(
            objective=f"{__name__}:linking",
            config={"kind": kind} | links,
            metric="score",
            limits=limits,
            **{kind: str(folder)},
        ),
        between_checks=between,
    )
    outcome = last["outcome"]
    assert (outcome.error is None) == (error is None)
    if error is not None:
        assert f"{kind}/{error}" in outcome.error
        assert outcome.stopped is None
        assert len(points) == 1 + ("last" in links or looks == "at the end")
    assert all(link.resolve().is_relative_to(folder) for link in inside.iterdir())


def links_and_fails(task):
    Path(task["resume_dir"]).mkdir(parents=True)
    (Path(task["resume_dir"]) / "latest").symlink_to("/etc")
    raise RuntimeError("no memory")


def test_a_training_that_fails_leaves_no_link_out_of_its_state(tmp_path):
    *_, last = run_task(Payload(f"{__name__}:links_and_fails", {}, "score", resume_dir=str(tmp_path)))
    assert "no memory" in last["outcome"].error
    assert not list((tmp_path / "state").iterdir())
