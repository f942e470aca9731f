"""The examples of a data source, as plain values."""

import hashlib
import json
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from model.errors import DataError


@dataclass(frozen=True)
class File:
    """A source file of examples: its path, SHA-256 and size in bytes.

    For data from the hub, `path` names the data set and its split, and `sha256` and `size` describe the rows as JSON.
    """

    path: str
    sha256: str
    size: int

    @classmethod
    def of(cls, path: str, content: bytes) -> "File":
        """Describe a file by its path, hash and size; `content` holds the stored bytes, not decompressed."""
        return cls(path, hashlib.sha256(content).hexdigest(), len(content))


@dataclass(frozen=True)
class Examples:
    """The examples of a data source, in the order train, validation, test.

    Attributes:
        source, licence, version: the source, the licence and the version of the data; None = unknown.
        files: the source files.
        items: the examples, as JSON-able dicts; the keys, such as `text` and `label`, depend on data.name.
        labels: one label per example, for stratified splits; None = no labels.
        parts: the number of examples of each predefined split; None = no predefined splits.
        notes: lines that tell the user how the data was read.
    """

    source: str
    licence: str | None
    files: tuple[File, ...]
    items: list[dict[str, Any]]
    labels: list[str] | None
    parts: dict[str, int] | None
    version: str | None = None
    notes: tuple[str, ...] = ()


def digest(item: dict[str, Any]) -> str:
    """Return a hash of an example's content as hexadecimal text; it is the same on every machine."""
    text = json.dumps(item, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def read_bytes(path: str, key: str) -> bytes:
    """Return the stored bytes of a user's file.

    Raises:
        DataError: the file is missing, is not a regular file, is not readable, or is empty; the message names the
            configuration key `key`.
    """
    file = Path(path)
    try:
        if file.is_dir():
            raise DataError(f"{path}: is a folder; {key} must name a file")
        if file.exists() and not file.is_file():
            raise DataError(f"{path}: is not a regular file but a device or a pipe; {key} must name a file")
        content = file.read_bytes()
    except FileNotFoundError:
        raise DataError(
            f"{path}: no such file; a relative path in {key} starts at {Path.cwd()}{_nearest(file)}"
        ) from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); {key} must name a readable file") from error
    if not content:
        raise DataError(f"{path}: the file is empty; {key} must name a file with at least one example")
    return content


def _nearest(file: Path) -> str:
    if not file.parent.is_dir():
        return f"; there is no folder {file.parent} either"
    near = get_close_matches(file.name, [each.name for each in file.parent.iterdir()], n=1)
    return f"; did you mean {file.parent / near[0]}?" if near else ""
