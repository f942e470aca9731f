"""What every dispatcher promises. A new dispatcher is one line in DISPATCHERS."""

import os
import re
from typing import get_args

import pytest
from toys import CONFIG

from hpo.config import sections
from hpo.trials.trial import Outcome
from hpo.workers.dispatch.dispatcher import Setup
from hpo.workers.dispatch.local import LocalDispatcher
from hpo.workers.dispatch.ray.pool import RayDispatcher
from hpo.workers.dispatch.simulated import SimulatedDispatcher
from hpo.workers.training.tasks import Payload, Task
from tests.studies import REPOSITORY, dispatch_section

DISPATCHERS = {"local": LocalDispatcher, "simulated": SimulatedDispatcher, "ray": RayDispatcher}
CASES = [pytest.param(name, marks=[pytest.mark.slow] if name == "ray" else []) for name in DISPATCHERS]


@pytest.fixture(scope="module", params=CASES)
def dispatcher(request):
    made = DISPATCHERS[request.param].of(Setup(settings=dispatch_section(workers=2), import_from=str(REPOSITORY)))
    yield made
    made.close()


def task(number, objective, **config):
    return Task(number, 0, Payload(f"toys:{objective}", {**CONFIG, **config}, "score", seed=5, trial=number))


def run(dispatcher, tasks):
    for item in tasks:
        dispatcher.submit(item)
    outcomes, points = {}, {}
    while len(outcomes) < len(tasks):
        for report in dispatcher.wait():
            if report.outcome is not None:
                assert report.task.trial not in outcomes
                outcomes[report.task.trial] = report.outcome
            elif report.host is None:
                points.setdefault(report.task.trial, []).append(report.point)
    return outcomes, points


def test_each_dispatcher_of_the_table_is_here_under_its_name():
    paths = {name: f"{kind.__module__}:{kind.__name__}" for name, kind in DISPATCHERS.items()}
    assert paths == {name: known.path for name, known in sections.DISPATCHERS.items()}
    assert DISPATCHERS.keys() == {*get_args(sections.DispatcherName)}


def test_every_task_gives_one_outcome_and_its_curve_streams(dispatcher):
    outcomes, points = run(dispatcher, [task(n, "score") for n in range(7)])
    assert sorted(outcomes) == list(range(7))
    assert all([point["epoch"] for point in points[n]] == [1, 2] for n in range(7))
    assert all(outcomes[n].error is None and list(outcomes[n].curve) == points[n] for n in range(7))


def test_where_a_task_is_trained_is_reported_before_all_else_where_that_is_not_here(dispatcher):
    for dies in (False, True, False):
        objective = "dies" if dies and not dispatcher.runs_here else "score"
        for number in range(2):
            dispatcher.submit(task(number, objective))
        reports = []
        while sum(report.outcome is not None for report in reports) < 2:
            reports += dispatcher.wait()
        for number in range(2):
            *others, last = [report for report in reports if report.task.trial == number]
            hosts = [report.host for report in others if report.host]
            assert bool(others[0].host) is bool(hosts) is not dispatcher.runs_here
            assert {host.host for host in hosts} <= {os.uname().nodename}
            assert not hosts or dies or hosts[-1].process == last.outcome.worker


FAILURES = {
    "raises": r"ValueError at toys\.py:\d+: no luck today",
    "text": "must return a number or a dict",
    "text_score": "must be a number",
    "no_score": "no 'score'; it returned: accuracy",
    "exits": "SystemExit",
    "leaves_by_force": ": of my own",
}


def test_a_failure_of_any_kind_is_an_outcome_with_its_reason_in_one_line(dispatcher):
    outcomes, _ = run(dispatcher, [task(number, objective) for number, objective in enumerate(FAILURES)])
    for number, words in enumerate(FAILURES.values()):
        assert re.search(words, outcomes[number].error)
        assert "\n" not in outcomes[number].error
    assert "Traceback" in outcomes[0].details


def test_an_objective_that_a_worker_does_not_find_is_no_fault_of_the_trial(dispatcher):
    dispatcher.submit(task(0, "missing"))
    faults = []
    while not faults:
        faults = [report.machine_fault for report in dispatcher.wait() if report.host is None]
    assert "no function 'missing'" in faults[0]


def test_waiting_for_nothing_returns_nothing(dispatcher):
    assert list(dispatcher.wait(timeout=0.1)) == []


def test_nothing_is_reported_of_a_dropped_task_and_its_slot_is_free(dispatcher):
    tasks = [task(number, "score") for number in range(4)]
    for item in tasks:
        dispatcher.submit(item)
    reported = next(report.task for report in dispatcher.wait() if report.outcome is None)
    waiting = tasks[3] if reported is not tasks[3] else tasks[2]
    assert dispatcher.drop(reported) > 0
    assert dispatcher.drop(waiting) == 0
    left, known = {item.trial for item in tasks if item not in (reported, waiting)}, set()
    while left - known:
        reports = dispatcher.wait()
        assert not {report.task.trial for report in reports} - left
        known |= {report.task.trial for report in reports if report.outcome is not None}
    outcomes, _ = run(dispatcher, [task(9, "constant")])
    assert outcomes[9].metrics == {"score": 1.0}


def test_a_simulated_worker_is_busy_until_its_task_ends(monkeypatch):
    last = {"outcome": Outcome(error="no score", seconds=10.0), "lacks_metric": True}
    monkeypatch.setattr("hpo.workers.dispatch.simulated.run_here", lambda *_: iter([{"mlflow_run": "a"}, last]))
    outcomes, _ = run(SimulatedDispatcher(1), [task(number, "constant") for number in (0, 1)])
    assert [outcomes[number].started for number in (0, 1)] == [0.0, 10.0]
