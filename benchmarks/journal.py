"""Speed: what a report costs where a training keeps a state, whose journal is written before the report returns.

    python benchmarks/journal.py

Trainings without a state, and with one of a file that is written anew before each report; up to 64 kB it is read for
the journal. What is measured lies between the report and the next step of the training; the fastest of five turns
counts.
"""

import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hpo.workers.training.tasks import Payload
from hpo.workers.training.worker import run_task

REPORTS, TURNS = 2_000, 5
SIZES = {"no state": None, "a state of 10 bytes": 10, "a state of 60 kB": 60_000}


def run_fold(task: Mapping[str, Any]) -> Iterator[dict[str, float]]:
    """Report, after each writing of the state; return how many milliseconds a report took."""
    folder, size, spent = Path(task["resume_dir"]), task["config"]["bytes"], 0.0
    for epoch in range(1, REPORTS + 1):
        if size is not None:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "state").write_bytes(os.urandom(16) + bytes(size))
        began = time.perf_counter()
        yield {"epoch": epoch, "score": 1 / epoch}
        spent += time.perf_counter() - began
    return {"score": 1000 * spent / REPORTS}


def main() -> None:
    """Print milliseconds a report by the size of the state."""
    for name, size in SIZES.items():
        found = []
        for _ in range(TURNS):
            with tempfile.TemporaryDirectory() as folder:
                *_, last = run_task(Payload("journal:run_fold", {"bytes": size}, "score", resume_dir=folder))
            found.append(last["outcome"].metrics["score"])
        print(json.dumps({"case": name, "ms a report": round(min(found), 3)}))


if __name__ == "__main__":
    os.chdir(Path(__file__).parent)
    main()
