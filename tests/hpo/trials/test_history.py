"""The history: a value that strategies rank and search, and that grows without being copied."""

import math

from hypothesis import given
from hypothesis import strategies as st

from hpo.trials.history import History
from hpo.trials.trial import Trial

LOSSES = st.lists(st.floats(-5, 5) | st.just(math.inf), max_size=12)


def trials(losses, first=0):
    return [
        Trial(first + i, 0, {"x": (first + i) // 2}, state="complete" if math.isfinite(v) else "failed", loss=v)
        for i, v in enumerate(losses)
    ]


@given(LOSSES, LOSSES, LOSSES)
def test_a_history_never_changes_and_one_that_was_extended_is_as_one_made_at_once(first, second, other):
    history = History(trials(first))
    longer = history.extended(trials(second, len(first)))
    branch = history.extended(trials(other, len(first)))
    for made, values in ((history, first), (longer, [*first, *second]), (branch, [*first, *other])):
        anew = History(trials(values))
        assert list(made) == list(anew) == trials(values)
        assert made.ranked() == anew.ranked() == sorted(trials(values), key=lambda t: (t.loss, t.number))
        assert made.ranked(3) == anew.ranked()[:3]
        assert (set(made.keys), len(made.keys)) == (set(anew.keys), len({t.key for t in made}))
        assert made.best() == anew.best()
        assert [made[i] for i in range(len(made))] == list(made)
        assert list(made[1:]) == list(made)[1:]
    assert longer.since(history) == trials(second, len(first))
    assert (history.since(longer) is None) == bool(second)
    assert longer.since(History(trials(first))) is None


def test_the_best_is_the_earlier_of_equals_and_never_a_failure():
    assert History(trials([math.inf, 2.0, 1.0, 1.0])).best().number == 2
    assert History(trials([math.inf])).best() is None


def test_trials_that_were_trained_for_less_do_not_compete():
    short = Trial(0, 0, {"x": 0}, state="complete", loss=0.0, amount=1)
    long = Trial(1, 1, {"x": 0}, state="complete", loss=1.0, amount=3)
    assert History([short, long]).best() is long
    assert History([short, long]).leaders(5) == [long, short]
