"""Callbacks steer a search: the same calls, and so the same trials, for any number of workers and after any crash."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpo.engine.loop import is_over
from hpo.engine.strategies import make_strategy
from hpo.engine.strategies.drawing.draws import draw_untried
from hpo.testing.simulated_tasks import World, empty_record, facts, run
from hpo.trials.record.user_actions import Add, End, UserAction
from hpo.trials.space.reader import space_from_dict
from tests.hpo.engine.made import rules_of
from tests.studies import STRATEGIES

SPACE = space_from_dict({"x": {"low": 0.0, "high": 1.0}, "y": {"low": 0.0, "high": 1.0}})
POINTS, TRIALS = draw_untried(SPACE, np.random.default_rng(1), (), 4), 30


class Steered:
    """A search with a callback that adds points, retries what failed, and ends it with trial `last`."""

    def __init__(self, world, name, last=None):
        self.world, self.last = world, last
        self.rules = rules_of(make_strategy(STRATEGIES[name], SPACE, 0), is_watched=True)
        self.record, self.calls = empty_record(world), []

    def run(self, budget=TRIALS, slots=1, order=0, dies_after=None):
        run(self.world, self.rules, budget, slots, order, self.record, dies_after=dies_after, callback=self.call)
        return self

    def call(self, trial, obey):
        self.calls.append(trial.number)
        retried = {given.retry_of for given in self.record.added}
        if trial.state == "failed" and trial.number not in retried and trial.retry_of is None:
            obey(UserAction(Add(trial.point, trial.number)))
        number, rest = divmod(trial.number, 4)
        if rest == 0 and number < len(POINTS) and POINTS[number] not in [given.point for given in self.record.added]:
            obey(UserAction(Add(POINTS[number])))
        if trial.number == self.last:
            obey(UserAction(End()))

    def is_over(self, budget=TRIALS):
        return is_over(self.rules(lambda _: (), self.world.cost_of), self.record, budget)


@pytest.mark.parametrize("name", ["random", "evolutionary", "asha"])
@settings(max_examples=8)
@given(
    seed=st.integers(0, 99), slots=st.integers(1, 5), order=st.integers(0, 99), dies_after=st.integers(0, 60),
    last=st.sampled_from([5, 12, None]),
)  # fmt: skip
def test_what_callbacks_do_makes_the_same_trials(name, seed, slots, order, dies_after, last):
    world = World(seed, failing=0.2)
    alone = Steered(world, name, last).run()
    disturbed = Steered(world, name, last).run(TRIALS, slots, order, dies_after)
    disturbed.run(TRIALS, slots, order + 1)
    assert facts(disturbed.record) == facts(alone.record)
    assert list(dict.fromkeys(disturbed.calls)) == alone.calls, "in the order of the clock"
    assert len(disturbed.calls) <= len(alone.calls) + 1, "only the call during which it was killed is repeated"
    assert (alone.record.ended.by == "callback") == (last is not None)
    assert alone.is_over()
    calls = [*disturbed.calls]
    assert disturbed.run(TRIALS, slots, order).calls == calls, "what has ended makes no calls"
    assert alone.is_over(TRIALS + 1) == (last is None and len(alone.record.trials()) < TRIALS)


def test_of_a_study_that_had_none_it_is_called_with_what_ends_from_then_on():
    steered = Steered(World(3), "evolutionary")
    run(steered.world, steered.rules, 6, 1, 0, steered.record)
    assert steered.run(9).calls == [trial.number for trial in steered.record.trials()[6:]]
