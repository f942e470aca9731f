"""Speed of the trainer, all in one run: against torch.nn, against x-transformers, and against itself.

    python -m benchmarks.training.speed [--rounds 7] [--threads 1] [--multi30k ../shared/data/multi30k/train]
    python -m benchmarks.training.speed --only parametrizations [--rounds 30]

One step is forward, backward and update, without dropout and clipping, with the same sizes, batches and optimizer
(fused AdamW) on every side. Processor time is measured, which other programs on the machine disturb less than wall
time, and the sides take turns; each figure is the median over the rounds, of ratios where it is a ratio.
x-transformers is omitted where it is not installed (`pip install x-transformers`); it runs with `attn_flash=True`, its
fastest setting here.
"""

import argparse
import itertools
import platform
import statistics
from datetime import date
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.shared.steps import (
    DATA,
    Size,
    Step,
    bare_step,
    configure,
    learn,
    new_update,
    our_step,
    take_turns,
    torch_step,
    x_step,
    x_transformers,
)
from model.data.batches import batches_by_length, shuffled_batches
from model.data.readers.source import read_examples
from model.data.tokens.vocabulary import START
from model.tasks.sequence_to_sequence import SequenceToSequence

# Steps of one turn: a turn at the smallest width is then long enough to be measured.
_STEPS = 10
SIZES = (Size(64, 2, 4, 64, 32), Size(256, 4, 8, 16, 64), Size(512, 4, 8, 8, 64))


