"""The learning rate over time."""

import math
from dataclasses import dataclass

from model.config.training import TrainingConfig


def learning_rate(step: int, num_steps: int, config: TrainingConfig) -> float:
    """Return the learning rate of step 0 .. num_steps - 1: a linear rise, then a fall as `schedule` says.

    Source: linear warm-up and inverse square root: Vaswani et al. 2017, section 5.3, equation 3, with `lr` as the
    highest value in place of d_model^-0.5 * warmup_steps^-0.5; cosine: Loshchilov, Hutter 2017 (SGDR), equation 5,
    without restarts. Linear and cosine end at `final_lr_fraction` of `lr`; `Plateau` lowers plateau's.
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
        case "inverse_sqrt":
            return config.lr * math.sqrt(max(warmup, 1) / (step + 1))


@dataclass
class Plateau:
    """The reduction of the learning rate when evaluations stop improving (schedule=plateau).

    Attributes:
        scale: current factor of the learning rate.
        without_gain: evaluations since the last gain or the last reduction.
    """

    scale: float = 1.0
    without_gain: int = 0

    def note(self, gained: bool, config: TrainingConfig) -> None:
        """Count one evaluation."""
        self.without_gain = 0 if gained else self.without_gain + 1
        if config.schedule == "plateau" and self.without_gain >= config.plateau_patience:
            self.scale, self.without_gain = self.scale * config.plateau_factor, 0
