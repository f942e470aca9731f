"""How quick the live page is, what a search loses by ten who watch it, and how long its peers take to a first picture.

python -m benchmarks.page.speed                   # all three: some 15 minutes on two busy cores
python -m benchmarks.page.speed --only browser    # 10,000 trials in a headless Chromium: first picture, updates, memory
python -m benchmarks.page.speed --only peers      # 1,000 trials: from the start of a server to its first picture
python -m benchmarks.page.speed --only watched    # a search alone and with ten viewers, in turns
"""

import argparse
import contextlib
import importlib
import os
import sys
import tempfile
from pathlib import Path

from benchmarks.shared.places import ROOT

CASES = ("browser", "peers", "watched")


def main() -> None:
    """Measure, and print tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=CASES)
    given = parser.parse_args()
    print(f"load before {'/'.join(f'{value:.1f}' for value in os.getloadavg())}, {os.cpu_count()} processors")
    for case in [given.only] if given.only else CASES:
        with tempfile.TemporaryDirectory(prefix="hpo-bench-") as folder, contextlib.chdir(folder):
            # The objective, for this process and for those that it starts.
            sys.path.append(folder)
            os.environ["PYTHONPATH"] = os.pathsep.join((str(ROOT), folder))
            importlib.import_module(f"benchmarks.page.{case}").measure(Path(folder))
            sys.path.remove(folder)
            sys.modules.pop("instant", None)


if __name__ == "__main__":
    main()
