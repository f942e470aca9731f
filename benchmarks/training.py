"""Speed of the trainer, all in one run: against torch.nn, against x-transformers, and against itself.

    python benchmarks/training.py [--rounds 7] [--threads 1] [--multi30k ../shared/data/multi30k/train]

One step is forward, backward and update, without dropout and clipping, with the same sizes, batches and optimizer
(fused AdamW) on every side. Counted is processor time, which other programs on the machine disturb less than time by
the clock, and the sides take turns; each figure is the median over the rounds, of ratios where it is a ratio.
x-transformers is left out where it is not installed
(`pip install x-transformers`); it runs with `attn_flash=True`, its fastest setting here.
"""

import argparse
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor, nn
from torch.nn import functional

from model.config import Config, parse
from model.data.batches import batches_by_length, shuffled_batches
from model.data.vocabulary import START
from model.optimise import build_optimizers
from model.tasks.classification import Classification
from model.tasks.language_modelling import LanguageModelling
from model.tasks.sequence_to_sequence import SequenceToSequence
from model.update import Losses, Update

try:
    import x_transformers
except ImportError:
    x_transformers = None

CONF = Path(__file__).parents[1] / "conf"
CPU = torch.device("cpu")
SYMBOLS = 1000
Step = Callable[[], object]


@dataclass(frozen=True)
class Size:
    """How large network and batches are."""

    width: int
    layers: int
    heads: int
    batch: int
    time: int


SIZES = (Size(64, 2, 4, 64, 32), Size(256, 4, 8, 16, 64), Size(512, 4, 8, 8, 64))
DATA = {"encoder": "text_classification", "decoder": "language_modelling", "encoder_decoder": "translation"}
TASKS = {"encoder": Classification, "decoder": LanguageModelling, "encoder_decoder": SequenceToSequence}


def main() -> None:
    """Prints every table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--multi30k", default="../shared/data/multi30k/train")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"{date.today()} · torch {torch.__version__} · {platform.machine()} · {options.threads} thread(s)\n")
    compare_libraries(options.rounds)
    measure_overhead(options.rounds)
    if Path(f"{options.multi30k}.de.gz").exists():
        compare_batching(options.multi30k, options.rounds)
    compare_decoding(options.rounds)


def compare_libraries(rounds: int) -> None:
    """Steps per second of the three sides, for each shape and size."""
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
    """What the trainer adds to forward, backward and update, at width 256."""
    print("| shape | trainer's own share of a step, width 256 |\n|---|---|")
    for shape in DATA:
        sides = {"ours": our_step(shape, SIZES[1]), "bare": bare_step(shape, SIZES[1])}
        seconds = take_turns(sides, 2 * rounds)
        share = 1 - statistics.median(ratio(seconds["bare"], seconds["ours"]))
        print(f"| {shape} | {share:.1%} |", flush=True)
    print()


def compare_batching(prefix: str, rounds: int, batch_size: int = 64, batches_per_round: int = 6) -> None:
    """Examples per second with like lengths together, against batches in random order padded to their longest."""
    from model.data.source import read_examples

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

    # Every batch of both plans is used equally often: a plan's cost is that of all its lengths.
    turns = max(rounds, -(-len(plans["shuffled"]) // batches_per_round))
    seconds = take_turns({name: part(plan) for name, plan in plans.items()}, turns)
    speed = {name: batches_per_round * batch_size * len(each) / sum(each) for name, each in seconds.items()}
    print("| batches of 64 on multi30k | examples/s |\n|---|---|")
    for name, examples in speed.items():
        print(f"| {name} | {examples:.0f} |")
    print(f"| ratio | {speed['by_length'] / speed['shuffled']:.2f} |\n", flush=True)


@torch.no_grad()
def compare_decoding(rounds: int, length: int = 128) -> None:
    """Seconds for 128 tokens with the key/value cache and without it."""
    config = configure("encoder_decoder", SIZES[1])
    task = learn("encoder_decoder", config, SIZES[1])
    network, source = task.build(config).eval(), torch.randint(4, 50, (8, 32))
    encoded = network.encode(source, None)

    def decode(with_cache: bool) -> None:
        cache, tokens = network.new_cache(), torch.full((8, 1), START)
        for _ in range(length):
            given = tokens[:, -1:] if with_cache else tokens
            logits = network.decode(given, encoded, None, cache if with_cache else None)
            tokens = torch.cat([tokens, logits[:, -1:].argmax(-1)], dim=1)

    sides = {"with": lambda: decode(True), "without": lambda: decode(False)}
    seconds = take_turns(sides, max(rounds // 2, 2), warm_up=1)
    times = statistics.median(ratio(seconds["without"], seconds["with"]))
    print(f"| decoding 128 tokens, width 256, batch 8 | |\n|---|---|\n| faster with the cache | {times:.1f} times |")


def configure(shape: str, size: Size, data: dict[str, Any] | None = None) -> Config[Any, Any]:
    """The published configuration, with the benchmark's sizes."""
    groups = {"model": shape, "data": DATA[shape], "training": "default"}
    values = {group: yaml.safe_load((CONF / group / f"{name}.yaml").read_text()) for group, name in groups.items()}
    widths = {"d_model": size.width, "num_layers": size.layers, "num_heads": size.heads, "dropout": 0.0}
    values["model"] |= widths | {"feed_forward_width": 4 * size.width, "nonlinearity": "relu"}
    values["training"] |= {"clip_norm": None, "batch_size": size.batch, "device": "cpu"}
    values["data"] |= {"min_count": 1, "tokens": "words"} | (data or {})
    if shape == "decoder":
        values["data"]["context"] = size.time
    return parse(values)


