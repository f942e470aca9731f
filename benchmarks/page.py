"""How quick the live page is, what a search loses by ten who watch it, and how long its peers take to a first picture.

    python benchmarks/page.py                   # all three: some 15 minutes on two busy cores
    python benchmarks/page.py --only browser    # 10,000 trials in Chromium: first picture, updates, memory
    python benchmarks/page.py --only peers      # 1,000 trials: from the start of a server to its first picture
    python benchmarks/page.py --only watched    # a search alone and with ten viewers, in turns

The browser is a headless Chromium, as the tests drive it. README.md beside this file says what the figures are.
"""

import argparse
import contextlib
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
KEYS = {"lr": (1e-5, 1e-1), "decay": (1e-6, 1e-2), "dropout": (0.01, 0.5), "momentum": (0.5, 0.99)}
CHOICES = {"layers": [1, 2, 3, 4, 5, 6], "kind": ["relu", "gelu", "silu"]}
VIEWERS, TURNS, TRAININGS, UPDATES, TURNS_OF_SERVERS = 10, 6, 500, 12, 3
WATCH = ("-m", "hpo", "watch", "s", "--page", "--no-browser")
OBJECTIVE = """
import time
def run_fold(task):
    # Training, of which the processor is a part: as of a small network.
    begun = time.process_time()
    for epoch in range(1, 6):
        while time.process_time() < begun + 0.008 * epoch:
            pass
        yield {"epoch": epoch, "score": -task["config"]["x"]["lr"] / epoch}
    return {"score": -task["config"]["x"]["lr"]}
"""
FIRST = """
new MutationObserver(() => {
  if (!window.first && document.querySelector(".js-plotly-plot .main-svg")) window.first = performance.now();
}).observe(document, {childList: true, subtree: true});
"""
# As if all of the page were in view.
ALL = """
looker.disconnect();
clearTimeout(soon);
for (const part of document.querySelectorAll("[data-part]")) seen.add(part.dataset.part);
listen();
"""
# From an event until the browser has painted what it changed.
TIMED = """
window.updates = [];
looker.disconnect();
clearTimeout(soon);
seen.add("best-so-far");
listen();
const handle = source.onmessage;
source.onmessage = event => {
  const began = performance.now();
  handle(event);
  requestAnimationFrame(() => setTimeout(() => updates.push(performance.now() - began)));
};
"""


