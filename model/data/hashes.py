"""Hashes of the files of a folder, which reveal a truncated or changed file before it is used."""

import hashlib
import json
from pathlib import Path

from model.errors import CheckpointError

HASHES = "sha256.json"


def write_hashes(folder: Path) -> None:
    """Write the SHA-256 of every file of the folder into it; call this last."""
    hashes = {path.name: _sha256(path) for path in sorted(folder.iterdir())}
    (folder / HASHES).write_text(json.dumps(hashes, indent=2), encoding="utf-8")


def refuse_changed(folder: Path) -> None:
    """Raise CheckpointError where a file of the folder is missing or changed, or there are no hashes."""
    try:
        hashes = json.loads((folder / HASHES).read_text(encoding="utf-8"))
        for name, expected in hashes.items():
            if Path(name).name != name or _sha256(folder / name) != expected:
                raise CheckpointError(f"{folder / name}: hash mismatch, the file was truncated or changed")
    except (OSError, ValueError, AttributeError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"{folder}: its hashes cannot be checked ({error})") from error


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
