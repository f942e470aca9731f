"""What check.py measures besides the tests: each part prints its rows, one JSON list a line, as they are there.

python -m benchmarks.gpu.parts peak|batching|compile|digits [--smoke]
"""

import argparse
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import torch

from benchmarks.gpu.steps import Sides, language_model
from benchmarks.shared.steps import Size, Step, configure, published, take_turns
from model import objective
from model.config.data import DigitsConfig
from model.config.training import TrainingConfig
from model.data.readers.digits import read_digits
from model.data.store import write_store
from model.training.speed import peak_of

Row = list[str]


@dataclass(frozen=True)
class Part:
    """A table of the page, and the seconds that it may take."""

    title: str
    text: str
    header: tuple[str, ...]
    seconds: float


PARTS = {
    "peak": Part(
        "Share of the card's peak",
        "One step of a language model (gather, forward, backward, AdamW) in bfloat16, not compiled: ours is the "
        "trainer's `Update`; torch.nn has its `TransformerEncoder`; the minimal loop is written by hand (pre-norm "
        "blocks, `scaled_dot_product_attention`, fused AdamW). Same shape, batch and precision; the sides take turns, "
        "and times are medians. Operations per token are 6 N + 12 L H Q T for all three (Chowdhery et al. 2022, "
        "appendix B; N without embeddings that are only looked up), over the card's peak in bfloat16.",
        ("width x layers", "batch x time", "side", "ms a step", "tokens/s", "share of peak", "speed / ours"),
        100,
    ),
    "batching": Part(
        "Padded against packed",
        "Whole trainings on texts of differing lengths, by each way of batching; tokens are real ones, without padding "
        "(of a pair those of the longer side), evaluations are left out.",
        ("task", "batching", "tokens/s", "/ shuffled", "peak memory, GiB"),
        105,
    ),
    "compile": Part(
        "Compiled or not",
        "The trainer's step as above with `training.compile` off and on, and the minimal loop with `torch.compile`; "
        "the first step compiles.",
        ("width x layers", "side", "first step, s", "ms a step", "tokens/s", "share of peak", "speed / off"),
        150,
    ),
    "digits": Part(
        "Small trainings one after the other",
        "The published digits study's training in one process, one after the other: what a trainer that trains several "
        "at once would have to beat. Start-up is what comes before the first update: reading, building, moving.",
        ("device", "trainings", "seconds", "s a training", "start-up", "steps/s, start-up left out"),
        90,
    ),
}
# Width, layers, heads, sequences in a batch, tokens in each; with the special tokens the vocabulary is 8192.
SHAPES = (Size(256, 6, 4, 64, 512, 8188), Size(768, 6, 12, 32, 1024, 8188), Size(2048, 6, 16, 16, 1024, 8188))
TINY = (Size(16, 1, 2, 2, 8, 28), Size(32, 1, 2, 2, 8, 28))
# After which no further training begins, so that the row is there at the part's limit.
DIGITS_SECONDS = 40.0


@dataclass(frozen=True)
class Conditions:
    """Where is measured, in what precision, and how much."""

    device: torch.device
    precision: str
    smoke: bool

    @property
    def shapes(self) -> tuple[Size, ...]:
        """The language models' shapes."""
        return TINY if self.smoke else SHAPES

    def share(self, operations: float, seconds: float) -> str:
        """Return the share of the device's peak, where that is known."""
        peak = peak_of(self.device)
        return "unknown" if peak is None else f"{operations / seconds / peak:.1%}"

    def wait(self) -> None:
        """Wait until the device has done all work."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def seconds_of(self, step: Step, repeats: int = 1) -> float:
        """Return the wall seconds of one call of `repeats`."""
        self.wait()
        start = time.perf_counter()
        for _ in range(repeats):
            step()
        self.wait()
        return (time.perf_counter() - start) / repeats

    def take_turns(self, sides: Mapping[str, Step]) -> dict[str, list[float]]:
        """Return each side's seconds a step, round by round; the order of the sides rotates."""
        rounds, repeats, warm_up = (2, 1, 1) if self.smoke else (15, 5, 5)
        return take_turns(sides, rounds, warm_up, lambda step: self.seconds_of(step, repeats))


