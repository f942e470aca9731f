"""The one check on a GPU: the model's tests there, and the trainer's speed, as one page with its conditions.

    benchmarks/gpu.sh [PAGE]     # under nine minutes on one H100; without PAGE: $OUT/gpu.md, or benchmarks/gpu/gpu.md
    benchmarks/gpu.sh --smoke    # tiny sizes on the CPU: everything but the numbers

It needs `model/`, `conf/`, `benchmarks/` and `tests/model/` of this repository, and a Python with torch, numpy,
pydantic, pyyaml, safetensors, scikit-learn, sacrebleu, tokenizers and pytest; neither ray nor mlflow, and no `hpo/`.

Each part runs in a process of its own and has a time limit. The page is written anew after each, and says what did not
fit. Exit code 0: all ran; 1: a test failed, or a part stopped with an error; 3: no GPU, and nothing is written.
"""

import argparse
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import torch

from benchmarks.gpu.parts import PARTS, Part
from benchmarks.shared.places import ROOT
from model.training.speed import peak_of

TESTS = Part(
    "The model's tests",
    "`tests/model/test_gpu.py`: which promises hold on the device.",
    ("test", "passed", "failed", "skipped"),
    140,
)
# As pytest in `tests/model/` alone, without the repository's options: no xdist, no conftest.py above.
PYTEST = [
    *("-m", "pytest", "tests/model/test_gpu.py", "-v", "-rsfE", "--tb=short", "--color=no", "--confcutdir=tests/model"),
    *("-p", "no:cacheprovider", "-o", "addopts=", "-o", "filterwarnings=", "-o", "pythonpath="),
    *("-o", "consider_namespace_packages=true", "-o", "markers=gpu: needs a GPU"),
]
OUTCOME = re.compile(r"::(\w+)(?:\[.*?\])? (PASSED|FAILED|SKIPPED|ERROR)(?: \((.*)\))?")


