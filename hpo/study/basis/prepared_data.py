"""The workers' copy of the development examples: written once, and checked whenever the study goes on."""

import hashlib
import logging
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hpo.engine.training.objective import Objective

_log = logging.getLogger(__name__)


def prepare_data(
    objective: Objective,
    config: Mapping[str, Any],
    indices: Sequence[int],
    data_dir: Path,
    known: Mapping[str, str] | None,
) -> dict[str, str] | None:
    """Write the copy where there is none, or where its files are not those that were written.

    Args:
        objective: which writes it.
        config: the objective's.
        indices: of the development examples.
        data_dir: where it lies.
        known: the hashes of the files that were written; None where nothing was, or it is not known.

    Returns:
        The hashes of the files; None where nothing was written.
    """
    if data_dir.exists():
        if known is None or known.items() <= _hashes(data_dir).items():
            return None
        _log.warning("%s: the workers' copy of the data was changed; it is written anew", data_dir)
        shutil.rmtree(data_dir)
    return _hashes(data_dir) if objective.write_development_data(config, indices, data_dir) else None


def _hashes(data_dir: Path) -> dict[str, str]:
    """Return the hash of every file in the folder; what workers keep in folders of their own below it is not ours."""
    hashes = {}
    for path in sorted(data_dir.iterdir()):
        if path.is_file():
            with path.open("rb") as file:
                hashes[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return hashes
