"""A score that is not a number, or infinite: a failure, never the winner, and no strategy stumbles over it."""

import pytest

from hpo.trials.table import read_rows
from tests.hpo.cli.commands import QUICK, hpo
from tests.studies import run_toy, toy_config


@pytest.mark.quick("evolutionary_plain")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["evolutionary_plain", "random", "tpe", "gp"])
def test_it_is_a_failure_that_strategies_live_with(tmp_path, name):
    rows = run_toy(tmp_path / "study", toy_config(name, trials=15, objective="tests.faults.objectives:not_finite"))
    assert len(rows) == 15
    bad = [row for row in rows if row["toy.layers"] in ("3", "4")]
    assert bad
    assert all(row["state"] == "failed" and not row["score"] and "diverged" in row["error"] for row in bad)
    assert all(row["state"] == "complete" for row in rows if row not in bad)


@pytest.mark.slow
def test_a_learning_rate_that_makes_a_training_diverge(capsys, tmp_path):
    code, out, err = hpo(capsys, "search", *QUICK, "space.training.lr=[0.001,1e9]", "training.clip_norm=null")
    assert code == 0, err
    rows = read_rows(next(tmp_path.glob("runs/*/trials.csv")), ["state"])
    states = {float(row["training.lr"]): row["state"] for row in rows}
    assert states == {0.001: "complete", 1e9: "failed"}
    (error,) = (row["error"] for row in rows if row["state"] == "failed")
    assert "diverged" in error
    assert "training.lr = 0.001" in out
