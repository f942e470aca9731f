"""The device that a network is trained, tested or asked on."""

import os

import torch


def choose_device(name: str, processes: int = 1) -> torch.device:
    """Return the device; `auto` is cuda where there is one, else cpu. So many `processes` train together.

    A GPU has its index: torch makes none the current one, and gathers nothing through one, that has no index.

    Raises:
        ValueError: cuda is requested where torch finds no GPU.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("training.device: cuda is asked for, and torch finds no GPU here; give auto or cpu")
    return _own_gpu(processes) if name == "cuda" else torch.device(name)


def _own_gpu(size: int) -> torch.device:
    """Return the GPU of this process: where several train together, each of a machine has one, by LOCAL_RANK.

    Where a process sees fewer, others have taken the rest out of its sight (CUDA_VISIBLE_DEVICES): the first is its.
    """
    local = int(os.environ.get("LOCAL_RANK", "0")) if size > 1 else 0
    return torch.device("cuda", local if local < torch.cuda.device_count() else 0)
