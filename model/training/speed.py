"""Measures a training: its speed, its peak memory, and the reached share of the device's peak speed."""

import time

import torch
from torch import Tensor, nn

from model.networks.embedding import TokenHead
from model.networks.transformer.attention import MultiHeadAttention

GIB = 2**30
# Dense operations per second in bfloat16, from NVIDIA's data sheets. A key is the first words of a GPU's name; longer
# keys come first, because the first match counts.
PEAKS = {
    "NVIDIA H100 PCIe": 756e12,
    "NVIDIA H100 NVL": 835e12,
    "NVIDIA H100": 989.4e12,
    "NVIDIA H200 NVL": 835e12,
    "NVIDIA H200": 989.4e12,
    "NVIDIA A100": 312e12,
    "NVIDIA L40S": 362e12,
    "NVIDIA L4": 121e12,
    "NVIDIA A10": 125e12,
}


def operations_per_token(network: nn.Module, length: float) -> float:
    """Return the number of additions and multiplications that a training step takes per token of a sequence.

    The number is 6 N + 6 A T, because each product takes 2 operations (multiply, add) in the forward pass and 4 in the
    backward pass. N is the number of parameters. The parameters of an embedding count only if the output layer shares
    them. A is the sum of num_heads * (key_width + value_width) over the attention modules of a Transformer. T is
    `length`, the number of tokens in the sequence. Nonlinearities and recomputed activations do not count.

    Source: Chowdhery et al. 2022, "PaLM", appendix B.
    """
    looked_up = {id(module.weight) for module in network.modules() if isinstance(module, nn.Embedding)}
    attended = 0
    for module in network.modules():
        if isinstance(module, TokenHead):
            looked_up -= {id(embedding.tokens.weight) for embedding in module.tied if embedding.tokens is not None}
        elif isinstance(module, MultiHeadAttention):
            attended += module.num_heads * (module.key_width + module.value_width)
    multiplied = sum(parameter.numel() for parameter in network.parameters() if id(parameter) not in looked_up)
    return 6.0 * (multiplied + attended * length)


def peak_of(device: torch.device) -> float | None:
    """Return the peak speed of a device in bfloat16, in operations per second; None = unknown."""
    if device.type != "cuda":
        return None
    name = torch.cuda.get_device_name(device).replace("-", " ") + " "
    if " MIG " in name:  # a slice of a GPU
        return None
    return next((peak for words, peak in PEAKS.items() if name.startswith(f"{words} ")), None)


class Speed:
    """The speed of the updates since the last evaluation, without the time for evaluations and for saving states."""

    def __init__(self, network: nn.Module, lengths: Tensor, device: torch.device, processes: int) -> None:
        """Begin without measured updates; `processes` is the number of processes that train together.

        `lengths` (examples,) has the number of tokens of each example. If an example is a pair, only the longer side
        of the pair is counted.
        """
        self.lengths, self.device, self.peak = lengths, device, (peak_of(device) or 0.0) * processes
        self.operations = operations_per_token(network, float(lengths.double().mean())) if self.peak else 0.0
        self.batches: list[Tensor] = []
        self.seconds, self.began = 0.0, 0.0

    def begin(self) -> None:
        """Record the time at the start of a series of updates."""
        self.began = time.perf_counter()

    def add(self, batches: list[Tensor]) -> None:
        """Count the batches of an update."""
        self.batches += batches

    def end(self) -> None:
        """Count the time since `begin`; call this method after the device has finished the updates."""
        self.seconds += time.perf_counter() - self.began

    def measured(self) -> dict[str, float]:
        """Return the measurements since the last call. The measurements differ from run to run.

        If no update happened since the last call, return an empty dict.

        - `tokens_per_second`: padding is not counted.
        - `memory_peak`: in GiB, including the evaluation; only on a GPU.
        - `share_of_peak`: the operations per second of all processes, divided by the peak operations per second of all
          their GPUs; from 0 to 1. The operations are counted by the function `operations_per_token`. If the peak speed
          of the GPU is unknown, this measurement is missing.
        """
        if not self.batches:
            return {}
        rate = int(self.lengths[torch.cat(self.batches)].sum()) / self.seconds
        values = {"tokens_per_second": rate}
        if self.device.type == "cuda":
            values["memory_peak"] = torch.cuda.max_memory_allocated(self.device) / GIB
            torch.cuda.reset_peak_memory_stats(self.device)
        if self.peak:
            values["share_of_peak"] = self.operations * rate / self.peak
        self.batches, self.seconds = [], 0.0
        return values
