"""`hpo new`: write a module to train and its configuration, which run as they stand, to be made your own."""

import keyword
import sys
from collections.abc import Sequence
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from hpo.cli.arguments import make_parser
from hpo.errors import ConfigError

_EXAMPLES = """  hpo new forest                                    forest.py and my_conf/study/forest.yaml
  hpo search --config-dir my_conf study=forest      run it as it stands"""
_FOLDER = "my_conf"


def run(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    parser = make_parser("new", __doc__, _EXAMPLES)
    parser.add_argument("name", help="of the module and the study")
    name = parser.parse_args(arguments).name
    written = new(name)
    print(f"wrote {' and '.join(map(str, written))}\nnext:   hpo search --config-dir {_FOLDER} study={name}")
    return 0


def new(name: str) -> list[Path]:
    """Write a module to train and its configuration, which run as they stand, into the working directory.

    Args:
        name: of the module and the study.

    Returns:
        The files.

    Raises:
        ConfigError: no module can have that name, one has it, or a file exists already.
    """
    _refuse_bad_name(name)
    written = {"objective.py.txt": Path(f"{name}.py"), "study.yaml.txt": Path(_FOLDER, "study", f"{name}.yaml")}
    for path in written.values():
        if path.exists():
            raise ConfigError(f"{path}: exists already; choose another name, or move it away")
    for template, path in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        text = files("hpo.cli").joinpath("templates", template).read_text()
        path.write_text(text.replace("NAME", name))
    return list(written.values())


def _refuse_bad_name(name: str) -> None:
    if not name.isidentifier() or keyword.iskeyword(name) or name in ("hpo", "model"):
        raise ConfigError(
            f"name: must be the name of a Python module, of letters, digits and '_', and not of ours (hpo, model), "
            f"given {name!r}"
        )
    if name in sys.stdlib_module_names or find_spec(name) is not None:
        raise ConfigError(f"name: there is a module '{name}' already; choose another name")
