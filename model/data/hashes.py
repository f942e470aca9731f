"""Hashes that detect truncated and changed files in a folder.

`FORMAT` is the version of the file format of saved models and training states. It is stored with the hashes.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from model.errors import CheckpointError, FormatError

HASHES = "sha256.json"
FORMAT = 1


def write_hashes(folder: Path) -> None:
    """Write the file HASHES, with the number FORMAT and the SHA-256 of each other file in the folder.

    Call this function after all other files are written.
    """
    files = {path.name: _sha256(path) for path in sorted(folder.iterdir())}
    (folder / HASHES).write_text(json.dumps({"format": FORMAT, "files": files}, indent=2), encoding="utf-8")


def refuse_changed(folder: Path) -> None:
    """Raise an error if the files in a folder do not match the stored format and hashes.

    Raises:
        FormatError: the files have another format.
        CheckpointError: a file is missing or changed, or the hashes are missing or cannot be read.
    """
    try:
        written = json.loads((folder / HASHES).read_text(encoding="utf-8"))
        _refuse_other_format(folder, written.get("format"))
        for name, expected in written["files"].items():
            if Path(name).name != name or _sha256(folder / name) != expected:
                raise CheckpointError(
                    f"{folder / name}: the hash does not match, because the file was truncated or changed"
                )
    except (OSError, ValueError, KeyError, AttributeError, RecursionError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{folder}: the hashes of its files cannot be checked ({error})") from error


def _refuse_other_format(folder: Path, number: Any) -> None:
    if number == FORMAT and type(number) is int:
        return
    is_later = isinstance(number, int) and number > FORMAT
    why = (
        "install the later version of the toolkit that wrote these files"
        if is_later
        else "the files were written before the first release; train again"
    )
    named = "none" if number is None else json.dumps(number)
    raise FormatError(f"{folder}: has format {named}, but the installed toolkit reads only format {FORMAT}; {why}")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
