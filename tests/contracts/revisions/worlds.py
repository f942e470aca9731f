"""An objective and a strategy of the tests' own, by which searches are simulated. Importable in a worker."""

import hashlib
import json
import math

import numpy as np
from toy_data import describe_data

from hpo.engine.strategies.strategy import Settings as StrategySettings
from hpo.engine.strategies.strategy import generator
from hpo.trials.space.dimensions import Range
from hpo.trials.space.space import point_key
from hpo.trials.trial import Proposal

__all__ = ["describe_cost", "describe_data", "seeded", "smooth"]
CONTINUES = True
FULL = 4
_ONE_IN = 13  # points that fail


def _number(toy, *more):
    """Return a whole number that depends on every value but fractions, which libraries may round in another way."""
    plain = {key: value for key, value in toy.items() if not isinstance(value, float)}
    return int(hashlib.sha256(json.dumps([plain, *more], sort_keys=True).encode()).hexdigest()[:8], 16)


def _value(toy):
    value = sum(math.log10(number) ** 2 / 10 for number in (toy["lr"], toy["momentum"] or 1.0))
    for key, best in (("layers", 3), ("width", 30)):
        size = toy[key] if isinstance(toy[key], int) else 1
        value += abs(size - best) / best
    return -value + _number(toy) % 100 / 100


def smooth(task):
    """Return a score that depends on every value, and no seed; some points fail, some stop by themselves."""
    toy = task["config"]["toy"]
    number, value, last = _number(toy), _value(toy), task["amount"] or FULL
    parts = (sum(task[name] or ()) % 97 for name in ("train", "validation"))
    value += sum(parts) / 1000 + task["fold"] / 10 + task["repeat"] / 20
    for epoch in range(task["trained"] + 1, last + 1):
        if number % _ONE_IN == 0:
            raise RuntimeError("this point cannot be trained")
        yield {"epoch": epoch, "score": value - 1 / epoch, "more": epoch < last}
    results = {"score": value - 1 / last, "size": float(number % 7), "latency": abs(value) * (1 + number % 3)}
    return results | {"seconds": float(1 + number % 5)}


def seeded(task):
    results = yield from smooth(task)
    return results | {"score": results["score"] + task["seed"] % 1000 / 1000}


def describe_cost(config):
    width = config["toy"]["width"]
    return 1.0 + (width if isinstance(width, int) else 4) / 16


class Scripted:
    """Proposes by draws and by what is known, so that no change of another strategy changes its trials."""

    learns, announcement = "by_trial", "a strategy of the tests"

    class Settings(StrategySettings):
        amounts: bool = False

    def __init__(self, settings, space, seed):
        self.settings, self.space, self.seed = settings, space, seed

    def propose(self, known, pending):
        rng, trials = generator(self.seed, known, pending), [*known, *pending]
        taken = {(trial.key, trial.amount) for trial in trials}
        complete = sorted((trial.loss, trial.number) for trial in known if trial.state == "complete")
        if self.settings.amounts and complete and len(trials) % 3 == 0:
            best = next(trial for trial in known if trial.number == complete[0][1])
            if best.amount < FULL and (best.key, FULL) not in taken:
                return [Proposal(best.point, FULL, best.number, best.amount)]
        amount = 1 if self.settings.amounts else None
        # The better what is known, the sooner another draw is taken.
        skipped = int(1000 * abs(complete[0][0])) % 3 if complete else 0
        for _ in range(200):
            point = self._draw(rng)
            trial = Proposal(point, amount)
            if (point_key(point), amount) in taken or not self.space.contains(point):
                continue
            if skipped == 0:
                return [trial if amount else point]
            skipped -= 1
        return []

    def _draw(self, rng):
        point = {}
        for dimension in self.space.dimensions:
            if not self.space.active(dimension, point):
                continue
            share = float(rng.random())
            if not isinstance(dimension, Range):
                point[dimension.key] = dimension.values[int(share * len(dimension.values))]
            elif dimension.integer:
                point[dimension.key] = int(dimension.low + share * (dimension.high - dimension.low))
            else:
                point[dimension.key] = float(np.round(dimension.low + share * (dimension.high - dimension.low), 9))
        return point
