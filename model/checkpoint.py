"""Saves and loads trained networks. The files hold all data that a prediction needs, and no code."""

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from model.config.whole import Config, parse
from model.data.hashes import HASHES, refuse_changed, write_hashes
from model.data.store import put_in_place
from model.errors import CheckpointError, FormatError
from model.tasks.choose import TASKS
from model.tasks.network import build_network
from model.tasks.task import Task

WEIGHTS, CONFIG, TASK = "weights.safetensors", "config.json", "task.json"


@dataclass(frozen=True)
class Checkpoint:
    """A trained network.

    Attributes:
        config: the configuration of the training.
        task: the learning task, with all that is learned from the data before training, such as a vocabulary.
        network: the network with the trained weights.
    """

    config: Config[Any, Any]
    task: Task
    network: nn.Module

    @property
    def device(self) -> torch.device:
        """The device of the network; inputs must be on the same device."""
        return next(self.network.parameters()).device


def save_checkpoint(checkpoint_dir: str, config: Config[Any, Any], task: Task, weights: dict[str, Tensor]) -> None:
    """Write the weights, the configuration, the task and their hashes to a folder; replace an existing folder.

    The folder appears complete or not at all.
    """
    target = Path(checkpoint_dir)
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    save_file(weights, aside / WEIGHTS)
    (aside / CONFIG).write_text(config.model_dump_json(indent=2), encoding="utf-8")
    (aside / TASK).write_text(json.dumps(task.to_dict(), ensure_ascii=False), encoding="utf-8")
    write_hashes(aside)
    put_in_place(aside, target)


def load_checkpoint(checkpoint_dir: str) -> Checkpoint:
    """Return the checkpoint in a folder; the network is on the CPU and in evaluation mode.

    Raises:
        CheckpointError: the folder is missing or incomplete, a file was changed, or the files are invalid or do not fit
            together.
        FormatError: the files have a format that this version cannot read.
    """
    folder = Path(checkpoint_dir)
    try:
        refuse_changed(folder)
        config = parse(json.loads((folder / CONFIG).read_text(encoding="utf-8")))
        task = TASKS[config.data.name].from_dict(json.loads((folder / TASK).read_text(encoding="utf-8")))
        network, _ = build_network(task, config)
        network.load_state_dict(load_file(folder / WEIGHTS))
    except FormatError:
        raise
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        reason = str(error).splitlines()[0]
        raise CheckpointError(
            f"{folder}: is not a usable checkpoint ({reason}); the folder must hold {WEIGHTS}, {CONFIG}, {TASK}, "
            f"{HASHES}"
        ) from error
    return Checkpoint(config, task, network.eval())
