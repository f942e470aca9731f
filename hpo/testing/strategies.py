"""Checks the properties that every strategy must have, whether it belongs to the toolkit or to a user."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from hpo.config.goals import SCALE
from hpo.engine.schedule.proposer import propose
from hpo.engine.strategies import Strategy, find_strategy, make_strategy, type_of
from hpo.errors import HpoError, text_of
from hpo.testing.law import check_free_order, check_law, check_user_actions, draw_cases
from hpo.trials.goal import Goal, finished
from hpo.trials.history import History
from hpo.trials.space.reader import space_from_dict
from hpo.trials.space.space import Point, point_key
from hpo.trials.trial import Outcome, Trial

SPACES: Mapping[str, Mapping[str, Any]] = {
    "ordered": {"layers": [1, 2, 3, 4, 5], "width": [8, 16, 32, 64], "lr": [0.001, 0.01, 0.1]},
    "unordered": {"act": {"choices": ["relu", "gelu", "tanh"]}, "kind": {"choices": [4, 1, 9]}},
    "mixed": {"layers": [1, 2, 3, 4, 5], "act": {"choices": ["relu", "gelu", "tanh"]}},
    "continuous": {
        "lr": {"low": 1e-5, "high": 1.0, "log": True},
        "momentum": {"low": 0.0, "high": 0.99},
        "width": {"low": 4, "high": 64, "integer": True, "log": True},
    },
    "conditional": {
        "act": {"choices": ["relu", "tanh"]},
        "layers": {"values": [1, 2, 3, 4], "when": {"act": ["relu"]}},
        "width": {"values": [8, 16, 32], "when": {"layers": [3, 4]}},
    },
    "structured": {
        "layers": {"choices": [[64, 32], [128]]},
        "optimizer": {"choices": [{"name": "adam"}, "sgd", None]},
        "width": {"values": [8, 16, 32], "when": {"optimizer": [{"name": "adam"}]}},
    },
    "one point": {"layers": [3]},
}
"""Spaces by name, one for each kind of space."""

_MOST_PROPOSALS = 2_000  # the most calls of `propose` in a search of a whole space; larger spaces are not exhausted
_ONE_LOSS = Goal({"score": "minimize"})
_SEARCHES = 2  # number of whole searches on each space


def check_strategy(strategy: type | str | Mapping[str, Any], spaces: Mapping[str, Mapping[str, Any]] = SPACES) -> None:
    """Check that a strategy works in every kind of space, and that its trials do not depend on the workers.

    The checks:

    - The strategy's proposal depends only on the known and the pending trials, not on its earlier proposals.
    - All points are in the space. No point is proposed twice with the same amount of training, not even while other
      points are pending.
    - The strategy continues if some or all trials fail.
    - In a space of at most 2,000 points, the search tries every point, and then ends.
    - Different seeds give different points.
    - Whole searches have the same trials for any number of workers, and any order in which trials end. This also holds
      after a crash, with a raised budget, and with user actions.

    Args:
        strategy: the strategy class, whose settings must all have defaults; or its name, such as
            `"my_module:MyStrategy"`; or a mapping with `name` and settings, as in conf/strategy.
        spaces: the spaces in which to check the strategy, by name. Give only some of `SPACES` if the strategy does not
            support every kind of space.

    Raises:
        AssertionError: a check fails, or the strategy raises an error of any class except HpoError. The message names
            the space and the fault; the strategy's own AssertionError may pass unchanged.
        HpoError: the strategy raises it, or the strategy or its settings are not valid.
    """
    for name, tree in spaces.items():
        try:
            _check(partial(_make, strategy, tree), name)
            _check_searches(partial(_make, strategy, tree), name)
        except (AssertionError, HpoError):
            raise
        except Exception as error:
            # A user's own strategy may raise anything.
            raise AssertionError(f"{name}: the strategy raised {type(error).__name__}: {text_of(error)}") from error


def _make(strategy: type | str | Mapping[str, Any], tree: Mapping[str, Any], seed: int = 0) -> Strategy:
    space = space_from_dict(tree)
    if isinstance(strategy, type):
        return make_strategy({"name": strategy.__name__}, space, seed, type_of(strategy, strategy.__name__))
    return find_strategy({"name": strategy} if isinstance(strategy, str) else strategy, space, seed)


def play(
    strategy: Strategy,
    most: int,
    loss_of: Callable[[Point], float | Mapping[str, float] | None] = lambda point: float(len(point_key(point)) % 7),
    goal: Goal = _ONE_LOSS,
) -> History:
    """Call the strategy at most `most` times, and return the history of the proposed trials.

    All proposed trials end before the next call. `loss_of` returns the value of the metric at a point, or the values of
    several metrics by name; None = the trial fails.
    """
    history = History()
    for number in range(most):
        proposals = propose(strategy, history)
        if not proposals:
            break
        trials = []
        for place, proposal in enumerate(proposals, start=len(history)):
            loss = loss_of(proposal.point)
            outcome = Outcome(error="failed")
            if loss is not None:
                outcome = Outcome(loss if isinstance(loss, Mapping) else {goal.metric: loss})
            trial = Trial(
                place,
                number,
                proposal.point,
                amount=proposal.amount,
                continues=proposal.continues,
                trained=proposal.trained,
            )
            trials.append(finished(trial, {0: outcome}, goal))
        history = history.extended(trials)
    return history


def distinct(history: History) -> set[tuple[str, int | None]]:
    """Return all pairs (key of the point, amount) in a history; a valid history has no pair twice."""
    return {(trial.key, trial.amount) for trial in history}


def _check(make: Callable[..., Strategy], name: str) -> None:
    history = play(make(), 8)
    assert history, f"{name}: the strategy proposes nothing"
    space = make().space
    outside = [trial.point for trial in history if not space.contains(trial.point)]
    assert not outside, f"{name}: {outside[0]} is not in the space"
    assert len(distinct(history)) == len(history), f"{name}: the strategy proposes a point twice"
    for count in {len(history) // 2, len(history)}:
        known, pending = history.first(count), [trial.as_opened for trial in history[count:]]
        used, grown = make(), make()
        earlier = history.first(count // 2), [trial.as_opened for trial in history[count // 2 :]]
        before = propose(grown, *earlier)
        # Three strategies must agree: a new one, one that proposes twice, and one that got an earlier history first.
        makers = ((make(), History(known)), (used, History(known)), (used, History(known)), (grown, known))
        first, *others = (propose(one, trials, list(pending)) for one, trials in makers)
        for other in others:
            assert first == other, (
                f"{name}: for the same {count} trials, one call of the strategy proposes {first}, another call {other}"
            )
        again = propose(grown, *earlier)
        assert again == before, (
            f"{name}: for the same history the strategy proposes {before}, but {again} after a longer history"
        )
        taken = {(trial.key, trial.amount) for trial in history}
        twice = [each.point for each in first if (point_key(each.point), each.amount) in taken]
        assert not twice, f"{name}: the strategy proposes {twice[0]} again, while {len(pending)} trials are pending"
    for which, loss_of in _FAILING.items():
        failing = play(make(), 6, loss_of)
        assert failing, f"{name}: the strategy proposes nothing if {which} trials fail"
        assert len(distinct(failing)) == len(failing), (
            f"{name}: the strategy proposes a point twice if {which} trials fail"
        )
    is_small = space.size is not None and space.size <= _MOST_PROPOSALS
    if is_small:
        whole = play(make(), _MOST_PROPOSALS)
        left = make().propose(whole, [])
        assert not left, f"{name}: the strategy proposes {left}, although the space is exhausted"
        # In a space with scales, only the points at the last scale must be exhausted.
        target = max((trial.scale for trial in whole), default=0)
        size = sum(point.get(SCALE, 0) == target for point in space.points())
        tried = len({trial.key for trial in whole if trial.scale == target})
        assert tried == size, f"{name}: the strategy ends after {tried} of {size} points"
    if not is_small or size > 1:
        firsts = [[trial.point for trial in play(make(seed), 8)] for seed in range(4)]
        assert any(points != firsts[0] for points in firsts), f"{name}: the points do not depend on the seed"


def _check_searches(make: Callable[[], Strategy], name: str) -> None:
    for world, disturbed, lanes in draw_cases(_SEARCHES):
        try:
            check_law(make, world, disturbed, lanes)
            check_free_order(make, world, disturbed)
            check_user_actions(make, world, disturbed, lanes)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from None


_FAILING: Mapping[str, Callable[[Point], float | None]] = {
    "all": lambda _: None,
    "some": lambda point: None if len(point_key(point)) % 2 else 1.0,
}
