"""Several machines: what it costs that data and models travel between them, and what many workers cost.

All nodes are on this machine, so bytes travel through its memory and not through a network. The driver's folder is
empty on all other nodes: what a task needs there, and what it leaves, goes through Ray. README.md has the last run.
"""

import argparse
import contextlib
import math
import secrets
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from benchmarks.machines.nodes import cluster
from benchmarks.machines.pool import MEBIBYTE, Pool, counted
from benchmarks.shared.printing import conditions, expect, markdown

NODES, MORE_TASKS, MODEL_TASKS = 3, 20, 6
MODELS_MIB = (1, 100)
DATA_HEAD = ("data, MiB", "first tasks, s", "one node, s", "ratio")
DATA_HEAD += (
    f"{MORE_TASKS} more tasks, s",
    "one node, s",
    "ratio",
    "sent in all, MiB",
    "per task",
    "of it by the last 20",
)
MODEL_HEAD = ("model, MiB", "a task, s", "one node, s", "ratio", "taken per task, MiB", f"by {NODES - 1} nodes in all")
WORKERS_HEAD = ("workers", "nodes", "all started, s", "memory of each, MiB", "tasks", "with one outcome")
WORKERS_HEAD += ("workers that answered", "seconds", "tasks/s", "driver before, MiB", "driver after, MiB")


def measure_data(folder: Path, address: str | None, mib: int) -> list[float]:
    """Return seconds of the first tasks, one on each worker, and of more tasks, and the MiB sent for both."""
    data = folder / "data"
    data.mkdir(exist_ok=True)
    with (data / "bytes").open("wb") as file:
        for _ in range(mib):
            file.write(secrets.token_bytes(MEBIBYTE))
    with counted() as traffic, three_workers(folder, address, mib) as pool:
        first_seconds, outcomes = pool.run(NODES, data_dir=str(data))
        expect("sizes that tasks saw", {one.metrics["score"] for one in outcomes}, {mib * MEBIBYTE})
        expect("workers that answered", len({one.worker for one in outcomes}), NODES)
        expect("tasks on other nodes", sum(one.metrics["away"] for one in outcomes), NODES - 1 if address else 0)
        first_sent = traffic.sent
        more_seconds, _ = pool.run(MORE_TASKS, data_dir=str(data))
        return [first_seconds, more_seconds, first_sent / MEBIBYTE, (traffic.sent - first_sent) / MEBIBYTE]


def measure_model(folder: Path, address: str | None, mib: int) -> list[float]:
    """Return the median seconds of a task that leaves a model, one at a time, and the MiB taken from each and from all.

    In a cluster only the tasks on other nodes than the driver's count.
    """
    seconds = []
    with counted() as traffic, three_workers(folder, address, mib) as pool:
        for number in range(MODEL_TASKS):
            model = folder / "models" / str(number)
            took, (outcome,) = pool.run(1, mib, checkpoint_dir=str(model))
            expect("bytes of the model", (model / "weights").stat().st_size, mib * MEBIBYTE)
            shutil.rmtree(model)
            if outcome.metrics["away"] == bool(address):
                seconds.append(took)
    taken = traffic.taken / MEBIBYTE
    return [statistics.median(seconds), taken / len(seconds), taken]


def three_workers(folder: Path, address: str | None, mib: int) -> contextlib.closing[Pool]:
    """Return a pool with a worker on each node of the cluster, or with as many on the driver's node alone."""
    share = 1.0 if address else 0.5
    return contextlib.closing(
        Pool(folder, address, workers=NODES, cpus_per_worker=share, largest_message=max(2048, 2 * mib))
    )


def data_row(mib: int, away: Sequence[float], here: Sequence[float]) -> list[str]:
    """Return the row of a size of data."""
    first, more, first_sent, more_sent = away
    sent = first_sent + more_sent
    cells = [f"{mib:,}", *compared(first, here[0]), *compared(more, here[1])]
    return [*cells, f"{sent:,.2f}", f"{sent / (NODES + MORE_TASKS):,.2f}", f"{more_sent:,.2f}"]