def main() -> None:
    """Print every table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--multi30k", default="../shared/data/multi30k/train")
    comparisons = {
        "libraries": compare_libraries,
        "overhead": measure_overhead,
        "batching": lambda rounds: compare_batching(options.multi30k, rounds),
        "decoding": compare_decoding,
        "parametrizations": compare_parametrizations,
        "logits": compare_logits,
    }
    parser.add_argument("--only", choices=comparisons, nargs="+", default=list(comparisons))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"{date.today()} · torch {torch.__version__} · {platform.machine()} · {options.threads} thread(s)\n")
    for name in options.only:
        if name != "batching" or Path(f"{options.multi30k}.de.gz").exists():
            comparisons[name](options.rounds)


def compare_libraries(rounds: int) -> None:
    """Return the steps per second of the three sides, for each shape and size."""
    print("| shape | width | ours, steps/s | / torch.nn | / x-transformers |\n|---|---|---|---|---|")
    for shape in DATA:
        for size in SIZES:
            sides = {"ours": our_step(shape, size), "torch": torch_step(shape, size)}
            if x_transformers is not None:
                sides["x"] = x_step(shape, size)
            seconds = take_turns(sides, rounds)
            ratios = {side: statistics.median(ratio(seconds[side], seconds["ours"])) for side in sides}
            other = f"{ratios['x']:.2f}" if "x" in ratios else "-"
            speed = 1 / statistics.median(seconds["ours"])
            print(f"| {shape} | {size.width} | {speed:.1f} | {ratios['torch']:.2f} | {other} |", flush=True)
    print()


def measure_overhead(rounds: int) -> None:
    """Return what the trainer adds to forward, backward and update, at width 256."""
    print("| shape | trainer's own share of a step, width 256 |\n|---|---|")
    for shape in DATA:
        sides = {"ours": our_step(shape, SIZES[1]), "bare": bare_step(shape, SIZES[1])}
        seconds = take_turns(sides, 2 * rounds)
        share = 1 - statistics.median(ratio(seconds["bare"], seconds["ours"]))
        print(f"| {shape} | {share:.1%} |", flush=True)
    print()


def compare_batching(prefix: str, rounds: int, batch_size: int = 64, batches_per_round: int = 6) -> None:
    """Return the examples per second with similar lengths together, and in random order padded to the longest."""
    config = configure(
        "encoder_decoder", Size(64, 2, 4, batch_size, 100),
        {"path": prefix, "format": "aligned", "source_ending": ".de.gz", "target_ending": ".en.gz"},
    )  # fmt: skip
    items = read_examples(config.data).items[:8000]
    task = SequenceToSequence.learn(config, items, range(len(items)))
    data, generator = task.encode(items), torch.Generator().manual_seed(0)
    update = new_update(task, config, data)
    plans = {
        "by_length": batches_by_length(data.lengths, batch_size, None, generator),
        "shuffled": shuffled_batches(len(data), batch_size, generator),
    }

    def part(plan: list[Tensor]) -> Step:
        turn = iter(range(10**9))

        def step() -> None:
            start = next(turn) * batches_per_round
            for number in range(start, start + batches_per_round):
                update([plan[number % len(plan)]], lr=1e-4)

        return step

    # Every batch of both plans is used equally often, so that a plan's cost covers all its lengths.
    turns = max(rounds, -(-len(plans["shuffled"]) // batches_per_round))
    seconds = take_turns({name: part(plan) for name, plan in plans.items()}, turns)
    speed = {name: batches_per_round * batch_size * len(each) / sum(each) for name, each in seconds.items()}
    print("| batches of 64 on multi30k | examples/s |\n|---|---|")
    for name, examples in speed.items():
        print(f"| {name} | {examples:.0f} |")
    print(f"| ratio | {speed['by_length'] / speed['shuffled']:.2f} |\n", flush=True)


@torch.no_grad()
def compare_decoding(rounds: int, length: int = 128) -> None:
    """Return the seconds for 128 tokens with and without the key/value cache."""
    config = configure("encoder_decoder", SIZES[1])
    task = learn("encoder_decoder", config, SIZES[1])
    network, source = task.build(config).eval(), torch.randint(4, 50, (8, 32))
    begun = network.begin(source, None)

    def decode(with_cache: bool) -> None:
        state, tokens = begun.initial(), torch.full((8, 1), START)
        for _ in range(length):
            logits = network.advance(tokens[:, -1:], state) if with_cache else network.advance(tokens, begun.initial())
            tokens = torch.cat([tokens, logits[:, -1:].argmax(-1)], dim=1)

    sides = {"with": lambda: decode(True), "without": lambda: decode(False)}
    seconds = take_turns(sides, max(rounds // 2, 2), warm_up=1)
    times = statistics.median(ratio(seconds["without"], seconds["with"]))
    print(f"| decoding 128 tokens, width 256, batch 8 | |\n|---|---|\n| faster with the cache | {times:.1f} times |")


def compare_parametrizations(rounds: int) -> None:
    """Print how many times as long a step takes with `model.parametrization=mup`, of a decoder of three layers."""
    rounds = max(rounds, 12)
    print(
        f"| optimizer | width | step of mup / of standard, median of {rounds} turns of {_STEPS} steps |\n|---|---|---|"
    )
    for optimizer, width in itertools.product(("adamw", "muon"), (32, 128, 256)):
        size = Size(width, 3, 4, 16, 64, symbols=100)
        sides = {
            name: repeated(
                our_step("decoder", size, training={"optimizer": optimizer}, model={"parametrization": name})
            )
            for name in ("standard", "mup")
        }
        seconds = take_turns(sides, rounds, warm_up=1)
        print(
            f"| {optimizer} | {width} | {statistics.median(ratio(seconds['mup'], seconds['standard'])):.3f} |",
            flush=True,
        )
    print()


def compare_logits(rounds: int) -> None:
    """Print how long a step takes whose logits, 2^27, are too many to exist at once; torch.nn keeps all of them."""
    size = Size(128, 2, 2, 32, 256, symbols=16380)
    sides = {
        "ours": our_step("decoder", size),
        "torch.nn": torch_step("decoder", size),
    }
    seconds = take_turns(sides, rounds, warm_up=1)
    print("| a step of 2^27 logits, width 128 | s | / ours |\n|---|---|---|")
    for side, each in seconds.items():
        print(f"| {side} | {statistics.median(each):.2f} | {statistics.median(ratio(each, seconds['ours'])):.2f} |")
    print()


def repeated(step: Step) -> Step:
    """Return the steps of one turn."""

    def steps() -> None:
        for _ in range(_STEPS):
            step()

    return steps


def ratio(one: list[float], other: list[float]) -> list[float]:
    """Return, round by round, how many times as long `one` took."""
    return [a / b for a, b in zip(one, other, strict=True)]


if __name__ == "__main__":
    main()
