"""Objectives that break things. Files of the working directory say what they do."""

import errno
import importlib
import math
import os
import signal
import subprocess
import time
from pathlib import Path

import toys


def _is_due(task, name):
    """Return whether the flag is set, and this the trial that it is for."""
    flag = Path(name)
    return flag.exists() and int(flag.read_text()) == task["trial"]


def full_disk(task):
    if _is_due(task, "disk_is_full"):
        number = getattr(errno, task["config"]["error"])
        raise OSError(number, os.strerror(number), str(Path("runs/toy/checkpoints").absolute()))
    return (yield from toys.score(task))


def logged(task):
    with Path("starts").open("a") as file:
        file.write(f"{task['trial']}\n")
    time.sleep(task["config"]["seconds"])
    return (yield from toys.score(task))


def waits(task):
    while task["trial"] >= 2 and Path("wait").exists():
        time.sleep(0.02)
    return (yield from toys.score(task))


def ignores(task):
    if task["trial"] >= 2 and Path("ignores").exists():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        Path("is_deaf").touch()
        while True:
            time.sleep(60)
    return (yield from toys.score(task))


def killed(task):
    yield {"epoch": 1, "process": os.getpid()}
    os.kill(os.getpid(), task["config"]["signal"])
    time.sleep(60)


def leaves(task):
    os._exit(3)


def forks(task):
    """The copy has a point and fails; the original waits for it, and has points and a score of its own."""
    yield {"epoch": 1}
    copy = os.fork()
    if copy == 0:
        yield {"epoch": 99}
        raise ValueError("the copy's own")
    os.waitpid(copy, 0)
    yield {"epoch": 2}
    return 2.0


def names_its_process(task):
    return {"score": 1.0, "process": os.getpid(), "hash": hash("abc") % 2**31}


def dies_beside_a_copy(task):
    copy = os.fork()
    if copy == 0:
        time.sleep(60)
    Path("children").write_text(str(copy))
    os.kill(os.getpid(), 9)


def leaves_a_program(task):
    os.system("sleep 60 & echo $! > children")
    return 1.0


def sleeps(task):
    Path("sleeps").touch()
    time.sleep(60)


def not_finite(task):
    layers = task["config"]["toy"]["layers"]
    return {"score": {3: math.nan, 4: math.inf}.get(layers, float(layers))}


def stops_its_process(task):
    if task["trial"] == 0:
        os.kill(os.getpid(), 19)
    return 1.0


def dies_in_the_middle(task):
    """Train four epochs with a state of a file each; the process dies once, after the second."""
    state = Path(task["resume_dir"])
    state.mkdir(parents=True, exist_ok=True)
    for epoch in range(len(list(state.iterdir())) + 1, 5):
        with Path("epochs").open("a") as file:
            file.write(f"{epoch}\n")
        (state / str(epoch)).touch()
        yield {"epoch": epoch, "score": epoch / 10}
        if epoch == 2 and not Path("died").exists():
            Path("died").touch()
            os.kill(os.getpid(), 9)
    return {"score": 1.0}


def meets_another(task):
    Path(f"here_is_{task['trial']}").touch()
    epoch = 0
    while not Path(f"here_is_{1 - task['trial']}").exists():
        epoch += 1
        yield {"epoch": epoch}
        time.sleep(0.02)
    return {"score": 1.0}


def trains_a_second(task):
    for epoch in range(1, 11):
        time.sleep(0.1)
        yield {"epoch": epoch, "score": epoch / 10}
    return {"score": 1.0 + task["trial"]}


def trains_until_it_may_end(task):
    """One epoch, and the end when the file `may_end` of the configuration exists."""
    yield {"epoch": 1, "score": 0.1}
    while not Path(task["config"]["may_end"]).exists():
        time.sleep(0.05)
    return {"score": 1.0 + task["trial"]}


def prints(task):
    print(task["config"]["text"])  # noqa: T201 -- what it is for
    subprocess.run(["sh", "-c", "echo from a program >&2"], check=True)
    if task["config"].get("dies"):
        os.kill(os.getpid(), signal.SIGKILL)
    if task["config"].get("raises"):
        raise ValueError("no luck")
    return 1.0


def finds_python(task):
    """Warn of the variable that a program would find, and import what the search's process can."""
    importlib.import_module(task["config"]["imports"])
    yield {"warning": repr(os.environ.get("PYTHONPATH"))}
    return 1.0


def prints_and_reports(task):
    print("begun", flush=True)  # noqa: T201 -- what it is for
    yield {"epoch": 1, "score": 1.0}
    return {"score": 1.0}