@dataclass
class Run:
    """One part's process: the lines that it prints, as they come, until it ends or its time is over."""

    command: Sequence[str]
    seconds: float
    environment: dict[str, str]
    ending: str = ""  # what there is to say of it; empty where it ended well
    failed: bool = False

    def lines(self) -> Iterator[str]:
        """Yield each line of its output."""
        process = subprocess.Popen(
            self.command, cwd=ROOT, env=os.environ | self.environment, stdout=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None
        is_over = threading.Event()

        def cut() -> None:
            is_over.set()
            os.killpg(process.pid, signal.SIGKILL)  # the compiler's processes with it

        timer = threading.Timer(self.seconds, cut)
        timer.start()
        try:
            for line in process.stdout:
                yield line.rstrip("\n")
            code = process.wait()
        except BaseException:  # also where nobody wants further lines
            cut()
            raise
        finally:
            timer.cancel()
        if is_over.is_set():
            self.ending = f"Ended at its limit of {self.seconds:.0f} s: what is missing did not fit."
        elif code:
            self.ending, self.failed = f"Ended with exit code {code}: what is missing could not be measured.", True


@dataclass
class Section:
    """A part of the page: heading, explanation, table, and what there is to say of its process."""

    part: Part
    rows: list[Sequence[str]] = field(default_factory=list)
    ending: str = ""

    def markdown(self) -> str:
        """Return the section as Markdown."""
        table = [self.part.header, ["---"] * len(self.part.header), *self.rows] if self.rows else []
        blocks = [f"## {self.part.title}", self.part.text, "\n".join(f"| {' | '.join(row)} |" for row in table)]
        return "\n\n".join(block for block in [*blocks, self.ending] if block) + "\n"


def main() -> int:
    """Run every part, write the page, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    folder = os.environ.get("OUT", Path(__file__).parent)
    parser.add_argument("page", nargs="?", type=Path, default=Path(folder, "gpu.md"))
    parser.add_argument("--smoke", action="store_true", help="tiny sizes on the CPU")
    options = parser.parse_args()
    if not options.smoke and not torch.cuda.is_available():
        print("there is no GPU here: nothing is measured and nothing is written (--smoke: tiny sizes on the CPU)")
        return 3
    head = conditions(options.smoke)
    print(head)
    options.page.parent.mkdir(parents=True, exist_ok=True)
    began, sections, has_failed = time.monotonic(), [], False
    for number, name in enumerate(["tests", *PARTS], start=1):
        section, failed = run_tests(options.smoke) if name == "tests" else run_part(name, options.smoke)
        sections.append(section)
        has_failed = has_failed or failed
        time_taken = f"{number} of {1 + len(PARTS)} parts in {time.monotonic() - began:.0f} s.\n"
        page = "\n".join([head, *(each.markdown() for each in sections), time_taken])
        options.page.write_text(page, encoding="utf-8")
    print(f"{time_taken}{options.page}")
    return int(has_failed)


def conditions(smoke: bool) -> str:
    """Return the head of the page: what was run where, with which versions."""
    facts = {
        "command": f"`benchmarks/gpu.sh{' --smoke' if smoke else ''}`",
        "date": str(date.today()),
        "commit": os.environ.get("COMMIT") or output_of("git", "describe", "--always", "--dirty", "--exclude=*"),
        "versions": f"Python {platform.python_version()}, torch {torch.__version__}, CUDA {torch.version.cuda}, "
        f"cuDNN {torch.backends.cudnn.version()}",
    }
    if smoke:
        facts["device"] = f"CPU ({platform.machine()}); tiny sizes, whose numbers mean nothing"
    else:
        peak = peak_of(torch.device("cuda"))
        driver = output_of("nvidia-smi", "--query-gpu=driver_version,power.limit", "--format=csv,noheader")
        facts["card"] = (
            f"{torch.cuda.get_device_name()}, {torch.cuda.get_device_properties(0).total_memory / 2**30:.0f} GiB"
        )
        facts["driver, power limit"] = driver
        facts["peak in bfloat16, dense"] = "unknown" if peak is None else f"{peak / 1e12:.1f} TFLOP/s (data sheet)"
    return "# The trainer on a GPU\n\n" + "".join(f"- {name}: {value}\n" for name, value in facts.items())


def output_of(*command: str) -> str:
    """Return the first line that a program prints, or `unknown` where it is missing or fails."""
    if shutil.which(command[0]) is None:
        return "unknown"
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.splitlines()[0].strip() if done.returncode == 0 and done.stdout.strip() else "unknown"


def run_tests(smoke: bool) -> tuple[Section, bool]:
    """Return the section of the tests, and whether one failed."""
    print(f"\n{TESTS.title}", flush=True)
    # On the CPU those run that measure nothing of a GPU.
    environment = {"TEST_DEVICE": "cpu" if smoke else "cuda", "COLUMNS": "200", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    run = Run([sys.executable, *PYTEST], TESTS.seconds, environment)
    counts: dict[str, Counter[str]] = {}
    failures: list[str] = []
    reasons: dict[str, str] = {}
    for line in run.lines():
        print(line, flush=True)
        if line.startswith(("FAILED ", "ERROR ")):
            failures.append(f"- `{line}`")
        if match := OUTCOME.search(line):
            name, outcome, reason = match.groups()
            counts.setdefault(name, Counter())[outcome] += 1
            if reason:
                reasons[name] = f" ({reason})"
    rows = [
        (
            name.removeprefix("test_").replace("_", " "),
            str(count["PASSED"]),
            str(count["FAILED"] + count["ERROR"]),
            f"{count['SKIPPED']}{reasons.get(name, '')}",
        )
        for name, count in counts.items()
    ]
    return Section(TESTS, rows, "\n".join(failures) or run.ending), run.failed


def run_part(name: str, smoke: bool) -> tuple[Section, bool]:
    """Return the section of a measurement, and whether it stopped with an error."""
    part = PARTS[name]
    print(f"\n{part.title}\n{' | '.join(part.header)}", flush=True)
    run = Run([sys.executable, "-m", "benchmarks.gpu.parts", name, *(["--smoke"] if smoke else [])], part.seconds, {})
    section = Section(part)
    for line in run.lines():
        if line.startswith("["):
            section.rows.append(json.loads(line))
            line = " | ".join(section.rows[-1])
        print(line, flush=True)
    section.ending = run.ending
    return section, run.failed


if __name__ == "__main__":
    sys.exit(main())
