"""Chooses the device of a network."""

import os

import torch


def choose_device(name: str, processes: int = 1) -> torch.device:
    """Return the device for one of `processes` that train together; `auto` is cuda if there is a GPU, else cpu.

    A GPU has its index, because torch cannot make a device without index the current one.

    Raises:
        ValueError: the name is cuda, and torch finds no GPU.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("training.device: must be auto or cpu, because torch finds no GPU here, given cuda")
    return _own_gpu(processes) if name == "cuda" else torch.device(name)


def _own_gpu(size: int) -> torch.device:
    """Return the GPU of this process; if several processes of a machine train together, LOCAL_RANK chooses one.

    If CUDA_VISIBLE_DEVICES hides the GPUs of other processes, the first visible one is that of this process.
    """
    local = int(os.environ.get("LOCAL_RANK", "0")) if size > 1 else 0
    return torch.device("cuda", local if local < torch.cuda.device_count() else 0)
