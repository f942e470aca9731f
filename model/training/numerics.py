"""Sets the precision and the determinism of computations on a device for the time of one training."""

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
    """Return the precision of a training on the device, one of PRECISIONS.

    `auto` means bfloat16 on a GPU that supports it, tf32 on any other GPU, and float32 on a CPU. A GPU without support
    for tf32 computes in float32 instead.
    """
    if config.precision != "auto":
        return config.precision
    if device.type != "cuda":
        return "float32"
    return "bfloat16" if has_bfloat16() else "tf32"


@functools.cache
def has_bfloat16() -> bool:
    """Return whether the current GPU supports bfloat16 in hardware; torch's emulation is slow."""
    return torch.cuda.is_bf16_supported(including_emulation=False)


def autocast(config: TrainingConfig, device: torch.device) -> torch.autocast:
    """Return a context in which matrix products have the configured precision."""
    precision = PRECISIONS[precision_on(config, device)]
    return torch.autocast(device.type, dtype=precision, enabled=precision is not torch.float32)


def prepare_device(config: TrainingConfig) -> None:
    """If `config.deterministic`, set the environment variable CUBLAS_WORKSPACE_CONFIG, unless it is already set.

    Call this function before the first matrix product on a GPU, because torch reads the variable only at this product.
    If the variable is set later, torch still raises an error for every deterministic matrix product of the process
    (`alertCuBLASConfigNotDeterministic` in ATen/Context.cpp).
    """
    if config.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


@contextmanager
def numerics(config: TrainingConfig, device: torch.device) -> Iterator[None]:
    """Inside the context, set TF32 and the determinism of a GPU as configured; at the end, restore the old settings.

    The settings are restored because the process may run other trainings. On a CPU there is nothing to set.
    """
    if device.type != "cuda":
        yield
        return
    precision, is_deterministic = torch.get_float32_matmul_precision(), torch.are_deterministic_algorithms_enabled()
    is_tf32 = precision_on(config, device) == "tf32"
    cudnn, warns = torch.backends.cudnn.allow_tf32, torch.is_deterministic_algorithms_warn_only_enabled()
    torch.set_float32_matmul_precision("high" if is_tf32 else "highest")
    # Recurrent cells use cuDNN, for which torch allows TF32 by default.
    torch.backends.cudnn.allow_tf32 = is_tf32
    torch.use_deterministic_algorithms(config.deterministic)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(precision)
        torch.backends.cudnn.allow_tf32 = cudnn
        torch.use_deterministic_algorithms(is_deterministic, warn_only=warns)
