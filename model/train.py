"""The training loop."""

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from model.config import TrainingConfig
from model.data.batches import shuffled_batches
from model.errors import Diverged
from model.optimise import add_l1_gradient, build_optimizer, clip_gradients, decayed_parameters, learning_rate
from model.randomness import Randomness
from model.tasks.protocol import Encoded, Task

Point = dict[str, float]
EVALUATION_BATCH = 256  # examples; without gradients, memory is no concern and larger batches are faster


@dataclass(frozen=True)
class Goal:
    """What makes one checkpoint better than another.

    Attributes:
        metric: one of the task's metric names.
        direction: `maximize` or `minimize`.
    """

    metric: str
    direction: str

    def gain(self, new: float, old: float) -> float:
        """By how much `new` is better than `old`; negative where it is worse."""
        return new - old if self.direction == "maximize" else old - new


@dataclass(frozen=True)
class Trained:
    """A finished training.

    Attributes:
        weights: of the best evaluation, or the last ones where nothing was evaluated.
        epoch: how many epochs had been trained then.
        metrics: of that evaluation; empty where nothing was evaluated.
        train_loss: mean over the last epoch's predictions.
    """

    weights: dict[str, Tensor]
    epoch: int
    metrics: dict[str, float]
    train_loss: float


def train(
    task: Task,
    network: nn.Module,
    config: TrainingConfig,
    data: Encoded,
    validation: Encoded | None,
    goal: Goal,
    randomness: Randomness,
    stop_after: int | None,
    device: torch.device,
) -> Generator[Point, None, Trained]:
    """Trains `network` in place, evaluating after each epoch.

    Args:
        task: loss, metrics and batches.
        network: on `device`, its weights fresh.
        config: the training's settings.
        data: the training part.
        validation: the validation part; None = no evaluation, the last weights are kept.
        goal: which evaluation is the best one; of equal ones the first.
        randomness: of this training alone.
        stop_after: epochs to stop after although the schedule is laid out for `config.epochs`; None = all.
        device: where to compute.

    Yields:
        One learning-curve point per evaluation.

    Raises:
        Diverged: the loss is NaN or infinite.
    """
    steps_per_epoch = math.ceil(len(data) / config.batch_size)
    num_steps = steps_per_epoch * config.epochs
    optimizer = build_optimizer(network, config)
    penalised = decayed_parameters(network, config) if config.l1 else []
    best: Trained | None = None
    step, without_gain, train_loss = 0, 0, math.nan

    for epoch in range(1, min(config.epochs, stop_after or config.epochs) + 1):
        with randomness.use():
            network.train()
            loss_sum, num_predictions = 0.0, 0
            for indices in shuffled_batches(len(data), config.batch_size, randomness.order):
                lr = learning_rate(step, num_steps, config)
                for group in optimizer.param_groups:
                    group["lr"] = lr
                batch = task.batch(data, indices, device)
                count = task.count(batch)
                loss = task.loss(network, batch, config.label_smoothing) / count
                optimizer.zero_grad(set_to_none=True)
                loss.backward()  # type: ignore[no-untyped-call]
                step += 1
                loss_sum += _finite(loss, step) * count
                num_predictions += count
                if config.l1:
                    add_l1_gradient(penalised, config.l1)
                if config.clip_norm is not None:
                    clip_gradients(network, config.clip_norm)
                optimizer.step()
        train_loss = loss_sum / num_predictions

        if validation is None:
            continue
        metrics = evaluate(task, network, validation, device)
        if not math.isfinite(metrics["loss"]):
            raise Diverged(f"diverged at step {step}: validation loss is {metrics['loss']}")
        gain = math.inf if best is None else goal.gain(metrics[goal.metric], best.metrics[goal.metric])
        without_gain = 0 if gain > config.min_gain else without_gain + 1
        if gain > 0:
            best = Trained(_copy(network), epoch, metrics, train_loss)
        yield {"epoch": epoch, "train_loss": train_loss, **metrics, "lr": lr, "epochs": config.epochs}
        if config.patience is not None and without_gain >= config.patience:
            break

    return best or Trained(_copy(network), epoch, {}, train_loss)


def evaluate(task: Task, network: nn.Module, data: Encoded, device: torch.device) -> dict[str, float]:
    """Every metric of the task over all of `data`."""
    network.eval()
    with torch.inference_mode():
        return task.evaluate(network, data, EVALUATION_BATCH, device)


def choose_device(name: str) -> torch.device:
    """`auto` is cuda where there is one, else cpu."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(name)


def _finite(loss: Tensor, step: int) -> float:
    value = loss.item()
    if not math.isfinite(value):
        raise Diverged(f"diverged at step {step}: loss is {value}")
    return value


def _copy(network: nn.Module) -> dict[str, Any]:
    return {name: tensor.detach().cpu().clone() for name, tensor in network.state_dict().items()}