def model_row(mib: int, away: Sequence[float], here: Sequence[float]) -> list[str]:
    """Return the row of a size of models."""
    seconds, each, taken = away
    return [f"{mib:,}", *compared(seconds, here[0]), f"{each:,.2f}", f"{taken:,.2f}"]


def compared(away: float, here: float) -> list[str]:
    """Return seconds on all nodes and on one, and their ratio."""
    return [f"{away:.3f}", f"{here:.3f}", f"{away / here:,.1f}"]


def table(
    measure: Callable[[Path, str | None, int], list[float]],
    make_row: Callable[[int, Sequence[float], Sequence[float]], list[str]],
    sizes: Sequence[int],
    turns: int,
    folder: Path,
    address: str,
) -> list[list[str]]:
    """Measure each size on one node and on all in turn, and return the rows of the medians."""
    rows = []
    for mib in sizes:
        here, away = [], []
        for turn in range(turns):
            here.append(measure(folder, None, mib))
            away.append(measure(folder, address, mib))
            print(f"{mib} MiB, turn {turn + 1} of {turns}: here {here[-1]}, away {away[-1]}", file=sys.stderr)
        rows.append(
            make_row(mib, *([statistics.median(each) for each in zip(*of, strict=True)] for of in (away, here)))
        )
    return rows


def show_data(scratch: Path, given: argparse.Namespace) -> None:
    """Print the tables of data and of models that travel."""
    store = 2 * max(*given.mib, *MODELS_MIB) * MEBIBYTE
    with cluster(scratch, NODES - 1, num_cpus=1, object_store_memory=store) as address:
        place = (given.turns, scratch / "driver", address)
        print(markdown(DATA_HEAD, table(measure_data, data_row, given.mib, *place)) + "\n")
        print(markdown(MODEL_HEAD, table(measure_model, model_row, MODELS_MIB, *place)))


def show_workers(scratch: Path, given: argparse.Namespace) -> None:
    """Print what many workers take, and the tasks that they run."""
    cpus, store = math.ceil(given.workers / given.nodes), 128 * MEBIBYTE
    with cluster(scratch, given.nodes - 1, num_cpus=cpus, object_store_memory=store) as address:
        free = psutil.virtual_memory().available
        with contextlib.closing(Pool(scratch / "driver", address, workers=given.workers)) as pool:
            each = (free - psutil.virtual_memory().available) / given.workers / MEBIBYTE
            before = driver_mib()
            seconds, outcomes = pool.run(given.tasks)
            after = driver_mib()
    answered = len({one.worker for one in outcomes})
    cells = [f"{given.workers}", f"{given.nodes}", f"{pool.start_seconds:.1f}", f"{each:.0f}", f"{given.tasks:,}"]
    cells += [f"{len(outcomes):,}", f"{answered}", f"{seconds:.1f}", f"{len(outcomes) / seconds:.0f}"]
    print(markdown(WORKERS_HEAD, [[*cells, f"{before:.0f}", f"{after:.0f}"]]))


def driver_mib() -> float:
    """Return this process's resident memory."""
    return psutil.Process().memory_info().rss / MEBIBYTE


def main() -> None:
    """Measure what travels, or many workers, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = parser.add_subparsers(required=True)
    data = parts.add_parser("data", help="data and models travel between three nodes of one worker each")
    data.add_argument(
        "--mib", type=int, nargs="+", default=[1, 100, 1000], help="sizes of the data; default 1 100 1000"
    )
    data.add_argument("--turns", type=int, default=3, help="of which the medians are printed; default 3")
    data.set_defaults(show=show_data)
    workers = parts.add_parser("workers", help="many workers start and run short tasks")
    workers.add_argument("--workers", type=int, default=128, help="default 128")
    workers.add_argument("--nodes", type=int, default=4, help="that they are shared among; default 4")
    workers.add_argument("--tasks", type=int, default=2000, help="default 2,000")
    workers.set_defaults(show=show_workers)
    given = parser.parse_args()
    print(conditions(("ray", "hpo-transformer")) + "\n", flush=True)
    with tempfile.TemporaryDirectory(prefix="hpo-machines-") as name:
        scratch = Path(name)
        (scratch / "driver").mkdir()
        given.show(scratch, given)


if __name__ == "__main__":
    main()
