"""The training loop."""

import math
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from model.config.training import TrainingConfig
from model.data.batches import batches_by_length, shuffled_batches
from model.errors import Diverged
from model.networks.parametrization import Factors
from model.tasks.task import Encoded, Task
from model.training.compiled import CompiledForward
from model.training.memory import is_out_of_memory, out_of_evaluation_memory
from model.training.numerics import autocast, numerics
from model.training.optimise import average_of, build_optimizers
from model.training.processes import Processes
from model.training.progress import Best, Progress, Resumable
from model.training.randomness import Randomness
from model.training.schedule import learning_rate, reductions_of, replayed_scale
from model.training.speed import Speed
from model.training.update import Losses, Update

Point = dict[str, Any]


@dataclass(frozen=True)
class Goal:
    """The metric that compares evaluations, and its direction, `maximize` or `minimize`."""

    metric: str
    direction: str

    def gain(self, new: Mapping[str, float], old: Mapping[str, float]) -> float:
        """Return how much `new` is better than `old`; negative if `new` is worse."""
        difference = new[self.metric] - old[self.metric]
        return difference if self.direction == "maximize" else -difference


def train(
    task: Task,
    network: nn.Module,
    config: TrainingConfig,
    data: Encoded,
    validation: Encoded | None,
    goal: Goal,
    randomness: Randomness,
    device: torch.device,
    processes: Processes,
    factors: Mapping[str, Factors] | None = None,
    stop_after: int | None = None,
    resumable: Resumable | None = None,
    reported_epochs: int = 0,
    curves: Sequence[Sequence[Mapping[str, float]]] = (),
) -> Generator[Point, None, Progress]:
    """Train `network` in place; evaluate after each epoch, or every `evaluate_every_steps` steps, and at the end.

    At the end, the network holds the weights of the last update or, with `ema`, the running mean of the weights.
    Evaluations also use this mean; `train_loss` and `gradient_norm` do not. Of equally good evaluations, the first
    counts as the best. Without validation, there are no evaluations, and the returned `Progress` has no `best`.

    If `stop_after` ends the training between two evaluations, one extra evaluation follows. This evaluation counts for
    the result, but has no effect on early stopping, the schedule or the saved state. Therefore a continued training
    ends with the same bits as a training that never stopped.

    Args:
        task: the object that makes batches, and computes the loss and the metrics.
        network: the network.
        config: the settings.
        data: the encoded training split.
        validation: the encoded validation split; None = no evaluations.
        goal: the metric that chooses the best evaluation.
        randomness: the random numbers.
        device: the device of the network.
        processes: the processes that train this network together; each of these processes calls this function. Within
            a few steps after SIGTERM, the first process saves the state, and all processes end.
        factors: for each parameter, the factors of its optimizer settings; None = all factors are 1.
        stop_after: stop after this many epochs, counted from the start; None = all. The schedule covers all epochs.
        resumable: the saved states on disk. A state is saved after evaluations, at the end, and when the last state is
            `config.save_minutes` old. The training continues from the last state. None = neither save nor load states.
        reported_epochs: the number of epochs whose points the caller already has. If the last state is at
            a later epoch, the generator first yields the points after `reported_epochs` up to the state. If the last
            state is at an earlier epoch, the caller gets some points again. For example, with a state at epoch 3 and
            `reported_epochs` = 5, the generator yields the points of epochs 4 and 5 again.
        curves: the learning curves of other trainings. If a training with schedule=plateau has no validation split, it
            uses the mean of the learning-rate reductions in these curves (see `replayed_scale`).

    Yields:
        One point per evaluation: `epoch` (the number of epochs so far, such as 1.5), `step`, `train_loss` (the mean
        cross-entropy since the last evaluation, in nats per prediction, without label smoothing and z-loss), the values
        of `evaluate`, `lr`, `gradient_norm` (of the last update, before clipping), `epochs` (`config.epochs`), the
        values of `Speed.measured`, and `more`, whether the training goes on. The generator also yields
        {"warning": text} for each damaged state.

    Raises:
        Diverged: the loss is NaN or infinite.
        OutOfMemoryError: a batch of an evaluation did not fit.
        CheckpointError: the saved state belongs to other settings, or has a format that cannot be read.
        ValueError: schedule=plateau has neither evaluations nor curves; or the processes loaded different states.
    """
    if config.schedule == "plateau" and validation is None and not curves:
        raise ValueError(
            "training.schedule: plateau needs a validation split, but this training has none; choose another "
            "schedule, or set split.folds=1"
        )

    # The length of the training, and the steps between evaluations.
    steps_per_epoch = len(_updates(config, data, randomness, epoch=1))
    num_steps = min(steps_per_epoch * config.epochs, config.max_steps or math.inf)
    last_step = min(num_steps, steps_per_epoch * (stop_after or config.epochs))
    every = config.evaluate_every_steps or steps_per_epoch

    # The state of the training.
    optimizers = build_optimizers(network, config, factors)
    scaler = torch.amp.GradScaler(device.type, enabled=config.precision == "float16")
    average = average_of(network, config)
    evaluated = network if average is None else average.module
    replayed = [reductions_of(curve, goal.gain, config) for curve in curves] if validation is None else []
    progress = Progress()

    def goes_on() -> bool:
        return progress.step < last_step and not _is_out_of_patience(progress, config)

    def save() -> None:
        if resumable is not None and processes.rank == 0:
            resumable.save(progress, network, optimizers, scaler, randomness, average)

    def rate(step: int) -> float:
        scale = replayed_scale(replayed, step / steps_per_epoch) if replayed else progress.plateau.scale
        return learning_rate(step, int(num_steps), config) * scale

    def evaluation() -> Point:
        assert validation is not None
        lr = rate(progress.step - 1)
        with compiled.in_use():
            metrics = evaluate(task, evaluated, validation, device, config, processes)
        if not math.isfinite(metrics["loss"]):
            raise Diverged(f"diverged at step {progress.step}: validation loss is {metrics['loss']}")
        epochs, rest = divmod(progress.step, steps_per_epoch)
        _note(progress, metrics, epochs + bool(rest), evaluated, goal, config)
        return {
            "epoch": progress.step / steps_per_epoch if rest else epochs, "step": progress.step,
            "train_loss": progress.train_loss, **metrics, "lr": lr, "gradient_norm": progress.gradient_norm,
            "epochs": config.epochs, **speed.measured(),
        }  # fmt: skip

    # Continue from the last state. Yield its later points again, because their first receiver may have ended since.
    if resumable is not None:
        progress, damages = resumable.load(network, optimizers, scaler, randomness, average)
        yield from ({"warning": damage} for damage in damages)
        for point in progress.curve:
            if point["epoch"] > reported_epochs:
                yield point | {"more": point["step"] < progress.step or goes_on()}
    if processes.any(processes.by_first(lambda: progress.step) != progress.step, device):
        raise ValueError(
            "the processes of this training loaded different states; all processes must use the same folder of states"
        )
    update = Update(task, network, config, data, device, optimizers, scaler, processes)
    compiled = CompiledForward(evaluated, config)
    updates = _all_updates(config, data, randomness, progress.step, steps_per_epoch)
    speed = Speed(network, data.lengths, device, processes.size)
    saved_step = progress.step

    while goes_on():
        # Update until an evaluation or a save is due, or the processes must end.
        losses = Losses(progress.step, device, (progress.loss_sum, progress.loss_count))
        with randomness.use(), numerics(config, device):
            network.train()
            speed.begin()
            is_due = must_end = must_save = False
            while not (is_due or must_end or must_save) and progress.step < last_step:
                randomness.begin_step(progress.step)
                batches = next(updates)
                losses.add(*update(batches, rate(progress.step)))
                speed.add(batches)
                if average is not None:
                    average.update_parameters(network)
                progress.step += 1
                is_due = progress.step % every == 0 or progress.step == num_steps
                must_end = processes.must_end(progress.step, device)
                must_save = resumable is not None and processes.rank == 0 and resumable.is_overdue
            progress.train_loss, progress.gradient_norm = losses.mean(), update.gradient_norm()
            speed.end()
        progress.loss_sum, progress.loss_count = (0.0, 0) if is_due else (losses.sum, losses.count)

        # Evaluate before the processes end, because a training that continues from the saved state skips this step.
        if validation is not None and is_due:
            progress.curve.append(evaluation())
            try:
                yield progress.curve[-1] | {"more": goes_on()}
            except GeneratorExit:
                # The caller stops the training, and may continue it later.
                save()
                raise
        if must_end:
            save()
            processes.notice.obey()
        if resumable is not None and (must_save or (is_due and resumable.is_due)):
            save()
            saved_step = progress.step

    if saved_step < progress.step:
        save()
    is_judged = progress.curve and progress.curve[-1]["step"] == progress.step
    if validation is not None and not is_judged and progress.step <= last_step:
        yield evaluation() | {"more": False}
    if average is not None:
        network.load_state_dict(evaluated.state_dict())
    return progress


