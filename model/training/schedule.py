"""Schedules of the learning rate."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from model.config.training import TrainingConfig

Gain = Callable[[Mapping[str, float], Mapping[str, float]], float]


def learning_rate(step: int, num_steps: int, config: TrainingConfig) -> float:
    """Return the learning rate of a step from 0 to num_steps - 1: a linear warm-up to `lr`, then the given schedule.

    The schedules linear, cosine and wsd fall towards `final_lr_fraction` * `lr`. They would reach this value one step
    after the last step. The schedule plateau is constant here after the warm-up; for its reductions, the caller
    multiplies the learning rate by `Plateau.scale`, or by `replayed_scale` in a training without validation.

    Source: linear warm-up and inverse square root: Vaswani et al. 2017, section 5.3, equation 3, with `lr` as the
    highest value in place of d_model^-0.5 * warmup_steps^-0.5; cosine: Loshchilov, Hutter 2017 (SGDR), equation 5,
    without restarts; wsd (warm-up, stable, decay): Hu et al. 2024, "MiniCPM", section 4, with a linear decay as in
    Hägele et al. 2024.
    """
    warmup = round(config.warmup_fraction * num_steps)
    if step < warmup:
        return config.lr * (step + 1) / warmup
    progress = (step - warmup) / max(num_steps - warmup, 1)
    floor = config.final_lr_fraction
    match config.schedule:
        case "constant" | "plateau":
            return config.lr
        case "linear":
            return config.lr * (floor + (1 - floor) * (1 - progress))
        case "cosine":
            return config.lr * (floor + (1 - floor) * (1 + math.cos(math.pi * progress)) / 2)
        case "wsd":
            falling = max(0.0, (step - (1 - config.decay) * num_steps) / (config.decay * num_steps))
            return config.lr * (floor + (1 - floor) * (1 - falling))
        case "inverse_sqrt":
            return config.lr * math.sqrt(max(warmup, 1) / (step + 1))


def reductions_of(
    curve: Sequence[Mapping[str, float]], gain: Gain, config: TrainingConfig
) -> Sequence[tuple[float, float]]:
    """Return a pair (epochs, factor) for each regular evaluation in the learning curve of a training.

    From `epochs` epochs to the next pair, the learning rate is `factor` times the result of `learning_rate`.
    `factor` is the product of all reductions by schedule=plateau so far. Before the first reduction, `factor` is 1. The
    extra evaluations of `stop_after` (see `train`) are left out, because they do not change the learning rate.

    Each point of `curve` has `epoch`, `step` and metrics. `gain(new, old)` returns how much better `new` is than `old`.
    """
    per_epoch = round(curve[-1]["step"] / curve[-1]["epoch"]) if curve else 1
    every, num_steps = config.evaluate_every_steps or 1, min(per_epoch * config.epochs, config.max_steps or math.inf)
    plateau, best, reductions = Plateau(), None, []
    for point in curve:
        if point["step"] % every and point["step"] != num_steps:
            continue
        gained = math.inf if best is None else gain(point, best)
        plateau.note(gained > config.min_gain, config)
        best = point if gained > 0 else best
        reductions.append((point["step"] / per_epoch, plateau.scale))
    return reductions


def replayed_scale(reductions: Sequence[Sequence[tuple[float, float]]], epochs: float) -> float:
    """Return the factor of the learning rate after `epochs` epochs, for a training without evaluations.

    The factor is the geometric mean over other trainings, which have evaluations. `reductions` has one item for each
    other training, from `reductions_of`. Before its first evaluation, the factor of a training is 1.
    """
    last = [[factor for after, factor in each if after <= epochs][-1:] or [1.0] for each in reductions]
    return math.exp(sum(math.log(factor) for [factor] in last) / len(last))


@dataclass
class Plateau:
    """The reduction of the learning rate when evaluations stop improving (schedule=plateau).

    Attributes:
        scale: the product of all reductions so far; the learning rate is multiplied by this product.
        without_gain: the number of evaluations since the last improvement or reduction.
    """

    scale: float = 1.0
    without_gain: int = 0

    def note(self, gained: bool, config: TrainingConfig) -> None:
        """Count one evaluation; lower the learning rate after too many evaluations without improvement."""
        self.without_gain = 0 if gained else self.without_gain + 1
        if config.schedule == "plateau" and self.without_gain >= config.plateau_patience:
            self.scale, self.without_gain = self.scale * config.plateau_factor, 0
