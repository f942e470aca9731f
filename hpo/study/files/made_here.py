"""Remembers which studies this user has run or trusts, in a file outside all study folders."""

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

# The prefix of the lines from `reaches_of` that name an environment variable of workers.
ENVIRONMENT = "dispatch.environment."
# The prefix of the line from `reaches_of` that names a command to run on this machine.
COMMAND = "study.on_trial="
# The default of conf/track: a file in the working directory, so no data leave the machine.
_OWN_STORE = "sqlite:///mlflow.db"


def remember(config: StudyConfig, pickled: PickledFunction | None = None, reaches: Iterable[str] = ()) -> None:
    """Record that this user trusts every study with the objective, objective configuration and space of `config`.

    If the strategy is a user's class, the trusted studies must also have the strategy settings of `config`. If the
    file of trusted studies cannot be written, record nothing.

    Args:
        pickled: the objective, if it was given from Python; the trusted studies must also have this pickled objective.
        reaches: the lines from `reaches_of` that the user allows.
    """
    digests = [_digest(config, pickled), *map(_digest_of, reaches)]
    # Ignore a missing home or a full disk: the cost is that commands ask the user again.
    with suppress(OSError):
        known = _known_digests()
        new = [digest for digest in digests if digest not in known]
        if not new:
            return
        path = _path()
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="ascii") as file:
            file.write("".join(f"{digest}\n" for digest in new))


def is_made_here(config: StudyConfig, pickled: PickledFunction | None = None) -> bool:
    """Return whether this user has run, or trusts, studies like `config`.

    Such studies have the same objective and space; the function `remember` describes all settings that must be equal.
    """
    return _digest(config, pickled) in _known_digests()


def reaches_of(config: StudyConfig) -> list[str]:
    """Return a line for each setting that lets a search reach beyond its folder and its objective.

    A line has the form `KEY=VALUE`, with the key of the configuration. The value is the address of a store or server, a
    command to run, or an environment variable of workers.
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
    """Return whether this user has allowed the access that `line` describes; the line is from `reaches_of`."""
    return _digest_of(line) in _known_digests()


def _known_digests() -> set[str]:
    # Without a readable file, commands ask the user again.
    with suppress(OSError):
        return set(_path().read_text(encoding="ascii", errors="replace").split())
    return set()


def _path() -> Path:
    import platformdirs

    return Path(platformdirs.user_state_path("hpo", appauthor=False)) / "made_here"


def _digest(config: StudyConfig, pickled: PickledFunction | None) -> str:
    """Return one hash of the objective, its configuration, its pickle, the space, and a strategy that a user wrote."""
    parts = [config.objective, config.space, config.objective_config]
    parts += [config.strategy] if config.has_own_strategy else []
    parts += [hashlib.sha256(pickled.data).hexdigest()] if pickled else []
    return _digest_of(json.dumps(parts, sort_keys=True))


def _digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def function_of(folder: StudyFolder, frozen: StudyConfig, name: str) -> PickledFunction | None:
    """Return the study's pickled objective; None if the study has none.

    Raises:
        StudyError: there is a pickled objective, and this user neither ran nor trusts the study.
    """
    pickled = folder.pickled_function(frozen)
    if pickled is not None and not is_made_here(frozen, pickled):
        raise StudyError(
            f"{folder}: reading the pickled objective runs the study's code, and you have not run or trusted this "
            f"study on this machine; check the folder, then run `hpo reproduce {name} --trust`"
        )
    return pickled
