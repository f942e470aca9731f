"""Trials that nobody trained, and what figures are drawn from, for tests."""

import json
import math
import random

from hpo.config.goals import SCALE
from hpo.report.figures import Subject
from hpo.report.transfer import ScaleResults
from hpo.trials.goal import Goal, finished
from hpo.trials.space.reader import space_from_dict
from hpo.trials.trial import Outcome, TaskLayout, Trial
from tests.studies import SPACES, report_again, run_toy

LR = {"low": 1e-5, "high": 1.0, "log": True}
KEYS = {"lr": LR, "layers": [1, 2, 3, 4], "optimizer": {"choices": ["adamw", "sgd"]}}
SPACE = space_from_dict(KEYS | {"momentum": {"values": [0.0, 0.9], "when": {"optimizer": ["sgd"]}}})
TOY_SPACE = {"toy": SPACES["mixed"]["toy"] | {"lr": {"low": 1e-4, "high": 1e-1, "log": True}}}


def point(number):
    made = {"lr": 10.0 ** -(number % 6), "layers": 1 + number % 4, "optimizer": ["adamw", "sgd"][number % 2]}
    return made | ({"momentum": [0.0, 0.9][number // 2 % 2]} if number % 2 else {})


def trial(number, scores, at=None, direction="maximize", state=None, curve=(), seconds=2.0, worker=7, **changes):
    """Return a finished trial whose tasks scored so, one after the other, three seconds apart.

    A score of None is a task that failed. `curve` holds one list of values a task.
    """
    curves = [[{"epoch": k, "score": v} for k, v in enumerate(values, start=1)] for values in curve]
    outcomes = {}
    for index, score in enumerate(scores):
        ran = {"seconds": seconds, "started": 100.0 + 3 * (number * len(scores) + index), "worker": worker}
        ran |= {"curve": curves[index] if curves else (), "error": "out of memory" if score is None else None}
        outcomes[index] = Outcome({} if score is None else {"score": score}, **ran)
    made = Trial(number, number // 5, point(number) if at is None else at, outcomes, **changes)
    return finished(made, outcomes, Goal({"score": direction}), is_stopped=state == "stopped")


def scored(count, seed=0, folds=1, **changes):
    rng = random.Random(seed)
    return [trial(k, [rng.uniform(0.5, 0.9) for _ in range(folds)], **changes) for k in range(count)]


def of_several(count, goal, seed=0, folds=1, amount=None):
    """Return trials with a number from 0 to 1 of each of the goal's names on every fold; every seventh failed."""
    rng = random.Random(seed)
    trials = []
    for number in range(count):
        middle = {name: rng.uniform(0.1, 0.9) for name in goal.names}
        ran = {"started": 100.0 + number, "worker": 1, "error": "out of memory" if number % 7 == 6 else None}
        metrics = [{name: value + rng.uniform(-0.1, 0.1) for name, value in middle.items()} for _ in range(folds)]
        outcomes = {fold: Outcome(values, **ran) for fold, values in enumerate(metrics)}
        trials.append(finished(Trial(number, 0, point(number), amount=amount), outcomes, goal))
    return trials


def subject(trials, winner=None, space=SPACE, direction="maximize", layout=None, strategy="random", goal=None, **rest):
    """Return what figures are drawn from; the winner is the best trial where none is given."""
    layout = layout or TaskLayout(folds=max((len(t.outcomes) for t in trials), default=1))
    best = min((t for t in trials if t.keeps_limits), key=lambda t: (t.loss, t.number), default=None)
    goal = goal or Goal({"score": direction})
    return Subject(space, goal, layout, strategy, trials, winner or best, **{"workers": 1} | rest)


def reported(folder, tree):
    """Run a study and write its report; return report.json, and the texts of report.md and report.html."""
    run_toy(folder, tree)
    report_again(folder, tree)
    report, text, page = ((folder / f"report.{kind}").read_text(encoding="utf-8") for kind in ("json", "md", "html"))
    return json.loads(report), text, page


COSTS = (1.0, 4.0, 16.0, 64.0)


def climbed(factor, counts=(24, 12, 8, 6), seed=0, exponent=0.1, direction="minimize"):
    """Return what figures are drawn from: the best rate moves by a factor with each doubling of cost."""
    rng, goal, trials = random.Random(seed), Goal({"score": direction}, target=len(counts)), []
    space = {"lr": LR, "dropout": {"low": 0.0, "high": 0.5}}
    space |= {"layers": [1, 2, 3, 4], "act": {"choices": ["gelu", "relu"]}}
    space |= {"study": {"scale": {"values": list(range(1, len(counts) + 1)), "default": 1}}}
    for scale, (count, cost) in enumerate(zip(counts, COSTS, strict=False), start=1):
        best = 0.01 * factor ** math.log2(cost)
        for place in range(count):
            # The first one is the best there is.
            lr = best * (10 ** rng.uniform(-1.5, 1.5) if place else 1)
            at = {"lr": min(max(lr, 1e-5), 1.0), "dropout": rng.uniform(0, 0.5) if place else 0.1}
            at |= {"layers": rng.choice([1, 2, 3, 4]) if place else 3, "act": rng.choice(["gelu", "relu"])}
            away = 0.2 * math.log10(lr / best) ** 2 + 4 * (at["dropout"] - 0.1) ** 2 + 0.1 * (at["layers"] - 3) ** 2
            loss = 3 * cost**-exponent + away + 0.001 * rng.random()
            score = loss if direction == "minimize" else -loss
            ran = {0: Outcome({"score": score}, seconds=cost, started=10.0 * len(trials), worker=1)}
            trials.append(finished(Trial(len(trials), 0, at | {SCALE: scale}, cost=cost), ran, goal))
    space, at_target = space_from_dict(space), [trial for trial in trials if trial.scale == len(counts)]
    scale_results = ScaleResults(space, [{"width": 2**k} for k in range(len(counts))], trials, COSTS[: len(counts)])
    winner = min(at_target, key=lambda trial: trial.loss, default=None)
    return Subject(space, goal, TaskLayout(), "ladder", trials, winner, workers=1, scale_results=scale_results)
