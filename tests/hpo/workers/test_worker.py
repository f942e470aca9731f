"""What a task gives back: plain values for every dispatcher, the line of an error, and faults of the machine."""

import decimal
import errno
import gc
import inspect
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
from types import GeneratorType

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

from hpo.errors import HpoError, Interruption, MachineError
from hpo.workers.dispatch.local import LocalDispatcher
from hpo.workers.objective.objective import Objective
from hpo.workers.objective.path import refuse_another
from hpo.workers.objective.plain_function import RunningTrial, SuggestingTrial
from hpo.workers.training.steps import Units
from hpo.workers.training.tasks import Payload, Task
from hpo.workers.training.worker import one_line, outcome_of, run_task
from tests.studies import refuses

TASK = Payload("a:b", {}, "score").task({"lr": 0.5})
SCALED = Objective("toys:x", print, describe_scales=lambda *_: {"odd": 1})
NAME = "OMP_NUM_THREADS"
LINK_OUT = "_dir/latest: must not be a link out of the folder, given a link to "


def calls(task):
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
    def __str__(self):
        return self.args[0] if isinstance(self.args[0], str) else sys.exit(9)


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


@pytest.mark.parametrize("last", [math.nan, math.inf, -math.inf, "nan"])
def test_a_training_whose_last_report_is_not_finite_has_diverged(last):
    points = [{"epoch": 1, "score": 0.5}, {"epoch": 2, "score": last}]
    diverged = outcome_of(run_task(yielding(*points, result=None)))
    assert ("the last reported 'score' is not finite" in diverged.error, diverged.metrics) == (True, {})
    # A score that it returns, and a gap before the last report, are its own affair.
    assert outcome_of(run_task(yielding(*points, result=0.5))).metrics == {"score": 0.5}
    assert outcome_of(run_task(yielding(*points, {"epoch": 3, "score": 0.4}, result=None))).metrics == {"score": 0.5}
    # A metric that a training reports only from time to time is no gap.
    assert outcome_of(run_task(yielding(points[0], {"epoch": 2, "loss": 1.0}, result=None))).metrics["score"] == 0.5


def test_of_a_result_the_numbers_are_kept_and_the_others_named():
    result = {"score": np.float64(0.5), "matrix": np.ones((2, 2)), "note": "good", "loss": math.nan, "seconds": -1.0}
    warning, seconds, last = run_task(yielding(result=result))
    assert "'matrix', 'loss'" in warning["warning"]
    assert "must be a duration" in seconds["warning"]
    assert last["outcome"].metrics == {"score": 0.5}
    assert 0 <= last["outcome"].seconds < 60


@pytest.mark.parametrize(("points", "line"), [
    ([0.5], "ValueError: the objective must yield dicts of numbers, given 0.5"),
    ([{"epoch": 2}, {"epoch": 1}], "report: epoch must be above 2, the epoch of the previous report, given 1"),
    ([{"epoch": 2}, {"epoch": 2}], "report: epoch must be above 2, the epoch of the previous report, given 2"),
    ([{"step": 2}, {"epoch": 3}], "given epochs after steps"), ([{}, {"epoch": 3}], "given epochs after no epoch"),
    ([{"epoch": -1}], "report: epoch must be 0 or more, given -1")
])  # fmt: skip
def test_points_are_dicts_and_their_places_rise_and_are_of_one_kind(points, line):
    assert line in outcome_of(run_task(yielding(*points))).error


@pytest.mark.parametrize("same", [{"score ": 0.2}, {"a": {"b": 1}, "a/b": 2}, {"a\nb": 1, "a b": 2}])
def test_values_of_one_name_are_refused_and_none_is_taken_for_the_other(same):
    for task in (yielding({"score": 0.1} | same), yielding(result={"score": 0.1} | same)):
        outcome = outcome_of(run_task(task))
        assert outcome.metrics == {}
        assert "several values as '" in outcome.error


@pytest.mark.parametrize(("error", "name", "text"), [
    (Beyond("out"), "Beyond", "out"), (GeneratorExit("out"), "GeneratorExit", "out"),
    (KeyboardInterrupt("out"), "KeyboardInterrupt", "out"),
    (Beyond(9), "Beyond", "(its text cannot be read: SystemExit)")
])  # fmt: skip
def test_whatever_an_objective_raises_is_a_failure(ours, error, name, text):
    (last,) = run_task(raising(error))
    assert last["outcome"].error == f"{name} at test_worker.py:{raising.__code__.co_firstlineno + 2}: {text}"


