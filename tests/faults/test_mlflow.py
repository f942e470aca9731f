"""MLflow answers with errors, late or never, or is killed: the search does not wait for it, and everything arrives."""

import time

import pytest
from mlflow import MlflowClient

from hpo.workers.dispatch.local import LocalDispatcher
from tests.faults.mlflow_server import FaultyServer, free_port
from tests.studies import REPOSITORY
from tests.tracked import assert_shows_the_record, run, synchronise, tracked_study

# MLflow's own waits take most of a minute each.
pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")]
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
    dispatcher = Eventful(events)
    result = run(study, dispatcher)
    assert dispatcher.longest_turn < STALLED_SECONDS
    assert len(result.run.history) == study.config.study.trials
    return result


def shown(study, number):
    client, end = MlflowClient(study.config.track.uri), time.monotonic() + 90
    while time.monotonic() < end:
        experiment = client.get_experiment_by_name(study.config.track.experiment)
        if experiment and client.search_runs([experiment.experiment_id], f"tags.`hpo.trial` = '{number}'"):
            return
        time.sleep(0.2)
    raise AssertionError(f"trial {number} is not shown")


def warnings_in(capfd):
    return capfd.readouterr().err.count("cannot be written")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    server = FaultyServer(tmp_path_factory.mktemp("server"), free_port())
    server.start()
    yield server
    server.kill()


@pytest.mark.parametrize("fault", ["error", "late 3600"])
def test_a_server_that_fails_costs_one_warning_and_a_sync_sends_the_rest_once(server, tmp_path, capfd, fault):
    given = {"trials": 12, "uri": server.uri, "experiment": fault}
    study = tracked_study(tmp_path, **given, patience=3.0)

    def break_it():
        shown(study, 3)
        server.set_mode(fault)

    began = time.monotonic()
    assert not run_with(study, {5: break_it, 9: lambda: time.sleep(0 if fault == "error" else 12)}).is_tracked
    assert time.monotonic() - began < 90
    assert warnings_in(capfd) == 1
    server.set_mode("pass")
    study = tracked_study(tmp_path, **given)
    for _ in range(2):
        assert synchronise(study)
        assert_shows_the_record(study)
    assert warnings_in(capfd) == 0


def test_a_server_that_is_killed_and_comes_back_gets_everything(server, tmp_path, capfd):
    study = tracked_study(tmp_path, trials=12, uri=server.uri, experiment="back", patience=60.0)

    def break_it():
        shown(study, 2)
        server.kill()

    assert run_with(study, {4: break_it, 9: server.start}).is_tracked
    assert warnings_in(capfd) == 1
    assert_shows_the_record(study)


def test_a_server_that_answers_after_15_seconds_costs_less_than_a_twentieth_of_the_training(server, tmp_path, capfd):
    """All that the driver does next to training counts: ten trials of a second, with ten points of a curve each."""
    server.set_mode("late 15")
    changes = {"trials": 10, "objective": "toy_faults:trains_a_second"}
    study = tracked_study(tmp_path, uri=server.uri, experiment="late", patience=20.0, **changes)
    dispatcher = Eventful({})
    assert not run(study, dispatcher).is_tracked
    assert warnings_in(capfd) == 1
    assert dispatcher.training_seconds > 9.0
    assert dispatcher.driver_seconds < dispatcher.training_seconds / 20
    server.set_mode("pass")
    assert synchronise(study)
    time.sleep(18)
    assert synchronise(study)
    assert_shows_the_record(study)
