"""Extends a study to a larger scale: a new study imports the study's trials, and uses the strategy `ladder`."""

from collections.abc import Collection, Mapping
from typing import Any

from hpo.config.goals import SCALE, changed_keys
from hpo.config.keys import at, differences, flatten, own_key, without
from hpo.config.shipped import strategy_settings
from hpo.config.study_config import DATA_SOURCES, StudyConfig, study_name
from hpo.errors import ConfigError, StudyError
from hpo.study.extension import ALLOWED, NO_RULES, is_own, refuse_bad_change
from hpo.study.files.imports import read_imports
from hpo.study.later_limits import last_limits
from hpo.study.preparing.scales import costs_of_scales, ladder_settings
from hpo.study.study import PreparedStudy
from hpo.trials.space.reader import parted


def config_at_larger_scale(study: PreparedStudy, given: StudyConfig, keys_given: Collection[str]) -> StudyConfig:
    """Return the configuration of a new study that searches at a larger scale, near the best trials of `study`.

    The new study has the strategy `ladder` and imports the trials of `study`. Its smaller scales are the scales of
    `study`. If `study` has no scales, the configuration of `study` becomes the smallest scale.

    Args:
        given: the configuration of `study` with the user's changes.
        keys_given: the keys that the user changes.

    Raises:
        ConfigError: the changes give no new scale; a change is not allowed, for example because it makes scores
            incomparable; or the costs of the scales are unknown or do not grow.
        StudyError: no trial is complete at the study's largest scale.
    """
    changed = differences(study.config.to_dict(), given.to_dict())
    section, flat = study.config.study, flatten(study.config.objective_config)
    for key in changed:
        if is_own(key) and own_key(key) in study.space.keys:
            raise ConfigError(f"{key}: cannot be changed, because it is searched at every scale; remove this key")
        refuse_bad_change(key, DATA_SOURCES, (*ALLOWED, "strategy.costs"))
    now = flatten(given.objective_config)
    keys = sorted({*changed_keys(section.scales), *(own_key(key) for key in changed if is_own(key))})
    before = section.scales or [{key: at(flat, key) for key in keys}]
    largest = {key: at(now, key) for key in keys}
    if largest in before:
        same = f", given scale {before.index(largest) + 1} of {study.reference}" if changed else ""
        raise ConfigError(
            f"climb: needs a new scale{same}; give the keys that the new scale changes, such as model.d_model=512"
        )
    scales = [*before, largest]
    ended = _num_ended(study)
    own = dict(study.config.strategy)
    settings = {**strategy_settings({"name": "ladder"}), **(own if own["name"] == "ladder" else {"trials": ended})}
    settings["costs"] = given.strategy.get("costs") if "strategy.costs" in keys_given else None
    with_scales = study.config.with_study(scales=scales)
    settings["costs"] = settings["costs"] or costs_of_scales(with_scales, study.objective)
    # Plan no more trials at the study's largest scale than it already has, so that the new study searches only at the
    # new scale.
    while settings["trials"] > 1 and _planned_trials(settings)[-2] > ended:
        settings["trials"] -= 1
    name = given.study.name if "study.name" in keys_given else f"{section.name}-extended"
    study_name(name, "study.name")
    update = {
        **NO_RULES,
        "extends": None,
        "name": name,
        "scales": scales,
        "imports": study.reference,
        "trials": given.study.trials if "study.trials" in keys_given else _planned_trials(settings)[-1],
        "limits": last_limits(given.study),
        "limits_after": None,
    }
    return given.model_copy(
        update={
            "study": given.study.model_copy(update=update),
            "objective_config": study.config.objective_config,
            "space": _without_scale(study.config.space),
            "strategy": settings,
            "split": given.split.model_copy(update={"race_after": None}),
        }
    )


def _num_ended(study: PreparedStudy) -> int:
    """Return the number of points that ended at the largest scale; StudyError if none is complete."""
    largest = len(study.config.study.scales or ()) or None
    ended = read_imports([study.reference], study.space, study.goal).trials
    states = [trial.state for trial in ended if trial.point.get(SCALE) == largest]
    if "complete" not in states:
        where = f" at scale {largest}" if largest else ""
        raise StudyError(
            f"study '{study.reference}': no trial is complete{where}, so there is no best trial to start from; go on "
            f"with `hpo resume {study.reference} study.trials=N`"
        )
    return len(states)


def _planned_trials(settings: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the number of trials that a ladder plans at each scale; ConfigError if a ladder setting is invalid."""
    return ladder_settings({**settings, "first": {}}).planned


def _without_scale(space: Mapping[str, Any]) -> dict[str, Any]:
    branches = without(space, SCALE)
    if branches.get("study") == {}:
        del branches["study"]
    # The first points belong to the smaller scales, whose trials are imported.
    if "first" in parted(branches)[1]:
        del branches["first"]
    return branches