def learn(shape: str, config: Config[Any, Any], size: Size) -> Any:
    """The task of generated texts with SYMBOLS words."""
    return TASKS[shape].learn(config, items := make_items(shape, size), range(len(items)))


def make_items(shape: str, size: Size) -> list[dict[str, str]]:
    """Texts of `size.time` words; the first ones together hold every word."""
    generator, count = torch.Generator().manual_seed(0), max(4 * size.batch, SYMBOLS // size.time + 1)
    numbers = torch.randint(SYMBOLS, (count, size.time), generator=generator)
    numbers.view(-1)[:SYMBOLS] = torch.arange(SYMBOLS)
    texts = [" ".join(f"w{number}" for number in row) for row in numbers.tolist()]
    if shape == "encoder":
        return [{"text": text, "label": str(number % 10)} for number, text in enumerate(texts)]
    if shape == "decoder":
        return [{"text": text + "\n"} for text in texts]
    return [{"source": text, "target": text} for text in texts]


def new_update(task: Any, config: Config[Any, Any], data: Any) -> Update:
    """Our trainer's step, on a fresh network."""
    torch.manual_seed(0)
    network = task.build(config)
    network.train()
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    optimizers = build_optimizers(network, config.training)
    return Update(task, network, config.training, data, CPU, optimizers, scaler)


def our_step(shape: str, size: Size) -> Step:
    """A step as `model.train` makes it: gathering the batch and watching the loss included."""
    config = configure(shape, size)
    task = learn(shape, config, size)
    update = new_update(task, config, task.encode(make_items(shape, size)))
    indices, losses = torch.arange(size.batch), Losses(0, CPU)
    return lambda: losses.add(*update([indices], lr=1e-4))


def bare_step(shape: str, size: Size) -> Step:
    """Forward, backward and update of our network, and nothing else."""
    config = configure(shape, size)
    task = learn(shape, config, size)
    update = new_update(task, config, task.encode(make_items(shape, size)))
    batch = task.batch(update.data, torch.arange(size.batch), CPU)
    count = task.count(batch)

    def step() -> None:
        (task.loss(update.network, batch, 0.0) / count).backward()
        update.optimizers[0].step()
        update.optimizers[0].zero_grad()

    return step


class TorchNetwork(nn.Module):
    """What one would write with torch.nn: embedding, positions, torch's own Transformer, linear layer."""

    def __init__(self, shape: str, size: Size) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(SYMBOLS, size.width)
        self.positions = nn.Parameter(torch.zeros(size.time, size.width))
        options = {"dropout": 0.0, "batch_first": True, "norm_first": True}
        sizes = (size.width, size.heads, 4 * size.width)
        layer, norm = nn.TransformerEncoderLayer(*sizes, **options), nn.LayerNorm(size.width)
        self.encoder = nn.TransformerEncoder(layer, size.layers, norm, enable_nested_tensor=False)
        if shape == "encoder_decoder":
            other = nn.TransformerDecoderLayer(*sizes, **options)
            self.decoder = nn.TransformerDecoder(other, size.layers, nn.LayerNorm(size.width))
            self.target_embedding = nn.Embedding(SYMBOLS, size.width)
        self.head = nn.Linear(size.width, 10 if shape == "encoder" else SYMBOLS)
        self.register_buffer("causal", nn.Transformer.generate_square_subsequent_mask(size.time))

    def forward(self, tokens: Tensor) -> Tensor:
        """(batch, time) -> (batch, 10), or (batch, time, SYMBOLS)."""
        x = self.embedding(tokens) + self.positions
        if self.shape == "encoder":
            return self.head(self.encoder(x).mean(1))
        if self.shape == "decoder":
            return self.head(self.encoder(x, mask=self.causal, is_causal=True))
        target = self.target_embedding(tokens) + self.positions
        return self.head(self.decoder(target, self.encoder(x), tgt_mask=self.causal, tgt_is_causal=True))


def torch_step(shape: str, size: Size) -> Step:
    """A plain loop's step with torch.nn."""
    return plain_step(TorchNetwork(shape, size), shape, size)


def x_step(shape: str, size: Size) -> Step:
    """A plain loop's step with x-transformers."""
    layers = {"dim": size.width, "depth": size.layers, "heads": size.heads, "attn_dim_head": size.width // size.heads}
    wrapper, flash = x_transformers.TransformerWrapper, {"attn_flash": True}
    sizes = {"num_tokens": SYMBOLS, "max_seq_len": size.time}
    if shape == "encoder":
        network = wrapper(**sizes, attn_layers=x_transformers.Encoder(**layers, **flash), num_cls_tokens=0)
        network.to_logits = nn.Linear(size.width, 10)
        return plain_step(network, shape, size, lambda tokens: network(tokens).mean(1))
    if shape == "decoder":
        return plain_step(wrapper(**sizes, attn_layers=x_transformers.Decoder(**layers, **flash)), shape, size)
    del layers["dim"]
    sides = {f"{side}_{key}": value for side in ("enc", "dec") for key, value in (layers | sizes | flash).items()}
    network = x_transformers.XTransformer(dim=size.width, **sides)

    def forward(tokens: Tensor) -> Tensor:
        encoded = network.encoder(tokens, return_embeddings=True)
        return network.decoder.net(tokens, context=encoded)

    return plain_step(network, shape, size, forward)


def plain_step(network: nn.Module, shape: str, size: Size, forward: Callable[[Tensor], Tensor] | None = None) -> Step:
    """Forward, cross-entropy, backward, fused AdamW."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(SYMBOLS, (size.batch, size.time))
    target = torch.randint(10, (size.batch,)) if shape == "encoder" else tokens.flatten()
    forward = forward or network

    def step() -> None:
        logits = forward(tokens)
        functional.cross_entropy(logits if shape == "encoder" else logits.flatten(0, 1), target).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def take_turns(sides: dict[str, Step], rounds: int, warm_up: int = 3) -> dict[str, list[float]]:
    """Processor seconds of each side's step, round by round; the order of the sides turns from round to round."""
    for step in sides.values():
        for _ in range(warm_up):
            step()
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    for number in range(rounds):
        names = list(sides)
        for side in names[number % len(names) :] + names[: number % len(names)]:
            start = time.process_time()
            sides[side]()
            seconds[side].append(time.process_time() - start)
    return seconds


def ratio(one: list[float], other: list[float]) -> list[float]:
    """Round by round, how many times as long `one` took."""
    return [a / b for a, b in zip(one, other, strict=True)]


if __name__ == "__main__":
    main()
