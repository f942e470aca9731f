"""What the configuration of a search means to a study that an earlier version, or another environment, has begun."""

import functools
import logging
from collections.abc import Mapping

from hpo.config.composing.references import references_to
from hpo.config.keys import flatten, without
from hpo.config.shipped import MLFLOWS_OWN, shipped, with_mlflows_own
from hpo.config.study_config import StudyConfig
from hpo.engine.space.reader import space_from_dict
from hpo.study.files.folder import RUNS, StudyFolder

_log = logging.getLogger(__name__)
# Keys of the toolkit's data sections that a study of before goes on without: it means by that what it did.
_SINCE = ("metric_name", "open_vocabulary")


def ranges_as_begun(config: StudyConfig, frozen: StudyConfig, is_said: bool) -> StudyConfig:
    """Return the configuration with the ranges of fractions of a study of before whole ends meant whole numbers."""
    before, now = (flatten(tree) for tree in (frozen.space, config.space))
    ranges = [key.removesuffix(".integer") for key in now if key.endswith(".integer") and key not in before]
    fields = ("low", "high", "log", "points", "step")
    unsaid = [
        key
        for key in ranges
        if f"{key}.low" in before and all(before.get(f"{key}.{each}") == now.get(f"{key}.{each}") for each in fields)
    ]
    for key in unsaid if is_said else ():
        _log.warning("space.%s: goes on with fractions, as in the study's first trials", key)
    space = functools.reduce(without, (f"{key}.integer" for key in unsaid), config.space)
    return config.model_copy(update={"space": space})


def as_begun(config: StudyConfig, is_said: bool = True) -> StudyConfig:
    """Return a search's configuration, as an earlier version would have composed it for a study that it began."""
    folder = StudyFolder(RUNS / config.study.name)
    if not folder.exists:
        return config
    frozen, section = folder.config(), config.study
    config = _shown_as_begun(_data_as_begun(config, frozen), frozen, is_said)
    if section.references is None or frozen.study.references is not None:
        return config
    searched = space_from_dict(frozen.space, flatten(frozen.objective_config)).keys
    if is_said and (keys := references_to(section.references, searched)):
        text = "study '%s' was begun when references to what is searched were not followed: %s stays as it was there"
        _log.warning(text, section.name, ", ".join(keys))
    return config.model_copy(update={"study": section.model_copy(update={"references": None})})


def _shown_as_begun(config: StudyConfig, frozen: StudyConfig, is_said: bool) -> StudyConfig:
    """Return it with the MLflow in which it was begun, where the user says no other: variables may be others now."""
    unsaid = with_mlflows_own(shipped("track", "mlflow"))
    then, now = frozen.track.model_dump(), config.track.model_dump()
    kept = {key: then[key] for key in MLFLOWS_OWN if now[key] == unsaid[key] != then[key]}
    if not kept or then["name"] != now["name"]:
        return config
    if is_said:
        where = ", ".join(f"track.{key}={value}" for key, value in kept.items())
        _log.warning("study '%s' goes on in the MLflow in which it was begun: %s", config.study.name, where)
    return config.model_copy(update={"track": config.track.model_copy(update=kept)})


def _data_as_begun(config: StudyConfig, frozen: StudyConfig) -> StudyConfig:
    """Return it without what the toolkit's data sections have had since: null for a header, and keys of `_SINCE`."""
    then, now = (each.objective_config.get("data") for each in (frozen, config))
    if not (config.objective.startswith("model.") and isinstance(then, Mapping) and isinstance(now, Mapping)):
        return config
    data = {name: value for name, value in now.items() if name not in _SINCE or name in then}
    if then.get("header") == "auto" and data.get("header", "") is None:
        data["header"] = "auto"
    return config.model_copy(update={"objective_config": {**config.objective_config, "data": data}})
