"""Prints the lowest allowed version of every dependency but the tests' own, as constraints for pip."""

import itertools
import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
extras = [wanted for name, wanted in project["optional-dependencies"].items() if name not in ("test", "dev", "docs")]
for wanted in sorted({*project["dependencies"], *itertools.chain(*extras)}):
    bound = re.match(r"(?P<name>[\w.-]+)(\[[\w,-]+\])?>=(?P<lowest>[\d.]+)", wanted)
    if bound and bound["name"] != "torch":  # Of older versions pip finds those with gigabytes of CUDA.
        print(f"{bound['name']}=={bound['lowest']}")
