"""The driver, or a worker, dies during a training that reports only what follows its state: nothing is another."""

import json
import shutil
from pathlib import Path

import pytest

from tests.faults.driver import TOY, hpo
from tests.studies import rows

pytestmark = pytest.mark.slow

SEARCH = (
    "search",
    "objective=tests.faults.peak:run_fold",
    *TOY,
    "study.trials=9",
    "study.lanes=2",
    "--progress",
    "none",
)
BY = {
    "evolutionary": (),
    "successive_halving": ("strategy=successive_halving", "strategy.max_amount=27"),
    "asha": ("strategy=asha", "strategy.max_amount=27", "strategy.min_amount=3"),
}


def searched(*arguments, deadly=None, by="evolutionary", dispatch="local"):
    """Return the rows of trials.csv, of a search that goes on after a death; without what is measured."""
    shutil.rmtree("runs", ignore_errors=True)
    if deadly is not None:
        Path("deadly.json").write_text(json.dumps(deadly))
    search = (*SEARCH, f"dispatch={dispatch}", *BY[by], *arguments)
    code, out, err = hpo(*search)
    if deadly is not None and dispatch == "local":
        assert code == -9, out + err
        code, out, err = hpo("resume", "toy", "--progress", "none")
    assert code == 0, out + err
    assert not Path("deadly.json").exists()
    return rows(Path("runs/toy/trials.csv"))


@pytest.mark.parametrize(("by", "names", "deadly"), [
    ("evolutionary", True, [2, 20, "before the report"]), ("evolutionary", False, [0, 27, "before the report"]),
    ("successive_halving", False, [4, 1, "before the report"]), ("asha", True, [1, 2, "after the report"]),
])  # fmt: skip
def test_after_the_driver_is_killed_a_search_has_the_same_trials(by, names, deadly):
    undisturbed = searched(f"+names={names}", by=by)
    assert by != "evolutionary" or {float(row["cost"]) for row in undisturbed} == {27}
    assert searched(f"+names={names}", by=by, deadly=deadly) == undisturbed


def test_after_a_worker_dies_a_training_has_the_same_score_and_cost():
    undisturbed = searched("+names=true")
    for moment in ("before the report", "after the report"):
        died = searched("+names=true", deadly=[3, 20, moment], dispatch="ray")
        assert died == undisturbed
