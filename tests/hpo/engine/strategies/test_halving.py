"""Halvings: the brackets and rungs, which points go on, and when; asha against the rungs of a written-out search."""

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpo.engine.strategies import make_strategy
from hpo.testing.strategies import play
from hpo.trials.goal import Goal, Limit
from hpo.trials.history import History
from hpo.trials.space.reader import space_from_dict
from hpo.trials.space.space import point_key
from hpo.trials.trial import Trial
from tests.hpo.engine.made import LOSS, ended
from tests.studies import shipped


def make(name, **settings):
    given = shipped(name) | {"min_amount": 1, "eta": 3, "counts": "trials"} | settings
    return make_strategy(given, space_from_dict({"x": {"low": 0.0, "high": 1.0}}), 0)


def played(name, num_rounds, **settings):
    history = play(make(name, **settings), num_rounds, lambda point: point["x"], Goal({"score": "maximize"}))
    return [[trial for trial in history if trial.round == number] for number in range(num_rounds)]


def sizes(rounds):
    return [(trials[0].amount, len(trials)) for trials in rounds]


@pytest.mark.parametrize(("least", "most", "amounts"), [
    (1, 9, [1, 3, 9]), (7, 201, [7, 22, 67, 201]), (2, 20, [2, 6, 20]), (1, 100, [1, 3, 11, 33, 100]), (4, 17, [4, 17]),
    (2, 5, [2, 5])
])  # fmt: skip
def test_rungs_lie_about_eta_apart_and_each_drops_its_share_of_the_points(least, most, amounts):
    settings = make("successive_halving", min_amount=least, max_amount=most).settings
    halvings = settings.num_halvings
    assert (settings.amounts(halvings), settings.first_points(halvings)) == (amounts, 3 ** (len(amounts) - 1))
    assert settings.survivors(halvings, halvings) == 1


@pytest.mark.parametrize(("settings", "expected"), [
    ({}, [(1, 9), (3, 3), (9, 1)] * 2), ({"points": 7, "keep": 2}, [(1, 7), (9, 2), (1, 7), (9, 2)])
])  # fmt: skip
def test_the_best_few_of_each_rung_go_on_from_where_they_stopped(settings, expected):
    rounds = played("successive_halving", len(expected), max_amount=9, **settings)
    assert sizes(rounds) == expected
    for before, after in itertools.pairwise(rounds):
        best = sorted(before, key=lambda trial: -trial.score)[: len(after)]
        goes_on = after[0].amount > before[0].amount
        expected = [(trial.number, trial.amount) if goes_on else (None, 0) for trial in best]
        assert [(trial.continues, trial.trained) for trial in after][: len(best)] == expected


def test_keeping_as_many_as_there_are_points_is_refused():
    with pytest.raises(ValueError, match="must be below the number of points"):
        make("successive_halving", max_amount=9, points=3, keep=3)


@pytest.mark.parametrize(("max_amount", "starts"), [
    (9, [(1, 9), (3, 5), (9, 3)]), (10, [(1, 9), (3, 5), (10, 3)]), (15, [(1, 9), (5, 5), (15, 3)])
])  # fmt: skip
def test_hyperbands_brackets_take_turns_whatever_the_largest_amount(max_amount, starts):
    rounds = played("hyperband", 14, max_amount=max_amount)
    assert sizes(trials for trials in rounds if trials[0].trained == 0)[:4] == [*starts, starts[0]]


def asha(**changes):
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


THREE, NINE = {0.1: 5.0, 0.2: 3.0, 0.3: 4.0}, {n / 10: float(n) for n in range(1, 9)} | {0.9: None}
AGREE, DIFFER = {0.1: 0.1, 0.2: 0.2, 0.3: 0.3}, {0.1: 0.3, 0.2: 0.2, 0.3: 0.1}


@pytest.mark.parametrize(("rungs", "history", "expected"), [
    # The best third goes on as soon as it is known, once; failures count and never go on.
    ("fixed", on((1, THREE)), (0.2, 3, 1, 1)), ("fixed", on((1, THREE), (3, {0.2: 2.0})), None),
    ("fixed", on((1, dict.fromkeys(THREE))), None),
    # The top rung opens only where the ranking changed.
    ("fixed", on((1, NINE), (3, AGREE)), (0.1, 9, 9, 3)), ("progressive", on((1, NINE), (3, AGREE)), None),
    ("progressive", on((1, NINE), (3, DIFFER)), (0.3, 9, 11, 3))
])  # fmt: skip
def test_worked_examples(rungs, history, expected):
    found = proposed(asha(rungs=rungs), history)
    assert found == expected if expected else found[1:] == (1, None, 0)


def curves(amount, *curves, first=0):
    """Return trials whose loss is x / place, reported at every so manieth place up to an end."""
    trials = []
    for number, (x, every, end) in enumerate(curves, first):
        curve = [{"epoch": place, "loss": x / place} for place in range(every, end + 1, every)]
        trials.append(ended(number, {"x": x}, curve[-1]["loss"], curve=curve, amount=amount))
    return trials


@pytest.mark.parametrize(("known", "expected"), [
    (curves(7, (0.9, 3, 7), (0.8, 1, 7), (0.7, 2, 7)), (0.7, 21, 2, 7)),
    (curves(7, (0.9, 3, 7), (0.8, 1, 7), (0.1, 5, 7)), None),
    # Those that ended by themselves have the same places, and count as they are.
    (curves(7, (0.9, 1, 7), (0.1, 1, 3), (0.7, 1, 7)), (0.1, 21, 1, 7)),
])  # fmt: skip
def test_trainings_that_report_at_different_places_compare_at_the_last_that_all_have(known, expected):
    found = proposed(asha(min_amount=7, max_amount=63), History(known))
    assert found == expected if expected else found[1:] == (7, None, 0)


def test_who_was_continued_stays_so_where_places_begin_to_differ():
    known, strategy = curves(6, (0.3, 1, 6), (0.2, 1, 6), (0.1, 1, 6)), asha(min_amount=6, max_amount=54)
    assert proposed(strategy, History(known)) == (0.1, 18, 2, 6)
    further = ended(3, {"x": 0.1}, 0.1 / 18, amount=18, continues=2, trained=6)
    others = curves(6, (0.05, 2, 6), (0.4, 2, 6), (0.5, 2, 6), first=4)
    assert proposed(strategy, History([*known, further, *others])) == (0.05, 18, 4, 6)
    odd, strategy = curves(6, (0.4, 7, 7), first=4), asha(min_amount=6, max_amount=54, rungs="progressive")
    assert proposed(strategy, History([*known, further, *odd]))[1:] == (6, None, 0)


LIMITED = Goal(LOSS.metrics, (Limit("size", 0.6),))


def in_order(rung):
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
    rng, strategy, known, pending = random.Random(seed), asha(max_amount=eta**3, eta=eta), History(), []
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
