"""Load and endurance of the real command: many workers, workers killed repeatedly, and half an hour without a leak.

Each case is a study in its own folder, run by `hpo search` in its own process and observed from outside every second.
See README.md beside this file.
"""

import argparse
import os
import random
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.shared.printing import conditions, expect, markdown

# In a module of its own in the case's folder, as a user's would be. Which point fails depends on the point alone.
OBJECTIVE = """
import time

def run_fold(task):
    x = task["config"]["x"]
    time.sleep(x["nap"])
    if x["failing"] and x["a"] % 5 == 0:
        raise RuntimeError("every fifth fails")
    return {"score": x["a"] + x["b"]}
"""
TASK_PROCESS = "hpo.workers.dispatch.process.task_process"
MEBIBYTE = 2**20


@dataclass(frozen=True)
class Case:
    """A study and the faults applied to it.

    Attributes:
        workers: how many run at once.
        trials: the budget.
        nap: seconds that a training takes.
        failing: whether every fifth value of `a` fails.
        kill_every: seconds between two killings of a training process; None = none is killed.
        seconds: after how long the search is stopped by SIGINT; None = it runs to its end.
        track: `mlflow` or `none`.
    """

    workers: int
    trials: int
    nap: float = 0.0
    failing: bool = False
    kill_every: float | None = None
    seconds: float | None = None
    track: str = "none"


CASES = {
    "workers": Case(workers=32, trials=10_000),
    "kills": Case(workers=4, trials=2_000, nap=0.1, failing=True, kill_every=1.0),
    "soak": Case(workers=2, trials=1_000_000, nap=0.5, seconds=1800.0, track="mlflow"),
}


@dataclass
class Watch:
    """The driver's resident MiB, file descriptors and threads, once per second."""

    memory: list[float] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)
    num_killed: int = 0

    def look(self, driver: psutil.Process) -> None:
        """Record the driver's current figures; a process that has ended but was not waited for yet has none."""
        if driver.status() == psutil.STATUS_ZOMBIE:
            return
        with driver.oneshot():
            self.memory.append(driver.memory_info().rss / MEBIBYTE)
            self.descriptors.append(driver.num_fds())
            self.threads.append(driver.num_threads())


def arguments_of(case: Case) -> list[str]:
    """Return the command line of the case's study."""
    x = f"{{a: 0, b: 0.0, nap: {case.nap}, failing: {str(case.failing).lower()}}}"
    return [
        "search",
        "objective=objective:run_fold",
        *("model=none", "data=none", "training=none", "space=none", "strategy=random"),
        f"+x={x}",
        "space.x.a={low: 0, high: 999, integer: true}",
        "space.x.b={low: 0.0, high: 1.0}",
        f"study.trials={case.trials}",
        *("study.name=load", "study.metric=score", "strategy.round_size=200", "split.folds=1"),
        *(f"dispatch.workers={case.workers}", "dispatch.cpus_per_worker=0.05", f"track={case.track}"),
    ]


def run(case: Case, folder: Path) -> tuple[int, float, Watch]:
    """Run the study; return its exit code, its seconds, and what was seen."""
    (folder / "objective.py").write_text(OBJECTIVE)
    watch, rng = Watch(), random.Random(0)
    command = [sys.executable, "-m", "hpo.cli.main", *arguments_of(case)]
    began = time.monotonic()
    with (folder / "output.txt").open("w") as output:
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
        driver, next_kill, is_stopped = psutil.Process(process.pid), 0.0, False
        while process.poll() is None:
            now = time.monotonic() - began
            try:
                watch.look(driver)
                if case.kill_every is not None and now >= next_kill:
                    watch.num_killed += kill_one(driver, rng)
                    next_kill = now + case.kill_every
            except psutil.Error:
                # It ended in between.
                continue
            if case.seconds is not None and now > case.seconds and not is_stopped:
                process.send_signal(signal.SIGINT)
                is_stopped = True
            time.sleep(max(0.0, 1.0 - (time.monotonic() - began - now)))
    return process.returncode, time.monotonic() - began, watch


def kill_one(driver: psutil.Process, rng: random.Random) -> int:
    """Kill one of the driver's training processes; return how many that were."""
    candidates = [p for p in driver.children(recursive=True) if TASK_PROCESS in " ".join(_command(p))]
    if not candidates:
        return 0
    rng.choice(candidates).kill()
    return 1


def _command(process: psutil.Process) -> Sequence[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return ()


def of_record(folder: Path) -> tuple[Counter[str], int, int]:
    """Return the number of trials per final state, of numbers used, and of tasks with more than one attempt."""
    with closing(sqlite3.connect(folder / "runs" / "load" / "study.db")) as connection:
        states = Counter(dict(connection.execute("SELECT state, count(*) FROM trials GROUP BY state").fetchall()))
        (numbers,) = connection.execute("SELECT count(DISTINCT number) FROM trials").fetchone()
        (retried,) = connection.execute(
            "SELECT count(*) FROM trial_user_attributes WHERE key = 'fold_0' "
            "AND json_extract(value_json, '$.attempt') > 1"
        ).fetchone()
    return states, numbers, retried


def drift(values: Sequence[float]) -> str:
    """Return the median of a series in its second tenth and in its last: the first tenth is start-up."""
    tenth = max(1, len(values) // 10)
    return f"{statistics.median(values[tenth : 2 * tenth]):,.0f} to {statistics.median(values[-tenth:]):,.0f}"


def measure(name: str) -> list[str]:
    """Run a case, check its promises, and return its row."""
    case = CASES[name]
    with tempfile.TemporaryDirectory(prefix="hpo-reliability-") as scratch:
        folder = Path(scratch)
        code, seconds, watch = run(case, folder)
        expect("exit code", code, 0 if case.seconds is None else 128 + signal.SIGINT)
        states, numbers, retried = of_record(folder)
    done = states["COMPLETE"] + states["FAIL"]
    expect("numbers of trials, each once", numbers, sum(states.values()))
    if case.seconds is None:
        expect("finished trials", done, case.trials)
    return [
        name,
        f"{done:,}",
        f"{states['FAIL']:,}",
        f"{watch.num_killed:,}",
        f"{retried:,}",
        f"{seconds:,.0f}",
        f"{done / seconds:.1f}",
        drift(watch.memory),
        drift(watch.descriptors),
        drift(watch.threads),
    ]


def main() -> None:
    """Run the selected cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", default=list(CASES), help=f"of {', '.join(CASES)}; default all")
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    print(conditions() + "\n")
    head = [
        "case",
        "trials",
        "failed",
        "killed",
        "retried",
        "seconds",
        "trials/s",
        "driver MiB",
        "descriptors",
        "threads",
    ]
    print(markdown(head, [measure(name) for name in given.cases]))


if __name__ == "__main__":
    main()
