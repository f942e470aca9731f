"""What a search loses by ten who watch it."""

import contextlib
import os
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import psutil

from benchmarks.page.server import processor_seconds, served
from benchmarks.page.study import tree
from hpo.study.files.folder import StudyFolder
from hpo.study.files.status import read_status

VIEWERS, TURNS, TRAININGS = 10, 6, 500


def measure(_: Path) -> None:
    """Measure the same search alone and with ten viewers, in turns; the fastest of each counts."""
    seconds: dict[str, list[float]] = {"alone": [], f"with {VIEWERS} viewers": []}
    shares = []
    for turn in range(TURNS):
        for name, took in seconds.items():
            folder = Path(f"{turn}-{name[:4]}")
            folder.mkdir()
            with contextlib.chdir(folder):
                if name == "alone":
                    took.append(search()[0])
                    continue
                with served("-m", "hpo", "watch", "--page", "--no-browser") as (server, address):
                    own, servers = search(server, f"{address}studies/s/events?see=state,workers,best-so-far")
                took.append(own)
                shares.append(servers / own / (os.cpu_count() or 1))
    print(f"\nA search of {TRAININGS} trainings of 40 ms on two workers, {TURNS} turns\n")
    print("| search | fastest | median | slowest turn |\n|---|---|---|---|")
    for name, took in seconds.items():
        print(f"| {name} | {min(took):.2f} s | {statistics.median(took):.2f} s | {max(took):.2f} s |")
    alone, others = map(min, seconds.values())
    print(f"\nratio of the fastest {others / alone:.3f} (goal 1.02)")
    print(f"the server took {statistics.median(shares):.1%} of the processors")


def search(server: psutil.Popen | None = None, events: str = "") -> tuple[float, float]:
    """Run a search, once it has begun with viewers of a server; return its seconds, and the server's processor time."""
    command = [sys.executable, "-m", "hpo", "search", *tree(TRAININGS, "ray"), "dispatch.workers=2"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not Path("runs/s/status.json").exists():
        time.sleep(0.1)
    before = processor_seconds(server) if server else 0.0
    for _ in range(VIEWERS if server else 0):
        threading.Thread(target=read, args=(events,), daemon=True).start()
    process.wait()
    status = read_status(StudyFolder(Path("runs/s")))
    assert status.state == "ended", status
    assert status.minutes is not None
    return 60 * status.minutes, processor_seconds(server) - before if server else 0.0


def read(address: str) -> None:
    """Read events until they end."""
    with contextlib.suppress(OSError):
        for _ in urllib.request.urlopen(address):
            pass
