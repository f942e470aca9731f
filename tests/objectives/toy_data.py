"""The toy objective with data to split: ninety examples of three classes."""

import math
import time

import toys

CONTINUES = True

score = toys.score


def odd_names(task):
    return (yield from toys.score(task)) | {"acc@5(%)": 1.0}


def sized(task):
    toy_ = task["config"]["toy"]
    return (yield from toys.score(task)) | {"size": toy_["width"] * toy_["layers"], "seconds": toy_["width"] / 8}


def paced(task):
    time.sleep(0.02)
    return (yield from toys.score(task))


def noisy(task):
    """The toy's bowl without failures; some folds are harder than others, and every seed differs a little."""
    toy_ = task["config"]["toy"]
    value = -((toy_["layers"] - 3) ** 2) - abs(math.log10(toy_["lr"]) + 2) - task["fold"] / 3
    return {"score": value + task["seed"] % 1000 / 1e5}


def best_but_fails(task):
    if task["config"]["toy"]["layers"] == 3 and task["fold"] == 4:
        raise MemoryError("too large")
    return noisy(task)


def noisy_continued(task):
    list(toys.continued(task))
    return {"score": noisy(task)["score"] - 1 / task["amount"]}


def describe_data(config):
    described = {"name": "toy", "source": "made up", "size": 90, "labels": [i % 3 for i in range(90)]}
    return described | {"digests": [f"{i:04x}" for i in range(90)]}
