"""Handles out-of-memory errors: builds the message, and frees the memory of the failed batch."""

import re
import traceback

import torch

from model.config.training import TrainingConfig
from model.errors import OutOfMemoryError

GIB = 2**30
# Parts of torch's messages: the requested size, and the name that identifies the error on the CPU, where torch has no
# class for it.
ASKED_FOR = re.compile(r"[Tt]ried to allocate ([\d.]+) (GiB|MiB|KiB|bytes)")
CPU_FAULT = "DefaultCPUAllocator"
# Messages of libraries that allocate GPU memory without torch's allocator, for which torch raises RuntimeError. They
# come from cuBLAS in cublasCreate (https://github.com/pytorch/pytorch/issues/128601), from cuDNN (in version 9
# CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED), and from the CUDA runtime. *_STATUS_NOT_INITIALIZED is left
# out, because an old driver or an earlier failed assertion can cause it as well as a full GPU.
GPU_FAULT = re.compile(r"(CUBLAS|CUDNN|HIPBLAS)_STATUS_\w*ALLOC(ATION)?_FAILED|(CUDA|HIP) error: out of memory")


def is_out_of_memory(error: RuntimeError) -> bool:
    """Return whether torch raised the error for lack of memory, on a GPU or on the CPU."""
    message = str(error)
    return isinstance(error, torch.OutOfMemoryError) or CPU_FAULT in message or GPU_FAULT.search(message) is not None


def out_of_memory(error: RuntimeError, config: TrainingConfig, device: torch.device) -> OutOfMemoryError:
    """Return an error that explains how an update ran out of memory, and free the memory of the update."""
    limit = "" if config.batch_tokens is None else f" and training.batch_tokens {config.batch_tokens}"
    lower = "training.batch_size" if config.batch_tokens is None else "training.batch_tokens"
    return _error(
        error,
        device,
        f"training.batch_size {config.batch_size}{limit}",
        f"{lower}, and raise training.accumulation by the same factor",
    )


def out_of_evaluation_memory(error: RuntimeError, config: TrainingConfig, device: torch.device) -> OutOfMemoryError:
    """Return an error that explains how an evaluation ran out of memory, and free the memory of the evaluation."""
    settings = f"training.evaluation_tokens {config.evaluation_tokens} in an evaluation"
    return _error(error, device, settings, "training.evaluation_tokens")


def _error(error: RuntimeError, device: torch.device, settings: str, lower: str) -> OutOfMemoryError:
    free, total, held = _memory(device)
    # The worker process continues, so free the activations of the batch, which the frames still hold.
    traceback.clear_frames(error.__traceback__)
    if device.type == "cuda":
        torch.cuda.empty_cache()
    match = ASKED_FOR.search(str(error))
    requested = "" if match is None else f"{match[1]} {match[2]} more were requested, "
    where = "GPU memory" if device.type == "cuda" else "memory"
    return OutOfMemoryError(
        f"out of {where} with {settings}: {requested}{free / GIB:.1f} of {total / GIB:.1f} GiB were free, "
        f"{held / GIB:.1f} GiB were used by this process; lower {lower}"
    )


def _memory(device: torch.device) -> tuple[int, int, int]:
    """Return, in bytes, the free memory and the total memory of the device, and the memory of this process."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        return free, total, torch.cuda.memory_reserved(device)
    import psutil  # imported here, because only this error needs it

    memory = psutil.virtual_memory()
    return memory.available, memory.total, psutil.Process().memory_info().rss
