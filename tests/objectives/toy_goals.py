"""Toy objectives of several metrics."""

import toy_data

describe_data = toy_data.describe_data


def lucky(task):
    """A score that grows with the size, but in the search's own seed that of two layers is far too good."""
    layers, is_first = task["config"]["toy"]["layers"], task["repeat"] == 0
    return {"score": layers / 10 + (5 if is_first and layers == 2 else 0), "size": layers}


def growing(task):
    layers, is_first = task["config"]["toy"]["layers"], task["repeat"] == 0
    return {"score": layers / 10, "size": layers + (0 if is_first or layers < 3 else 2)}


def noisy(task):
    """Score and size grow with the layers; each seed and fold is a little different."""
    layers, noise = task["config"]["toy"]["layers"], task["seed"] % 1000 / 1e5
    return {"score": layers + noise, "size": layers + 2 * noise}
