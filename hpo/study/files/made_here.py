"""Remembers the studies that this user ran, outside of every folder that a stranger could provide."""

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path

from hpo.config.study_config import StudyConfig
from hpo.engine.objective.kept_function import KeptFunction
from hpo.errors import StudyError
from hpo.study.files.folder import StudyFolder


def remember(config: StudyConfig, kept: KeptFunction | None = None) -> None:
    """Note that this user runs this objective (`kept`, if given from Python) with this configuration and space."""
    digest = _digest(config, kept)
    # Without a home, or on a full disk, the user is asked again: not a reason to stop a study.
    with suppress(OSError, UnicodeDecodeError):
        if digest in _known():
            return
        path = _path()
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="ascii") as file:
            file.write(f"{digest}\n")


def is_made_here(config: StudyConfig, kept: KeptFunction | None = None) -> bool:
    """Return whether this user has run or trusted a study of this objective, configuration and space."""
    with suppress(OSError, UnicodeDecodeError):
        return _digest(config, kept) in _known()
    return False


def _known() -> set[str]:
    path = _path()
    return set(path.read_text(encoding="ascii").split()) if path.exists() else set()


def _path() -> Path:
    import platformdirs

    return Path(platformdirs.user_state_path("hpo", appauthor=False)) / "made_here"


def _digest(config: StudyConfig, kept: KeptFunction | None) -> str:
    """Return a hash of the objective, its configuration and its space, and of a strategy of the user's own."""
    runs = [config.objective, config.space, config.objective_config]
    runs += [config.strategy] if config.has_own_strategy else []
    runs += [hashlib.sha256(kept.data).hexdigest()] if kept else []
    return hashlib.sha256(json.dumps(runs, sort_keys=True).encode()).hexdigest()


def function_of(folder: StudyFolder, frozen: StudyConfig, name: str) -> KeptFunction | None:
    """Return the function that was given from Python, if the study has one; StudyError where it is a stranger's."""
    kept = folder.kept_function(frozen)
    if kept is not None and not is_made_here(frozen, kept):
        raise StudyError(
            f"{folder}: was not made here, and to read its function is to run code of whoever made it: look at it, and "
            f"run `hpo reproduce {name} --trust` first"
        )
    return kept
