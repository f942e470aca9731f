"""Speed of the trainer on a GPU: tokens per second, and the share of the card's own rate of matrix products.

    PYTHONPATH=. python benchmarks/training_gpu.py [--width 512] [--batch 128] [--time 256] [--quick]

Needs an NVIDIA GPU, this repository's model/, conf/ and benchmarks/, and of the dependencies torch, numpy, pydantic,
pyyaml, safetensors, tokenizers and sacrebleu; neither ray nor mlflow. `--quick` runs tiny sizes on any machine, only to
check that everything runs.

One step is what `model.training.train` does for an update: gathering the batch, forward, backward, update, checking
the loss, in bfloat16 (autocast), compiled. Its floating-point operations are those of its matrix products and
attentions, counted by torch's FlopCounterMode on an uncompiled step; the card's rate is measured in the same run, on
products of 8192 x 8192 matrices of random bfloat16 numbers. Times are wall time, after waiting for the device.

A second table has the default study's network, the small encoder of digits, in float32: its step as the trainer takes
it, and the same step captured once as a CUDA graph and replayed, each with a new batch.
"""

import argparse
import platform
import time
from dataclasses import dataclass, fields
from datetime import date

import torch
import yaml
from steps import CONF, DATA, Size, Step, configure, learn, make_items, new_update
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from model.config.whole import parse
from model.tasks.classification import Classification
from model.training.numerics import autocast
from model.training.optimise import clip_gradients
from model.training.update import Losses, Update


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
    print("\n| a step of the digits encoder | steps/s |\n|---|---|")
    update, indices = digits_update(device)
    losses = Losses(0, device)
    eager = seconds_of(lambda: losses.add(*update([indices], lr=1e-4)), 10 * options.steps, device)
    print(f"| eager | {1 / eager:.0f} |")
    if has_gpu:
        replayed = seconds_of(graphed(digits_update(device)[0], indices), 10 * options.steps, device)
        print(f"| replayed as a CUDA graph | {1 / replayed:.0f} |\n| ratio | {eager / replayed:.2f} |")


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


def digits_update(device: torch.device) -> tuple[Update, Tensor]:
    """Return the trainer's step of the published configuration on images of random numbers, and a batch's indices."""
    groups = {"model": "encoder", "data": "digits", "training": "default"}
    values = {group: yaml.safe_load((CONF / group / f"{name}.yaml").read_text()) for group, name in groups.items()}
    values["training"]["device"] = device.type
    config, rows = parse(values), torch.randint(17, (1000, 8, 8), generator=torch.Generator().manual_seed(0)).tolist()
    items = [{"rows": image, "label": str(number % 10)} for number, image in enumerate(rows)]
    task = Classification.learn(config, items, range(len(items)))
    return new_update(task, config, task.encode(items), device), torch.arange(config.training.batch_size)


def graphed(update: Update, indices: Tensor, warm_up: int = 3) -> Step:
    """Return the update as a CUDA graph, captured after a warm-up on another stream, as torch's notes on CUDA ask.

    Each call copies its batch into the captured one's memory, and replays forward, backward, clipping and optimizer.
    """
    task, config, (optimizer,) = update.task, update.config, update.optimizers
    batch, count = task.batch(update.data, indices, update.device), task.count(update.data, indices)
    for group in optimizer.param_groups:
        group["capturable"], group["lr"] = True, torch.tensor(1e-4, device=update.device)

    def step() -> Tensor:
        with autocast(config, update.device):
            loss = task.loss(update.network, batch, config.label_smoothing, config.z_loss).objective
        (loss / count).backward()
        if config.clip_norm is not None:
            clip_gradients(update.network, config.clip_norm)
        optimizer.step()
        return loss.detach()

    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(warm_up):
            optimizer.zero_grad(set_to_none=True)
            step()
    torch.cuda.current_stream().wait_stream(stream)
    # Without gradients, so that the captured backward makes them in the graph's own memory.
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = step()

    def replay() -> Tensor:
        fresh = task.batch(update.data, indices, update.device)
        for field in fields(batch):
            if isinstance(held := getattr(batch, field.name), Tensor):
                held.copy_(getattr(fresh, field.name))
        graph.replay()
        return loss

    return replay


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
