"""Speed: what a trial costs beyond its training, compared with Ray Tune and Optuna, all measured in one run.

Every case runs alone in a fresh process and a fresh folder, the cases take turns, and the fastest of `--repeats` turns
counts: other work on the machine can only add time. The objective returns at once, so that only the cost of searching
is measured: proposing, dispatching, recording, tracking and reporting. README.md beside this file explains the columns.
"""

import argparse
import json
import os
import resource
import shlex
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

from benchmarks.dispatch.cases import CASES, KEYS, LONG, OBJECTIVE, WORKERS
from benchmarks.dispatch.measurement import Measurement, fastest
from benchmarks.dispatch.table import table, targets


def run_case(name: str, trials: int) -> Measurement:
    """Measure one case in this process, in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="hpo-bench-") as folder:
        os.chdir(folder)
        Path("instant.py").write_text(OBJECTIVE)
        sys.path.insert(0, folder)
        measured = CASES[name].measure(trials)
        os.chdir("/")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return replace(measured, peak_bytes=peak * (1 if sys.platform == "darwin" else 1024))


def measure_apart(name: str, trials: int) -> Measurement:
    """Measure one case in a fresh process, so that it has its own memory and imports."""
    command = [sys.executable, "-m", "benchmarks.dispatch.overhead", "--case", name, "--trials", str(trials)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{name} failed:\n{done.stdout}{done.stderr}")
    # Libraries may print, too; the measurement is the last line.
    return Measurement(**json.loads(done.stdout.splitlines()[-1]))


def run_all(names: Sequence[str], trials: int, repeats: int) -> dict[str, list[Measurement]]:
    """Measure the cases in turn, `repeats` times."""
    measured: dict[str, list[Measurement]] = {name: [] for name in names}
    for repeat in range(repeats):
        for name in names:
            # More trials than workers: Tune's clock starts when as many as these are done.
            one = measure_apart(name, max(round(trials * CASES[name].share), 2 * WORKERS))
            measured[name].append(one)
            print(f"turn {repeat + 1} of {repeats}: {name} {one.milliseconds:.2f} ms a trial", file=sys.stderr)
    return measured


def header(arguments: argparse.Namespace) -> list[str]:
    """Return what the figures depend on: command, date, hardware and versions."""
    from hpo.study.basis.environment import describe_environment

    environment = describe_environment()
    packages = ("optuna", "ray", "mlflow")
    versions = [f"{name} {version(name)}" for name in (*packages, "sqlalchemy", "hpo-transformer")]
    load = "/".join(f"{value:.1f}" for value in os.getloadavg())
    return [
        f"command   python {shlex.join(sys.orig_argv[1:])}",
        f"date      {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}",
        f"hardware  {environment['cpus']} x {environment['processor']}, {environment['memory_bytes'] / 2**30:.0f} GiB, "
        f"{environment['platform']}; load before {load}",
        f"versions  python {environment['python']}, {', '.join(versions)}, sqlite {sqlite3.sqlite_version}, "
        f"commit {(environment['commit'] or 'unknown')[:7]}{' + changes' if environment['is_dirty'] else ''}",
        f"setting   {WORKERS} workers, {len(KEYS)} float hyperparameters, random search, "
        f"fastest of {arguments.repeats} turns",
    ]


def main() -> None:
    """Measure one case as JSON (`--case`), or all of them as a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=1000, help="of the cases with one share; default 1000")
    parser.add_argument("--repeats", type=int, default=3, help="turns, of which the fastest counts; default 3")
    parser.add_argument("--long", action="store_true", help="also 10 x the trials, for ours on Ray with the record")
    parser.add_argument("--quick", action="store_true", help="100 trials, one turn: whether everything runs")
    parser.add_argument("--case", choices=CASES, help="one case in this process, printed as JSON")
    arguments = parser.parse_args()
    if arguments.case:
        print(json.dumps(asdict(run_case(arguments.case, arguments.trials))))
        return
    if arguments.quick:
        arguments.trials, arguments.repeats = 100, 1
    lines = header(arguments)
    measured = run_all([n for n in CASES if n != LONG or arguments.long], arguments.trials, arguments.repeats)
    console = Console(width=180, highlight=False)
    console.print("\n".join(lines), markup=False)
    console.print()
    console.print(table(measured))
    if LONG in measured:
        shown = " ".join(f"{value:.2f}" for value in fastest(measured[LONG]).tenths)
        console.print(f"{CASES[LONG].title}: ms a trial by tenth: {shown}\n", markup=False)
    console.print("\n".join(targets(measured)), markup=False)


if __name__ == "__main__":
    main()
