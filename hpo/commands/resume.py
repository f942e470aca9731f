"""What is done with a study that exists: it goes on, or its best trials are trained further."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from hpo.commands.given.settings import overrides_with_form, with_settings
from hpo.commands.trust import ask_for_trust
from hpo.config.composing.references import with_changes
from hpo.config.keys import refuse_unknown
from hpo.config.study_config import StudyConfig, config_from_dict
from hpo.errors import ConfigError
from hpo.study.basis.configurations import moved_sources
from hpo.study.climbing import climbing_from
from hpo.study.extension import choose_trials, extension_of
from hpo.study.files.folder import StudyFolder, short_path
from hpo.study.files.made_here import ENVIRONMENT, is_reached_here, reaches_of
from hpo.study.opening import read_study
from hpo.study.preparing.preparation import at_places, load_study, prepare_study
from hpo.study.study import PreparedStudy
from hpo.study.winner.verdict import Verdict, read_verdict
from hpo.trials.record.record import Record

Changes = Sequence[str] | Mapping[str, Any]
"""Of a study's configuration: overrides as on the command line, or values by dotted key."""

# How many trials are trained further where nothing else is said.
_BEST = 5


def changed_config(folder: StudyFolder, changes: Changes, data: Mapping[str, str] | None = None) -> StudyConfig:
    """Return a study's configuration with what is changed, and with its data at these places, by key."""
    if isinstance(changes, Mapping):
        return config_from_dict(with_settings(at_places(folder.config(), data or {}).to_dict(), changes))
    folder.refuse_other_format()
    # Here, since a mapping needs no Hydra.
    from hpo.config.composing.compose import compose_config

    return config_from_dict(compose_config("search", overrides_with_form(changes), config_file=str(folder.config_path)))


def prepare_to_resume(folder: StudyFolder, config: StudyConfig, name: str | None, allow_changes: bool) -> PreparedStudy:
    """Return the study as it goes on with this configuration, or where a name is given its copy of this name."""
    if name is not None:
        # Here, since most studies are not copied, and SQLAlchemy takes a second.
        from hpo.study.keeping.copy import continue_as

        return continue_as(folder, name, config, allow_changes)
    return load_study(str(folder), config, allow_changes)


def prepare_to_extend(
    folder: StudyFolder,
    changes: Changes,
    best: int | None,
    trials: Sequence[int],
    data: Mapping[str, str] | None = None,
    climb: bool = False,
) -> PreparedStudy:
    """Return the study of a study's best trials (None = 5), or of these, that trains them with what is changed.

    To `climb` is to search there instead, with what is changed as one scale more.
    """
    if climb and (trials or best is not None):
        raise ConfigError(
            f"{'trial' if trials else 'best'}: has no effect where --climb searches around the best; remove one of them"
        )
    frozen = folder.config()
    keys = list(changes) if isinstance(changes, Mapping) else [one.partition("=")[0].lstrip("+") for one in changes]
    if climb and frozen.study.scales is not None:
        # What is given changes the largest scale.
        largest = frozen.study.scales[-1]
        if isinstance(changes, Mapping):
            changes = {**largest, **changes}
        else:
            changes = [*(f"{key}={json.dumps(value)}" for key, value in largest.items()), *changes]
    if isinstance(changes, Mapping):
        tree = at_places(frozen, data or {}).to_dict()
        if climb:
            tree["strategy"].setdefault("costs", None)
        refuse_unknown(changes, tree, "changes")
        config = config_from_dict(with_changes(tree, changes))
    else:
        config = changed_config(folder, changes)
    moved = moved_sources(frozen.to_dict(), config.to_dict())
    study = load_study(str(folder), elsewhere={key: place for key, (_, place) in moved.items()})
    if climb:
        return prepare_study(climbing_from(study, config, keys), study.objective.kept)
    with read_results(study) as (_, verdict):
        picked = choose_trials(study, verdict.history, _BEST if best is None else best, trials)
    return prepare_study(extension_of(study, picked, config), study.objective.kept)


def ask_for_copied(folder: StudyFolder, changed: StudyConfig, url: str, is_trusted: bool) -> None:
    """Ask before anything of a study that came from a URL, and was not made here, is imported or run."""
    config, now = folder.config(), reaches_of(changed)
    # Those that the user gives now, or has used before, are his own.
    theirs = [line for line in reaches_of(config) if line in now and not is_reached_here(line)]
    packages = [line for line in theirs if line.startswith(ENVIRONMENT)]
    places = [line for line in theirs if line not in packages and line.partition("=")[2] != url]
    kept = folder.kept_function(config)
    try:
        ask_for_trust(config, (), is_trusted, kept, places=places, packages=packages)
    except ConfigError as error:
        # To read a function is to run its maker's code, which `go_on` refuses until it is trusted.
        trusted = f"`hpo reproduce {short_path(folder.path)} --trust`, after which " if kept else ""
        read = f"read {short_path(folder.config_path)}, and {trusted}`{folder.go_on}` goes on with it"
        raise ConfigError(f"{error}; it was only copied: {read}") from error


@contextmanager
def read_results(study: PreparedStudy) -> Iterator[tuple[Record, Verdict]]:
    """Yield the record of a study, which is closed afterwards, and its verdict."""
    record = read_study(study)
    try:
        yield record, read_verdict(study, record)
    finally:
        record.close()
