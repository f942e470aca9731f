"""Trains a network on one fold, and scores a checkpoint on the test split."""

import statistics
from collections.abc import Generator
from pathlib import Path
from typing import Any

import torch

from model.checkpoint import load_checkpoint, save_checkpoint
from model.config.training import GPU_PRECISIONS, OF_LENGTH
from model.config.whole import Config, parse
from model.data.batches import resident
from model.data.encoded_cache import cache_folder, encode_once
from model.data.readers.source import read_examples
from model.data.store import read_store
from model.tasks.choose import TASKS
from model.tasks.directions import DIRECTIONS
from model.tasks.network import build_network
from model.tasks.resources import MEASURED, RESOURCES, count_resources
from model.tasks.task import Encoded, Task
from model.training.device import choose_device
from model.training.memory import is_out_of_memory, out_of_memory
from model.training.numerics import prepare_device
from model.training.processes import Processes
from model.training.progress import Resumable
from model.training.randomness import Randomness
from model.training.train import Goal, Point, copy_weights, measure, train


def train_fold(task: dict[str, Any]) -> Generator[Point, None, dict[str, float]]:
    """Train one configuration on one fold; see `model.objective.run_fold`."""
    torch.set_num_threads(task["threads"])
    config = parse(task["config"])
    task_type = TASKS[config.data.name]
    goal = _goal(task_type, config, task["metric"], task["direction"])
    size = task.get("processes", 1)
    prepare_device(config.training)
    device = choose_device(config.training.device, size)
    precision = config.training.precision
    if precision in GPU_PRECISIONS and device.type == "cpu":
        raise ValueError(
            f"training.precision: must be auto, float32 or bfloat16 on the CPU, given {precision}; choose one of them, "
            "or train on a GPU"
        )
    # Sort the positions, so that the order of the lists has no effect on results, and a running text keeps its order.
    parts = {part: sorted(task[part]) for part in ("train", "validation")}
    learned, data, validation = _encoded(task_type, config, task["data_dir"], parts)
    data, validation = resident(data, device), None if validation is None else resident(validation, device)

    try:
        with Processes.joined(device, size) as processes:
            randomness = Randomness(task["seed"], device, processes.rank)
            with randomness.use():
                network, factors = build_network(learned, config)
                network = network.to(device)
            progress = yield from train(
                learned, network, config.training, data, validation, goal, randomness, device, processes,
                factors=factors, stop_after=task["amount"],
                resumable=_resumable(task, config, parts),
                reported_epochs=task.get("trained", 0), curves=task.get("curves", ()),
            )  # fmt: skip
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        raise out_of_memory(error, config.training, device) from error
    best = progress.best
    if task["checkpoint_dir"] is not None and processes.rank == 0:
        weights = copy_weights(network) if best is None else best.weights
        save_checkpoint(task["checkpoint_dir"], config, learned, weights)
    counted = count_resources(config, network)
    if best is None:
        return {"train_loss": progress.train_loss, **counted}
    # Return the medians of measured values, because a single measurement depends on the load of the machine.
    evaluations = progress.curve or [best.metrics]
    measured = {name: statistics.median(each[name] for each in evaluations) for name in MEASURED}
    return {**best.metrics, **measured, **counted, "best_epoch": best.epoch}


def score_test(task: dict[str, Any]) -> dict[str, Any]:
    """Return the scores of a checkpoint on the test split; see `model.objective.run_test`."""
    torch.set_num_threads(task["threads"])
    checkpoint = load_checkpoint(task["checkpoint_dir"])
    config = parse(task["config"], source_required=True)
    items = read_examples(config.data).items
    examples = [items[index] for index in sorted(task["test"])]
    data = checkpoint.task.encode(examples)
    prepare_device(config.training)
    device = choose_device(config.training.device)
    network = checkpoint.network.to(device)
    measured, order, speed = measure(checkpoint.task, network, data, device, config.training, Processes())
    scores: dict[str, Any] = {**checkpoint.task.metrics(data, measured), "examples_per_second": speed}
    by_example = checkpoint.task.by_example(examples, data, measured, order)
    known = {name: each for name, each in by_example.items() if not isinstance(each, str)}
    scores["scores_by_example"] = {**by_example, **{name: each.sums for name, each in known.items()}}
    scores["score_of_sums"] = {name: each.score for name, each in known.items() if each.score is not None}
    return {**scores, **count_resources(checkpoint.config, network)}


def _goal(task_type: type[Task], config: Config[Any, Any], metric: str, direction: str) -> Goal:
    """Return the metric and the direction by which the evaluations of a training are compared.

    If `metric` is a cost of RESOURCES, such as `model_bytes`, the task's first metric and its direction are returned.
    """
    first, *_ = names = task_type.metric_names
    if metric in names:
        return Goal(metric, direction)
    if metric not in RESOURCES:
        known = ", ".join((*names, *RESOURCES))
        raise ValueError(f"metric: must be one of {known} with data.name={config.data.name}, given {metric!r}")
    return Goal(first, DIRECTIONS[first])


def _encoded(
    task_type: type[Task], config: Config[Any, Any], data_dir: str, parts: dict[str, list[int]]
) -> tuple[Task, Encoded, Encoded | None]:
    """Return three values: the learning task, the encoded training split, and the encoded validation split or None.

    The learning task holds what is learned from the training split before training, such as a vocabulary.
    """
    present = {part: positions for part, positions in parts.items() if positions}

    def build() -> tuple[dict[str, Any], dict[str, Any]]:
        items = read_store(data_dir)
        learned = task_type.learn(config, items, parts["train"])
        encoded = {part: learned.encode([items[place] for place in places]) for part, places in present.items()}
        return learned.to_dict(), encoded

    settings = {"data": config.data.model_dump(), "metrics": config.metrics.model_dump(), "parts": parts}
    folder = cache_folder(data_dir, settings, task_type.encoded_type)
    values, encoded = encode_once(folder, present, task_type.encoded_type, build)
    return task_type.from_dict(values), encoded["train"], encoded.get("validation")


def _resumable(task: dict[str, Any], config: Config[Any, Any], parts: dict[str, list[int]]) -> Resumable | None:
    folder = task.get("resume_dir")
    if folder is None:
        return None
    settings = {name: task[name] for name in ("metric", "direction", "seed", "threads")} | parts
    plain = config.model_dump()
    for name in OF_LENGTH:
        del plain["training"][name]
    return Resumable(Path(folder), settings | {"config": plain}, config.training.save_minutes)
