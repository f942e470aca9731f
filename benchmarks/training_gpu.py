"""Speed of the trainer on a GPU: tokens per second, and the share of the card's own rate of matrix products.

    PYTHONPATH=. python benchmarks/training_gpu.py [--width 512] [--batch 128] [--time 256] [--quick]

Needs an NVIDIA GPU, this repository's model/, conf/ and benchmarks/, and of the dependencies torch, numpy, pydantic,
pyyaml, safetensors, tokenizers and sacrebleu; neither ray nor mlflow. `--quick` runs tiny sizes on any machine, only to
check that everything runs.

One step is what `model.training.train` does for an update: gathering the batch, forward, backward, update, checking
the loss, in bfloat16 (autocast), compiled. Its floating-point operations are those of its matrix products and
attentions, counted by torch's FlopCounterMode on an uncompiled step; the card's rate is measured in the same run, on
products of 8192 x 8192 matrices of random bfloat16 numbers. Times are wall time, after waiting for the device.
"""

import argparse
import platform
import time
from dataclasses import dataclass
from datetime import date

import torch
from steps import DATA, Size, Step, configure, learn, make_items, new_update
from torch.utils.flop_counter import FlopCounterMode

from model.training.update import Losses


@dataclass(frozen=True)
class Speed:
    """One shape's seconds and floating-point operations per step, and tokens per batch, padding not counted."""

    seconds: float
    operations: float
    tokens: int


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--batch", type=int, default=128, help="sequences in a batch")
    parser.add_argument("--time", type=int, default=256, help="tokens in a sequence")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, on whatever device there is")
    options = parser.parse_args()
    has_gpu = torch.cuda.is_available()
    if not has_gpu and not options.quick:
        raise SystemExit("there is no GPU; --quick runs tiny sizes on the CPU")
    device = torch.device("cuda" if has_gpu else "cpu")
    size = Size(options.width, options.layers, 8, options.batch, options.time, symbols=8000)
    if options.quick:
        size, options.steps = Size(64, 1, 2, 4, 16, symbols=100), 2

    name = torch.cuda.get_device_name() if has_gpu else platform.machine()
    print(f"{date.today()} · {name} · torch {torch.__version__} · {size}\n")
    rate = matrix_rate(8192 if has_gpu else 128, device)
    print(f"bfloat16 matrix products: {rate / 1e12:.1f} TFLOP/s\n")
    print("| shape | steps/s | tokens/s | TFLOP/s | share of the matrix rate |\n|---|---|---|---|---|")
    for shape in DATA:
        speed = measure(shape, size, device, options.steps)
        done = speed.operations / speed.seconds
        print(
            f"| {shape} | {1 / speed.seconds:.1f} | {speed.tokens / speed.seconds:,.0f} | {done / 1e12:.1f} | "
            f"{done / rate:.1%} |",
            flush=True,
        )


def matrix_rate(side: int, device: torch.device, repeats: int = 20) -> float:
    """Return the operations per second of products of two side x side matrices, 2 * side^3 each."""
    one, other = (torch.randn(side, side, device=device, dtype=torch.bfloat16) for _ in range(2))
    return 2 * side**3 / seconds_of(lambda: one @ other, repeats, device)


def measure(shape: str, size: Size, device: torch.device, steps: int) -> Speed:
    """Return the measurement of one shape's trainer on full batches."""
    items = make_items(shape, size)
    training = {"precision": "bfloat16", "device": device.type}
    config = configure(shape, size, {"max_length": size.time} if shape != "decoder" else None, training)
    task = learn(shape, config, size)
    data, indices = task.encode(items), torch.arange(size.batch)

    plain = new_update(task, config, data, device)
    with FlopCounterMode(display=False) as counter:
        plain([indices], lr=1e-4)
    compiled = config.model_copy(update={"training": config.training.model_copy(update={"compile": True})})
    update, losses = new_update(task, compiled, data, device), Losses(0, device)
    seconds = seconds_of(lambda: losses.add(*update([indices], lr=1e-4)), steps, device)
    # An encoder-decoder reads both sides.
    tokens = int(data.lengths[indices].sum()) * (2 if shape == "encoder_decoder" else 1)
    return Speed(seconds, counter.get_total_flops(), tokens)


def seconds_of(step: Step, repeats: int, device: torch.device, warm_up: int = 5) -> float:
    """Return the wall seconds of one call, the mean of `repeats` after a warm-up."""
    for _ in range(warm_up):
        step()
    wait_for(device)
    start = time.perf_counter()
    for _ in range(repeats):
        step()
    wait_for(device)
    return (time.perf_counter() - start) / repeats


def wait_for(device: torch.device) -> None:
    """Wait until all work on the device is done."""
    if device.type == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
