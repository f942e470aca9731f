"""How long `hpo list` takes with hundreds of studies, start of Python included.

    python -m benchmarks.list.speed                   # 300 studies, five turns: half a minute
    python -m benchmarks.list.speed --studies 3000

One study of 100 trials is searched and copied; each copy has a name and a date of its own. Beside it the best of each
is read through Optuna from its record, as a list without a summary has to. The fastest turn counts, since other work on
the machine can only add time.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.shared.places import ROOT

GOAL_SECONDS = 1.0

SEARCH = """
import hpo

def score(config):
    return -abs(config["lr"] - 0.01)

hpo.search(score, {"lr": hpo.log(1e-4, 1.0), "layers": [1, 2, 3]}, trials=100, direction="maximize", progress=False,
           settings={"dispatch": "local", "track": "none"}, name="first")
"""
BY_OPTUNA = """
import glob, optuna
optuna.logging.set_verbosity(optuna.logging.ERROR)
for path in glob.glob("runs/*/study.db"):
    storage = f"sqlite:///{path}"
    print(path, optuna.load_study(study_name="first", storage=storage).best_value)
"""
LIST = [sys.executable, "-m", "hpo", "list"]
CASES = {
    "hpo list": LIST,
    "hpo list --where 'score>-1 and strategy=random' --sort -score": [
        *(*LIST, "--where", "score>-1 and strategy=random", "--sort", "-score")
    ],
    "hpo list --json": [*LIST, "--json"],
    "python -c 'import hpo'": [sys.executable, "-c", "import hpo"],
    "optuna.load_study(...).best_value of each": [sys.executable, "-c", BY_OPTUNA],
}


def measured(command: list[str], folder: Path) -> tuple[float, float]:
    """Return the wall and the CPU seconds of a command."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Make the studies, measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=300)
    parser.add_argument("--turns", type=int, default=5)
    given = parser.parse_args()
    os.environ["PYTHONPATH"] = str(ROOT)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        subprocess.run([sys.executable, "-c", SEARCH], cwd=folder, check=True)
        first = folder / "runs" / "first"
        for number in range(1, given.studies):
            copy = shutil.copytree(first, folder / "runs" / f"study_{number:04d}")
            status = json.loads((copy / "status.json").read_text())
            status |= {"name": copy.name, "begun": status["begun"] - 60 * number}
            (copy / "status.json").write_text(json.dumps(status))
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        print(f"{given.studies} studies of 100 trials, {size / 1e6:.0f} MB; load {os.getloadavg()[0]:.1f}\n")
        print("| command | seconds | slowest turn | CPU seconds |\n|---|---|---|---|")
        for name, command in CASES.items():
            turns = [measured(command, folder) for _ in range(given.turns if "optuna" not in name else 1)]
            walls, cpus = zip(*turns, strict=True)
            print(f"| `{name}` | {min(walls):.2f} | {max(walls):.2f} | {min(cpus):.2f} |", flush=True)
            if name == "hpo list":
                best = min(walls)
    print(f"\n{'holds' if best < GOAL_SECONDS else 'MISSED'}   under {GOAL_SECONDS:g} s: {best:.2f} s")


if __name__ == "__main__":
    main()
