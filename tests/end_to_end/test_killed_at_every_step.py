"""A driver that dies after any outcome, or any row of the record, leaves a study that ends as if nothing had been."""

import copy

import pytest

from hpo.engine.loop import search
from hpo.trials.record.record import Record, Rows
from hpo.workers.dispatch.local import LocalDispatcher
from tests.studies import REPOSITORY, SPACES, prepared, toy_config

TRIALS = 15


class Killed(Exception):  # noqa: N818
    """The driver is gone."""


class SurvivingRows(Rows):
    """Rows that outlive the driver, which dies when it is about to write the `last`-th of them."""

    def __init__(self):
        super().__init__()
        self.rows = {}
        self.left = None

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
    config = study.config.study
    record = Record(rows, study.goal, study.layout)
    search(study.rules(), record, LocalDispatcher(str(REPOSITORY)), config.trials)
    trials = record.trials()
    return [(t.number, t.round, t.learned, t.key, t.amount, t.state, t.score, t.losses, t.excess) for t in trials]


@pytest.mark.quick("asha-conditional")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "space"),
    [
        # One of each way to learn: tests/contracts/test_strategies.py::test_the_law has the others.
        *((name, "mixed") for name in ("grid", "evolutionary", "asha", "hyperband", "ladder", "ladder_by_halving")),
        *((name, "conditional") for name in ("asha", "tpe")),
    ],
)
def test_killed_at_every_step(tmp_path, name, space):
    tree = toy_config(name, SPACES[space], TRIALS)
    expected = run(prepared(tmp_path, tree), SurvivingRows())
    # Every seventh step where Optuna has to fit a model again and again.
    survive(tmp_path, tree, range(0, 2 * len(expected), 7 if name == "tpe" else 2), expected)


def survive(folder, tree, steps, expected):
    """Kill the driver at each of these steps, and assert that another one comes to the same end."""
    study = prepared(folder, tree)
    for left in steps:
        rows = SurvivingRows()
        with pytest.raises(Killed):
            run(study, rows, left)
        assert run(prepared(folder, tree), rows) == expected


@pytest.mark.quick("evolutionary")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["evolutionary", "shifting_window", "random", "asha"])
def test_killed_at_every_step_of_a_search_for_two_metrics_within_a_limit(tmp_path, name):
    tree = toy_config(name, SPACES["all ordered"], TRIALS)
    metrics = {"score": "maximize", "parameters": "minimize"}
    tree |= {"study": tree["study"] | {"metrics": metrics, "limits": {"parameters": 100}}}
    expected = run(prepared(tmp_path, tree), SurvivingRows())
    complete = [row for row in expected if row[5] == "complete"]
    assert {len(row[7]) for row in complete} == {2}
    assert {row[8] > 0 for row in complete} == {True, False}, "nothing keeps the limit, or nothing exceeds it"
    survive(tmp_path, tree, range(0, 2 * len(expected), 4 if name == "evolutionary" else 2), expected)


@pytest.mark.slow
def test_killed_at_every_step_with_folds_repeats_and_a_race(tmp_path):
    tree = toy_config("evolutionary", SPACES["all ordered"], 9, "tests.toy_data:noisy")
    tree |= {"study": tree["study"] | {"repeats": 2}, "split": tree["split"] | {"folds": 3, "race_after": 2}}
    expected = run(prepared(tmp_path, tree), SurvivingRows())
    assert "stopped" in {row[5] for row in expected}
    survive(tmp_path, tree, range(40), expected)
