"""The page of 10,000 trials in Chromium: its first picture, its updates while trials arrive, and its memory."""

import os
import random
import time
from itertools import count, islice
from pathlib import Path
from statistics import median

import psutil

from benchmarks.page.server import WATCH, processor_seconds, served
from benchmarks.page.study import add, made
from tests.browser.chromium import Chromium

TRIALS, UPDATES, SECONDS = 10_000, 12, 60
FIRST = """
new MutationObserver(() => {
  if (!window.first && document.querySelector(".js-plotly-plot .main-svg")) window.first = performance.now();
}).observe(document, {childList: true, subtree: true});
"""
# As if all of the page were in view.
ALL = """
looker.disconnect(), clearTimeout(soon);
for (const part of document.querySelectorAll("[data-part]")) seen.add(part.dataset.part);
listen();
"""
# From an event until the browser has painted what it changed.
TIMED = """
looker.disconnect(), clearTimeout(soon);
seen.add("best-so-far"), listen();
const handle = source.onmessage, updates = window.updates = [];
source.onmessage = event => {
  const began = performance.now();
  handle(event);
  requestAnimationFrame(() => setTimeout(() => updates.push(performance.now() - began)));
};
"""


def measure(folder: Path) -> None:
    """Measure, and print a table."""
    study, record = made(TRIALS, 2 * TRIALS)
    rng, numbers = random.Random(1), count(TRIALS)
    with study.folder.lock(), served(*WATCH) as (server, address), Chromium(folder / "p", 1280, 800) as browser:
        browser._call("Performance.enable", timeDomain="threadTicks")
        browser.before_pages(FIRST)
        at_address, own, first = processor_seconds(server), thread_seconds(browser), []
        for turn in range(6):
            browser.open(address)
            browser.wait(lambda: browser.evaluate("!!window.first"), "a first picture")
            first.append(browser.evaluate("first") / 1000)
            if turn == 0:
                own, at_first = thread_seconds(browser) - own, processor_seconds(server)
                browser.evaluate(ALL)
                browser.wait(lambda: "is being drawn" not in browser.text(), "all pictures", 300)
        browser.evaluate(TIMED)
        began, before, server_before = time.monotonic(), thread_seconds(browser), processor_seconds(server)
        while browser.evaluate("updates.length") < UPDATES and time.monotonic() < began + 120:
            for number in islice(numbers, 5):
                add(record, rng, number, time.time())
            time.sleep(1)
        updates = browser.evaluate("updates")
        each = (thread_seconds(browser) - before) / len(updates)
        # Longer, since at first each figure is drawn twice.
        for _ in range(SECONDS):
            add(record, rng, next(numbers), time.time())
            time.sleep(1)
        spent, seconds = processor_seconds(server) - server_before, time.monotonic() - began
        # As if all of the page had been looked at.
        browser.evaluate("places().forEach(draw)")
        heap = browser.evaluate("performance.memory.usedJSHeapSize") / 1e6
        parts = psutil.Process(browser._process.pid).children(recursive=True)
        private = max(part.memory_full_info().uss for part in parts if "--type=renderer" in part.cmdline()) / 1e6
        server_size = server.memory_info().rss / 1e6
    record.close()
    updated = f"an update, until it is painted (median, longest of {len(updates)})"
    parts_of_first = f"server {at_first - at_address:.2f} s, browser {own:.2f} s"
    share = spent / seconds / (os.cpu_count() or 1)
    print(f"""
{TRIALS:,} trials in Chromium

| measurement | wall | processor time | goal |
|---|---|---|---|
| the server, until it prints its address |  | {at_address:.2f} s |  |
| first picture of the first page after that | {first[0]:.2f} s | {parts_of_first} |  |
| first picture of a later page (median of 5) | {median(first[1:]):.2f} s |  | 1.5 s |
| {updated} | {median(updates):.0f} ms, {max(updates):.0f} ms | browser {1000 * each:.0f} ms (mean) | 200 ms |
| memory of the page's process (JavaScript's) | {private:.0f} MB ({heap:.0f} MB) |  | 300 MB |
| memory of the server | {server_size:.0f} MB |  |  |
| the server, while trials arrive |  | {share:.1%} of the processors |  |""")


def thread_seconds(browser: Chromium) -> float:
    """Return what the page's main thread has taken of a processor."""
    metrics = {each["name"]: each["value"] for each in browser._call("Performance.getMetrics")["metrics"]}
    return float(metrics["TaskDuration"])
