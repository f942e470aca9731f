"""`new`: a module to train and its configuration, which run as they stand, to be made one's own."""

import keyword
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from hpo.commands.arguments import Word
from hpo.errors import ConfigError

FOLDER = "my_conf"


@dataclass(frozen=True)
class Created:
    """What was written.

    Attributes:
        name: of the module and the study.
        files: the module and the configuration.
        config_dir: for `--config-dir`.
    """

    name: str
    files: Sequence[Path]
    config_dir: str = FOLDER

    def __str__(self) -> str:
        wrote = " and ".join(map(str, self.files))
        return f"wrote {wrote}\nnext:   hpo search --config-dir {self.config_dir} study={self.name}"

    def to_dict(self) -> dict[str, Any]:
        """Return its fields, with absolute paths."""
        return {**vars(self), "files": [path.absolute() for path in self.files]}


def new(name: Annotated[str, Word("NAME")]) -> Created:
    """Write a module to train and its configuration, which run as they stand, to be made your own.

    Args:
        name: the name of the module and the study.

    Raises:
        hpo.HpoError: no module can have that name, one has it, or a file exists already.

    Examples:
        hpo new forest                                    forest.py and my_conf/study/forest.yaml
        hpo search --config-dir my_conf study=forest      run it as it stands
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
    return Created(name, [*written.values()])


def _refuse_bad_name(name: str) -> None:
    if not (name.isascii() and name.isidentifier()) or keyword.iskeyword(name) or name in ("hpo", "model"):
        raise ConfigError(
            f"name: must be the name of a Python module, of letters (a-z, A-Z), digits and '_', and not of ours (hpo, "
            f"model), given {name!r}"
        )
    if name in sys.stdlib_module_names or find_spec(name) is not None:
        raise ConfigError(f"name: there is a module '{name}' already; choose another name")