def main() -> None:
    """Measure, and print tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["browser", "peers", "watched"])
    given = parser.parse_args()
    cases = {"browser": in_browser, "peers": beside_peers, "watched": watched}
    print(f"load before {'/'.join(f'{value:.1f}' for value in os.getloadavg())}, {os.cpu_count()} processors")
    for name, measure in cases.items():
        if given.only in (None, name):
            with tempfile.TemporaryDirectory(prefix="hpo-bench-") as folder, contextlib.chdir(folder):
                Path("instant.py").write_text(OBJECTIVE)
                sys.path.insert(0, folder)
                measure(Path(folder))
                sys.path.remove(folder)


def tree(trials: int, dispatch: str = "local") -> list[str]:
    """Return the overrides of a study."""
    keys = [f"space.x.{key}={{low: {low}, high: {high}, log: true}}" for key, (low, high) in KEYS.items()]
    keys += [f"space.x.{key}={{choices: {values}}}" for key, values in CHOICES.items()]
    middle = {**{key: low for key, (low, _) in KEYS.items()}, **{key: values[0] for key, values in CHOICES.items()}}
    return [
        *("objective=instant:run_fold", "model=none", "data=none", "training=none", "space=none"),
        *(f"+{key}" for key in keys),
        *(f"+x.{key}={value}" for key, value in middle.items()),
        *("study.name=s", f"study.trials={trials}", "study.metric=score", "study.direction=maximize"),
        *("strategy=random", "track=none", f"dispatch={dispatch}"),
    ]


def made(trials: int, budget: int) -> tuple[Any, Any]:
    """Return a study of so many trials that did not run, and its record, open."""
    from hpo.config.composing.compose import compose_config
    from hpo.config.study_config import config_from_dict
    from hpo.study.opening import open_study
    from hpo.study.preparing.preparation import prepare_study

    study = prepare_study(config_from_dict(compose_config("search", tree(budget))))
    record, rng, start = open_study(study), random.Random(0), time.time() - 4.0 * trials
    for number in range(trials):
        add(record, rng, number, start + 4.0 * number)
    return study, record


def add(record: Any, rng: random.Random, number: int, start: float) -> None:
    """Write a trial: its score is a bowl with noise; one in fifty fails; curves of ten epochs."""
    from hpo.engine.trials.trial import Outcome, Proposal

    point = {f"x.{key}": 10 ** rng.uniform(math.log10(low), math.log10(high)) for key, (low, high) in KEYS.items()}
    point |= {f"x.{key}": rng.choice(values) for key, values in CHOICES.items()}
    best = 0.9 - 0.04 * abs(math.log10(point["x.lr"]) + 3) - 0.02 * abs(point["x.layers"] - 4) + 0.02 * rng.random()
    curve = [{"epoch": epoch, "score": best * (1 - math.exp(-epoch / 4))} for epoch in range(1, 11)]
    ran = {"seconds": 3 + rng.random(), "started": start, "worker": 1 + number % 4}
    outcome = Outcome({"score": best}, curve, **ran) if rng.random() > 0.02 else Outcome(error="out of memory", **ran)
    record.add_outcome(record.open_trial(number, Proposal(point), cost_of=lambda _: 1.0).number, 0, outcome)


@contextlib.contextmanager
def served(*command: str, is_told: bool = True) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a server, and yield its process and the address that it prints, if it is told."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(Path.cwd())))}
    out = subprocess.PIPE if is_told else subprocess.DEVNULL
    server = subprocess.Popen(
        [sys.executable, *command], stdout=out, stderr=subprocess.DEVNULL, text=True, env=environment
    )
    try:
        yield server, next((line.strip() for line in server.stdout or () if line.startswith("http")), "")
    finally:
        for process in (*psutil.Process(server.pid).children(recursive=True), psutil.Process(server.pid)):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.terminate()
        server.wait()


def in_browser(folder: Path) -> None:
    """Measure a study of 10,000 trials in Chromium: first picture, updates while trials come, memory."""
    from tests.browser.chromium import Chromium

    study, record = made(10_000, 20_000)
    rng, number = random.Random(1), 10_000
    with study.folder.lock(), served(*WATCH) as (server, address), Chromium(folder / "p", 1280, 800) as browser:
        browser._call("Performance.enable", timeDomain="threadTicks")
        browser.before_pages(FIRST)
        at_address = processor_seconds(server)
        first, own = [], 0.0
        for turn in range(6):
            before = thread_seconds(browser)
            browser.open(address)
            browser.wait(lambda: browser.evaluate("!!window.first"), "a first picture")
            first.append(browser.evaluate("first") / 1000)
            if turn == 0:
                own = thread_seconds(browser) - before
                served_first = processor_seconds(server)
                browser.evaluate(ALL)
                browser.wait(lambda: "is being drawn" not in browser.text(), "all pictures", 300)
        browser.evaluate(TIMED)
        began, before, server_before = time.monotonic(), thread_seconds(browser), processor_seconds(server)
        while browser.evaluate("updates.length") < UPDATES and time.monotonic() < began + 120:
            for _ in range(5):
                add(record, rng, number, time.time())
                number += 1
            time.sleep(1)
        updates = browser.evaluate("updates")
        each = (thread_seconds(browser) - before) / len(updates)
        # Longer, since at first each figure is drawn twice.
        for _ in range(60):
            add(record, rng, number, time.time())
            number += 1
            time.sleep(1)
        seconds, spent = time.monotonic() - began, processor_seconds(server) - server_before
        share = spent / seconds / (os.cpu_count() or 1)
        # As if all of the page had been looked at.
        browser.evaluate("places().forEach(draw)")
        heap = browser.evaluate("performance.memory.usedJSHeapSize") / 1e6
        renderers = [p for p in psutil.Process(browser._process.pid).children(True) if "--type=renderer" in p.cmdline()]
        private = max(process.memory_full_info().uss for process in renderers) / 1e6
        server_size = psutil.Process(server.pid).memory_info().rss / 1e6
    record.close()
    middle = statistics.median
    rows = [
        ("the server, until it prints its address", "", f"{at_address:.2f} s", ""),
        (
            "first picture of the first page after that",
            f"{first[0]:.2f} s",
            f"server {served_first - at_address:.2f} s, browser {own:.2f} s",
            "",
        ),
        (
            "first picture of a later page (median of 5)",
            f"{middle(first[1:]):.2f} s",
            "",
            "1.5 s",
        ),
        (
            f"an update, until it is painted (median, longest of {len(updates)})",
            f"{middle(updates):.0f} ms, {max(updates):.0f} ms",
            f"browser {1000 * each:.0f} ms (mean)",
            "200 ms",
        ),
        ("memory of the page's process (JavaScript's)", f"{private:.0f} MB ({heap:.0f} MB)", "", "300 MB"),
        ("memory of the server", f"{server_size:.0f} MB", "", ""),
        ("the server, while trials come", "", f"{share:.1%} of the processors", ""),
    ]
    print("\n10,000 trials in Chromium\n\n| what | wall | processor time | goal |\n|---|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def processor_seconds(server: "subprocess.Popen[str]") -> float:
    """Return what a process has taken of the processors."""
    return sum(psutil.Process(server.pid).cpu_times()[:2])


def thread_seconds(browser: Any) -> float:
    """Return what the page's main thread has taken of a processor."""
    metrics = {each["name"]: each["value"] for each in browser._call("Performance.getMetrics")["metrics"]}
    return float(metrics["TaskDuration"])


