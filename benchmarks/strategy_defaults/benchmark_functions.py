"""Test functions of optimizers, of points in the unit cube, shape (..., width); lower is better.

Source: Surjanovic & Bingham, "Virtual Library of Simulation Experiments: Test Functions and Datasets". Scaled to the
unit cube; Ackley and Rastrigin on a part of their usual domain, with a given optimum; Rosenbrock as log(1 + f).
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_HARTMANN_LEVELS = np.array([1, 1.2, 3, 3.2])
_HARTMANN3_A = np.array([[3, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]])
_HARTMANN3_P = 1e-4 * np.array([[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]])
_HARTMANN6_A = np.array(
    [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
)
_HARTMANN6_P = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def branin(u: Array) -> Array:
    """Return Branin-Hoo, two dimensions: three optima of the same depth."""
    x, y = u[..., 0] * 15 - 5, u[..., 1] * 15
    valley = (y - 5.1 / (4 * math.pi**2) * x**2 + 5 / math.pi * x - 6) ** 2
    losses: Array = valley + 10 * (1 - 1 / (8 * math.pi)) * np.cos(x) + 10
    return losses


def hartmann3(u: Array) -> Array:
    """Return Hartmann, three dimensions: four valleys."""
    return _hartmann(u, _HARTMANN3_A, _HARTMANN3_P)


def hartmann6(u: Array) -> Array:
    """Return Hartmann, six dimensions: four valleys."""
    return _hartmann(u, _HARTMANN6_A, _HARTMANN6_P)


def _hartmann(u: Array, a: Array, p: Array) -> Array:
    losses: Array = -(_HARTMANN_LEVELS * np.exp(-(a * (u[..., None, :] - p) ** 2).sum(-1))).sum(-1)
    return losses


def rosenbrock(u: Array) -> Array:
    """Return Rosenbrock on -1.5 to 1.5: a bent valley; the logarithm of 1 + f."""
    x = u * 3 - 1.5
    losses: Array = np.log1p((100 * (x[..., 1:] - x[..., :-1] ** 2) ** 2 + (1 - x[..., :-1]) ** 2).sum(-1))
    return losses


def ackley(optimum: Array) -> Callable[[Array], Array]:
    """Return Ackley's function, ten units wide, with waves of period two, with its optimum at a given place."""

    def losses(u: Array) -> Array:
        x = (u - optimum) * 10
        waves = np.exp(np.cos(math.pi * x).mean(-1))
        values: Array = -20 * np.exp(-0.2 * np.sqrt((x**2).mean(-1))) - waves + 20 + math.e
        return values

    return losses


def rastrigin(optimum: Array) -> Callable[[Array], Array]:
    """Return Rastrigin's function, four units wide, with waves of height three, with its optimum at a given place."""

    def losses(u: Array) -> Array:
        x = (u - optimum) * 4
        values: Array = (x**2 - 3 * np.cos(2 * math.pi * x) + 3).sum(-1)
        return values

    return losses


def levy(u: Array) -> Array:
    """Return Levy on -6 to 6: waves on a slope."""
    w = 1 + (u * 12 - 7) / 4
    first = np.sin(math.pi * w[..., 0]) ** 2
    middle = ((w[..., :-1] - 1) ** 2 * (1 + 10 * np.sin(math.pi * w[..., :-1] + 1) ** 2)).sum(-1)
    losses: Array = first + middle + (w[..., -1] - 1) ** 2 * (1 + np.sin(2 * math.pi * w[..., -1]) ** 2)
    return losses


def styblinski(u: Array) -> Array:
    """Return Styblinski-Tang on -5 to 5: a local optimum in every corner."""
    x = u * 10 - 5
    losses: Array = (x**4 - 16 * x**2 + 5 * x).sum(-1) / 2
    return losses


def michalewicz(u: Array) -> Array:
    """Return Michalewicz on 0 to pi: flat, with narrow valleys."""
    x = u * math.pi
    losses: Array = -(np.sin(x) * np.sin(np.arange(1, x.shape[-1] + 1) * x**2 / math.pi) ** 10).sum(-1)
    return losses
