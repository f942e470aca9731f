"""Prepares the scales of a study: checks them, adds `study.scale` to the space, and computes costs for a ladder."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from hpo.config.goals import SCALE, changed_keys
from hpo.config.keys import at, flatten, replaced
from hpo.config.shipped import shipped, strategy_settings
from hpo.config.study_config import StudyConfig, config_from_dict, explain
from hpo.engine.strategies import STRATEGIES, Strategy
from hpo.engine.strategies.first import FirstPoints
from hpo.engine.strategies.ladder import HALVINGS, Ladder, LadderSettings
from hpo.errors import ConfigError, nearest
from hpo.trials.space.reader import leaves, parted
from hpo.trials.trial import Trial
from hpo.workers.objective.objective import Objective, ScalesDescription
from hpo.workers.objective.resolution import resolve

_STRATEGIES = ("ladder", "grid")
_EPOCHS = "training.epochs"
# Keys that compare trials as if all had one scale, with the values that turn them off.
_COMPARING_KEYS = {
    ("study", "stop_rule"): "none",
    ("study", "stop_without_gain"): None,
    ("study", "metrics"): None,
    ("study", "limits"): None,
    ("split", "race_after"): None,
}


def with_scales(config: StudyConfig, objective: Objective) -> StudyConfig:
    """Return the configuration with the scale as a dimension of the space; without scales, return it unchanged.

    If the strategy is a ladder, also set all settings of the ladder.

    Raises:
        ConfigError: the scales are invalid, the strategy does not support scales, the strategy is a ladder but there
            are no scales, or the space has a reserved key.
    """
    scales, strategy = config.study.scales, dict(config.strategy)
    is_ladder, branch = strategy.get("name") == "ladder", config.space.get("study")
    dimension = None if scales is None else {"values": list(range(1, len(scales) + 1)), "default": 1}
    searched = [".".join(path) for path, _ in leaves(parted(config.space)[0])]
    if "study" in searched and scales is not None:
        raise ConfigError("space.study: is reserved in a study with study.scales; use another name")
    # An existing study has the dimension already.
    if SCALE in searched and not (isinstance(branch, Mapping) and branch.get("scale") == dimension):
        raise ConfigError(f"space.{SCALE}: is reserved for study.scales; use another name")
    if scales is None:
        if is_ladder:
            raise ConfigError(
                "study.scales: strategy=ladder needs two or more scales; give the smallest first and the target last"
            )
        return config
    _refuse_bad_scales(config, scales, searched)
    study = config.study
    if is_ladder:
        full = strategy["max_amount"] = strategy.get("max_amount") or flatten(config.objective_config).get(_EPOCHS)
        strategy["first"] = first = _first_settings(strategy.get("first"), full)
        strategy["max_amount"] = first["max_amount"] if first["name"] in HALVINGS else None
        strategy["costs"] = strategy.get("costs") or costs_of_scales(config, objective)
        if strategy.get("budget") is not None:
            _refuse_trials_with_budget(config)
            plan, trials = ladder_settings(strategy).within_budget()
            strategy |= {"trials": plan.trials, "budget": None}
            study = study.model_copy(update={"trials": trials})
    space = {**config.space, "study": {**(branch or {}), "scale": dimension}}
    return config.model_copy(update={"space": space, "strategy": strategy, "study": study})


def notes_on_scales(config: StudyConfig, strategy: Strategy, imports: Sequence[Trial]) -> tuple[str, ...]:
    """Return a line with the missing budget if a ladder's budget ends before the target scale; otherwise ().

    With imported trials, always return ().
    """
    ladder = strategy.strategy if isinstance(strategy, FirstPoints) else strategy
    if imports or not isinstance(ladder, Ladder):
        return ()
    needed = sum(ladder.counts[:-1]) + 1
    if config.study.trials >= needed:
        return ()
    plan = ", ".join(map(str, ladder.counts))
    return (
        f"study.trials: a budget of {config.study.trials} trials ends before the target scale, and gives no winner; "
        f"the ladder plans {plan} trials, from the smallest scale to the target, so the target begins with trial "
        f"number {needed}; set study.trials={needed} or more, or raise study.trials later with `hpo resume`",
    )


def refuse_imports_of_other_scales(path: Path, source_config: StudyConfig, config: StudyConfig) -> None:
    """Raise ConfigError if the study's scales do not begin with all scales of the imported study, in the same order.

    If the imported study has no scales, its configuration must have the values of the first scale.
    """
    scales, theirs = config.study.scales or [], source_config.study.scales
    if theirs is not None and theirs != scales[: len(theirs)]:
        raise ConfigError(
            f"study.scales: must begin with the scales of the imported {path} ({theirs}), given {scales or None}; "
            f"trials at other scales cannot be compared, so list the imported scales first"
        )
    if theirs is None and scales:
        flat = flatten(source_config.objective_config)
        for key, value in scales[0].items():
            if (other := at(flat, key)) != value:
                raise ConfigError(
                    f"study.imports: {path} was made with {key}={other!r}, and scale 1 has {value!r}; make "
                    f"{key}={other!r} the first scale, or import nothing"
                )


def _first_settings(given: Any, full: int | None) -> dict[str, Any]:
    """Return all settings of a ladder's first strategy; `full` is the default of its `max_amount`."""
    settings = strategy_settings(given if isinstance(given, Mapping) else {"name": given})
    allowed = [name for name in STRATEGIES if name not in ("ladder", "hyperband")]
    if (name := settings.get("name", "")) not in allowed:
        raise ConfigError(
            f"strategy.first: must be one of {', '.join(allowed)}, given {name!r}{nearest(str(name), allowed)}"
        )
    if name in HALVINGS:
        settings["max_amount"] = settings["max_amount"] or full
        if settings["counts"] != "configurations":
            raise ConfigError(
                f"strategy.first.counts: must be 'configurations', given {settings['counts']!r}; a ladder counts "
                f"configurations"
            )
    return settings


