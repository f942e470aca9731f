"""Trials that nobody trained, and what figures are drawn from, for tests."""

import random

from hpo.report.figures import Subject
from hpo.trials.goal import Goal, finished
from hpo.trials.space.reader import space_from_dict
from hpo.trials.trial import Outcome, TaskLayout, Trial

SPACE = space_from_dict(
    {
        "lr": {"low": 1e-5, "high": 1.0, "log": True},
        "layers": [1, 2, 3, 4],
        "optimizer": {"choices": ["adamw", "sgd"]},
        "momentum": {"values": [0.0, 0.9], "when": {"optimizer": ["sgd"]}},
    }
)
# Of the toy objective.
TOY_SPACE = {
    "toy": {
        "layers": [1, 2, 3, 4, 5],
        "width": [8, 16, 32, 64],
        "lr": {"low": 1e-4, "high": 1e-1, "log": True},
        "nonlinearity": {"choices": ["relu", "gelu", "tanh"]},
    }
}


def point(number):
    """Return the point of a trial: all values in turns."""
    made = {"lr": 10.0 ** -(number % 6), "layers": 1 + number % 4, "optimizer": ["adamw", "sgd"][number % 2]}
    return made | ({"momentum": [0.0, 0.9][number // 2 % 2]} if number % 2 else {})


def trial(number, scores, at=None, direction="maximize", state=None, curve=(), seconds=2.0, worker=7, **changes):
    """Return a finished trial whose tasks scored so, one after the other, three seconds apart.

    A score of None is a task that failed. `curve` holds one list of values a task.
    """
    curves = [[{"epoch": k, "score": v} for k, v in enumerate(values, start=1)] for values in curve] or [()] * len(
        scores
    )
    outcomes = {
        index: Outcome(
            {} if score is None else {"score": score},
            curves[index],
            seconds,
            "out of memory" if score is None else None,
            started=100.0 + 3 * (number * len(scores) + index),
            worker=worker,
        )
        for index, score in enumerate(scores)
    }
    made = Trial(number, number // 5, point(number) if at is None else at, outcomes, **changes)
    return finished(made, outcomes, Goal({"score": direction}), is_stopped=state == "stopped")


def scored(count, seed=0, folds=1, **changes):
    """Return trials with scores from 0.5 to 0.9."""
    rng = random.Random(seed)
    return [trial(k, [rng.uniform(0.5, 0.9) for _ in range(folds)], **changes) for k in range(count)]


def of_several(count, goal, seed=0, folds=1, amount=None):
    """Return trials with a number from 0 to 1 of each of the goal's names on every fold; every seventh failed."""
    rng = random.Random(seed)
    trials = []
    for number in range(count):
        middle = {name: rng.uniform(0.1, 0.9) for name in goal.names}
        outcomes = {
            fold: Outcome(
                {name: value + rng.uniform(-0.1, 0.1) for name, value in middle.items()},
                started=100.0 + number,
                worker=1,
                error="out of memory" if number % 7 == 6 else None,
            )
            for fold in range(folds)
        }
        trials.append(finished(Trial(number, 0, point(number), amount=amount), outcomes, goal))
    return trials


def subject(
    trials, winner=None, space=SPACE, direction="maximize", layout=None, strategy="random", workers=1, goal=None
):
    """Return what figures are drawn from; the winner is the best trial where none is given."""
    layout = layout or TaskLayout(folds=max((len(t.outcomes) for t in trials), default=1))
    kept = [t for t in trials if t.keeps_limits]
    best = min(kept, key=lambda t: (t.loss, t.number), default=None)
    goal = goal or Goal({"score": direction})
    return Subject(space, goal, layout, strategy, trials, winner or best, workers=workers)
