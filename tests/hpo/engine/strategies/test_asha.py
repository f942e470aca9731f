"""Asynchronous successive halving: who is trained further, and when; against the rungs of a written-out search."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpo.engine.schedule.rules import Rules
from hpo.engine.strategies import make_strategy
from hpo.testing.simulated_tasks import World, run
from hpo.trials.fronts import best_first
from hpo.trials.goal import Goal, Limit, finished
from hpo.trials.history import History
from hpo.trials.space.reader import space_from_dict
from hpo.trials.space.space import point_key
from hpo.trials.trial import Outcome, Trial
from tests.studies import shipped

FIELDS = "amount", "continues", "trained"
SPACE = space_from_dict({"x": {"low": 0.0, "high": 1.0}})
ONE, TWO = {"s": "minimize"}, {"s": "minimize", "size": "minimize"}
LIMITS = (Limit("size", 0.6),)
GOALS = {"one": Goal(ONE), "limited": Goal(ONE, LIMITS), "two": Goal(TWO), "two limited": Goal(TWO, LIMITS)}


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
            trials.append(finished(trial, {0: outcome}, Goal({"s": "minimize"})))
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


def curve_of(x, every, end, number, **amounts):
    """A trial whose loss is x / place, reported at every so manieth place."""
    places = range(every, end + 1, every)
    curve = [{"epoch": place, "s": x / place} for place in places]
    return finished(
        Trial(number, number, {"x": x}, **amounts), {0: Outcome({"s": x / places[-1]}, curve)}, Goal({"s": "minimize"})
    )


def test_trainings_that_report_at_different_places_compare_at_the_last_that_all_have():
    strategy = make(min_amount=7, max_amount=63)
    # By its last report the second would be the best; at place 6, which all have, the third is.
    known = [curve_of(0.9, 3, 7, 0, amount=7), curve_of(0.8, 1, 7, 1, amount=7), curve_of(0.7, 2, 7, 2, amount=7)]
    assert min(known, key=lambda trial: trial.loss).number == 1
    assert proposed(strategy, History(known)) == (0.7, 21, 2, 7)
    # One without a place in common: nothing is concluded.
    odd = [*known[:2], curve_of(0.1, 5, 7, 2, amount=7)]
    assert proposed(strategy, History(odd))[1:] == (7, None, 0)
    # Those that ended by themselves have the same places, and count as they are.
    ended = [curve_of(0.9, 1, 7, 0, amount=7), curve_of(0.1, 1, 3, 1, amount=7), curve_of(0.7, 1, 7, 2, amount=7)]
    assert proposed(strategy, History(ended)) == (0.1, 21, 1, 7)


def test_who_was_continued_stays_so_where_places_begin_to_differ():
    strategy = make(min_amount=6, max_amount=54)
    known = [curve_of(x, 1, 6, number, amount=6) for number, x in enumerate((0.3, 0.2, 0.1))]
    assert proposed(strategy, History(known)) == (0.1, 18, 2, 6)
    further = curve_of(0.1, 1, 18, 3, amount=18, continues=2, trained=6)
    more = [curve_of(x, 2, 6, number, amount=6) for number, x in ((4, 0.05), (5, 0.4), (6, 0.5))]
    assert proposed(strategy, History([*known, further, *more])) == (0.05, 18, 4, 6)


def test_rungs_that_open_by_the_noise_of_one_metric_are_refused_with_several():
    assert make().refuses_several is None
    assert "strategy.rungs=fixed" in make(rungs="progressive").refuses_several


def test_with_several_metrics_the_first_fronts_go_on_within_the_limits_first():
    """On the front are 0.1, which adds most, and 0.2; 0.6 dominates both, beyond the limit."""
    values = {0.1: (1.0, 3.0), 0.2: (3.0, 2.5), 0.3: (4.0, 4.0), 0.4: (2.0, 5.0), 0.5: (5.0, 3.0), 0.6: (0.0, 0.0)}
    goal = Goal(TWO, (Limit("speed", 1.0, is_least=True),))

    def ended(number, x, speed):
        outcome = Outcome({"s": values[x][0], "size": values[x][1], "speed": speed})
        return finished(Trial(number, number, {"x": x}, amount=1), {0: outcome}, goal)

    known = History(ended(number, x, 0.9 if x == 0.6 else 1.0) for number, x in enumerate(values))
    assert proposed(make(), known) == (0.1, 3, 0, 1)
    pending = [Trial(6, 6, {"x": 0.1}, amount=3, continues=0, trained=1)]
    assert proposed(make(), known, pending) == (0.2, 3, 1, 1)
    exceeding = History(
        ended(number, x, speed) for number, (x, speed) in enumerate([(0.1, 0.3), (0.5, 0.9), (0.2, 0.5)])
    )
    assert proposed(make(), exceeding) == (0.5, 3, 1, 1)


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


@pytest.mark.slow
@pytest.mark.parametrize("rungs", ["fixed", "progressive"])
@given(seed=st.integers(0, 99), slots=st.integers(1, 6), order=st.integers(0, 99))
def test_every_continuation_was_among_the_best_when_it_was_proposed(rungs, seed, slots, order):
    def rules(tasks_of, cost_of):
        return Rules(strategy=make(rungs=rungs), tasks_of=tasks_of, cost_of=cost_of, lanes=3)

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


def in_order(rung):
    """Return the trials of a rung, the best first: by fronts within the limits, then of least excess, failures last."""
    by_one = sorted(rung, key=lambda trial: (trial.state != "complete", trial.excess, trial.loss, trial.number))
    kept = sorted((trial for trial in rung if trial.keeps_limits), key=lambda trial: trial.number)
    if not any(trial.other_losses for trial in kept):
        return by_one
    order = best_first(np.array([trial.losses for trial in kept]))
    return [*(kept[place] for place in order), *(trial for trial in by_one if not trial.keeps_limits)]


def written_out(settings, known, pending):
    """Return the number of the trial that goes on, None = a new point; by the whole of what is known."""
    amounts = settings.amounts(settings.num_halvings)
    rungs = [[trial for trial in known if trial.amount == amount] for amount in amounts]
    taken = {trial.continues for trial in (*known, *pending)}
    top = len(amounts) - 1 if settings.rungs == "fixed" else open_rung(rungs)
    for rung in reversed(rungs[:top]):
        for trial in in_order(rung)[: len(rung) // settings.eta]:
            if trial.number not in taken and trial.state == "complete":
                return trial.number
    return None


def open_rung(rungs):
    """Return the highest open rung of PASHA with soft ranking."""
    reached = max(1, sum(map(bool, rungs)) - 1)
    losses = [{trial.key: trial.loss for trial in rung if trial.state == "complete"} for rung in rungs[: reached + 1]]
    noises = [0.0]
    for one, other in itertools.combinations(losses[-1], 2):
        signs = [rung[one] < rung[other] for rung in losses if rung[one] != rung[other]]
        if len(list(itertools.groupby(signs))) > 2:
            noises.append(abs(losses[-1][one] - losses[-1][other]))
    noises = sorted(noises[1:]) or noises
    noise = noises[int(0.9 * (len(noises) - 1))]
    there, before = (sorted(losses[-1], key=losses[place].get) for place in (-1, -2))
    differs = any(abs(losses[-2][a] - losses[-2][b]) > noise for a, b in zip(there, before, strict=True))
    return min(reached + differs, len(rungs) - 1)


@pytest.mark.slow
@pytest.mark.parametrize(("rungs", "goal"), [("progressive", "one"), *(("fixed", goal) for goal in GOALS)])
@settings(max_examples=20)
@given(seed=st.integers(0, 9999), noise=st.sampled_from([0.0, 0.1, 1.0]), eta=st.integers(2, 3))
def test_a_strategy_that_reads_only_what_is_new_goes_on_as_one_that_reads_everything(rungs, goal, seed, noise, eta):
    """Trials end in any order, some fail; now and then the strategy is asked from an earlier history again."""
    rng = random.Random(seed)
    changes = {"rungs": rungs, "max_amount": eta**3, "eta": eta}
    strategy = make(**changes)
    known, pending, earlier = History(), [], []
    for number in range(60):
        if earlier and rng.random() < 0.1:
            asked = rng.choice(earlier)
            assert strategy.propose(*asked) == make(**changes).propose(*asked)
        (proposal,) = strategy.propose(known, pending)
        assert proposal.continues == written_out(strategy.settings, known, pending)
        earlier.append((known, tuple(pending)))
        fields = proposal.amount, proposal.continues, proposal.trained
        pending.append(Trial(number, number, proposal.point, **dict(zip(FIELDS, fields, strict=True))))
        while pending and rng.random() < 0.6:
            trial = pending.pop(rng.randrange(len(pending)))
            of_point = random.Random(point_key(trial.point))
            loss, size = of_point.random() + noise * rng.random(), of_point.random()
            values = {"s": round(loss, 2), "size": round(size, 1)}
            outcome = Outcome(error="x") if rng.random() < 0.1 else Outcome(values)
            known = known.extended([finished(trial, {0: outcome}, GOALS[goal])])
