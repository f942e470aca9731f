"""One update of the weights: the gradients of some batches, followed by a step of the optimizers."""

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from model.config.training import TrainingConfig
from model.errors import Diverged
from model.networks.transformer.stack import Stack
from model.tasks.task import Encoded, Task
from model.training.compiled import use_own_compile_cache
from model.training.muon import Muon
from model.training.numerics import autocast
from model.training.optimise import add_l1_gradient, clip_gradients, decayed_parameters
from model.training.processes import STEPS_PER_LOOK, Processes


@dataclass
class Update:
    """Updates the weights by one step of the optimizers, from the gradients of some batches."""

    task: Task
    network: nn.Module
    config: TrainingConfig
    data: Encoded
    device: torch.device
    optimizers: list[torch.optim.Optimizer]
    scaler: torch.amp.GradScaler
    processes: Processes = field(default_factory=Processes)

    def __post_init__(self) -> None:
        config = self.config
        self.penalised = decayed_parameters(self.network, config) if config.l1 else []
        for module in self.network.modules():
            if isinstance(module, Stack):
                module.recomputes = config.activation_checkpointing
        self.parallel = self.processes.parallel(self.network)
        self.forward: Callable[..., Any] = self.parallel
        if config.compile:
            use_own_compile_cache()
            # torch compiles a function for at most eight shapes; without a reset, shapes of earlier trainings count.
            torch.compiler.reset()
            self.forward = torch.compile(self.parallel)
        self.norm_before_clipping: Tensor | None = None

    def __call__(self, batches: list[Tensor], lr: float) -> tuple[Tensor, int]:
        """Update the weights; return the summed cross-entropy and the number of predictions.

        If several processes train together, each process must make this call with the same batches. Each process
        computes its share of every batch, and all get the same result.
        """
        config, scaler = self.config, self.scaler
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = lr * group.get("rate", 1.0)
            optimizer.zero_grad(set_to_none=True)

        shares = [self.processes.share(indices) for indices in batches]
        packed = config.batching == "packed"
        prepared = [(self.task.batch(self.data, own, self.device, packed=packed), factor) for own, factor in shares]
        count = sum(self.task.count(self.data, indices) for indices in batches)
        total = torch.zeros((), device=self.device)
        for place, (batch, factor) in enumerate(prepared, start=1):
            with self._alone() if place < len(prepared) else contextlib.nullcontext():
                with autocast(config, self.device):
                    loss = self.task.loss(self.forward, batch, config.label_smoothing, config.z_loss)
                objective = loss.objective * factor
                scaler.scale(objective / count).backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            total += loss.cross_entropy * factor
        total = self.processes.summed(total) / self.processes.size

        for optimizer in self.optimizers:
            if isinstance(optimizer, Muon):
                # The scaler reads the gradients of Muon's matrices, so set them first.
                optimizer.share_gradients()
            if config.l1 or config.clip_norm is not None:
                scaler.unscale_(optimizer)
        if self.penalised:
            add_l1_gradient(self.penalised, config.l1)
        is_finite = True
        if config.clip_norm is not None:
            self.norm_before_clipping = clip_gradients(self.network, config.clip_norm)
            # The scaler skips an optimizer if its own gradients overflowed, but clipping spreads NaN to all gradients.
            is_finite = not scaler.is_enabled() or math.isfinite(self.norm_before_clipping)
        for optimizer in self.optimizers if is_finite else ():
            scaler.step(optimizer)
        scaler.update()
        return total, count

    def gradient_norm(self) -> float:
        """Return the joint norm of all gradients of the last update, before clipping."""
        if self.norm_before_clipping is not None:
            return float(self.norm_before_clipping)
        gradients = [p.grad for p in self.network.parameters() if p.grad is not None]
        return float(nn.utils.get_total_norm(gradients, foreach=True))

    def _alone(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which a backward pass does not exchange gradients with other processes."""
        if isinstance(self.parallel, nn.parallel.DistributedDataParallel):
            quiet: contextlib.AbstractContextManager[None] = self.parallel.no_sync()
            return quiet
        return contextlib.nullcontext()


class Losses:
    """The sum of the losses since the last evaluation; the methods raise Diverged if a loss is not finite."""

    def __init__(self, step: int, device: torch.device, start: tuple[float, int] = (0.0, 0)) -> None:
        """Begin after `step` updates.

        `start` is a pair: the sum of the losses since the last evaluation, and the number of predictions in this sum.
        """
        self.checked, self.per_check = step, STEPS_PER_LOOK[device.type]
        self.waiting: list[Tensor] = []
        self.sum, self.count = start

    def add(self, loss: Tensor, count: int) -> None:
        """Add the summed loss of `count` predictions.

        Raises:
            Diverged: this loss, or a recent loss that was not checked yet, is NaN or infinite.
        """
        self.waiting.append(loss)
        self.count += count
        if len(self.waiting) >= self.per_check:
            self._check()

    def mean(self) -> float:
        """Return the mean loss in nats per prediction."""
        self._check()
        return self.sum / self.count

    def _check(self) -> None:
        for value in torch.stack(self.waiting).tolist() if self.waiting else []:
            self.checked += 1
            if not math.isfinite(value):
                raise Diverged(f"diverged at step {self.checked}: loss is {value}")
            self.sum += value
        self.waiting.clear()
