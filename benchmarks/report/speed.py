"""How long `hpo report` takes, and how large report.html gets, for studies of 1,000 and of 10,000 trials.

    python -m benchmarks.report.speed                 # both, three turns: some minutes
    python -m benchmarks.report.speed --trials 100 --turns 1

The study is made by `hpo search` with an objective that returns at once: seven hyperparameters (ranges, values,
choices, one that is conditional), three folds, learning curves of twenty epochs, one trial in fifty failed, and sixteen
simulated workers. Then `hpo report` is run alone, start of Python included, and the fastest of its turns counts,
since other work on the machine can only add time.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GOALS = {1_000: (15.0, 20.0), 10_000: (60.0, 20.0)}  # trials: seconds, megabytes

OBJECTIVE = """
import math
import random


def describe_search(config):
    return {"space": {}, "folds": 3, "files": [], "notes": []}


def run_fold(task):
    x, rng = task["config"]["x"], random.Random(task["seed"])
    if rng.random() < 0.007:
        raise RuntimeError("out of memory")
    best = 0.9 - 0.05 * abs(math.log10(x["lr"]) + 3) - 0.02 * abs(x["layers"] - 3) - 0.1 * (x["dropout"] - 0.2) ** 2
    best += {"adamw": 0.02, "sgd": 0.0}[x["optimizer"]] + 0.005 * rng.random()
    for epoch in range(1, 21):
        accuracy = best * (1 - math.exp(-epoch / 4)) + 0.01 * rng.random()
        yield {"epoch": epoch, "train_loss": math.exp(-epoch / 8), "loss": 1 - accuracy, "accuracy": accuracy}
    return {"accuracy": best, "loss": 1 - best, "parameters": 1000 * x["width"], "seconds": 30 + 60 * rng.random()}
"""

STUDY = """
# @package _global_
defaults:
  - default@study
  - override /model: none
  - override /data: none
  - override /training: none
  - override /space: none
objective: instant:run_fold
x: {lr: 0.001, layers: 3, width: 64, dropout: 0.1, optimizer: adamw, momentum: 0.9, seed: 0.5}
space:
  x:
    lr: {low: 1e-5, high: 1.0, log: true}
    layers: [1, 2, 3, 4, 5, 6]
    width: {low: 16, high: 512, log: true, integer: true}
    dropout: {low: 0.0, high: 0.5}
    optimizer: {choices: [adamw, sgd]}
    momentum: {low: 0.0, high: 0.99, when: {x.optimizer: [sgd]}}
    seed: {low: 0.0, high: 1.0}
strategy: {round_size: 100}
study: {name: large, metric: accuracy, direction: maximize}
"""


def main() -> None:
    """Measure, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, nargs="*", default=list(GOALS))
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    print("| trials | seconds | slowest turn | peak MB | report.html MB | report.json MB | trials.csv MB |")
    print("|--------|---------|--------------|---------|----------------|----------------|---------------|")
    missed = []
    for trials in given.trials:
        with tempfile.TemporaryDirectory() as folder:
            seconds, peak = measure(Path(folder), trials, given.turns)
            files = [Path(folder, "runs/large", name) for name in ("report.html", "report.json", "trials.csv")]
            sizes = [path.stat().st_size / 1e6 for path in files]
        size_cells = " | ".join(f"{size:.2f}" for size in sizes)
        print(f"| {trials:,} | {min(seconds):.1f} | {max(seconds):.1f} | {peak:.0f} | {size_cells} |", flush=True)
        for value, goal, unit in zip((min(seconds), sizes[0]), GOALS.get(trials, ()), ("s", "MB"), strict=False):
            missed += [f"{trials:,} trials: {value:.1f} {unit}, the goal is {goal} {unit}"] if value > goal else []
    print("\n".join(missed) or "\nall goals hold")
    sys.exit(1 if missed else 0)


def measure(folder: Path, trials: int, turns: int) -> tuple[list[float], float]:
    """Make the study in the folder; return the seconds of each report, and the peak memory in megabytes."""
    (folder / "instant.py").write_text(OBJECTIVE)
    (folder / "conf/study").mkdir(parents=True)
    (folder / "conf/study/large.yaml").write_text(STUDY)
    simulated = ["dispatch=simulated", "dispatch.workers=16", "track=none"]
    run(folder, "search", "--config-dir", "conf", "study=large", f"study.trials={trials}", *simulated)
    measured = [run(folder, "report", "large") for _ in range(turns)]
    return [seconds for seconds, _ in measured], max(megabytes for _, megabytes in measured)


def run(folder: Path, *arguments: str) -> tuple[float, float]:
    """Run hpo in the folder, with one thread; return its seconds and its peak memory in megabytes."""
    command = [sys.executable, "-c", "import sys; from hpo.cli.main import main; sys.exit(main(sys.argv[1:]))"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with (folder / "said.txt").open("w+") as said:
        began = time.perf_counter()
        process = subprocess.Popen([*command, *arguments], cwd=folder, env=environment, stdout=said, stderr=said)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        if status:
            said.seek(0)
            sys.exit(f"hpo {' '.join(arguments)} failed:\n{said.read()[-2000:]}")
    return seconds, usage.ru_maxrss / 1e3


if __name__ == "__main__":
    main()
