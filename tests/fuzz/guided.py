"""The same readers under coverage-guided fuzzing: `HPO_FUZZ_SECONDS=600 python -m tests.fuzz.guided [READER ...]`.

Not part of the tests, since atheris (`python -m pip install atheris`) has wheels for few systems.
"""

import os
import subprocess
import sys
import tempfile

import atheris

with atheris.instrument_imports(include=["hpo", "model"]):
    from tests.fuzz.targets import TARGETS
    from tests.fuzz.test_fuzz import HANGS_SECONDS, SECONDS, fuzzer
    from tests.studies import REPOSITORY

_CHILD = "--child"


def main(arguments: list[str]) -> int:
    if arguments[:1] == [_CHILD]:
        name, seconds = arguments[1:]
        options = [sys.argv[0], f"-max_total_time={seconds}", f"-timeout={HANGS_SECONDS}", "-rss_limit_mb=6000"]
        atheris.Setup([*options, "-print_final_stats=1"], fuzzer(TARGETS[name]).hypothesis.fuzz_one_input)
        atheris.Fuzz()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((os.environ.get("PYTHONPATH", ""), str(REPOSITORY)))}
    names, failed = arguments or list(TARGETS), []
    for name in names:
        command = [sys.executable, "-m", "tests.fuzz.guided", _CHILD, name, str(round(SECONDS / len(names)) or 1)]
        with tempfile.TemporaryDirectory(prefix="hpo-fuzz-") as folder:
            done = subprocess.run(command, cwd=folder, env=environment, check=False)
        failed += [name] if done.returncode else []
    sys.stdout.write(f"failed: {', '.join(failed) or 'none'}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