def main() -> None:
    """Print the rows of one part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    device = torch.device("cpu" if options.smoke else "cuda")
    given = Conditions(device, "float32" if options.smoke else "bfloat16", options.smoke)
    for row in MEASURES[options.part](given):
        print(json.dumps(row), flush=True)


def measure_peak(given: Conditions) -> Iterator[Row]:
    """Yield a row of a matrix product, which is what can be reached at all, and one per shape and side."""
    width = 64 if given.smoke else 8192
    one, other = (torch.randn(width, width, device=given.device, dtype=torch.bfloat16) for _ in range(2))
    seconds = statistics.median(given.take_turns({"product": lambda: one @ other})["product"])
    share = given.share(2 * width**3, seconds)
    yield [f"{width}", f"{width}", "one matrix product", f"{1000 * seconds:.1f}", "", share, ""]
    for size in given.shapes:
        sides = language_model(size, given.device, given.precision)
        steps = {"ours": sides.ours(), "torch.nn": sides.torch_nn(), "minimal loop": sides.minimal()}
        seconds = given.take_turns(steps)
        for side, times in seconds.items():
            ratio = statistics.median(ours / other for ours, other in zip(seconds["ours"], times, strict=True))
            yield [*shape_of(size), side, *speed_of(sides, statistics.median(times), given), f"{ratio:.2f}"]


def measure_compile(given: Conditions) -> Iterator[Row]:
    """Yield a row per shape and side; the smallest shape first, since compiling takes longest."""
    for size in given.shapes:
        sides = language_model(size, given.device, given.precision)
        # The minimal loop last: the trainer resets the compiler.
        makers: dict[str, Callable[[], Step]] = {
            "off": sides.ours,
            "on": lambda sides=sides: sides.ours(compiled=True),
            "minimal loop, compiled": lambda sides=sides: sides.minimal(compiled=True),
        }
        steps = {side: make() for side, make in makers.items()}
        first = {side: given.seconds_of(step) for side, step in steps.items()}
        seconds = given.take_turns(steps)
        for side, times in seconds.items():
            ratio = statistics.median(off / other for off, other in zip(seconds["off"], times, strict=True))
            speed = speed_of(sides, statistics.median(times), given)
            yield [shape_of(size)[0], side, f"{first[side]:.1f}", *speed, f"{ratio:.2f}"]


def shape_of(size: Size) -> Row:
    """Return the two cells that name a shape."""
    return [f"{size.width} x {size.layers}", f"{size.batch} x {size.time}"]


def speed_of(sides: Sides, seconds: float, given: Conditions) -> Row:
    """Return the cells of a step's speed: milliseconds, tokens per second, share of the peak."""
    share = given.share(sides.operations * sides.tokens, seconds)
    return [f"{1000 * seconds:.1f}", f"{sides.tokens / seconds:,.0f}", share]


def measure_batching(given: Conditions) -> Iterator[Row]:
    """Yield a row per task and way of batching, from the learning curves' own `tokens_per_second`."""
    size = TINY[0] if given.smoke else Size(768, 6, 12, 128, 256)
    count, epochs = (24, 2) if given.smoke else (5000, 3)
    for shape, longest in (("encoder", size.time), ("encoder_decoder", min(size.time, 100))):
        items = texts_of_lengths(shape, count, longest)
        rates: dict[str, float] = {}
        for batching in allowed("batching"):
            training = {"batching": batching, "precision": given.precision, "device": given.device.type}
            settings = {"epochs": epochs, "patience": None, "evaluation_tokens": 4096}
            config = configure(shape, size, {"max_length": longest}, training | settings)
            points = curve(config.model_dump(), items, num_validation=2)
            # The first epoch warms up.
            rates[batching] = statistics.median(point["tokens_per_second"] for point in points[1:])
            memory = max(point.get("memory_peak", 0.0) for point in points)
            ratio = rates[batching] / rates["shuffled"]
            task = {"encoder": "classification", "encoder_decoder": "translation"}[shape]
            yield [task, batching, f"{rates[batching]:,.0f}", f"{ratio:.2f}", f"{memory:.1f}"]


