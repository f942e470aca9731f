"""A function of a script or notebook, which no worker can import: kept as bytes in its study's folder."""

import json
import pickle
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpo.errors import ConfigError, StudyError, is_interruption, text_of
from hpo.workers.objective.definitions import dumps
from hpo.workers.objective.function_parts import digest_of, own_modules, parts_of, unsendable

MODULE = "objective.pkl"
"""The file in the study's folder, and what stands for a module in the path of such an objective."""


@dataclass(frozen=True)
class KeptFunction:
    """A function by its value, and what identifies it."""

    name: str  # the function's
    digest: str  # a hash of its source, and of what it uses of the same script or notebook
    python: str  # `major.minor`; another version cannot read its bytecode
    modules: Sequence[str]  # those of the working directory that it uses; workers import them
    data: bytes  # written by cloudpickle; reading it runs code

    @classmethod
    def of(cls, function: Callable[..., Any], name: str) -> "KeptFunction":
        """Return the function by its value; ConfigError where it holds what cannot be sent to a worker."""
        parts = parts_of(function, name)
        if culprits := unsendable(parts):
            why = f"it uses {culprits}; make that inside the function"
            raise ConfigError(f"objective: '{name}' cannot be sent to workers: {why}")
        try:
            data = dumps(function)
        except Exception as error:  # A __reduce__ of any library may raise anything.
            raise ConfigError(f"objective: '{name}' cannot be sent to workers: {text_of(error)}") from error
        return cls(name, digest_of(parts), _python(), sorted(own_modules(parts)), data)

    @classmethod
    def read(cls, path: Path) -> "KeptFunction":
        """Read the file, without running any of it; StudyError where it is missing or damaged."""
        try:
            head, _, data = path.read_bytes().partition(b"\n")
            return cls(**json.loads(head), data=data)
        except (OSError, ValueError, TypeError, RecursionError) as error:
            raise StudyError(
                f"objective: {path} cannot be read, and holds the study's function, which was given from Python and "
                f"lies nowhere else; restore the file"
            ) from error

    def to_bytes(self) -> bytes:
        """Return what `read` reads."""
        head = {name: value for name, value in vars(self).items() if name != "data"}
        return json.dumps(head).encode() + b"\n" + self.data

    def load(self) -> Callable[..., Any]:
        """Return the function; ConfigError where this Python cannot read it."""
        if self.python != _python():
            raise ConfigError(
                f"objective: '{self.name}' was given from Python {self.python} and can be read by that alone, this is "
                f"{_python()}"
            )
        try:
            function: Callable[..., Any] = pickle.loads(self.data)  # noqa: S301 -- trusted before
        except BaseException as error:
            if is_interruption(error):
                raise
            raise ConfigError(
                f"objective: '{self.name}' cannot be read here: {type(error).__name__}: {text_of(error)}"
            ) from error
        assert callable(function)
        return function


def _python() -> str:
    return ".".join(platform.python_version_tuple()[:2])
