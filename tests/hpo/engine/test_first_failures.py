"""A search whose first trials all fail alike ends with their error, and keeps its budget."""

from pathlib import Path

import pytest

import hpo
from hpo.config.sections import FAILURES
from tests.hpo.commands.searched import found, refuses
from tests.studies import shipped

pytestmark = pytest.mark.slow


def states(train, **given):
    return found(train, **given).trials["state"].tolist()


def fails_at_first(config, trial):
    if trial.number < 5:
        raise ValueError("no luck")
    return 1.0


def test_it_stops_with_the_error_keeps_the_budget_and_goes_on_once_that_is_fixed():
    def train(config):
        if not Path("fixed").exists():
            raise ZeroDivisionError("by nothing")
        return config["lr"]

    says = r"the first 4 trials all failed with the same error: fold 0: ZeroDivisionError at .+\d+"
    given = {"trials": 20, "settings": {"study.lanes": 2}}
    for _ in range(2):
        refuses(says, states, train, **given)
    Path("fixed").touch()
    assert states(train, **given) == ["failed"] * 8 + ["complete"] * 12


def test_other_errors_one_success_or_a_budget_that_is_used_up_let_it_go_on():
    def differently(config):
        raise ValueError(f"with {config['lr']}")

    def mostly(config, trial):
        if trial.number != 1:
            raise ValueError("no luck")
        return 1.0

    for train in (differently, mostly):
        assert states(train, trials=8).count("failed") >= 7
    assert states(fails_at_first, trials=3) == ["failed"] * 3


def test_how_many_must_fail_is_a_setting_which_may_change_and_a_replay_repeats_them():
    def states_with(most):
        return states(fails_at_first, trials=8, name="few", settings={"study.stop_after_failures": most})

    refuses(r"stop_after_failures=2 \(null = never\), because the first 2 trials all failed", states_with, 2)
    assert states_with(6) == states_with(None) == ["failed"] * 5 + ["complete"] * 3
    assert hpo.replay("few", "dispatch=local", "track=none", progress=False).empty
    # A published study without the setting has the default of a new one.
    assert shipped("default", "study")["stop_after_failures"] == FAILURES


def test_a_metric_that_the_first_training_does_not_report_stops_the_search():
    def train(config, trial):
        trial.report(loss=1.0)

    for number in range(2):
        with pytest.raises(hpo.HpoError, match=rf"trial {number} failed: .*no .*'accuracy'.* loss.*; all other trials"):
            states(train, trials=8, metric="accuracy")
    assert hpo.load("train").trials["state"].tolist().count("failed") == 2


def test_a_metric_that_another_training_has_reported_or_that_is_no_number_is_the_failure_of_a_trial():
    def at_first(config, trial):
        return {"accuracy": 1.0} if trial.number == 0 else {"loss": 1.0}

    def diverges(config, trial):
        trial.report(accuracy=float("nan") if trial.number < 2 else 1.0, loss=1.0)

    for train, num_failed in ((at_first, 4), (diverges, 2)):
        given = {"trials": 5, "metric": "accuracy", "settings": {"study.lanes": 6}}
        assert states(train, **given).count("failed") == num_failed
    with pytest.raises(hpo.HpoError, match=r"trial 0 failed: .*no .*'accuracy'.* loss.*; all other trials"):
        states(lambda config: {"loss": 1.0}, **given)
