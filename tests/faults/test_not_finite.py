"""A score that is not a number, or infinite: a failure, never the winner, and the strategy continues."""

from pathlib import Path

from tests.hpo.cli.commands import QUICK, hpo
from tests.studies import rows, run_toy, toy_config


def test_it_fails_its_trial_and_the_search_goes_on(tmp_path):
    objective = "toy_faults:not_finite"
    found = run_toy(tmp_path / "study", toy_config("evolutionary_plain", trials=15, objective=objective))
    assert len(found) == 15
    bad = [row for row in found if row["toy.layers"] in ("3", "4")]
    assert bad
    assert all(row["state"] == "failed" and not row["score"] and "diverged" in row["error"] for row in bad)
    assert all(row["state"] == "complete" for row in found if row not in bad)


def test_a_learning_rate_that_makes_a_training_diverge(capsys):
    rates = ("space.training.lr=[0.001,1e9]", "training.clip_norm=null", "split.folds=1", "study.name=made")
    code, out, err = hpo(capsys, "search", *QUICK, *rates)
    assert code == 0, err
    found = {float(row["training.lr"]): row for row in rows(Path("runs/made/trials.csv"))}
    assert {rate: row["state"] for rate, row in found.items()} == {0.001: "complete", 1e9: "failed"}
    assert "diverged" in found[1e9]["error"]
    assert "training.lr = 0.001" in out
