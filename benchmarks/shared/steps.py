"""One training step of ours and of the peers, torch.nn and x-transformers, with the same sizes on generated texts."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import yaml
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.shared.places import CONF
from model.config.whole import Config, parse
from model.tasks.classification import Classification
from model.tasks.language_modelling import LanguageModelling
from model.tasks.network import build_network
from model.tasks.sequence_to_sequence import SequenceToSequence
from model.training.optimise import build_optimizers
from model.training.update import Losses, Update

try:
    import x_transformers
except ImportError:
    x_transformers = None

CPU = torch.device("cpu")
Step = Callable[[], object]
DATA = {"encoder": "text_classification", "decoder": "language_modelling", "encoder_decoder": "translation"}
TASKS = {"encoder": Classification, "decoder": LanguageModelling, "encoder_decoder": SequenceToSequence}


@dataclass(frozen=True)
class Size:
    """The sizes of network and batches, and the number of different words in the texts."""

    width: int
    layers: int
    heads: int
    batch: int
    time: int
    symbols: int = 1000


def configure(
    shape: str,
    size: Size,
    data: dict[str, Any] | None = None,
    training: dict[str, Any] | None = None,
    model: dict[str, Any] | None = None,
) -> Config[Any, Any]:
    """Return the published configuration, with the benchmark's sizes and these settings in it."""
    values = published(shape, DATA[shape])
    widths = {"d_model": size.width, "num_layers": size.layers, "num_heads": size.heads, "dropout": 0.0}
    values["model"] |= widths | {"feed_forward_width": 4 * size.width, "nonlinearity": "relu"} | (model or {})
    values["training"] |= {"clip_norm": None, "batch_size": size.batch, "device": "cpu"} | (training or {})
    values["data"] |= {"min_count": 1, "tokens": "words"} | (data or {})
    if shape == "decoder":
        values["data"]["context"] = size.time
    return parse(values)


def published(model: str, data: str) -> dict[str, dict[str, Any]]:
    """Return the values of the published files of these names, and of the training's."""
    groups = {"model": model, "data": data, "training": "default"}
    values = {group: yaml.safe_load((CONF / group / f"{name}.yaml").read_text()) for group, name in groups.items()}
    for section in values.values():
        section.pop("defaults", None)  # what a kind of data chooses of other groups
    return values


def learn(shape: str, config: Config[Any, Any], size: Size) -> Any:
    """Return the task of generated texts."""
    return TASKS[shape].learn(config, items := make_items(shape, size), range(len(items)))


