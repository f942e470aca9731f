"""From the start of a server to its first picture: the page's own, optuna-dashboard and MLflow, of 1,000 trials."""

import contextlib
import subprocess
import sys
import time
import urllib.request
from functools import partial
from pathlib import Path

from benchmarks.page.browser import FIRST
from benchmarks.page.server import WATCH, served
from benchmarks.page.study import made
from tests.browser.chromium import Chromium

TURNS = 3
BOARD = "import optuna_dashboard; optuna_dashboard.run_server('sqlite:///runs/s/study.db', port=18181)"
MLFLOW = ("-m", "mlflow", "ui", "--backend-store-uri", "sqlite:///mlflow.db", "--port", "18182", "--workers", "1")
CHARTS = "#/experiments/1/runs?workflowType=machine_learning&compareRunsMode=CHART"
PEERS = {
    "hpo watch s --page": (WATCH, ""),
    "optuna-dashboard": (("-c", BOARD), "http://127.0.0.1:18181/dashboard/studies/1"),
    "mlflow ui, charts": (MLFLOW, f"http://127.0.0.1:18182/{CHARTS}"),
}


def measure(folder: Path) -> None:
    """Measure how long each server takes from its start to its first picture, of the same 1,000 trials."""
    made(1_000, 1_000)[1].close()
    began = time.perf_counter()
    call = [sys.executable, "-m", "hpo", "sync", "s", "track.uri=sqlite:///mlflow.db"]
    subprocess.run(call, check=True, capture_output=True)
    sent = time.perf_counter() - began
    print(f"\n1,000 trials, from the start of the server to the first picture (sent to MLflow in {sent:.0f} s before)")
    print("\n| server | answers after | first picture after |\n|---|---|---|")
    for name, (command, page) in PEERS.items():
        answers, pictures = [], []
        for turn in range(TURNS):
            with Chromium(folder / f"{name[:3]}{turn}", 1280, 800) as browser:
                browser.before_pages(FIRST)
                began = time.perf_counter()
                with served(*command, at=page) as (_, address):
                    wait_for(address)
                    answers.append(time.perf_counter() - began)
                    browser.open(address)
                    browser.wait(partial(browser.evaluate, "!!window.first"), f"a picture of {name}", 180)
                    pictures.append(time.perf_counter() - began)
        print(f"| {name} | {min(answers):.1f} s | {min(pictures):.1f} s |", flush=True)


def wait_for(address: str) -> None:
    """Wait until a server answers."""
    while True:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(address.partition("#")[0], timeout=60).close()
            return
        time.sleep(0.05)
