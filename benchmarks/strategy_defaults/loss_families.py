"""Families of random losses on a grid, for synthetic tables. Lower is better."""

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpo.trials.space.dimensions import Dimension

Array = NDArray[np.float64]
Rng = np.random.Generator
Dimensions = tuple[Dimension, ...]


def interacting(cells: Any, dimensions: Dimensions, rng: Rng, noise: float, cliff: bool = True) -> Array:
    """Return losses: main effects (random walks along ordered values), some interactions, noise, a diverging corner."""
    count = len(cells)
    losses = np.zeros(count)
    for place, d in enumerate(dimensions):
        size = len(d.values)
        effect = np.cumsum(rng.normal(size=size)) if d.ordered else rng.normal(size=size)
        losses += ((effect - effect.mean()) * rng.gamma(1.0))[cells[:, place]]
    for i, j in itertools.combinations(range(len(dimensions)), 2):
        if rng.random() < 0.35:
            sizes = (len(dimensions[i].values), len(dimensions[j].values))
            losses += 0.4 * rng.normal(size=sizes)[cells[:, i], cells[:, j]]
    losses /= losses.std()
    losses += noise * rng.normal(size=count)
    if cliff:
        first = int(rng.integers(len(dimensions)))
        second = (first + 1) % len(dimensions)
        at_end = cells[:, first] == len(dimensions[first].values) - 1
        bad = at_end & (cells[:, second] >= len(dimensions[second].values) // 2) & (rng.random(count) < 0.6)
        losses[bad] += 4 + 2 * rng.random(bad.sum())
    return losses


def network(cells: Any, dimensions: Dimensions, rng: Rng, noise: float, is_heavy: bool = False) -> Array:
    """Return a random network of the values plus a quadratic with an inner optimum; `is_heavy`: with a long tail."""
    columns = []
    for place, d in enumerate(dimensions):
        if d.ordered:
            columns.append(cells[:, place] / (len(d.values) - 1))
        else:
            embedding = rng.normal(size=(len(d.values), 2)) * 0.5
            columns += [embedding[cells[:, place], 0], embedding[cells[:, place], 1]]
    inputs, width, gain = np.array(columns).T, 12, 2.0
    weights, biases = rng.normal(size=(inputs.shape[1], width)) * gain, rng.normal(size=width) * gain / 2
    losses = np.tanh(inputs @ weights + biases) @ rng.normal(size=width) / math.sqrt(width)
    importance = rng.gamma(0.7, 1.0, size=inputs.shape[1])
    quadratic = ((inputs - rng.random(inputs.shape[1])) ** 2 * importance).sum(1)
    losses = losses / losses.std() + quadratic / quadratic.std()
    losses = losses + noise * losses.std() * rng.normal(size=len(losses))
    tailed: Array = np.exp((losses - losses.mean()) / losses.std())
    return tailed if is_heavy else losses


def forest(cells: Any, dimensions: Dimensions, rng: Rng) -> Array:
    """Return a random forest that was fitted to a random network: plateaus."""
    from sklearn.ensemble import RandomForestRegressor

    losses = network(cells, dimensions, rng, noise=0.3)
    sample = rng.choice(len(cells), size=min(len(cells), 400), replace=False)
    forest = RandomForestRegressor(30, max_depth=8, random_state=int(rng.integers(1 << 30)))
    predicted: Array = forest.fit(cells[sample], losses[sample]).predict(cells)
    return predicted + 1e-4 * rng.normal(size=len(cells))
