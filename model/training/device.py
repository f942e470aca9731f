"""Chooses the device of a network."""

import os

import torch


def choose_device(name: str, processes: int = 1) -> torch.device:
    """Return the device of this process; `processes` is the number of processes that train together.

    The name `auto` stands for cuda if there is a GPU, else for cpu. A GPU is returned with its index, because
    `torch.cuda.set_device` needs an index.

    Raises:
        ValueError: `name` is cuda, but torch finds no GPU.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("training.device: must be auto or cpu, given cuda; torch finds no GPU on this machine")
    return _own_gpu(processes) if name == "cuda" else torch.device(name)


def _own_gpu(size: int) -> torch.device:
    """Return the GPU of this process; `size` is the number of processes that train together.

    If several processes train together, the environment variable LOCAL_RANK has the index of this process's GPU. If
    CUDA_VISIBLE_DEVICES hides the GPUs of the other processes, this process takes the first visible GPU.
    """
    local = int(os.environ.get("LOCAL_RANK", "0")) if size > 1 else 0
    return torch.device("cuda", local if local < torch.cuda.device_count() else 0)