def measure_digits(given: Conditions) -> Iterator[Row]:
    """Yield the row of the device, then that of the CPU beside it."""
    counts = {"cpu": 2} if given.smoke else {"cuda": 32, "cpu": 4}
    values = published("encoder", "digits")
    items = read_digits(DigitsConfig(name="digits")).items[: 200 if given.smoke else None]
    for device, count in counts.items():
        config = values | {"training": values["training"] | {"device": device}}
        if given.smoke:
            config["training"]["epochs"] = 2
        began, start_up, num_steps, done = time.perf_counter(), 0.0, 0.0, 0
        while done < count and time.perf_counter() - began < DIGITS_SECONDS:
            stamps = [time.perf_counter()]
            points = curve(config, items, len(items) // 5, done, stamps)
            # Up to the end of the first epoch, less what a later one takes.
            epochs = [after - before for before, after in itertools.pairwise(stamps)]
            start_up += epochs[0] - statistics.median(epochs[1:])
            num_steps += points[-1]["step"]
            done += 1
        total = time.perf_counter() - began
        yield [
            device, f"{done} of {count}", f"{total:.1f}", f"{total / done:.2f}", f"{start_up / total:.0%}",
            f"{num_steps / (total - start_up):.0f}",
        ]  # fmt: skip


MEASURES: dict[str, Callable[[Conditions], Iterator[Row]]] = {
    "peak": measure_peak,
    "batching": measure_batching,
    "compile": measure_compile,
    "digits": measure_digits,
}


def allowed(key: str) -> tuple[str, ...]:
    """Return the values that a key of the training may have."""
    return get_args(TrainingConfig.model_fields[key].annotation)


def texts_of_lengths(shape: str, count: int, longest: int) -> list[dict[str, str]]:
    """Return texts whose lengths are distributed as those of sentences: log-normal, here with a mean of some 50 words.

    Source: log-normal: Sichel 1974, "On a distribution representing sentence-length in written prose", for its shape.
    """
    generator = torch.Generator().manual_seed(0)
    lengths = (3.7 + 0.6 * torch.randn(count, generator=generator)).exp().round().int().clamp(3, longest)
    numbers = torch.randint(8000, (int(lengths.sum()),), generator=generator)
    texts = [" ".join(f"w{number}" for number in part.tolist()) for part in torch.split(numbers, lengths.tolist())]
    if shape == "encoder":
        return [{"text": text, "label": str(number % 10)} for number, text in enumerate(texts)]
    return [{"source": text, "target": text} for text in texts]


def curve(
    config: dict[str, Any], items: list[dict[str, Any]], num_validation: int, seed: int = 0,
    stamps: list[float] | None = None,
) -> list[dict[str, float]]:  # fmt: skip
    """Return the learning curve of a training; `stamps` gets the time of each point."""
    with tempfile.TemporaryDirectory() as folder:
        write_store(items, str(Path(folder) / "data"))
        positions = list(range(len(items)))
        task = {
            "config": config, "data_dir": str(Path(folder) / "data"), "threads": 1, "seed": seed,
            "metric": "loss", "direction": "minimize", "amount": None, "checkpoint_dir": None,
            "train": positions[num_validation:], "validation": positions[:num_validation],
        }  # fmt: skip
        points = []
        for point in objective.run_fold(task):
            points.append(point)
            if stamps is not None:
                stamps.append(time.perf_counter())
        return points


if __name__ == "__main__":
    main()