def evaluate(
    task: Task, network: nn.Module, data: Encoded, device: torch.device, config: TrainingConfig, processes: Processes
) -> dict[str, float]:
    """Return every metric of `task` over all of `data`; each process measures its share of the batches.

    The metrics equal the metrics of a single process: bit for bit on a deterministic device, else up to rounding.
    `examples_per_second` is the joint speed of all processes, measured by the first process. It differs from run to
    run, and excludes the time for comparing predictions with references.

    Raises:
        OutOfMemoryError: a batch of the evaluation did not fit.
    """
    measured, _, speed = measure(task, network, data, device, config, processes)
    return processes.by_first(lambda: {**task.metrics(data, measured), "examples_per_second": speed})


def measure(
    task: Task, network: nn.Module, data: Encoded, device: torch.device, config: TrainingConfig, processes: Processes
) -> tuple[list[Any], Tensor, float]:
    """Return the measurements of each batch, the example positions in batch order, and the examples per second."""
    network.eval()
    batches = batches_by_length(data.lengths, len(data), config.evaluation_tokens)
    began = time.perf_counter()
    try:
        with torch.no_grad(), numerics(config, device), autocast(config, device):
            own = [
                task.measure(network, data, indices, device) for indices in batches[processes.rank :: processes.size]
            ]
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        raise out_of_evaluation_memory(error, config, device) from error
    measured = processes.interleaved(own)
    return measured, torch.cat(batches), len(data) / (time.perf_counter() - began)


