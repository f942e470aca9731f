"""How far a training has come, in memory and on disk: a stopped training goes on as if it had not been stopped."""

import json
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from model.data.store import put_in_place
from model.errors import CheckpointError
from model.randomness import Randomness
from model.schedule import Plateau

TENSORS, STATE = "training.safetensors", "training.json"


@dataclass(frozen=True)
class Best:
    """The best evaluation so far: its metrics, the epoch it fell in, and the weights."""

    metrics: dict[str, float]
    epoch: int
    weights: dict[str, Tensor]


@dataclass
class Progress:
    """Everything that changes from step to step, besides weights, optimizers and random numbers.

    Attributes:
        step: updates made.
        without_gain: evaluations since the last gain, for early stopping.
        train_loss: mean over the predictions between the last two evaluations.
    """

    step: int = 0
    without_gain: int = 0
    train_loss: float = float("nan")
    plateau: Plateau = field(default_factory=Plateau)
    best: Best | None = None


@dataclass(frozen=True)
class Resumable:
    """Where one training is kept, and for which settings it counts.

    Attributes:
        folder: where the state lies; it need not exist yet.
        settings: what must be equal for a state to be continued; JSON-able.
    """

    folder: Path
    settings: dict[str, Any]

    def save(
        self,
        progress: Progress,
        network: nn.Module,
        optimizers: list[torch.optim.Optimizer],
        scaler: torch.amp.GradScaler,
        randomness: Randomness,
    ) -> None:
        """Writes the whole state; the folder changes at once or not at all."""
        tensors = {f"network.{name}": tensor for name, tensor in network.state_dict().items()}
        tensors |= {f"random.{name}": tensor for name, tensor in randomness.state().items()}
        for place, optimizer in enumerate(optimizers):
            for number, values in optimizer.state_dict()["state"].items():
                tensors |= {
                    f"optimizer.{place}.{number}.{name}": value
                    for name, value in values.items()
                    if isinstance(value, Tensor)
                }
        plain = asdict(progress) | {"best": None}
        if progress.best is not None:
            tensors |= {f"best.{name}": tensor for name, tensor in progress.best.weights.items()}
            plain["best"] = {"metrics": progress.best.metrics, "epoch": progress.best.epoch}
        content = {"settings": self.settings, "progress": plain, "scaler": scaler.state_dict()}
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f".{self.folder.name}-", dir=self.folder.parent))
        save_file({name: tensor.contiguous().clone() for name, tensor in tensors.items()}, aside / TENSORS)
        (aside / STATE).write_text(json.dumps(content), encoding="utf-8")
        put_in_place(aside, self.folder)

    def load(
        self,
        network: nn.Module,
        optimizers: list[torch.optim.Optimizer],
        scaler: torch.amp.GradScaler,
        randomness: Randomness,
    ) -> Progress:
        """Puts a saved state into its places; a fresh `Progress` where none has been saved yet.

        Raises:
            CheckpointError: the state belongs to other settings, or is damaged.
        """
        if not self.folder.exists():
            return Progress()
        try:
            content = json.loads((self.folder / STATE).read_text(encoding="utf-8"))
            tensors = load_file(self.folder / TENSORS)
        except (OSError, ValueError, SafetensorError) as error:
            raise CheckpointError(f"{self.folder}: the training's state cannot be read ({error}); delete it") from error
        if content["settings"] != json.loads(json.dumps(self.settings)):
            raise CheckpointError(
                f"{self.folder}: belongs to a training with other settings; delete it to start afresh"
            )
        network.load_state_dict(_below("network", tensors))
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
        return Progress(**(plain | {"plateau": Plateau(**plain["plateau"]), "best": best}))


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    start = prefix + "."
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}