@pytest.mark.parametrize("error", [Interruption(15), KeyboardInterrupt()])
def test_only_who_stops_this_process_interrupts_it(error):
    with pytest.raises(type(error)):
        list(run_task(raising(error)))


@pytest.mark.parametrize(("call", "words"), [
    (lambda: RunningTrial(TASK).note("a", 1.0), r"note\(\) was called after the end of the training"),
    (lambda: SuggestingTrial(TASK).suggest_int("lr", 0, 1), "'lr' must be a whole number, .* the space gives 0.5; "),
    (lambda: SuggestingTrial(TASK).suggest_float("lr", 1, 2), r"'lr' must be between 1 and 2, .* space gives 0\.5"),
    (lambda: Units().end(0.5), "'units' at the end of the training must be at least 1, given 0.5"),
    (lambda: SCALED.scales_description({}, "width"), r"toys\.describe_scales must return the fields of .*: .*odd"),
    (lambda: refuse_another(pytest, "working directory", "here"), "'pytest' must be imported from here, .* another"),
])  # fmt: skip
def test_what_a_training_or_its_objective_does_at_the_wrong_time_or_place_is_refused(call, words):
    refuses((HpoError, ValueError, RuntimeError), words, call)


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


@pytest.mark.parametrize("end", [GeneratorType.close, next])
def test_a_dropped_or_slow_training_cleans_up_where_it_went_and_before_its_outcome(tmp_path, end):
    def cleans_up(task):
        os.chdir(tmp_path)
        try:
            yield {"score": 1.0}
        finally:
            os.chdir(Path("cleaned").mkdir() or "/")

    messages, here = run_task(payload(cleans_up, limit_minutes=1e-9)), Path.cwd()
    next(messages)
    end(messages)
    assert ((tmp_path / "cleaned").exists(), Path.cwd()) == (True, here)


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
    "texts of numpy": (lambda: np.set_printoptions(precision=1), np.get_printoptions),
    "decimal": (lambda: decimal.setcontext(decimal.Context(prec=5)), lambda: decimal.getcontext().prec),
    "sockets": (lambda: socket.setdefaulttimeout(3), socket.getdefaulttimeout),
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

    assert (outcome_of(run_task(payload(train))).metrics, read()) == ({"score": 1.0}, before)


@pytest.mark.parametrize("earlier", [0, 1000])
@pytest.mark.parametrize("timer", [signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF])
def test_an_alarm_that_a_task_leaves_counts_only_while_it_runs(request, timer, earlier):
    def sets_a_timer(task):
        signal.setitimer(timer, 100)
        yield {"score": 0.0}
        yield {"score": float(90 < signal.getitimer(timer)[0] < 110)}
        return 1.0

    messages, is_replaced = [], earlier and timer == signal.ITIMER_REAL
    request.addfinalizer(lambda: signal.alarm(0))
    signal.alarm(earlier)
    for message in run_task(payload(sets_a_timer)):
        messages.append(message)
        assert is_replaced or signal.getitimer(timer)[0] == 0.0
        assert round(signal.getitimer(signal.ITIMER_REAL)[0], -2) == earlier
    assert [point["score"] for point in messages[-1]["outcome"].curve] == [0.0, float(not is_replaced)]


def test_a_fault_of_the_machine_is_raised_wherever_an_outcome_is_waited_for():
    full_disk = raising(OSError(errno.ENOSPC, "No space left on device"))
    refuses(MachineError, "No space left", outcome_of, run_task(full_disk))
    dispatcher = LocalDispatcher()
    dispatcher.submit(Task(0, 0, full_disk))
    (report,) = dispatcher.wait()
    refuses(MachineError, "trial 0 cannot be trained", report.settled)


