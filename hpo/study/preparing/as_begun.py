"""What the configuration of a search means to a study that an earlier version, or another environment, has begun."""

import functools
import logging
from collections.abc import Mapping

from hpo.config.composing.references import references_to
from hpo.config.keys import flatten, without
from hpo.config.scales import changed_keys
from hpo.config.shipped import MLFLOWS_OWN, shipped, with_mlflows_own
from hpo.config.study_config import StudyConfig
from hpo.engine.space.reader import space_from_dict
from hpo.study.files.folder import RUNS, StudyFolder

_log = logging.getLogger(__name__)
# Where the sections of the toolkit's own trainer that have got new keys are shipped; data is by its own name.
_SHIPPED = {"data": ("data", ""), "training": ("training", "default"), "metrics": ("data/metrics", "default")}


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
    config = _shown_as_begun(_trainer_as_begun(config, frozen, is_said), frozen, is_said)
    if section.references is None or frozen.study.references is not None:
        return config
    searched = space_from_dict(frozen.space, flatten(frozen.objective_config)).keys
    followed = [*searched, *changed_keys(frozen.study.scales)]
    if is_said and (keys := references_to(section.references, followed)):
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


def _trainer_as_begun(config: StudyConfig, frozen: StudyConfig, is_said: bool) -> StudyConfig:
    """Return it as the toolkit's own trainer was configured then, where the user says nothing else.

    A key that a study of before lacks, or a whole section, means there what was done; `null` for a header was `auto`,
    and the precision `auto` was `float32`.
    """
    then, own = frozen.objective_config, dict(config.objective_config)
    if not config.objective.startswith("model."):
        return config
    left: list[str] = []
    for section, (group, name) in _SHIPPED.items():
        before, now = then.get(section, {}), own.get(section)
        if not isinstance(before, Mapping) or not isinstance(now, Mapping):
            continue
        unsaid = shipped(group, name or str(now.get("name")))
        new = [key for key, value in now.items() if key not in before and key in unsaid and unsaid[key] == value]
        own[section] = {key: value for key, value in now.items() if key not in new}
        left += [f"{section}.{key}" for key in new if key != "metric_name"]
        for key, meant, was in (("header", None, "auto"), ("precision", "auto", "float32")):
            if before.get(key) == was and own[section].get(key, was) == meant:
                own[section][key] = was
                left += [f"{section}.{key}"] if key == "precision" else []
        if not own[section] and section not in then:
            del own[section]
    if left and is_said:
        text = "study '%s' was begun by an earlier version, and goes on as it did then without %s"
        _log.warning(text, config.study.name, ", ".join(left))
    return config.model_copy(update={"objective_config": own})
