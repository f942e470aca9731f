"""A study goes on, or its best trials are trained further: what `hpo resume`, `hpo extend` and `hpo.Study` run."""

from collections.abc import Mapping, Sequence
from typing import Any

from hpo.config.composing.references import with_changes
from hpo.config.keys import flatten, refuse_unknown
from hpo.config.study_config import StudyConfig, config_from_dict
from hpo.errors import ConfigError
from hpo.interface.given.settings import with_settings
from hpo.interface.results import read_results
from hpo.interface.trust import ask_for_trust
from hpo.study.basis.configurations import moved_sources
from hpo.study.extension import choose_trials, extension_of
from hpo.study.files.folder import StudyFolder, short_path
from hpo.study.preparing.preparation import at_places, load_study, prepare_study
from hpo.study.study import Study

Changes = Sequence[str] | Mapping[str, Any]
"""Of a study's configuration: overrides as on the command line, or values by dotted key."""

# conf/track has it: in the working directory, so it goes nowhere.
_OWN_STORE = "sqlite:///mlflow.db"


def changed_config(folder: StudyFolder, changes: Changes, data: Mapping[str, str] | None = None) -> StudyConfig:
    """Return a study's configuration with what is changed, and with its data at these places, by key."""
    if isinstance(changes, Mapping):
        return config_from_dict(with_settings(at_places(folder.config(), data or {}).to_dict(), changes))
    # Here, since a mapping needs no Hydra.
    from hpo.config.composing.compose import compose_config

    return config_from_dict(compose_config("search", changes, config_file=str(folder.config_path)))


def prepare_to_resume(folder: StudyFolder, config: StudyConfig, name: str | None, allow_changes: bool) -> Study:
    """Return the study as it goes on with this configuration, or where a name is given its copy of this name."""
    if name is not None:
        # Here, since most studies are not copied, and SQLAlchemy takes a second.
        from hpo.study.copy import continue_as

        return continue_as(folder, name, config, allow_changes)
    return load_study(str(folder), config, allow_changes)


def prepare_to_extend(
    folder: StudyFolder, changes: Changes, best: int, trials: Sequence[int], data: Mapping[str, str] | None = None
) -> Study:
    """Return the study of a study's best trials, or of these, that trains them with what is changed."""
    frozen = folder.config()
    if isinstance(changes, Mapping):
        tree = at_places(frozen, data or {}).to_dict()
        refuse_unknown(changes, tree, "changes")
        config = config_from_dict(with_changes(tree, changes))
    else:
        config = changed_config(folder, changes)
    moved = moved_sources(frozen.to_dict(), config.to_dict())
    study = load_study(str(folder), elsewhere={key: place for key, (_, place) in moved.items()})
    with read_results(study) as (_, verdict):
        picked = choose_trials(study, verdict.history, best, trials)
    return prepare_study(extension_of(study, picked, config), study.objective.kept)


def ask_for_copied(folder: StudyFolder, changed: StudyConfig, url: str, is_trusted: bool) -> None:
    """Ask before anything of a study that came from a URL, and was not made here, is imported or run."""
    config = folder.config()
    theirs, now = _addresses(config), _addresses(changed)
    # Those that the user has given himself are his own.
    places = [f"{key}={address}" for key, address in theirs.items() if address == now[key] not in (None, url)]
    own, there = flatten(changed.dispatch.environment), flatten(config.dispatch.environment)
    packages = [f"dispatch.environment.{key}={value!r}" for key, value in there.items() if own.get(key, ...) == value]
    try:
        ask_for_trust(config, (), is_trusted, folder.kept_function(config), places=places, packages=packages)
    except ConfigError as error:
        read = f"read {short_path(folder.config_path)}, and `hpo resume {folder.path.name}` goes on with it"
        raise ConfigError(f"{error}; it was only copied: {read}") from error


def _addresses(config: StudyConfig) -> dict[str, str | None]:
    """Return where a search of this configuration sends what it finds, by key."""
    study, track = config.study, config.track
    return {
        "study.mirror": study.mirror,
        "study.artifacts": study.artifacts,
        "study.storage": study.storage,
        "track.uri": track.uri if track.name == "mlflow" and track.uri != _OWN_STORE else None,
        "dispatch.address": config.dispatch.address,
    }
