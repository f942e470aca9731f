"""Speed of recurrent and convolutional networks against plain torch.nn ones of the same sizes, in one run.

    python -m benchmarks.training.families [--rounds 7] [--threads 1]

The step and the clock are those of speed.py. The recurrent encoder has two directions; from sequence to sequence
there is no attention, of which torch.nn has none, and the states are copied. The convolutions are torch's Conv1d, with
the same gates and residual sums.
"""

import argparse
import platform
import statistics
from datetime import date
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.shared.steps import DATA, Size, Step, plain_step, published, step_of, take_turns
from benchmarks.training.speed import ratio
from model.config.whole import parse

SIZES = (Size(64, 2, 1, 64, 32), Size(256, 2, 1, 16, 64))
PAIR = {"attention": "none", "bridge": "copy", "bidirectional": False}
CASES = [
    ("recurrent", "encoder", {"cell": "lstm"}),
    ("recurrent", "encoder", {"cell": "gru"}),
    ("recurrent", "decoder", {"cell": "lstm"}),
    ("recurrent", "decoder", {"cell": "gru"}),
    ("recurrent", "encoder_decoder", {"cell": "lstm", **PAIR}),
    ("convolutional", "encoder", {"weight_norm": False, "filter_width": 3}),
    ("convolutional", "decoder", {"weight_norm": False, "filter_width": 3}),
    ("convolutional", "decoder", {"weight_norm": True, "filter_width": 3}),
]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"{date.today()} · torch {torch.__version__} · {platform.machine()} · {options.threads} thread(s)\n")
    print("| network | width | ours, steps/s | / torch.nn |\n|---|---|---|---|")
    for family, shape, settings in CASES:
        for size in SIZES:
            torch.manual_seed(0)
            plain = PLAIN[family](shape, size, settings)
            sides = {"ours": our_step(family, shape, size, settings), "torch": plain_step(plain, shape, size)}
            seconds = take_turns(sides, options.rounds)
            speed = 1 / statistics.median(seconds["ours"])
            times = statistics.median(ratio(seconds["torch"], seconds["ours"]))
            kind = settings.get("cell") or ("with weight norm" if settings["weight_norm"] else "")
            print(f"| {family} {shape} {kind} | {size.width} | {speed:.1f} | {times:.2f} |", flush=True)


def our_step(family: str, shape: str, size: Size, settings: dict[str, Any]) -> Step:
    """Return a step of our trainer, including gathering the batch and checking the loss."""
    values = published(f"{family}_{shape}", DATA[shape])
    width = {"recurrent": "hidden_width", "convolutional": "filters"}[family]
    sizes = {"d_model": size.width, width: size.width, "num_layers": size.layers, "dropout": 0.0}
    values["model"] |= sizes | settings
    values["training"] |= {"clip_norm": None, "batch_size": size.batch, "device": "cpu"}
    values["data"] |= {"min_count": 1, "tokens": "words"}
    if shape == "decoder":
        values["data"]["context"] = size.time
    return step_of(shape, size, parse(values))


class TorchRecurrent(nn.Module):
    """Embedding, torch's own LSTM or GRU, linear layer."""

    def __init__(self, shape: str, size: Size, settings: dict[str, Any]) -> None:
        super().__init__()
        self.shape = shape
        kind = nn.LSTM if settings["cell"] == "lstm" else nn.GRU
        is_both = shape == "encoder"
        width = size.width // 2 if is_both else size.width
        self.embedding = nn.Embedding(size.symbols, size.width)
        self.cells = kind(size.width, width, size.layers, batch_first=True, bidirectional=is_both)
        if shape == "encoder_decoder":
            self.target_embedding = nn.Embedding(size.symbols, size.width)
            self.decoder = kind(size.width, size.width, size.layers, batch_first=True)
        self.head = nn.Linear(size.width, 10 if is_both else size.symbols)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits: (batch, time) -> (batch, 10), or (batch, time, symbols)."""
        outputs, last = self.cells(self.embedding(tokens))
        if self.shape == "encoder":
            return self.head(outputs.mean(1))
        if self.shape == "encoder_decoder":
            outputs, _ = self.decoder(self.target_embedding(tokens), last)
        return self.head(outputs)


class TorchConvolutional(nn.Module):
    """Embedding, positions, torch's own convolutions with gates and residual sums, linear layers."""

    def __init__(self, shape: str, size: Size, settings: dict[str, Any]) -> None:
        super().__init__()
        width = settings["filter_width"]
        self.shape, self.reach = shape, width - 1
        self.embedding, self.positions = nn.Embedding(size.symbols, size.width), nn.Embedding(size.time, size.width)
        self.enter, self.leave = nn.Linear(size.width, size.width), nn.Linear(size.width, size.width)
        norm = nn.utils.parametrizations.weight_norm if settings["weight_norm"] else nn.Identity()
        convolutions = [nn.Conv1d(size.width, 2 * size.width, width) for _ in range(size.layers)]
        self.convolutions = nn.ModuleList(norm(each) for each in convolutions)
        self.head = nn.Linear(size.width, 10 if shape == "encoder" else size.symbols)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits: (batch, time) -> (batch, 10), or (batch, time, symbols)."""
        x = self.enter(self.embedding(tokens) + self.positions.weight[: tokens.shape[1]]).transpose(1, 2)
        left = self.reach // 2 if self.shape == "encoder" else self.reach
        for convolution in self.convolutions:
            seen = functional.pad(x, (left, self.reach - left))
            x = (x + functional.glu(convolution(seen), dim=1)) * 0.5**0.5
        x = self.leave(x.transpose(1, 2))
        return self.head(x.mean(1) if self.shape == "encoder" else x)


PLAIN = {"recurrent": TorchRecurrent, "convolutional": TorchConvolutional}


if __name__ == "__main__":
    main()
