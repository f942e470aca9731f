"""Hashes of the files of a folder, which detect truncated and changed files.

`FORMAT` is the number of the format of the files of a saved model or a training state; it is written with the hashes.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from model.errors import CheckpointError, FormatError

HASHES = "sha256.json"
FORMAT = 1


def write_hashes(folder: Path) -> None:
    """Write the format and the SHA-256 of every file of the folder; call this after all files are written."""
    files = {path.name: _sha256(path) for path in sorted(folder.iterdir())}
    (folder / HASHES).write_text(json.dumps({"format": FORMAT, "files": files}, indent=2), encoding="utf-8")


def refuse_changed(folder: Path) -> None:
    """Raise CheckpointError if a file of the folder is missing or changed, or there are no hashes.

    Raises:
        FormatError: the files have another format.
        CheckpointError: any other fault.
    """
    try:
        written = json.loads((folder / HASHES).read_text(encoding="utf-8"))
        _refuse_other_format(folder, written.get("format"))
        for name, expected in written["files"].items():
            if Path(name).name != name or _sha256(folder / name) != expected:
                raise CheckpointError(f"{folder / name}: hash mismatch, the file was truncated or changed")
    except (OSError, ValueError, KeyError, AttributeError, RecursionError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{folder}: its hashes cannot be checked ({error})") from error


def _refuse_other_format(folder: Path, number: Any) -> None:
    if number == FORMAT and type(number) is int:
        return
    is_later = isinstance(number, int) and number > FORMAT
    why = "by a later version, which reads it" if is_later else "before the first release; train it again"
    named = "none" if number is None else json.dumps(number)
    raise FormatError(f"{folder}: its format is {named}, not {FORMAT}: it was made {why}")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
