"""The first law: the same trials for any number of workers, in any order of finishing, and after any crash.

One strategy of each way to learn: tests/contracts/test_strategies.py::test_the_law has the others.
"""

import copy
import functools
import random

import pytest

from hpo.engine.loop import search
from hpo.trials.record.record import Record, Rows
from hpo.workers.dispatch.dispatcher import Setup, make_dispatcher
from hpo.workers.dispatch.local import LocalDispatcher
from tests.studies import REPOSITORY, SPACES, STRATEGIES, dispatch_section, prepared, run_toy, toy_config

SPACE = SPACES["mixed"]


class Replaying(LocalDispatcher):
    """Returns reports in any order, again while their task runs, and again long after it."""

    slots = 4

    def __init__(self, seed):
        super().__init__(str(REPOSITORY))
        self._rng = random.Random(seed)
        self._held, self._returned = [], []

    def wait(self, timeout=None):
        while reports := super().wait(timeout):
            self._held += reports
        if not self._held:
            return []
        report = self._held.pop(self._rng.randrange(len(self._held)))
        again = [self._rng.choice(self._returned) for _ in range(3) if self._returned]
        self._returned.append(report)
        return self._rng.sample([report, report, *again], k=2 + len(again))


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    return functools.cache(lambda name: run_toy(folder / name, toy_config(name, SPACE, trials=20)))


@pytest.mark.slow
def test_ray_workers_give_the_same_trials(undisturbed, tmp_path):
    dispatcher = make_dispatcher(Setup(settings=dispatch_section(workers=2), import_from=str(REPOSITORY)))
    try:
        for name in ("random", "asha"):
            assert run_toy(tmp_path / name, toy_config(name, SPACE, trials=20), dispatcher) == undisturbed(name)
    finally:
        dispatcher.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["random", "evolutionary", "asha", "tpe", "ladder"])
def test_reports_in_any_order_and_repeated_and_a_budget_raised_later_change_nothing(undisturbed, tmp_path, name):
    for budget in (8, 20):
        trials = run_toy(tmp_path / "study", toy_config(name, SPACE, trials=budget), Replaying(budget))
        assert trials == undisturbed(name)[: len(trials)]
        # Strategies by amounts have more: each configuration counts once.
        assert len(trials) == budget or (STRATEGIES[name].get("max_amount") and len(trials) > budget)


class Killed(Exception):  # noqa: N818
    """The driver is dead."""


class SurvivingRows(Rows):
    """Rows that outlive the driver, which dies when it is about to write the `left`-th of them."""

    def __init__(self):
        super().__init__()
        self.rows, self.left = {}, None

    def _write(self):
        if self.left == 0:
            raise Killed
        self.left = None if self.left is None else self.left - 1

    def open(self, number, point, attributes):
        self._write()
        self.rows[number] = [dict(point), "running", dict(attributes)]

    def add(self, number, attributes):
        self._write()
        self.rows[number][2] |= attributes

    def close(self, number, state, scores, attributes, constraints):
        self._write()
        self.rows[number][1] = state
        self.rows[number][2] |= attributes

    def read(self):
        return [(number, *copy.deepcopy(row)) for number, row in self.rows.items()]


def run(study, rows, left=None):
    """Run the study on these rows, for so many writes."""
    rows.left = left
    record = Record(rows, study.goal, study.layout)
    search(study.rules(), record, LocalDispatcher(str(REPOSITORY)), study.config.study.trials)
    return [
        (t.number, t.round, t.learned, t.key, t.amount, t.state, t.score, t.losses, t.excess) for t in record.trials()
    ]


KILLED = {
    "asha": toy_config("asha", SPACES["conditional"], 15),
    "ladder": toy_config("ladder_by_halving", SPACE, 15),
    "two metrics": toy_config("evolutionary", SPACES["all ordered"], 15),
    "a race": toy_config("evolutionary", SPACES["all ordered"], 9, "toy_data:noisy"),
}
KILLED["two metrics"]["study"] |= {"metrics": {"score": "maximize", "parameters": "minimize"}}
KILLED["two metrics"]["study"] |= {"limits": {"parameters": 100}}
KILLED["a race"]["study"]["repeats"] = 2
KILLED["a race"]["split"] |= {"folds": 3, "race_after": 2}


@pytest.mark.quick("two metrics")
@pytest.mark.slow
@pytest.mark.parametrize("case", KILLED)
def test_killed_at_every_step(tmp_path, case):
    study = prepared(tmp_path, KILLED[case])
    expected = run(study, SurvivingRows())
    if case == "two metrics":
        excess = {row[8] > 0 for row in expected if row[5] == "complete"}
        assert excess == {True, False}, "no trial keeps the limit, or none exceeds it"
    assert case != "a race" or "stopped" in {row[5] for row in expected}
    for left in range(0, 2 * len(expected), 2 if case in ("asha", "ladder") else 4):
        rows = SurvivingRows()
        with pytest.raises(Killed):
            run(study, rows, left)
        assert run(prepared(tmp_path, KILLED[case]), rows) == expected
