"""The workers' copy of the development examples: written once, and checked whenever the study goes on."""

import hashlib
import logging
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hpo.engine.record.record import Record
from hpo.engine.training.objective import Objective

_log = logging.getLogger(__name__)
_NOTE = "prepared"


def prepare_data(
    objective: Objective, config: Mapping[str, Any], indices: Sequence[int], data_dir: Path, record: Record
) -> None:
    """Write the copy where there is none, or where its files are not those that were written."""
    known = record.noted(_NOTE)
    if data_dir.exists():
        if known is None or known.items() <= _hashes(data_dir).items():
            return
        _log.warning("%s: the workers' copy of the data was changed; it is written anew", data_dir)
        shutil.rmtree(data_dir)
    if objective.write_development_data(config, indices, data_dir):
        record.note(_NOTE, _hashes(data_dir))


def _hashes(data_dir: Path) -> dict[str, str]:
    """Return the hash of every file in the folder; what workers keep in folders of their own below it is not ours."""
    hashes = {}
    for path in sorted(data_dir.iterdir()):
        if path.is_file():
            with path.open("rb") as file:
                hashes[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return hashes
