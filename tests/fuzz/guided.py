"""The same readers under coverage-guided fuzzing: atheris looks for inputs that reach lines no input has reached yet.

Not part of the tests, since atheris has wheels for few systems:

    python -m pip install atheris
    HPO_FUZZ_SECONDS=600 python -m tests.fuzz.guided              # all readers share the time
    HPO_FUZZ_SECONDS=600 python -m tests.fuzz.guided YAML JSON    # those that are named
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["hpo", "model"]):
    from tests.fuzz.targets import TARGETS
    from tests.fuzz.test_fuzz import HANGS_SECONDS, SECONDS, fuzzer

_CHILD = "--child"


def main(arguments: list[str]) -> int:
    """Fuzz the readers one after the other; return 1 where one failed."""
    if arguments[:1] == [_CHILD]:
        name, seconds = arguments[1:]
        options = [sys.argv[0], f"-max_total_time={seconds}", f"-timeout={HANGS_SECONDS}", "-rss_limit_mb=6000"]
        atheris.Setup([*options, "-print_final_stats=1"], fuzzer(TARGETS[name], 1).hypothesis.fuzz_one_input)
        # It ends the process.
        atheris.Fuzz()
    names = arguments or list(TARGETS)
    failed = [name for name in names if _fuzz_apart(name, SECONDS / len(names)) != 0]
    sys.stdout.write(f"failed: {', '.join(failed) or 'none'}\n")
    return 1 if failed else 0


def _fuzz_apart(name: str, seconds: float) -> int:
    """Fuzz one reader in a process and a folder of its own; return its exit code."""
    with tempfile.TemporaryDirectory(prefix="hpo-fuzz-") as folder:
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join((os.environ.get("PYTHONPATH", ""), str(Path(__file__).parents[2])))
        }
        command = [sys.executable, "-m", "tests.fuzz.guided", _CHILD, name, str(round(seconds) or 1)]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        said = done.stderr.splitlines()
    counts = [line.split()[-1] for line in said if "number_of_executed_units" in line]
    sys.stdout.write(f"{name}: {counts[0] if counts else 'no'} inputs, exit code {done.returncode}\n")
    if done.returncode != 0:
        sys.stdout.write("\n".join([*done.stdout.splitlines()[-60:], *said[-60:], ""]))
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
