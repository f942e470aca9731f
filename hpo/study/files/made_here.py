"""Remembers the studies that this user ran, outside of every folder that a stranger could provide."""

import hashlib
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from hpo.config.keys import flatten
from hpo.config.study_config import StudyConfig
from hpo.errors import StudyError
from hpo.study.files.folder import StudyFolder
from hpo.workers.objective.pickled_function import PickledFunction

# Before the keys of what the workers get.
ENVIRONMENT = "dispatch.environment."
# Before a command that runs here.
COMMAND = "study.on_trial="
# conf/track has it: in the working directory, so it goes nowhere.
_OWN_STORE = "sqlite:///mlflow.db"


def remember(config: StudyConfig, pickled: PickledFunction | None = None, reaches: Iterable[str] = ()) -> None:
    """Note that this user runs this objective (`kept`, if given from Python) with this configuration and space.

    `reaches` are the lines of `reaches_of` that he lets it have.
    """
    digests = [_digest(config, pickled), *map(_digest_of, reaches)]
    # Without a home, or on a full disk, the user is asked again: not a reason to stop a study.
    with suppress(OSError, UnicodeDecodeError):
        known = _known()
        new = [digest for digest in digests if digest not in known]
        if not new:
            return
        path = _path()
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="ascii") as file:
            file.write("".join(f"{digest}\n" for digest in new))


def is_made_here(config: StudyConfig, pickled: PickledFunction | None = None) -> bool:
    """Return whether this user has run or trusted a study of this objective, configuration and space."""
    with suppress(OSError, UnicodeDecodeError):
        return _digest(config, pickled) in _known()
    return False


def reaches_of(config: StudyConfig) -> list[str]:
    """Return where a search of this configuration sends what it finds, what it runs besides, and what its workers get.

    A line each.
    """
    study, track = config.study, config.track
    addresses = {
        "study.mirror": study.mirror,
        "study.artifacts": study.artifacts,
        "study.storage": study.storage,
        "track.uri": track.uri if track.name == "mlflow" and track.uri != _OWN_STORE else None,
        "dispatch.address": config.dispatch.address,
    }
    lines = [f"{key}={address}" for key, address in addresses.items() if address is not None]
    lines += [] if study.on_trial is None else [f"{COMMAND}{study.on_trial!r}"]
    return lines + [f"{ENVIRONMENT}{key}={value!r}" for key, value in flatten(config.dispatch.environment).items()]


def is_reached_here(line: str) -> bool:
    """Return whether this user has let a study have what a line of `reaches_of` says."""
    with suppress(OSError, UnicodeDecodeError):
        return _digest_of(line) in _known()
    return False


def _known() -> set[str]:
    path = _path()
    return set(path.read_text(encoding="ascii").split()) if path.exists() else set()


def _path() -> Path:
    import platformdirs

    return Path(platformdirs.user_state_path("hpo", appauthor=False)) / "made_here"


def _digest(config: StudyConfig, pickled: PickledFunction | None) -> str:
    """Return a hash of the objective, its configuration and its space, and of a strategy of the user's own."""
    runs = [config.objective, config.space, config.objective_config]
    runs += [config.strategy] if config.has_own_strategy else []
    runs += [hashlib.sha256(pickled.data).hexdigest()] if pickled else []
    return _digest_of(json.dumps(runs, sort_keys=True))


def _digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def function_of(folder: StudyFolder, frozen: StudyConfig, name: str) -> PickledFunction | None:
    """Return the function that was given from Python, if the study has one; StudyError where it is a stranger's."""
    pickled = folder.pickled_function(frozen)
    if pickled is not None and not is_made_here(frozen, pickled):
        raise StudyError(
            f"{folder}: was not made here, and to read its function is to run code of whoever made it: look at it, and "
            f"run `hpo reproduce {name} --trust` first"
        )
    return pickled
