"""Which trials are drawn if there are too many to be visible: the best, and an even sample of the others."""

from collections.abc import Sequence
from typing import TypeVar

from hpo.engine.trials.trial import Trial

Item = TypeVar("Item")

_BEST = 0.2  # of what is drawn


def best_and_even(trials: Sequence[Trial], most: int) -> list[Trial]:
    """Return at most `most` of the trials, in their order: a fifth of these are the best, the others evenly spaced.

    The sample is not random, so equal studies have equal figures.
    """
    if len(trials) <= most:
        return list(trials)
    best = {t.number for t in sorted(trials, key=lambda t: (t.loss, t.number))[: round(_BEST * most)]}
    others = [t for t in trials if t.number not in best]
    even = {t.number for t in evenly(others, most - len(best))}
    return [t for t in trials if t.number in best or t.number in even]


def evenly(items: Sequence[Item], most: int) -> list[Item]:
    """Return at most `most` evenly spaced items, including the first and the last."""
    if len(items) <= most:
        return list(items)
    return [items[round(place * (len(items) - 1) / (most - 1))] for place in range(most)]


def sampled(drawn: int, there: int) -> str:
    """Return a sentence on the trials that were left out; empty if there are none."""
    if drawn == there:
        return ""
    return f" {drawn:,} of {there:,} are drawn: the best {round(_BEST * drawn):,} and an even sample of the others."
