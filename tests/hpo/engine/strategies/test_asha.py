"""Asynchronous successive halving: who is trained further, and when; against the rungs of a written-out search."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpo.engine.course.rules import Rules
from hpo.engine.space.reader import space_from_dict
from hpo.engine.strategies import make_strategy
from hpo.engine.trials.history import History
from hpo.engine.trials.trial import Outcome, Trial, finished
from hpo.testing.simulated_tasks import World, run
from tests.studies import shipped

SPACE = space_from_dict({"x": {"low": 0.0, "high": 1.0}})


def make(**changes):
    return make_strategy(shipped("asha") | {"max_amount": 9} | changes, SPACE, 0)


def on(*rungs):
    """Return a history: per rung the losses by point, None for a failure; points on a later rung continue."""
    trials, latest = [], {}
    for amount, losses in rungs:
        for x, loss in losses.items():
            continues, trained = latest.get(x, (None, 0))
            outcome = Outcome(error="x") if loss is None else Outcome({"s": loss})
            trial = Trial(len(trials), len(trials), {"x": x}, amount=amount, continues=continues, trained=trained)
            trials.append(finished(trial, {0: outcome}, "s", "minimize"))
            latest[x] = trial.number, amount
    return History(trials)


def proposed(strategy, history, pending=()):
    (proposal,) = strategy.propose(history, pending)
    return proposal.point["x"], proposal.amount, proposal.continues, proposal.trained


def test_the_best_third_goes_on_as_soon_as_it_is_known():
    assert proposed(make(), on((1, {0.1: 5.0, 0.2: 3.0})))[1:] == (1, None, 0)
    assert proposed(make(), on((1, {0.1: 5.0, 0.2: 3.0, 0.3: 4.0}))) == (0.2, 3, 1, 1)


def test_who_was_continued_is_not_continued_again_also_while_it_is_pending():
    first = on((1, {0.1: 5.0, 0.2: 3.0, 0.3: 4.0}))
    pending = Trial(3, 3, {"x": 0.2}, amount=3, continues=1, trained=1)
    assert proposed(make(), first, [pending])[1:] == (1, None, 0)
    assert proposed(make(), on((1, {0.1: 5.0, 0.2: 3.0, 0.3: 4.0}), (3, {0.2: 2.0})))[1:] == (1, None, 0)


def test_the_highest_rung_is_served_first_and_failures_count_but_never_rise():
    low = {0.1: 1.0, 0.2: 2.0, 0.3: 3.0, 0.4: 4.0, 0.5: 5.0, 0.6: 6.0, 0.7: 7.0, 0.8: 8.0, 0.9: None}
    assert proposed(make(), on((1, low), (3, {0.1: 4.0, 0.2: 2.0, 0.3: 3.0}))) == (0.2, 9, 10, 3)
    assert proposed(make(), on((1, {0.1: None, 0.2: None, 0.3: None})))[1:] == (1, None, 0)


def test_the_top_rung_opens_only_where_the_ranking_changed():
    low = {0.1: 1.0, 0.2: 2.0, 0.3: 3.0, **{0.4 + n / 100: 9.0 + n for n in range(6)}}
    agreed = on((1, low), (3, {0.1: 0.1, 0.2: 0.2, 0.3: 0.3}))
    assert proposed(make(), agreed)[1] == 9
    assert proposed(make(rungs="progressive"), agreed)[1] == 1
    assert proposed(make(rungs="progressive"), on((1, low), (3, {0.1: 0.3, 0.2: 0.2, 0.3: 0.1})))[:2] == (0.3, 9)


def test_a_change_of_places_within_noise_opens_nothing():
    """Two points changed places twice, and are as far apart as two others that changed places once."""
    strategy = make(max_amount=27, rungs="progressive")
    low = {0.1: 1.0, 0.2: 1.1, **{0.3 + n / 100: 9.0 + n for n in range(25)}}
    noisy = on((1, low), (3, {0.1: 1.1, 0.2: 1.0, 0.3: 8.0, 0.31: 9.0}), (9, {0.1: 0.9, 0.2: 1.0}))
    assert proposed(strategy, noisy)[1] < 27
    clear = on((1, low), (3, {0.1: 1.1, 0.2: 1.0, 0.3: 8.0, 0.31: 9.0}), (9, {0.1: 0.9, 0.2: 1.0, 0.3: 0.1}))
    assert proposed(strategy, clear)[1] == 27


@pytest.mark.parametrize("rungs", ["fixed", "progressive"])
@given(seed=st.integers(0, 99), slots=st.integers(1, 6), order=st.integers(0, 99))
def test_every_continuation_was_among_the_best_when_it_was_proposed(rungs, seed, slots, order):
    def rules(tasks_of, cost_of):
        return Rules(make(rungs=rungs), tasks_of, cost_of, 3)

    trials = run(World(seed, failing=0.2), rules, 40, slots, order).trials()
    known = []
    for trial in trials:
        known += trial.learned
        if trial.continues is not None:
            before = trials[trial.continues]
            rung = [trials[n] for n in known if trials[n].amount == before.amount]
            best = sorted(rung, key=lambda t: (t.loss, t.number))[: len(rung) // 3]
            assert before in best
            assert (before.key, before.amount, trial.amount) == (trial.key, trial.trained, 3 * before.amount)
    assert len({(t.key, t.amount) for t in trials}) == 40
