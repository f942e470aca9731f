"""The first law: the same trials for any number of workers, in any order of finishing, and after any crash."""

import functools
import random

import pytest

from hpo.workers.dispatch.local import LocalDispatcher
from hpo.workers.dispatch.ray.pool import RayDispatcher
from tests.studies import REPOSITORY, SPACES, STRATEGIES, dispatch_section, run_toy, toy_config

SPACE = SPACES["mixed"]
# One of each way to learn: tests/contracts/test_strategies.py::test_the_law has the others.
WAYS = ("random", "evolutionary", "asha", "tpe", "ladder")


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
    """The trials of a strategy by its name, one after another in this process; made when they are asked for."""
    folder = tmp_path_factory.mktemp("undisturbed")
    return functools.cache(lambda name: run_toy(folder / name, toy_config(name, SPACE, trials=20)))


@pytest.mark.slow
def test_on_ray_workers(undisturbed, tmp_path):
    dispatcher = RayDispatcher(dispatch_section(workers=2), str(REPOSITORY))
    try:
        for name in WAYS[:4]:
            assert run_toy(tmp_path / name, toy_config(name, SPACE, trials=20), dispatcher) == undisturbed(name)
    finally:
        dispatcher.close()


@pytest.mark.quick("random", "evolutionary", "asha")
@pytest.mark.slow
@pytest.mark.parametrize("name", WAYS)
def test_reports_that_come_in_any_order_and_again_change_nothing(undisturbed, tmp_path, name):
    assert run_toy(tmp_path / "study", toy_config(name, SPACE, trials=20), Replaying(0)) == undisturbed(name)


@pytest.mark.quick("asha")
@pytest.mark.slow
@pytest.mark.parametrize("name", WAYS)
def test_a_budget_raised_later(undisturbed, tmp_path, name):
    for budget in (8, 20):
        trials = run_toy(tmp_path / "study", toy_config(name, SPACE, trials=budget))
        assert trials == undisturbed(name)[: len(trials)]
        # Strategies by amounts have more: each configuration counts once.
        assert len(trials) == budget or (STRATEGIES[name].get("max_amount") and len(trials) > budget)


def test_a_finished_trial_is_never_trained_again(tmp_path):
    """A second run of a finished study submits nothing."""
    config = toy_config("evolutionary", SPACE, trials=9)
    first = run_toy(tmp_path / "study", config)

    class Refusing(LocalDispatcher):
        def submit(self, task):
            raise AssertionError(f"trial {task.trial} was submitted again")

    assert run_toy(tmp_path / "study", config, Refusing()) == first
