"""What several processes a task cost beside torchrun, and what a preemption costs.

python benchmarks/processes.py prints two tables. Ours and torchrun's trainings alternate; each is of the same network
on the same data, once with few steps and once with many, so that the difference is of steps and the rest is the start.
"""

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from hpo.config.sections import DispatchSection
from hpo.workers.dispatch.ray.pool import RayDispatcher
from hpo.workers.training.tasks import Payload, Task
from model import objective

ROOT = Path(__file__).parents[1]
STEPS = (20, 420)
COUNT = "HPO_BENCHMARK_STEPS"
STUDY = ("study.trials=4", "split.folds=1", "strategy=random", "training.epochs=12", "training.batch_size=16")
# As the model's own objective; every step leaves a line in the file that COUNT names.
COUNTED = f"""
import os
from pathlib import Path
from model import objective
from model.objective import *
from model.training.update import Update

update = Update.__call__

def counted(self, *given):
    with Path(os.environ["{COUNT}"]).open("a") as file:
        file.write(".\\n")
    return update(self, *given)

def run_fold(task):
    Update.__call__ = counted
    return objective.run_fold(task)
"""


def configuration(width: int, steps: int) -> dict[str, Any]:
    """A Transformer on digits, trained for so many steps and evaluated at the end."""
    groups = {"model": "encoder", "data": "digits", "training": "default"}
    read = {name: yaml.safe_load((ROOT / "conf" / name / f"{file}.yaml").read_text()) for name, file in groups.items()}
    read["model"] |= {"d_model": width, "feed_forward_width": 2 * width, "dropout": 0.0}
    read["training"] |= {"epochs": 100, "max_steps": steps, "evaluate_every_steps": steps, "patience": None}
    return read


def one_task(folder: Path, width: int, steps: int, processes: int) -> Payload:
    """The task, its data prepared."""
    config, data = configuration(width, steps), folder / "data"
    indices = list(range(objective.describe_data(config)["size"]))
    random.Random(0).shuffle(indices)
    if not data.exists():
        objective.prepare_data(config, indices, str(data))
    cut = len(indices) * 4 // 5
    parts = {"train": list(range(cut)), "validation": list(range(cut, len(indices)))}
    config["data"] |= {name: None for name in ("path", "train", "validation", "test") if name in config["data"]}
    return Payload(
        "model.objective:run_fold",
        config,
        "loss",
        "minimize",
        threads=1,
        processes=processes,
        data_dir=str(data),
        **parts,
    )


def by_torchrun(payload: Payload) -> float:
    """Seconds of the training under torchrun."""
    # Without Python's own end, in which torch's threads now and then abort the process.
    code = (
        "import json, os, sys; from model import objective; "
        "list(objective.run_fold(json.loads(open(sys.argv[1]).read()))); os._exit(0)"
    )
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "train.py").write_text(code)
        (Path(folder) / "task.json").write_text(json.dumps(payload.task(payload.config)))
        command = [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            f"--nproc-per-node={payload.processes}",
        ]
        began = time.perf_counter()
        own = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [*command, "train.py", "task.json"], cwd=folder, env=own, capture_output=True, check=False
        )
        if done.returncode:
            raise SystemExit(done.stderr.decode())
        return time.perf_counter() - began


def by_pool(pool: RayDispatcher, payload: Payload) -> float:
    """Seconds from handing the task over to its outcome."""
    began = time.perf_counter()
    pool.submit(Task(0, 0, payload))
    while True:
        for report in pool.wait():
            if report.outcome is not None:
                if report.outcome.error:
                    raise SystemExit(report.outcome.error)
                return time.perf_counter() - began


def overhead(rounds: int, width: int) -> None:
    """Print start and step of both."""
    settings = yaml.safe_load((ROOT / "conf/dispatch/ray.yaml").read_text())
    settings |= {"workers": 1, "processes_per_task": 2, "cpus_per_worker": 0.5, "fresh_process": True}
    pool = RayDispatcher(DispatchSection(**settings), str(ROOT))
    took: dict[tuple[str, int], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        by_pool(pool, one_task(Path(folder), width, STEPS[0], 2))
        for _ in range(rounds):
            for steps in STEPS:
                payload = one_task(Path(folder), width, steps, 2)
                took.setdefault(("ours", steps), []).append(by_pool(pool, payload))
                took.setdefault(("torchrun", steps), []).append(by_torchrun(payload))
    pool.close()
    print(f"\nwidth {width}, two processes, median of {rounds} rounds\n\n| | start, s | a step, ms |\n|---|---|---|")
    found = {}
    for who in ("ours", "torchrun"):
        few, many = (statistics.median(took[who, steps]) for steps in STEPS)
        step = (many - few) / (STEPS[1] - STEPS[0])
        found[who] = (few - STEPS[0] * step, step)
        print(f"| {who} | {found[who][0]:.2f} | {1000 * step:.2f} |")
    start, step = (ours / theirs for ours, theirs in zip(found["ours"], found["torchrun"], strict=True))
    print(f"| ours / torchrun | {start:.2f} | {step:.2f} |")


def preempted(processes: int) -> None:
    """Print what a search that is told to end, and goes on, has lost beside one that is not."""
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder)
        (where / "counted.py").write_text(COUNTED)
        settings = [*STUDY, "track=none", "objective=counted:run_fold", "dispatch.workers=1"]
        settings += [f"dispatch.processes_per_task={processes}", f"dispatch.cpus_per_worker={1 / processes}"]
        seconds, steps = {}, {}
        for name, stops in (("undisturbed", 0), ("preempted", 1)):
            own = os.environ | {"PYTHONPATH": str(ROOT), COUNT: str(where / name)}
            began = time.perf_counter()
            command = [sys.executable, "-m", "hpo.cli.main"]
            driver = subprocess.Popen([*command, "search", *settings, f"study.name={name}"], cwd=where, env=own)
            if stops:
                while not list((where / "runs" / name / "states").glob("*/last")):
                    time.sleep(0.05)
                driver.send_signal(signal.SIGTERM)
                driver.wait()
                driver = subprocess.Popen([*command, "resume", name], cwd=where, env=own)
            if driver.wait() != 0:
                raise SystemExit("the search failed")
            seconds[name] = time.perf_counter() - began
            steps[name] = len((where / name).read_text().splitlines())
        twice = steps["preempted"] - steps["undisturbed"]
        tables = [(where / "runs" / name / "trials.csv").read_text().splitlines() for name in seconds]
        scores = [[line.split(",")[:3] for line in table] for table in tables]
        print(f"| {processes} | {scores[0] == scores[1]} | {twice} of {steps['undisturbed']} | "
              f"{seconds['preempted'] - seconds['undisturbed']:.1f} |")  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    for each in (64, 256):
        overhead(given.rounds, each)
    print("\n| processes | same trials | steps trained twice | seconds lost |\n|---|---|---|---|", flush=True)
    for number in (1, 2):
        preempted(number)
