"""The handling of memory that ran out: its message, and what is freed."""

import re
import traceback

import torch

from model.config.training import TrainingConfig
from model.errors import OutOfMemoryError

GIB = 2**30
# How torch begins its messages: on a GPU, and on the CPU, where it has no class of its own for this.
ASKED_FOR = re.compile(r"[Tt]ried to allocate ([\d.]+) (GiB|MiB|KiB|bytes)")
CPU_FAULT = "DefaultCPUAllocator"
# What libraries say that allocate on a GPU past torch's allocator; torch raises it as a RuntimeError: cuBLAS in
# cublasCreate (https://github.com/pytorch/pytorch/issues/128601), cuDNN (its version 9 says
# CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED), the CUDA runtime itself. *_STATUS_NOT_INITIALIZED, which a full
# GPU may give too, is not among them: a driver that does not fit, or a failed assertion before, gives it as well.
GPU_FAULT = re.compile(r"(CUBLAS|CUDNN|HIPBLAS)_STATUS_\w*ALLOC(ATION)?_FAILED|(CUDA|HIP) error: out of memory")


def is_out_of_memory(error: RuntimeError) -> bool:
    """Return whether torch raised it because memory ran out, on a GPU or on the CPU."""
    message = str(error)
    return isinstance(error, torch.OutOfMemoryError) or CPU_FAULT in message or GPU_FAULT.search(message) is not None


def out_of_memory(error: RuntimeError, config: TrainingConfig, device: torch.device) -> OutOfMemoryError:
    """Return the error with its figures, and free what the failed update held, for the next training."""
    limit = "" if config.batch_tokens is None else f" and training.batch_tokens {config.batch_tokens}"
    lower = "training.batch_size" if config.batch_tokens is None else "training.batch_tokens"
    return _error(
        error,
        device,
        f"training.batch_size {config.batch_size}{limit}",
        f"{lower} and raise training.accumulation by as much",
    )


def out_of_evaluation_memory(error: RuntimeError, config: TrainingConfig, device: torch.device) -> OutOfMemoryError:
    """Return the error of an evaluation as `out_of_memory` does that of an update."""
    given = f"training.evaluation_tokens {config.evaluation_tokens} in an evaluation"
    return _error(error, device, given, "training.evaluation_tokens")


def _error(error: RuntimeError, device: torch.device, given: str, lower: str) -> OutOfMemoryError:
    free, total, held = _figures(device)
    # The frames still hold the batch's activations, and the worker process continues.
    traceback.clear_frames(error.__traceback__)
    if device.type == "cuda":
        torch.cuda.empty_cache()
    asked = ASKED_FOR.search(str(error))
    wanted = "" if asked is None else f"{asked[1]} {asked[2]} more were asked for, "
    where = "GPU memory" if device.type == "cuda" else "memory"
    return OutOfMemoryError(
        f"out of {where} with {given}: {wanted}{free / GIB:.1f} of {total / GIB:.1f} GiB were free, "
        f"{held / GIB:.1f} GiB were held here; lower {lower}"
    )


def _figures(device: torch.device) -> tuple[int, int, int]:
    """Return bytes: free on the device, in total, and held by this process."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        return free, total, torch.cuda.memory_reserved(device)
    import psutil  # here: needed only when memory runs out

    memory = psutil.virtual_memory()
    return memory.available, memory.total, psutil.Process().memory_info().rss
