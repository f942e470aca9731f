"""Configurations, generated data and tasks that the model's tests share."""

import random
from copy import deepcopy
from functools import cache, partial
from pathlib import Path

import pytest
import torch
import yaml

from model import objective
from model.config.whole import SHAPE_OF_DATA

CONF = Path(__file__).parents[2] / "conf"
MEASURED = ("tokens_per_second", "examples_per_second", "memory_peak", "share_of_peak")
SIZES = {
    "transformer": {"num_layers": 1, "num_heads": 2, "d_model": 16, "feed_forward_width": 32},
    "recurrent": {"d_model": 16, "hidden_width": 16},
    "convolutional": {"d_model": 16, "filters": 12},
}


def of(group, values):
    """Return dotted keys: `of("model", {"dropout": 0})` is {"model__dropout": 0}."""
    return {f"{group}__{key}": value for key, value in values.items()}


@cache
def values_of(group, name):
    values = yaml.safe_load((CONF / group / f"{name}.yaml").read_text())
    values.pop("defaults", None)  # what a kind of data chooses of other groups
    return values


def compose(data="digits", model=None, **overrides):
    """Return the configuration files' values, with dotted keys (`training__lr=...`) put over them."""
    groups = {"model": model or SHAPE_OF_DATA[data], "data": data, "training": "default"}
    config = {group: deepcopy(values_of(group, name)) for group, name in groups.items()}
    for key, value in overrides.items():
        group, name = key.split("__")
        config.setdefault(group, {})[name] = value
    return config


def small(data="digits", family="transformer", **overrides):
    model = SHAPE_OF_DATA[data] if family == "transformer" else f"{family}_{SHAPE_OF_DATA[data]}"
    return compose(data, model, **(of("model", SIZES[family]) | {"training__epochs": 2} | overrides))


def repeatable(point):
    """Return what every run of the same training repeats to the bit: all of a point or result but measurements."""
    return {name: value for name, value in point.items() if name not in MEASURED}


def run(task):
    steps, points = objective.run_fold(task), []
    while True:
        try:
            points.append(repeatable(next(steps)))
        except StopIteration as stop:
            return points, repeatable(stop.value)


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


def task_of(folder, config, size=200, **task):
    """Return a task of a configuration: the first examples are prepared in the folder and split four to one."""
    indices = list(range(objective.describe_data(config)["size"]))
    random.Random(0).shuffle(indices)
    indices = indices[:size]
    objective.prepare_data(config, indices, f"{folder}/data")
    cut = len(indices) * 4 // 5
    hidden = config | {"data": config["data"] | dict.fromkeys(("path", "train", "validation", "test"))}
    settings = {"metric": "loss", "direction": "minimize", "amount": None, "checkpoint_dir": None, "seed": 7}
    parts = {"train": list(range(cut)), "validation": list(range(cut, len(indices)))}
    return {"config": hidden, "data_dir": f"{folder}/data", "threads": 1} | settings | parts | task


@pytest.fixture
def fold(tmp_path):
    return partial(task_of, tmp_path)


@pytest.fixture
def reviews(tmp_path):
    random_words = random.Random(1)
    path = tmp_path / "reviews.tsv"
    with path.open("w") as file:
        for number in range(60):
            words = random_words.choices(["the", "film", "was", "a", "very"], k=random_words.randint(1, 9))
            words.insert(random_words.randint(0, len(words)), "good" if number % 2 else "bad")
            file.write(f"{' '.join(words)}\t{number % 2}\n")
    return path
