"""Runs studies while things happen to their MLflow, and sees that the driver waits for none of it."""

import time

from mlflow import MlflowClient

from hpo.workers.dispatch.local import LocalDispatcher
from tests.studies import REPOSITORY
from tests.tracked import run

# A driver that waits for a broken MLflow waits for the time limit of a request, which is 10 s.
STALLED_SECONDS = 5.0


class Eventful(LocalDispatcher):
    """Runs tasks as ever, does something before those of some trials, and notes what the driver took between tasks."""

    def __init__(self, events):
        super().__init__(str(REPOSITORY))
        self._events = dict(events)
        self._returned = None
        self.longest_turn = self.training_seconds = self.driver_seconds = 0.0

    def submit(self, task):
        if self._returned is not None:
            self.longest_turn = max(self.longest_turn, time.monotonic() - self._returned)
        self._events.pop(task.trial, lambda: None)()
        super().submit(task)

    def wait(self, timeout=None):
        began = time.monotonic()
        if self._returned is not None:
            self.driver_seconds += began - self._returned
        reports = super().wait(timeout)
        self._returned = time.monotonic()
        self.training_seconds += self._returned - began
        return reports


def run_with(study, events):
    """Run a study while things happen; assert that its driver waited for none of them, and return the result."""
    dispatcher = Eventful(events)
    result = run(study, dispatcher)
    assert dispatcher.longest_turn < STALLED_SECONDS
    assert len(result.run.history) == study.config.study.trials
    return result


def shown(study, number):
    """Wait until MLflow shows the trial."""
    client = MlflowClient(study.config.track.uri)
    end = time.monotonic() + 90
    while time.monotonic() < end:
        experiment = client.get_experiment_by_name(study.config.track.experiment)
        condition = f"tags.`hpo.trial` = '{number}'"
        if experiment and client.search_runs([experiment.experiment_id], condition):
            return
        time.sleep(0.2)
    raise AssertionError(f"trial {number} is not shown")


def warnings_in(capfd):
    return capfd.readouterr().err.count("cannot be written")