@pytest.mark.parametrize(("limits", "points", "score", "stopped"), [
    ([], 3, 0.9, None), ([(1, 0.2), (2, 0.4), (3, 0.9)], 3, 0.9, None), ([(2, 0.3), (3, 0.9)], 3, 0.9, None),
    ([(1, 0.3)], 1, 0.2, "at point 1 (0.2, median 0.3)"),
    ([(1, 0.2), (2, 0.5)], 2, 0.4, "at point 2 (0.4, median 0.5)"),
    ([(0.5, 0.9)], 1, 0.2, "at point 1 (0.2, median 0.9)"), ([(1.5, 0.9), (4, 0.1)], 3, 0.9, None)
])  # fmt: skip
def test_a_training_that_falls_behind_its_limits_is_closed_unless_it_is_over(tmp_path, limits, points, score, stopped):
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
@pytest.mark.parametrize("kind", ["resume_dir", "checkpoint_dir"])
@pytest.mark.parametrize(("target", "moment", "reports", "error"), [
    ("step_1", "in a step", 2, None), ("gone", "in a step", 2, None), ("/etc", "in a step", 1, f"{LINK_OUT}/etc;"),
    ("/etc", "between two checks", 2, f"{LINK_OUT}/etc;"), ("../../x", "at the end", 2, f"{LINK_OUT}../../x;"),
    ("/etc", "when it is stopped", 2, f"{LINK_OUT}/etc;"), ("/etc", "with an error", 2, "no memory")
])  # fmt: skip
def test_a_link_out_of_a_state_or_a_model_fails_its_training_and_is_gone(
    monkeypatch, tmp_path, kind, target, moment, reports, error
):
    def train(task):
        folder = Path(task[kind])
        (folder / "step_1").mkdir(parents=True)
        yield {"epoch": 1, "score": 1.0}
        if moment in ("in a step", "between two checks"):
            (folder / "latest").symlink_to(target)
        try:
            yield {"epoch": 2, "score": 0.5}
        finally:
            if moment not in ("in a step", "between two checks"):
                (folder / "latest").symlink_to(target)
        if moment == "with an error":
            raise RuntimeError("no memory")
        return {"score": 1.0}

    if moment != "between two checks":
        monkeypatch.setattr("hpo.workers.training.worker.BETWEEN_CHECKS", (0.0, 0.0))
    folder, limits = tmp_path / "there", [(2, 2.0)] if moment == "when it is stopped" else []
    *points, end = run_task(payload(train, limits=limits, **{kind: str(folder)}))
    found = end["outcome"].error
    assert found is None if error is None else error in found
    assert found is None or end["outcome"].stopped is None
    assert len(points) == reports
    inside = folder / "state" if kind == "resume_dir" else folder
    assert all(link.resolve().is_relative_to(folder) for link in inside.iterdir())


@pytest.mark.parametrize("threads", [1, 3])
def test_a_training_has_the_threads_of_its_task_in_every_process(monkeypatch, threads):

    def train(task):
        return [torch.get_num_threads(), *(pool["num_threads"] for pool in threadpool_info()), int(os.environ[NAME])]

    def counts(task):
        return {"score": float(len({*train(task), threads}))}

    before = torch.get_num_threads()
    monkeypatch.delenv(NAME, raising=False)
    assert outcome_of(run_task(payload(counts, threads=threads))).metrics == {"score": 1.0}
    assert (torch.get_num_threads(), NAME in os.environ) == (before, False)


def test_links_out_of_every_stored_folder_are_gone(tmp_path):
    kinds = ("resume_dir", "checkpoint_dir", "files_dir")

    def train(task):
        for kind in kinds:
            Path(task[kind]).mkdir(parents=True)
            (Path(task[kind]) / "latest").symlink_to("/etc")
        return 1.0

    *_, end = run_task(payload(train, **{kind: str(tmp_path / kind) for kind in kinds}))
    assert f"resume{LINK_OUT}/etc;" in end["outcome"].error
    assert not [link for link in tmp_path.rglob("latest") if link.is_symlink()]


def line_of(run, **secrets):
    with pytest.raises(Exception) as caught:  # noqa: PT011 -- whatever it is
        run()
    return one_line(caught.value, secrets)


def raises(error):
    raise error


def test_the_last_line_of_the_users_own_code_is_named_and_not_one_of_a_library():
    assert line_of(lambda: json.loads("{")).startswith("JSONDecodeError at test_worker.py:")
    assert one_line(ValueError("no luck"), {}) == "ValueError: no luck"


@pytest.mark.parametrize("file", ["/tmp/ipykernel_12/345.py", "<dynamic-code>"])
def test_a_function_of_a_cell_and_a_pickled_one_are_named_with_their_line(file):
    cell = {}
    exec(compile("\ndef train(config):\n    return 1 / 0", file, "exec"), cell)
    assert line_of(lambda: cell["train"]({})) == "ZeroDivisionError at line 3 of train: division by zero"


def test_a_secret_in_the_text_is_hidden_and_no_memory_comes_with_its_figures():
    assert "abc123" not in line_of(lambda: raises(ValueError("with abc123")), TOKEN="abc123")
    assert ": out of memory; " in line_of(lambda: raises(MemoryError()))
