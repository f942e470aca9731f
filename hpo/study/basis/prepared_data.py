"""The workers' copy of the development examples: written once, and checked whenever the study continues."""

import logging
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hpo.engine.objective.objective import Objective
from hpo.engine.store.packing import digest_of

_log = logging.getLogger(__name__)


def prepare_data(
    objective: Objective,
    config: Mapping[str, Any],
    indices: Sequence[int],
    data_dir: Path,
    known: Mapping[str, str] | None,
) -> dict[str, str] | None:
    """Write the copy where it is missing or changed; return the hashes of its files, None where nothing was written.

    `known` holds the hashes of the files written before; None where there are none. `indices` are those of the
    development examples, `config` is the objective's.
    """
    if data_dir.exists():
        if known is None or known.items() <= _hashes(data_dir).items():
            return None
        _log.warning("%s: the workers' copy of the data was changed; it is written again", data_dir)
        shutil.rmtree(data_dir)
    return _hashes(data_dir) if objective.write_development_data(config, indices, data_dir) else None


def _hashes(data_dir: Path) -> dict[str, str]:
    """Return the hash of every file in the folder, without the workers' own subfolders."""
    return {path.name: digest_of(path) for path in sorted(data_dir.iterdir()) if path.is_file()}
