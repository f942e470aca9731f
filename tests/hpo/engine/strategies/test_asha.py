"""Asynchronous successive halving: who is trained further, and when; against the rungs of a written-out search."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpo.engine.strategies import make_strategy
from hpo.trials.goal import Goal, Limit
from hpo.trials.history import History
from hpo.trials.space.reader import space_from_dict
from hpo.trials.space.space import point_key
from hpo.trials.trial import Trial
from tests.hpo.engine.made import LOSS, ended
from tests.studies import shipped


def make(**changes):
    space = space_from_dict({"x": {"low": 0.0, "high": 1.0}})
    return make_strategy(shipped("asha") | {"max_amount": 9} | changes, space, 0)


def on(*rungs):
    """Return a history: per rung the losses by point, None for a failure; points on a later rung continue."""
    trials, latest = [], {}
    for amount, losses in rungs:
        for x, loss in losses.items():
            continues, trained = latest.get(x, (None, 0))
            trials.append(ended(len(trials), {"x": x}, loss, amount=amount, continues=continues, trained=trained))
            latest[x] = len(trials) - 1, amount
    return History(trials)


def proposed(strategy, history):
    (proposal,) = strategy.propose(history, [])
    return proposal.point["x"], proposal.amount, proposal.continues, proposal.trained


THREE = {0.1: 5.0, 0.2: 3.0, 0.3: 4.0}
NINE = {n / 10: float(n) for n in range(1, 9)} | {0.9: None}
AGREE, DIFFER = {0.1: 0.1, 0.2: 0.2, 0.3: 0.3}, {0.1: 0.3, 0.2: 0.2, 0.3: 0.1}


@pytest.mark.parametrize(
    ("rungs", "history", "expected"),
    [
        # The best third goes on as soon as it is known, once; failures count and never go on.
        ("fixed", on((1, THREE)), (0.2, 3, 1, 1)),
        ("fixed", on((1, THREE), (3, {0.2: 2.0})), None),
        ("fixed", on((1, dict.fromkeys(THREE))), None),
        # The top rung opens only where the ranking changed.
        ("fixed", on((1, NINE), (3, AGREE)), (0.1, 9, 9, 3)),
        ("progressive", on((1, NINE), (3, AGREE)), None),
        ("progressive", on((1, NINE), (3, DIFFER)), (0.3, 9, 11, 3)),
    ],
)
def test_worked_examples(rungs, history, expected):
    found = proposed(make(rungs=rungs), history)
    assert found == expected if expected else found[1:] == (1, None, 0)


def curves(amount, *curves):
    """Return trials whose loss is x / place, reported at every so manieth place up to an end."""
    trials = []
    for number, (x, every, end) in enumerate(curves):
        curve = [{"epoch": place, "loss": x / place} for place in range(every, end + 1, every)]
        trials.append(ended(number, {"x": x}, curve[-1]["loss"], curve=curve, amount=amount))
    return trials


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        # By its last report the second would be the best; at place 6, which all have, the third is.
        (curves(7, (0.9, 3, 7), (0.8, 1, 7), (0.7, 2, 7)), (0.7, 21, 2, 7)),
        # One without a place in common: nothing is concluded.
        (curves(7, (0.9, 3, 7), (0.8, 1, 7), (0.1, 5, 7)), None),
        # Those that ended by themselves have the same places, and count as they are.
        (curves(7, (0.9, 1, 7), (0.1, 1, 3), (0.7, 1, 7)), (0.1, 21, 1, 7)),
    ],
)
def test_trainings_that_report_at_different_places_compare_at_the_last_that_all_have(known, expected):
    found = proposed(make(min_amount=7, max_amount=63), History(known))
    assert found == expected if expected else found[1:] == (7, None, 0)


LIMITED = Goal(LOSS.metrics, (Limit("size", 0.6),))


def in_order(rung):
    """Return the trials of a rung, the best first: within the limits, then of least excess, failures last."""
    return sorted(rung, key=lambda trial: (trial.state != "complete", trial.excess, trial.loss, trial.number))


def written_out(settings, known, pending):
    """Return the number of the trial that goes on, None = a new point; by the whole of what is known."""
    taken = {trial.continues for trial in (*known, *pending)}
    for amount in reversed(settings.amounts(settings.num_halvings)[:-1]):
        rung = [trial for trial in known if trial.amount == amount]
        for trial in in_order(rung)[: len(rung) // settings.eta]:
            if trial.number not in taken and trial.state == "complete":
                return trial.number
    return None


@pytest.mark.parametrize("goal", [LOSS, LIMITED], ids=["one", "limited"])
@settings(max_examples=8)
@given(seed=st.integers(0, 9999), noise=st.sampled_from([0.0, 0.1, 1.0]), eta=st.integers(2, 3))
def test_the_trials_that_go_on_are_those_of_a_written_out_search(goal, seed, noise, eta):
    """Trials end in any order, and some fail."""
    rng, strategy = random.Random(seed), make(max_amount=eta**3, eta=eta)
    known, pending = History(), []
    for number in range(60):
        (proposal,) = strategy.propose(known, pending)
        assert proposal.continues == written_out(strategy.settings, known, pending)
        pending.append(Trial(number, number, **vars(proposal)))
        while pending and rng.random() < 0.6:
            trial = pending.pop(rng.randrange(len(pending)))
            of_point = random.Random(point_key(trial.point))
            loss, size = of_point.random() + noise * rng.random(), of_point.random()
            values = None if rng.random() < 0.1 else {"loss": round(loss, 2), "size": round(size, 1)}
            fields = {"amount": trial.amount, "continues": trial.continues, "trained": trial.trained}
            known = known.extended([ended(trial.number, trial.point, values, goal, **fields)])
