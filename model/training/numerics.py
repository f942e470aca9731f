"""How numbers are computed on a device, set for one training alone."""

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from model.config.training import TrainingConfig

PRECISIONS = {
    "float32": torch.float32,
    "tf32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


def precision_on(config: TrainingConfig, device: torch.device) -> str:
    """Return the precision that is used on the device: one of PRECISIONS.

    `auto` is bfloat16 on a GPU that has it, tf32 on others (those that do not round so either compute in float32), and
    float32 on a CPU.
    """
    if config.precision != "auto":
        return config.precision
    if device.type != "cuda":
        return "float32"
    return "bfloat16" if has_bfloat16() else "tf32"


@functools.cache
def has_bfloat16() -> bool:
    """Return whether the current GPU multiplies in bfloat16 itself; torch imitates it elsewhere, which is slow."""
    return torch.cuda.is_bf16_supported(including_emulation=False)


def autocast(config: TrainingConfig, device: torch.device) -> torch.autocast:
    """Return the context in which matrix products run in the configured precision."""
    precision = PRECISIONS[precision_on(config, device)]
    return torch.autocast(device.type, dtype=precision, enabled=precision is not torch.float32)


def prepare_device(config: TrainingConfig) -> None:
    """Set what torch reads when a process first multiplies on a GPU: how cuBLAS divides its memory among streams.

    With `deterministic` torch refuses products, for as long as the process lives, where the first one of the process
    did not find it (`alertCuBLASConfigNotDeterministic` in ATen/Context.cpp); it says what to set. So this comes before
    all else. Whether CUDA has started tells nothing, so there is no refusal of our own.
    """
    if config.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


@contextmanager
def numerics(config: TrainingConfig, device: torch.device) -> Iterator[None]:
    """Let a GPU round to TF32, and compute the same bits every time, where configured; restore both after the block.

    Outside of the block nothing changes: a process may train others. On a CPU there is nothing to set.
    """
    if device.type != "cuda":
        yield
        return
    precision, is_deterministic = torch.get_float32_matmul_precision(), torch.are_deterministic_algorithms_enabled()
    is_tf32 = precision_on(config, device) == "tf32"
    cudnn, warns = torch.backends.cudnn.allow_tf32, torch.is_deterministic_algorithms_warn_only_enabled()
    torch.set_float32_matmul_precision("high" if is_tf32 else "highest")
    # Recurrent cells; torch lets cuDNN round by default.
    torch.backends.cudnn.allow_tf32 = is_tf32
    torch.use_deterministic_algorithms(config.deterministic)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(precision)
        torch.backends.cudnn.allow_tf32 = cudnn
        torch.use_deterministic_algorithms(is_deterministic, warn_only=warns)
