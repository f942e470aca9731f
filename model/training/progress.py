"""The progress of a training, in memory and on disk. A stopped training can continue, with the same result."""

import errno
import json
import tempfile
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from model.data.hashes import refuse_changed, write_hashes
from model.data.store import put_in_place
from model.errors import CheckpointError, FormatError
from model.training.randomness import Randomness
from model.training.schedule import Plateau

TENSORS, STATE = "training.safetensors", "training.json"
LAST, BEFORE = "last", "before"
# After a save, wait at least this many times the duration of the save, so that saving takes at most 5 % of the time.
TIMES_ITS_DURATION = 19.0


@dataclass(frozen=True)
class Best:
    """The best evaluation so far: its metrics, its epoch, and the weights."""

    metrics: dict[str, float]
    epoch: int
    weights: dict[str, Tensor]


@dataclass
class Progress:
    """The values that change during a training, without the states of weights, optimizers, scaler and random numbers.

    Attributes:
        step: the number of updates.
        without_gain: the number of evaluations since the last improvement by more than `min_gain`, for early stopping.
        train_loss: the mean loss per prediction, loss_sum / loss_count, computed before each evaluation or save.
        gradient_norm: the norm of the gradients of the last update, before clipping.
        loss_sum, loss_count: the sum of the losses since the last evaluation, and the number of predictions in this
            sum. Each evaluation resets both to 0.
        plateau: the state of schedule=plateau.
        best: the best evaluation; None before the first evaluation.
        curve: the points of the learning curve.
    """

    step: int = 0
    without_gain: int = 0
    train_loss: float = float("nan")
    gradient_norm: float = float("nan")
    loss_sum: float = 0.0
    loss_count: int = 0
    plateau: Plateau = field(default_factory=Plateau)
    best: Best | None = None
    curve: list[dict[str, float]] = field(default_factory=list)


class Resumable:
    """The saved states of a training, and the settings (JSON-able) that must be the same when the training continues.

    The folder holds the last two states with their hashes. If the last state is damaged, the state before it is used.
    States are saved after evaluations. After `minutes` without a saved state, a state is saved between evaluations.
    """

    def __init__(self, folder: Path, settings: dict[str, Any], minutes: float) -> None:
        self.folder = folder
        self.settings = settings
        self.seconds = 60 * minutes
        self._last_save, self._next_save = time.monotonic(), 0.0

    @property
    def is_due(self) -> bool:
        """Whether a state may be saved now; all saves together may take at most a twentieth of the training time."""
        return time.monotonic() >= self._next_save

    @property
    def is_overdue(self) -> bool:
        """Whether a state must be saved before the next evaluation, because the last state is too old."""
        return time.monotonic() >= max(self._next_save, self._last_save + self.seconds)

    def save(
        self,
        progress: Progress,
        network: nn.Module,
        optimizers: list[torch.optim.Optimizer],
        scaler: torch.amp.GradScaler,
        randomness: Randomness,
        average: nn.Module | None,
    ) -> None:
        """Write a state, completely or not at all, and keep the previous state."""
        began = time.monotonic()
        tensors = {f"network.{name}": tensor for name, tensor in network.state_dict().items()}
        tensors |= {f"random.{name}": tensor for name, tensor in randomness.state().items()}
        if average is not None:
            tensors |= {f"average.{name}": tensor for name, tensor in average.state_dict().items()}
        for place, optimizer in enumerate(optimizers):
            for number, values in optimizer.state_dict()["state"].items():
                tensors |= {
                    f"optimizer.{place}.{number}.{name}": value
                    for name, value in values.items()
                    if isinstance(value, Tensor)
                }
        # Leave out the best weights, because `asdict` would copy them.
        plain = asdict(replace(progress, best=None))
        if progress.best is not None:
            tensors |= {f"best.{name}": tensor for name, tensor in progress.best.weights.items()}
            plain["best"] = {"metrics": progress.best.metrics, "epoch": progress.best.epoch}
        content = {"settings": self.settings, "progress": plain, "scaler": scaler.state_dict()}
        self.folder.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=".", dir=self.folder))
        save_file(_on_host(tensors), aside / TENSORS)
        (aside / STATE).write_text(json.dumps(content), encoding="utf-8")
        write_hashes(aside)
        self._put_last(aside)
        self._last_save = time.monotonic()
        self._next_save = self._last_save + TIMES_ITS_DURATION * (self._last_save - began)

    def _put_last(self, aside: Path) -> None:
        try:
            if (self.folder / LAST).exists():
                put_in_place(self.folder / LAST, self.folder / BEFORE)
            aside.rename(self.folder / LAST)
        except OSError as error:
            # Ignore collisions: a process that was considered lost may still run and write the same, identical states.
            if error.errno not in (errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY):
                raise

    def load(
        self,
        network: nn.Module,
        optimizers: list[torch.optim.Optimizer],
        scaler: torch.amp.GradScaler,
        randomness: Randomness,
        average: nn.Module | None,
    ) -> tuple[Progress, list[str]]:
        """Restore the last state that is not damaged.

        Returns:
            The progress of this state, or a new progress if there is no state; and one line per damaged state.

        Raises:
            CheckpointError: the state belongs to other settings than `settings`, or has a format that cannot be read.
        """
        damages = []
        for folder in (self.folder / LAST, self.folder / BEFORE):
            if not folder.exists():
                continue
            try:
                refuse_changed(folder)
                content = json.loads((folder / STATE).read_text(encoding="utf-8"))
                tensors = load_file(folder / TENSORS)
            except FormatError:
                raise
            except (OSError, ValueError, SafetensorError) as error:
                damages.append(f"{error}; the training continues from the previous state, or from the beginning")
                continue
            if content["settings"] != json.loads(json.dumps(self.settings)):
                raise CheckpointError(
                    f"{folder}: belongs to a training with other settings; delete the folder to start again"
                )
            break
        else:
            return Progress(), damages
        network.load_state_dict(_below("network", tensors))
        if average is not None:
            average.load_state_dict(_below("average", tensors))
        randomness.restore(_below("random", tensors))
        for place, optimizer in enumerate(optimizers):
            state: dict[int, dict[str, Tensor]] = {}
            for name, tensor in _below(f"optimizer.{place}", tensors).items():
                number, key = name.split(".", 1)
                state.setdefault(int(number), {})[key] = tensor
            optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
        if content["scaler"]:
            scaler.load_state_dict(content["scaler"])
        plain = content["progress"]
        best = None if plain["best"] is None else Best(**plain["best"], weights=_below("best", tensors))
        return Progress(**(plain | {"plateau": Plateau(**plain["plateau"]), "best": best})), damages


def _on_host(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors on the CPU, each with its own storage.

    Copy only tensors that are on a GPU, are not contiguous, or have the same storage as an earlier tensor.
    """
    addresses: set[int] = set()
    separate = {}
    for name, tensor in tensors.items():
        local = tensor.detach().cpu().contiguous()
        address = local.untyped_storage().data_ptr()
        separate[name] = local.clone() if address in addresses else local
        addresses.add(address)
    return separate


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    start = prefix + "."
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}
