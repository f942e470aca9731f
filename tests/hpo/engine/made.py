"""Finished trials, histories and rules of a search, for tests of the engine."""

from hpo.engine.schedule.rules import Rules
from hpo.trials.goal import Goal, finished
from hpo.trials.history import History
from hpo.trials.trial import Outcome

LOSS = Goal({"loss": "minimize"})


def ended(number, point, value, goal=LOSS, curve=(), **fields):
    """Return a trial with one outcome: a value of the leading metric, values by name, or None for a failure."""
    values = value if isinstance(value, dict) else {goal.metric: value}
    outcome = Outcome(error="failed") if value is None else Outcome(values, list(curve))
    return finished(goal.trial(number, fields.pop("round", 0), point, **fields), {0: outcome}, goal)


def history_of(points, values, goal=LOSS):
    return History(ended(n, point, value, goal) for n, (point, value) in enumerate(zip(points, values, strict=True)))


def rules_of(strategy, lanes=3, **more):
    return lambda tasks_of, cost_of: Rules(strategy=strategy, tasks_of=tasks_of, cost_of=cost_of, lanes=lanes, **more)