def _updates(config: TrainingConfig, data: Encoded, randomness: Randomness, epoch: int) -> list[list[Tensor]]:
    """Return the batches of each update of one epoch; every epoch has the same number of updates."""
    generator = randomness.order(epoch)
    if config.batching == "by_length":
        batches = batches_by_length(data.lengths, config.batch_size, config.batch_tokens, generator)
    else:
        batches = shuffled_batches(len(data), config.batch_size, generator)
    return [batches[start : start + config.accumulation] for start in range(0, len(batches), config.accumulation)]


def _all_updates(
    config: TrainingConfig, data: Encoded, randomness: Randomness, step: int, steps_per_epoch: int
) -> Iterator[list[Tensor]]:
    """Yield the batches of each update after `step`, epoch after epoch, without end."""
    while True:
        epoch, done = divmod(step, steps_per_epoch)
        rest = _updates(config, data, randomness, epoch + 1)[done:]
        yield from rest
        step += len(rest)


def _note(
    progress: Progress, metrics: dict[str, float], epoch: int, network: nn.Module, goal: Goal, config: TrainingConfig
) -> None:
    """Update the best evaluation, and count the evaluations without gain.

    Early stopping and schedule=plateau have separate counts.
    """
    gain = math.inf if progress.best is None else goal.gain(metrics, progress.best.metrics)
    progress.without_gain = 0 if gain > config.min_gain else progress.without_gain + 1
    progress.plateau.note(gain > config.min_gain, config)
    if gain > 0:
        progress.best = Best(metrics, epoch, copy_weights(network))


def copy_weights(network: nn.Module) -> dict[str, Tensor]:
    """Return a copy of the network's current weights on the CPU."""
    return {name: tensor.detach().cpu().clone() for name, tensor in network.state_dict().items()}


def _is_out_of_patience(progress: Progress, config: TrainingConfig) -> bool:
    return config.patience is not None and progress.without_gain >= config.patience
