"""The first law: the same trials for any number of workers, in any order of finishing, and after any crash."""

import random
import signal
import subprocess
import sys
import time

import pytest

from hpo.engine.dispatch.local import LocalDispatcher
from hpo.engine.dispatch.ray.pool import RayDispatcher
from tests.studies import REPOSITORY, SPACES, STRATEGIES, dispatch_section, run_toy, toy_config

SPACE = SPACES["mixed"]


class Replaying(LocalDispatcher):
    """Gives reports out in any order, again while their task runs, and again when it is long over."""

    slots = 4

    def __init__(self, seed):
        super().__init__(str(REPOSITORY))
        self._rng = random.Random(seed)
        self._held, self._told = [], []

    def wait(self, timeout=None):
        while reports := super().wait(timeout):
            self._held += reports
        if not self._held:
            return []
        report = self._held.pop(self._rng.randrange(len(self._held)))
        again = [self._rng.choice(self._told) for _ in range(3) if self._told]
        self._told.append(report)
        return self._rng.sample([report, report, *again], k=2 + len(again))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The trials of every strategy, one after another in this process."""
    folder = tmp_path_factory.mktemp("undisturbed")
    return {name: run_toy(folder / name, toy_config(name, SPACE, trials=20)) for name in STRATEGIES}


@pytest.mark.slow
def test_on_ray_workers(undisturbed, tmp_path):
    dispatcher = RayDispatcher(dispatch_section(workers=2), str(REPOSITORY))
    try:
        for name in STRATEGIES:
            assert run_toy(tmp_path / name, toy_config(name, SPACE, trials=20), dispatcher) == undisturbed[name]
    finally:
        dispatcher.close()


@pytest.mark.parametrize("name", STRATEGIES)
def test_reports_that_come_in_any_order_and_again_change_nothing(undisturbed, tmp_path, name):
    assert run_toy(tmp_path / "study", toy_config(name, SPACE, trials=20), Replaying(0)) == undisturbed[name]


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_budget_raised_later(undisturbed, tmp_path, name):
    for budget in (1, 8, 19, 20):
        trials = run_toy(tmp_path / "study", toy_config(name, SPACE, trials=budget))
        assert trials == undisturbed[name][:budget]


def spawn(folder, name):
    """Run the study in a process of its own; its objective naps, so that it can be killed in the middle."""
    code = (
        "from pathlib import Path\nfrom tests.studies import SPACES, run_toy, toy_config\n"
        f"config = toy_config({name!r}, SPACES['mixed'], trials=20, objective='tests.toy:slow_score')\n"
        f"run_toy(Path({str(folder)!r}), config)\n"
    )
    return subprocess.Popen([sys.executable, "-c", code], cwd=REPOSITORY)


@pytest.mark.slow
def test_a_driver_killed_again_and_again(undisturbed, tmp_path):
    """A strategy that learns from what it sees; of the others test_killed_at_every_step.py kills every step."""
    name = "shifting_window"
    rng = random.Random(name)
    for _ in range(3):
        driver = spawn(tmp_path / "study", name)
        time.sleep(rng.uniform(1.2, 2.6))
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    assert spawn(tmp_path / "study", name).wait() == 0
    config = toy_config(name, SPACE, trials=20, objective="tests.toy:slow_score")
    assert run_toy(tmp_path / "study", config) == undisturbed[name]


def test_a_finished_trial_is_never_trained_again(tmp_path):
    """A second run of a finished study submits nothing."""
    config = toy_config("evolutionary", SPACE, trials=9)
    first = run_toy(tmp_path / "study", config)

    class Refusing(LocalDispatcher):
        def submit(self, task):
            raise AssertionError(f"trial {task.trial} was submitted again")

    assert run_toy(tmp_path / "study", config, Refusing()) == first
