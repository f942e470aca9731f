"""The coordinate check: measures the mean absolute output of each layer after some steps of training.

These means should not depend on the width or depth of the network.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from model.config.whole import Config, parse
from model.data.store import read_store
from model.networks.convolutional.block import Block
from model.networks.embedding import InputEmbedding
from model.networks.roles import HasMatrices, Head
from model.networks.transformer.stack import Layer
from model.tasks.choose import TASKS
from model.tasks.network import build_network
from model.tasks.task import Encoded, Task
from model.training.numerics import numerics
from model.training.optimise import build_optimizers
from model.training.update import Update

_LAYERS = (InputEmbedding, Layer, Block, HasMatrices, Head, nn.LayerNorm, nn.RMSNorm)
_CPU = torch.device("cpu")


def output_sizes(task: Mapping[str, Any]) -> dict[int, dict[str, float]]:
    """Train for some steps on one batch, and return the mean absolute output of each layer.

    For the keys of `task`, see `model.objective.output_sizes`.
    """
    torch.set_num_threads(task["threads"])
    config = parse(task["config"])
    items, chosen = read_store(task["data_dir"]), sorted(task["train"])
    learned = TASKS[config.data.name].learn(config, items, chosen)
    encoded = learned.encode([items[place] for place in chosen])
    torch.manual_seed(task["seed"])
    batch = torch.randperm(len(encoded))[: config.training.batch_size]
    sizes = sizes_after(task["steps"], learned, config, encoded, batch)
    if task.get("over", "width") == "width":
        return sizes
    return {step: {name: size for name, size in of.items() if is_of_any_depth(name)} for step, of in sizes.items()}


def is_of_any_depth(name: str) -> bool:
    """Return whether a number in the result of `sizes_after` can be compared between networks of different depth.

    `name` is the key of the number. The function returns False for numbers that depend on the number of layers:

    - the mean absolute output of a layer of the stack, such as `encoder.layers.0`;
    - the change of an output (a key that ends in ", changed"), except the change of the head's output.
    """
    is_sum = name.rpartition(".")[2].isdigit()
    return not is_sum and (not name.endswith("changed") or name.startswith("head"))


def sizes_after(
    steps: Sequence[int], task: Task, config: Config[Any, Any], data: Encoded, batch: Tensor
) -> dict[int, dict[str, float]]:
    """Train a new network on one batch, and return the mean absolute outputs by step and layer.

    The initial weights come from torch's random generator. `steps` are the steps after which to measure, and `batch`
    holds the positions of the examples in `data`.

    For a layer NAME, the key `NAME` holds the mean absolute output without dropout. The key `NAME, changed` holds the
    mean absolute difference from the output before the first step.

    Source: Yang et al. 2021, "Tensor programs V", appendix D.1.
    """
    network, factors = build_network(task, config)
    optimizers = build_optimizers(network, config.training, factors)
    update = Update(task, network, config.training, data, _CPU, optimizers, torch.amp.GradScaler("cpu", enabled=False))

    def outputs() -> dict[str, Tensor]:
        network.eval()
        with torch.no_grad(), _recorded(network) as recorded:
            task.loss(network, task.batch(data, batch, _CPU), 0.0)
        return recorded

    sizes, before = {}, outputs()
    with numerics(config.training, _CPU):
        for step in range(1, max(steps) + 1):
            network.train()
            update([batch], config.training.lr)
            if step in steps:
                after = outputs()
                changed = {f"{name}, changed": _size(after[name] - before[name]) for name in after}
                sizes[step] = {name: _size(output) for name, output in after.items()} | changed
    return sizes


def _size(output: Tensor) -> float:
    return float(output.abs().mean())


@contextmanager
def _recorded(network: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Record the most recent output of each layer during the `with` block; yield a dict of outputs by layer name."""
    outputs: dict[str, Tensor] = {}

    def record(name: str, _: nn.Module, __: Any, output: Any) -> None:
        # Recurrent cells also return their states, after the output.
        outputs[name] = output if isinstance(output, Tensor) else output[0]

    layers = [name for name, module in network.named_modules() if isinstance(module, _LAYERS)]
    hooks = [network.get_submodule(name).register_forward_hook(partial(record, name)) for name in layers]
    try:
        yield outputs
    finally:
        for hook in hooks:
            hook.remove()