def beside_peers(folder: Path) -> None:
    """Measure how long each server takes from its start to its first picture, of the same 1,000 trials."""
    from tests.browser.chromium import Chromium

    _, record = made(1_000, 1_000)
    record.close()
    call = [sys.executable, "-m", "hpo", "sync", "s", "track.uri=sqlite:///mlflow.db"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(folder)))}
    began = time.perf_counter()
    subprocess.run(call, check=True, env=environment, capture_output=True)
    sent = time.perf_counter() - began
    board = "import optuna_dashboard; optuna_dashboard.run_server('sqlite:///runs/s/study.db', port=18181)"
    mlflow = ("-m", "mlflow", "ui", "--backend-store-uri", "sqlite:///mlflow.db", "--port", "18182", "--workers", "1")
    charts = "#/experiments/1/runs?workflowType=machine_learning&compareRunsMode=CHART"
    peers = {
        "hpo watch s --page": (WATCH, None),
        "optuna-dashboard": (("-c", board), "http://127.0.0.1:18181/dashboard/studies/1"),
        "mlflow ui, charts": (mlflow, f"http://127.0.0.1:18182/{charts}"),
    }
    print(f"\n1,000 trials, from the start of the server to the first picture (sent to MLflow in {sent:.0f} s before)")
    print("\n| server | answers after | first picture after |\n|---|---|---|")
    for name, (command, page) in peers.items():
        answers, pictures = [], []
        for turn in range(TURNS_OF_SERVERS):
            with Chromium(folder / f"{name[:3]}{turn}", 1280, 800) as browser:
                browser.before_pages(FIRST)
                began = time.perf_counter()
                with served(*command, is_told=page is None) as (_, address):
                    wait_for(page or address)
                    answers.append(time.perf_counter() - began)
                    browser.open(page or address)
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


def watched(_: Path) -> None:
    """Measure the same search alone and with ten viewers, in turns; the fastest of each counts."""
    seconds: dict[str, list[float]] = {"alone": [], f"with {VIEWERS} viewers": []}
    shares = []
    for turn in range(TURNS):
        for name, took in seconds.items():
            with contextlib.ExitStack() as stack:
                taken = Path(f"{turn}-{name[:4]}")
                taken.mkdir()
                stack.enter_context(contextlib.chdir(taken))
                Path("instant.py").write_text(OBJECTIVE)
                server, address = None, ""
                if name != "alone":
                    server, address = stack.enter_context(served("-m", "hpo", "watch", "--page", "--no-browser"))
                search = subprocess.Popen(
                    [sys.executable, "-m", "hpo", "search", *tree(TRAININGS, "ray"), "dispatch.workers=2"],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(Path.cwd())))},
                )
                while not Path("runs/s/status.json").exists():
                    time.sleep(0.1)
                before = 0.0
                if server is not None:
                    before = processor_seconds(server)
                    for _ in range(VIEWERS):
                        events = f"{address}studies/s/events?see=state,workers,best-so-far"
                        threading.Thread(target=read, args=(events,), daemon=True).start()
                search.wait()
                took.append(search_seconds())
                if server is not None:
                    shares.append((processor_seconds(server) - before) / took[-1] / (os.cpu_count() or 1))
    print(f"\nA search of {TRAININGS} trainings of 40 ms on two workers, fastest of {TURNS} turns")
    print("\n| search | seconds | slowest turn |\n|---|---|---|")
    for name, took in seconds.items():
        print(f"| {name} | {min(took):.2f} | {max(took):.2f} |")
    alone, others = (min(took) for took in seconds.values())
    taken = f"the server took {statistics.median(shares):.1%} of the processors"
    print(f"\nratio {others / alone:.3f} (goal 1.02); {taken}")


def read(address: str) -> None:
    """Read events until they end."""
    with contextlib.suppress(OSError):
        for _ in urllib.request.urlopen(address):
            pass


def search_seconds() -> float:
    """Return how long the search took, from its first training to its last result."""
    from hpo.study.files.folder import StudyFolder
    from hpo.study.files.status import read_status

    status = read_status(StudyFolder(Path("runs/s")))
    assert status.state == "ended", status
    assert status.minutes is not None
    return 60 * status.minutes


if __name__ == "__main__":
    main()
