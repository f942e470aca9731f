"""`hpo.new`: a module to train and its configuration, which run as they stand, to be made one's own."""

import keyword
import sys
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from hpo.errors import ConfigError

FOLDER = "my_conf"


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
    written = {"objective.py.txt": Path(f"{name}.py"), "study.yaml.txt": Path(FOLDER, "study", f"{name}.yaml")}
    for path in written.values():
        if path.exists():
            raise ConfigError(f"{path}: exists already; choose another name, or move it away")
    for template, path in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        text = files("hpo.commands").joinpath("templates", template).read_text()
        path.write_text(text.replace("NAME", name))
    return list(written.values())


def _refuse_bad_name(name: str) -> None:
    if not (name.isascii() and name.isidentifier()) or keyword.iskeyword(name) or name in ("hpo", "model"):
        raise ConfigError(
            f"name: must be the name of a Python module, of letters (a-z, A-Z), digits and '_', and not of ours (hpo, "
            f"model), given {name!r}"
        )
    if name in sys.stdlib_module_names or find_spec(name) is not None:
        raise ConfigError(f"name: there is a module '{name}' already; choose another name")
