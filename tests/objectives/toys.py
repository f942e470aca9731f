"""Objectives without torch, for tests of everything around them.

This folder is on `sys.path` in tests and in the processes that they start. Objectives are not in the package `tests`,
because the code of a package is hashed as a whole: each new process would parse all tests, for over a second.
"""

import hashlib
import math
import os
import time
from pathlib import Path

# `continued` goes on from a state; the others train everything at once.
CONTINUES = True

CONFIG = {"toy": {"layers": 2, "width": 16, "nonlinearity": "relu", "lr": 0.01, "momentum": 0.5, "always": 1}}


def score(task):
    """A smooth bowl in the ordered keys with a little of the seed in it; every eleventh point fails."""
    toy = task["config"]["toy"]
    if int(hashlib.sha256(repr(sorted(toy.items())).encode()).hexdigest(), 16) % 11 == 0:
        raise RuntimeError("this point cannot be trained")
    value = -((toy["layers"] - 3) ** 2) - abs(math.log10(toy["lr"]) + 2) - abs(math.log2(toy["width"]) - 5)
    value += {"relu": 0.0, "gelu": 0.5, "tanh": -0.5}[toy["nonlinearity"]] + (toy.get("momentum") or 0.0) / 10
    for epoch in (1, 2):
        yield {"epoch": epoch, "epochs": 2, "score": value - 1 / epoch}
    return {"score": value + task["seed"] % 1000 / 1e6, "parameters": toy["width"] * toy["layers"]}


def continued(task):
    """Train from where an earlier trial of the point stopped; without its state the task fails."""
    state = Path(task["resume_dir"])
    state.mkdir(parents=True, exist_ok=True)
    done = max((int(path.name) for path in state.iterdir()), default=0)
    if done < task["trained"]:
        raise RuntimeError(f"epochs 1 to {task['trained']} should be there, {done} are")
    for epoch in range(done + 1, task["amount"] + 1):
        (state / str(epoch)).touch()
        yield {"epoch": epoch, "score": epoch / 10}
    toy = task["config"]["toy"]
    return {"score": -abs(toy["layers"] - 3) - 1 / task["amount"] + task["seed"] % 1000 / 1e6}


def constant(task):
    return 1.0


def no_score(task):
    return {"accuracy": 0.5}


def text(task):
    return "0.5"


def text_score(task):
    return {"score": "0.5"}


def raises(task):
    raise ValueError("no luck\ntoday")


def exits(task):
    raise SystemExit(3)


class BeyondError(BaseException):
    """No Exception, as what asyncio raises when it cancels."""


def leaves_by_force(task):
    raise BeyondError("of my own")


def dies(task):
    os._exit(3)


def visible_gpus(task):
    yield {"epoch": 1, "process": os.getpid()}
    folder = Path(task["config"]["folder"])
    (folder / str(task["trial"])).touch()
    while len(list(folder.iterdir())) < 2:
        time.sleep(0.05)
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    part = float(os.environ.get("PYTORCH_ALLOC_CONF", ":1").partition("per_process_memory_fraction:")[2] or 1)
    return {"score": 1.0, "gpu": int(gpus or -1), "num_gpus": len(gpus.split(",")) if gpus else 0, "memory": part}
