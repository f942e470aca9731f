"""Configurations, generated data and tasks that the model's tests share."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from model import objective

CONF = Path(__file__).parents[2] / "conf"
MEASURED = ("tokens_per_second", "examples_per_second", "memory_peak", "share_of_peak")
SMALL = {"num_layers": 1, "num_heads": 2, "d_model": 16, "feed_forward_width": 32}
SMALL_RECURRENT = {"d_model": 16, "hidden_width": 16}
SMALL_CONVOLUTIONAL = {"d_model": 16, "filters": 12}


def compose(data: str = "digits", model: str = "encoder", **overrides: Any) -> dict[str, Any]:
    """The configuration files' values, with dotted keys (`training__lr=...`) put over them."""
    groups = {"model": model, "data": data, "training": "default"}
    config = {group: yaml.safe_load((CONF / group / f"{name}.yaml").read_text()) for group, name in groups.items()}
    for section in config.values():
        section.pop("defaults", None)  # what a kind of data chooses of other groups
    for key, value in overrides.items():
        group, name = key.split("__")
        config[group][name] = value
    return config


def small(data: str = "digits", model: str = "encoder", **overrides: Any) -> dict[str, Any]:
    """A configuration that trains in a moment."""
    sizes = {"recurrent": SMALL_RECURRENT, "convolutional": SMALL_CONVOLUTIONAL}.get(model.partition("_")[0], SMALL)
    values = {f"model__{key}": value for key, value in sizes.items()} | {"training__epochs": 2}
    return compose(data, model, **(values | overrides))


def repeatable(point: dict[str, float]) -> dict[str, float]:
    """What of a point or result every run of the same training repeats to the bit: all but what is measured."""
    return {name: value for name, value in point.items() if name not in MEASURED}


def run(task: dict[str, Any]) -> tuple[list[dict[str, float]], dict[str, float]]:
    """All points of the curve and the result, as far as they are repeatable."""
    steps, points = objective.run_fold(task), []
    while True:
        try:
            points.append(repeatable(next(steps)))
        except StopIteration as stop:
            return points, repeatable(stop.value)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def fold(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Makes a task from a configuration: the first examples are prepared and split four to one."""

    def make(config: dict[str, Any], size: int = 200, **task: Any) -> dict[str, Any]:
        described = objective.describe_data(config)
        indices = list(range(described["size"]))
        random.Random(0).shuffle(indices)
        indices = indices[:size]
        objective.prepare_data(config, indices, str(tmp_path / "data"))
        nothing = dict.fromkeys(("path", "train", "validation", "test"))
        cut = len(indices) * 4 // 5
        hidden = config | {"data": config["data"] | nothing}
        settings = {"metric": "loss", "direction": "minimize", "amount": None, "checkpoint_dir": None, "seed": 7}
        parts = {"train": list(range(cut)), "validation": list(range(cut, len(indices)))}
        return {"config": hidden, "data_dir": str(tmp_path / "data"), "threads": 1} | settings | parts | task

    return make


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    """Sixty generated sentences of two classes, as a headerless TSV."""
    random_words = random.Random(1)
    rows = []
    for number in range(60):
        label = number % 2
        words = random_words.choices(["the", "film", "was", "a", "very"], k=random_words.randint(1, 9))
        words.insert(random_words.randint(0, len(words)), "good" if label else "bad")
        rows.append(f"{' '.join(words)}\t{label}\n")
    path = tmp_path / "reviews.tsv"
    path.write_text("".join(rows))
    return path
