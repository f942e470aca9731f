"""A score that is not a number, or infinite: a failure, never the winner, and the strategy continues."""

from tests.studies import run_toy, toy_config


def test_it_fails_its_trial_and_the_search_goes_on(tmp_path):
    found = run_toy(tmp_path / "study", toy_config("evolutionary_plain", trials=15, objective="toy_faults:not_finite"))
    assert len(found) == 15
    bad = [row for row in found if row["toy.layers"] in ("3", "4")]
    assert bad
    assert all(row["state"] == "failed" and not row["score"] and "diverged" in row["error"] for row in bad)
    assert all(row["state"] == "complete" for row in found if row not in bad)
