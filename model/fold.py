"""From a task's plain dict to a trained network, and from a checkpoint to its test score."""

from collections.abc import Generator
from typing import Any

import torch

from model.checkpoint import load_checkpoint, save_checkpoint
from model.config import parse
from model.data.source import read_examples
from model.data.store import read_store
from model.randomness import Randomness
from model.tasks.choose import TASKS
from model.train import Goal, Point, choose_device, evaluate, train


def train_fold(task: dict[str, Any]) -> Generator[Point, None, dict[str, float]]:
    """See `model.objective.run_fold`."""
    torch.set_num_threads(task["threads"])
    config = parse(task["config"])
    kind = TASKS[config.data.name]
    goal = Goal(task["metric"], task["direction"])
    if goal.metric not in kind.metric_names:
        raise ValueError(
            f"unknown metric {goal.metric!r}; data.name={config.data.name} has {', '.join(kind.metric_names)}"
        )
    device = choose_device(config.training.device)
    randomness = Randomness(task["seed"])

    items = read_store(task["data_dir"])
    learned = kind.learn(config, items, task["train"])
    data = learned.encode([items[position] for position in task["train"]])
    validation = learned.encode([items[position] for position in task["validation"]]) if task["validation"] else None
    with randomness.use():
        network = learned.build(config).to(device)

    trained = yield from train(
        learned, network, config.training, data, validation, goal, randomness, task["epochs"], device
    )
    if task["checkpoint_dir"] is not None:
        save_checkpoint(task["checkpoint_dir"], config, learned, trained.weights)
    num_parameters = sum(parameter.numel() for parameter in network.parameters())
    if validation is None:
        return {"train_loss": trained.train_loss, "num_parameters": num_parameters}
    return {**trained.metrics, "num_parameters": num_parameters, "best_epoch": trained.epoch}


def score_test(task: dict[str, Any]) -> dict[str, float]:
    """See `model.objective.run_test`."""
    torch.set_num_threads(task["threads"])
    checkpoint = load_checkpoint(task["checkpoint_dir"])
    config = parse(task["config"], source_required=True)
    items = read_examples(config.data).items
    data = checkpoint.task.encode([items[index] for index in task["test"]])
    device = choose_device(config.training.device)
    return evaluate(checkpoint.task, checkpoint.network.to(device), data, device)