def make_items(shape: str, size: Size) -> list[dict[str, str]]:
    """Return texts of `size.time` words; the first ones together hold every word."""
    generator, count = torch.Generator().manual_seed(0), max(4 * size.batch, size.symbols // size.time + 1)
    numbers = torch.randint(size.symbols, (count, size.time), generator=generator)
    numbers.view(-1)[: size.symbols] = torch.arange(size.symbols)
    texts = [" ".join(f"w{number}" for number in row) for row in numbers.tolist()]
    if shape == "encoder":
        return [{"text": text, "label": str(number % 10)} for number, text in enumerate(texts)]
    if shape == "decoder":
        return [{"text": text + "\n"} for text in texts]
    return [{"source": text, "target": text} for text in texts]


def new_update(task: Any, config: Config[Any, Any], data: Any, device: torch.device = CPU) -> Update:
    """Return our trainer's step, on a fresh network."""
    torch.manual_seed(0)
    network, factors = build_network(task, config)
    network.to(device).train()
    scaler = torch.amp.GradScaler(device.type, enabled=False)
    optimizers = build_optimizers(network, config.training, factors)
    return Update(task, network, config.training, data, device, optimizers, scaler)


def our_step(shape: str, size: Size, **settings: dict[str, Any]) -> Step:
    """Return a step of a Transformer; `settings` are those of `configure`."""
    return step_of(shape, size, configure(shape, size, **settings))


def step_of(shape: str, size: Size, config: Config[Any, Any]) -> Step:
    """Return a step as in `model.training.train`, including gathering the batch and checking the loss."""
    task = learn(shape, config, size)
    update = new_update(task, config, task.encode(make_items(shape, size)))
    indices, losses = torch.arange(size.batch), Losses(0, CPU)
    return lambda: losses.add(*update([indices], lr=1e-4))


def processor_seconds(step: Step) -> float:
    """Return the processor seconds of a step."""
    start = time.process_time()
    step()
    return time.process_time() - start


def take_turns(
    sides: Mapping[str, Step],
    rounds: int,
    warm_up: int = 3,
    seconds_of: Callable[[Step], float] = processor_seconds,
) -> dict[str, list[float]]:
    """Return the seconds of each side's step, round by round; the order of the sides rotates."""
    for step in sides.values():
        for _ in range(warm_up):
            step()
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    names = list(sides)
    for number in range(rounds):
        turn = number % len(names)
        for side in names[turn:] + names[:turn]:
            seconds[side].append(seconds_of(sides[side]))
    return seconds


def bare_step(shape: str, size: Size) -> Step:
    """Return a step of forward, backward and update of our network alone."""
    config = configure(shape, size)
    task = learn(shape, config, size)
    update = new_update(task, config, task.encode(make_items(shape, size)))
    indices = torch.arange(size.batch)
    batch, count = task.batch(update.data, indices, CPU), task.count(update.data, indices)

    def step() -> None:
        (task.loss(update.network, batch, 0.0).objective / count).backward()
        update.optimizers[0].step()
        update.optimizers[0].zero_grad()

    return step


class TorchNetwork(nn.Module):
    """A plain torch.nn network: embedding, positions, torch's own Transformer, linear layer."""

    def __init__(self, shape: str, size: Size) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(size.symbols, size.width)
        self.positions = nn.Parameter(torch.zeros(size.time, size.width))
        options = {"dropout": 0.0, "batch_first": True, "norm_first": True}
        sizes = (size.width, size.heads, 4 * size.width)
        layer, norm = nn.TransformerEncoderLayer(*sizes, **options), nn.LayerNorm(size.width)
        self.encoder = nn.TransformerEncoder(layer, size.layers, norm, enable_nested_tensor=False)
        if shape == "encoder_decoder":
            other = nn.TransformerDecoderLayer(*sizes, **options)
            self.decoder = nn.TransformerDecoder(other, size.layers, nn.LayerNorm(size.width))
            self.target_embedding = nn.Embedding(size.symbols, size.width)
        self.head = nn.Linear(size.width, 10 if shape == "encoder" else size.symbols)
        self.register_buffer("causal", nn.Transformer.generate_square_subsequent_mask(size.time))

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits: (batch, time) -> (batch, 10), or (batch, time, symbols)."""
        x = self.embedding(tokens) + self.positions
        if self.shape == "encoder":
            return self.head(self.encoder(x).mean(1))
        if self.shape == "decoder":
            return self.head(self.encoder(x, mask=self.causal, is_causal=True))
        target = self.target_embedding(tokens) + self.positions
        return self.head(self.decoder(target, self.encoder(x), tgt_mask=self.causal, tgt_is_causal=True))


def torch_step(shape: str, size: Size) -> Step:
    """Return a plain loop's step with torch.nn."""
    return plain_step(TorchNetwork(shape, size), shape, size)


def x_step(shape: str, size: Size) -> Step:
    """Return a plain loop's step with x-transformers."""
    layers = {"dim": size.width, "depth": size.layers, "heads": size.heads, "attn_dim_head": size.width // size.heads}
    wrapper, flash = x_transformers.TransformerWrapper, {"attn_flash": True}
    sizes = {"num_tokens": size.symbols, "max_seq_len": size.time}
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
    """Return a step of forward, cross-entropy, backward and fused AdamW."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True)
    tokens = torch.randint(size.symbols, (size.batch, size.time))
    target = torch.randint(10, (size.batch,)) if shape == "encoder" else tokens.flatten()
    forward = forward or network

    def step() -> None:
        logits = forward(tokens)
        functional.cross_entropy(logits if shape == "encoder" else logits.flatten(0, 1), target).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step
