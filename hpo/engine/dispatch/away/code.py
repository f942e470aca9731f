"""The user's own code, which travels to the nodes of a cluster with Ray's runtime environment."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hpo.engine.dispatch.away.parcel import in_words
from hpo.engine.training.objective.objective import Objective
from hpo.engine.training.objective.origin import origin_of
from hpo.engine.training.objective.own_files import files_with_imports
from hpo.engine.training.objective.path import ObjectivePath
from hpo.errors import DispatchError
from hpo.git import git

# Ray refuses more than 500 MiB; code alone never has so much.
_MOST_BYTES = 100 * 2**20
_NEVER = ("__pycache__", ".git")


@dataclass(frozen=True)
class Code:
    """What of an objective is not the toolkit's.

    Attributes:
        files: those that travel, by their paths below the folder that they are imported from.
        package: the installed package that has it, which must be the same on every node; None for none.
    """

    files: Mapping[str, Path] = field(default_factory=dict)
    package: str | None = None


def code_of(objective: Objective, import_from: str) -> Code:
    """Return the code of an objective: of a working directory its package, and what that imports from there."""
    given = ObjectivePath.of(objective.path)
    origin = origin_of(objective.path, import_from)
    if origin == "toolkit":
        return Code()
    if origin == "declared":
        return Code(package=given.module.partition(".")[0])
    modules = [given.module] if objective.kept is None else objective.kept.modules
    files: dict[str, Path] = {}
    for module in modules:
        files |= files_with_imports(module)
        package = Path(import_from, module.partition(".")[0])
        if (package / "__init__.py").is_file():
            # What lies beside its modules, such as a vocabulary, belongs to a package.
            files |= {path.relative_to(import_from).as_posix(): path for path in _not_ignored(package)}
    return Code(files)


@contextlib.contextmanager
def staged(code: Code) -> Iterator[Path | None]:
    """Give a folder with the files that travel until the end of the block; None where there are none.

    Raises:
        DispatchError: they are more than code can be.
    """
    if not code.files:
        yield None
        return
    size = sum(path.stat().st_size for path in code.files.values())
    if size > _MOST_BYTES:
        largest = max(code.files, key=lambda name: code.files[name].stat().st_size)
        raise DispatchError(
            f"dispatch.address: the objective's package would be sent to the nodes in {in_words(size)}, allowed are "
            f"{in_words(_MOST_BYTES)}; the largest file is {largest}: move it out, or name it in .gitignore"
        )
    with tempfile.TemporaryDirectory(prefix="hpo-code-") as name:
        for place, path in code.files.items():
            target = Path(name, place)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        yield Path(name)


def _not_ignored(package: Path) -> list[Path]:
    """Return the files of a package, without those that git ignores."""
    paths = [path for path in sorted(package.rglob("*")) if path.is_file() and not set(_NEVER) & set(path.parts)]
    listed = "\0".join(map(str, paths)).encode()
    ignored = (git("check-ignore", "--stdin", "-z", folder=package, content=listed) or "").split("\0")
    return [path for path in paths if str(path) not in set(ignored)]
