"""References of what is under a REVISION, and how they are compared; `__main__.py` writes them."""

import importlib.metadata
import json
import math
from functools import partial
from pathlib import Path

from hpo.engine import loop
from hpo.engine.strategies import STRATEGIES
from hpo.objectives import command, outside, table
from model import objective
from tests.contracts.revisions import bundled, searches, trainings

PATH = Path(__file__).with_name("references.json")
# Of sums of fractions, and of what single precision has computed on another processor.
_ROUNDING, _OF_TRAININGS = 1e-6, 1e-3
_OF_LOSS = ("loss", "train_loss", "perplexity", "gradient_norm", "learning_rate", "epoch", "step", "units")


def revisions():
    parts = {"the search": loop.REVISION, "model": objective.REVISION}
    parts |= {module.__name__: module.REVISION for module in (table, command, outside)}
    return parts | {name: kind.REVISION for name, (_, kind) in STRATEGIES.items()}


def key_of(part):
    """Return under which numbers the reference of a part is kept: of a strategy also that of the search."""
    number = revisions()[part]
    return f"{revisions()['the search']}, {number}" if part in STRATEGIES else str(number)


def cases(part):
    if part == "model":
        return {name: partial(trainings.run, made) for name, made in trainings.all_cases().items()}
    if part in bundled.cases():
        return {name: partial(bundled.run, made) for name, made in bundled.cases()[part].items()}
    trees = searches.of_the_search() if part == "the search" else searches.by_strategy()[part]
    return {name: partial(_searched, tree) for name, tree in trees.items()}


def _searched(tree):
    return searches.summary(searches.rows(*searches.run(tree)))


def found(part):
    return {name: run() for name, run in cases(part).items()}


def versions_of(part):
    """Return the versions of the libraries that make a strategy; none for what is the toolkit's own."""
    return {name: importlib.metadata.version(name) for name in searches.LIBRARYS.get(part, ())}


def differences(part, expected, now):
    """Return a line for each case that is not as expected, with the first trials, or the number, that differ."""
    lines = [f"{name}: is no case any more" for name in expected if name not in now]
    for name, made in now.items():
        if name not in expected:
            lines.append(f"{name}: has no reference")
        elif part == "model":
            lines += [f"{name}: {line}" for line in _of_training(expected[name], json.loads(json.dumps(made)))][:1]
        elif part in bundled.cases():
            lines += [f"{name}: was {expected[name]}, is {made}"] if expected[name] != made else []
        else:
            lines += [f"{name}: {line}" for line in _of_search(expected[name], json.loads(json.dumps(made)))][:1]
    return lines


def _of_search(before, now):
    for place in range(max(len(before), len(now))):
        old, new = (blocks[place] if place < len(blocks) else None for blocks in (before, now))
        is_same = old and new and old["exact"] == new["exact"] and old["sums"].keys() == new["sums"].keys()
        if not is_same or not all(
            math.isclose(old["sums"][key], new["sums"][key], rel_tol=_ROUNDING, abs_tol=1e-9) for key in old["sums"]
        ):
            yield f"trials {place * searches.BLOCK} to {(place + 1) * searches.BLOCK - 1} are others"


def _of_training(before, now):
    pairs = [("the result", before["result"], now["result"]), ("the cost", before["cost"], now["cost"])]
    pairs += [(f"point {place}", *pair) for place, pair in enumerate(zip(before["curve"], now["curve"], strict=False))]
    if len(before["curve"]) != len(now["curve"]):
        yield f"its curve had {len(before['curve'])} points, has {len(now['curve'])}"
    is_exact = all(old.get(name) == new.get(name) for _, old, new in pairs for name in _OF_LOSS)
    for where, old, new in pairs:
        for name in {**old, **new}:
            was, has = old.get(name), new.get(name)
            if was == has or (not is_exact and name not in _OF_LOSS):
                continue
            if was is None or has is None or not math.isclose(was, has, rel_tol=_OF_TRAININGS, abs_tol=1e-6):
                yield f"{name} of {where} was {was}, is {has}"


def read():
    return json.loads(PATH.read_text()) if PATH.exists() else {}
