"""What a task gives back: plain values for every dispatcher, and faults of the machine that are no outcomes."""

import errno
import json

import pytest

from hpo.dispatch.local import LocalDispatcher
from hpo.errors import MachineError
from hpo.trials import Task
from hpo.worker import outcome_of, run_task


def odd_points(task):
    yield {"epoch": 1, 3: 0.5, "per_class": {10: 1.0, 2: 0.5}, "seen": {1}}
    return 1.0


def full_disk(task):
    raise OSError(errno.ENOSPC, "No space left on device")


def warns(task):
    yield {"warning": "hello"}
    return 1.0


def payload(name):
    return {"objective": f"tests.hpo.test_worker:{name}", "config": {}, "metric": "score"}


def test_a_point_is_what_json_makes_of_it():
    point, _ = run_task(payload("odd_points"))
    assert point == {"point": {"epoch": 1, "3": 0.5, "per_class": {"10": 1.0, "2": 0.5}, "seen": "{1}"}}
    assert json.loads(json.dumps(point)) == point


def test_an_outcome_comes_after_points_and_warnings():
    shown = []
    assert outcome_of(run_task(payload("warns")), shown.append).metrics == {"score": 1.0}
    assert shown == [{"warning": "hello"}]


def test_a_fault_of_the_machine_is_raised_wherever_an_outcome_is_waited_for():
    with pytest.raises(MachineError, match="No space left"):
        outcome_of(run_task(payload("full_disk")))
    dispatcher = LocalDispatcher()
    dispatcher.submit(Task(0, 0, payload("full_disk")))
    (report,) = dispatcher.wait()
    with pytest.raises(MachineError, match="trial 0 cannot be trained"):
        report.settled()
