"""The store of examples for workers: a folder with examples, to which `encoded_cache` adds encoded examples."""

import functools
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from model.errors import DataError

EXAMPLES = "examples.jsonl"


def write_store(items: Sequence[dict[str, Any]], data_dir: str) -> None:
    """Write examples as JSON lines, in the given order, to a new folder, which appears when all files are written."""
    target = Path(data_dir)
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    with (aside / EXAMPLES).open("w", encoding="utf-8") as file:
        for item in items:
            file.write(json.dumps(item, ensure_ascii=False) + "\n")
        file.flush()
        os.fsync(file.fileno())
    put_in_place(aside, target)


def put_in_place(aside: Path, target: Path) -> None:
    """Rename the complete folder `aside` to `target`; replace an existing `target`."""
    if target.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{target.name}-old-", dir=target.parent))
        target.rename(old / target.name)
        aside.rename(target)
        shutil.rmtree(old)
    else:
        aside.rename(target)


def read_store(data_dir: str) -> list[dict[str, Any]]:
    """Return the examples in the stored order; they stay in memory for the next task of this process.

    Raises:
        DataError: the folder holds no prepared data.
    """
    path = Path(data_dir) / EXAMPLES
    return _read(str(path.resolve()), _changed(path))


def store_digest(data_dir: str) -> str:
    """Return a hash of the prepared examples as hexadecimal text.

    Raises:
        DataError: the folder holds no prepared data.
    """
    path = Path(data_dir) / EXAMPLES
    return _digest(str(path.resolve()), _changed(path))


def _changed(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        raise DataError(f"{path}: this file does not exist; first call prepare_data, which writes this file") from None


@functools.lru_cache(maxsize=2)
def _digest(path: str, changed: int) -> str:  # noqa: ARG001 -- for the cache: a rewritten file is read again
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


@functools.lru_cache(maxsize=2)
def _read(path: str, changed: int) -> list[dict[str, Any]]:  # noqa: ARG001 -- as in `_digest`
    with Path(path).open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]