def ladder_settings(strategy: Mapping[str, Any]) -> LadderSettings:
    """Check the settings of a ladder and return them; ConfigError if a setting is invalid."""
    try:
        return LadderSettings.model_validate(dict(strategy))
    except ValidationError as error:
        raise ConfigError(explain(error, "strategy.")) from error


def _refuse_trials_with_budget(config: StudyConfig) -> None:
    """Raise ConfigError if the user sets the number of trials, because `strategy.budget` already determines it."""
    numbers = {
        "study.trials": (config.study.trials, shipped("study", "default")["trials"]),
        "strategy.trials": (config.strategy.get("trials"), shipped("strategy", "ladder")["trials"]),
    }
    for key, (given, default) in numbers.items():
        if given != default:
            raise ConfigError(
                f"{key}: cannot be combined with strategy.budget, given {key}={given}; give one of the two keys"
            )


def _refuse_bad_scales(config: StudyConfig, scales: list[dict[str, Any]], searched: list[str]) -> None:
    name = config.strategy.get("name")
    if name not in _STRATEGIES:
        raise ConfigError(
            f"study.scales: strategy={name} does not support scales; choose strategy=ladder, or strategy=grid, which "
            f"trains every point at every scale"
        )
    for key in changed_keys(scales):
        if key in searched:
            raise ConfigError(
                f"study.scales: {key} is also searched; remove it from the space (~space.{key}), or from the scales"
            )
    refuse_unknown_keys(config, scales)
    for (section, key), none in _COMPARING_KEYS.items():
        if (given := getattr(getattr(config, section), key)) != none:
            raise ConfigError(
                f"{section}.{key}: cannot be used with study.scales, given {given}; this key compares trials as "
                f"if all had the same scale, so remove it"
            )


def refuse_unknown_keys(config: StudyConfig, scales: list[dict[str, Any]]) -> None:
    """Raise ConfigError if a scale changes a key that the objective's configuration does not have."""
    flat = flatten(config.objective_config)
    for key in changed_keys(scales):
        if key not in flat and at(flat, key) is None:
            raise ConfigError(
                f"study.scales: the configuration has no key '{key}', which a scale changes; add the key to the "
                f"configuration{nearest(key, flat)}"
            )


def with_scales_given(tree: Mapping[str, Any], over: str) -> tuple[dict[str, Any], Objective, ScalesDescription | None]:
    """Return three values: the configuration with scales; the objective; the objective's description of scales or None.

    Args:
        tree: the whole configuration; without scales, it gets the scales that the objective describes.
        over: what grows from scale to scale: "width" or "depth".

    Raises:
        HpoError: the configuration is not valid, or neither the configuration nor the objective has scales.
    """
    if over not in ("width", "depth"):
        raise ConfigError(f"over: must be width or depth, given {over!r}")
    config = config_from_dict(tree)
    objective = resolve(config.objective, str(Path.cwd()), config.secrets)
    objective.refuse_bad_config(config.objective_config)
    known = objective.scales_description(config.objective_config, over)
    if config.study.scales is not None:
        return dict(tree), objective, known
    if known is None:
        raise ConfigError(
            f"study.scales: is missing, and {objective.owner} has no function 'describe_scales' that returns default "
            f"scales; give two or more scales, such as '[{{width: 32}}, {{width: 64}}, {{width: 128}}, {{width: 256}}]'"
        )
    return replaced(tree, {"study.scales": [dict(changes) for changes in known.scales]}), objective, known


def costs_of_scales(config: StudyConfig, objective: Objective) -> list[float]:
    """Return the cost of a training at each scale; the searched keys have their configured values.

    Raises:
        ConfigError: a scale is invalid, the objective has no `describe_cost`, or the costs do not grow with the scale.
    """
    count = len(config.study.scales or ())
    for number in range(1, count + 1):
        try:
            objective.refuse_bad_config(config.trial_config({SCALE: number}))
        except ConfigError as error:
            raise ConfigError(f"study.scales: scale {number}: {error}") from error
    if objective.describe_cost is None:
        raise ConfigError(
            "study.scales: the objective has no describe_cost; add this function, or give strategy.costs, such as "
            f"{[4**place for place in range(count)]}"
        )
    costs = [objective.cost(config.trial_config({SCALE: number}), 0) for number in range(1, count + 1)]
    for number, (before, after) in enumerate(pairwise(costs), start=1):
        if after <= before:
            raise ConfigError(
                f"study.scales: the cost must grow from scale to scale, but scale {number + 1} costs "
                f"{after / before:.2g} times as much as scale {number}; put the cheapest scale first and the target "
                f"scale last; if scales differ only in the length of trainings, give strategy.costs"
            )
    return costs
