"""The driver, or a worker, dies during a training that reports only what follows its state: nothing is another."""

import json
import shutil
from pathlib import Path

import pytest

from tests.faults.driver import TOY, hpo
from tests.hpo.cli.commands import hpo as in_this_process
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


def searched(capsys, *arguments, by="evolutionary"):
    """Return the rows of trials.csv, without what is measured, of a search that nothing disturbs."""
    code, out, err = in_this_process(capsys, *SEARCH, "dispatch=local", *BY[by], *arguments)
    assert code == 0, out + err
    return rows(Path("runs/toy/trials.csv"))


def searched_after(capsys, deadly, *arguments, dispatch="local"):
    """Return the rows of a search whose process dies there and then, and that goes on."""
    shutil.rmtree("runs", ignore_errors=True)
    Path("deadly.json").write_text(json.dumps(deadly))
    code, out, err = hpo(*SEARCH, f"dispatch={dispatch}", *arguments)
    assert code == (-9 if dispatch == "local" else 0), out + err
    assert not Path("deadly.json").exists()
    if dispatch == "local":
        code, out, err = in_this_process(capsys, "resume", "toy", "--progress", "none")
        assert code == 0, out + err
    return rows(Path("runs/toy/trials.csv"))


@pytest.mark.parametrize(("by", "names", "deadly"), [
    ("evolutionary", True, [2, 20, "before the report"]), ("evolutionary", False, [0, 27, "before the report"]),
    ("successive_halving", False, [4, 1, "before the report"]), ("asha", True, [1, 2, "after the report"]),
])  # fmt: skip
def test_after_the_driver_is_killed_a_search_has_the_same_trials(capsys, by, names, deadly):
    undisturbed = searched(capsys, f"+names={names}", by=by)
    assert by != "evolutionary" or {float(row["cost"]) for row in undisturbed} == {27}
    assert searched_after(capsys, deadly, f"+names={names}", *BY[by]) == undisturbed


def test_after_a_worker_dies_a_training_has_the_same_score_and_cost(capsys):
    undisturbed = searched(capsys, "+names=true")
    for moment in ("before the report", "after the report"):
        assert searched_after(capsys, [3, 20, moment], "+names=true", dispatch="ray") == undisturbed
