"""Scales of a study: a dimension of its space, the costs that a ladder goes by, and what cannot be climbed."""

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
# What compares trials as if all were of one scale, with the value for none.
_COMPARING = {
    ("study", "stop_rule"): "none",
    ("study", "stop_without_gain"): None,
    ("study", "metrics"): None,
    ("study", "limits"): None,
    ("split", "race_after"): None,
}


def with_scales(config: StudyConfig, objective: Objective) -> StudyConfig:
    """Return a configuration whose space has the number of the scale, and whose ladder has the costs of all.

    ConfigError for scales that cannot be climbed.
    """
    scales, strategy = config.study.scales, dict(config.strategy)
    is_ladder, branch = strategy.get("name") == "ladder", config.space.get("study")
    dimension = None if scales is None else {"values": list(range(1, len(scales) + 1)), "default": 1}
    searched = [".".join(path) for path, _ in leaves(parted(config.space)[0])]
    if "study" in searched and scales is not None:
        raise ConfigError("space.study: holds the number of the scale in a study with scales; call it otherwise")
    # Its own, where the study exists.
    if SCALE in searched and not (isinstance(branch, Mapping) and branch.get("scale") == dimension):
        raise ConfigError(f"space.{SCALE}: is the number of the scale in a study with study.scales; call it otherwise")
    if scales is None:
        if is_ladder:
            raise ConfigError(
                "study.scales: ladder climbs from scale to scale; give two or more, the smallest first, the target last"
            )
        return config
    _refuse_bad_scales(config, scales, searched)
    study = config.study
    if is_ladder:
        full = strategy["max_amount"] = strategy.get("max_amount") or flatten(config.objective_config).get(_EPOCHS)
        strategy["first"] = first = _first(strategy.get("first"), full)
        strategy["max_amount"] = first["max_amount"] if first["name"] in HALVINGS else None
        strategy["costs"] = strategy.get("costs") or costs_of_scales(config, objective)
        if strategy.get("budget") is not None:
            _refuse_numbers_beside_budget(config)
            plan, trials = ladder_settings(strategy).within_budget()
            strategy |= {"trials": plan.trials, "budget": None}
            study = study.model_copy(update={"trials": trials})
    space = {**config.space, "study": {**(branch or {}), "scale": dimension}}
    return config.model_copy(update={"space": space, "strategy": strategy, "study": study})


def notes_on_scales(config: StudyConfig, strategy: Strategy, imports: Sequence[Trial]) -> tuple[str, ...]:
    """Return a line where the budget ends before a ladder has reached its target."""
    ladder = strategy.strategy if isinstance(strategy, FirstPoints) else strategy
    if imports or not isinstance(ladder, Ladder):
        return ()
    needed = sum(ladder.counts[:-1]) + 1
    if config.study.trials >= needed:
        return ()
    plan = ", ".join(map(str, ladder.counts))
    return (
        f"study.trials: {config.study.trials} end before the target, where the winner is sought: {plan} are planned "
        f"from scale to scale, so that {needed} reach it; the budget may be raised later",
    )


def refuse_imports_of_other_scales(path: Path, made_by: StudyConfig, config: StudyConfig) -> None:
    """Raise ConfigError where imported trials were trained at other scales than they would be taken for.

    Those of a study without scales are taken for trials of the smallest one.
    """
    scales, theirs = config.study.scales or [], made_by.study.scales
    if theirs is not None and theirs != scales[: len(theirs)]:
        raise ConfigError(
            f"study.imports: {path} was made with study.scales={theirs}, which must be the first of this study's, "
            f"given {scales or None}; their trials do not compare"
        )
    if theirs is None and scales:
        flat = flatten(made_by.objective_config)
        for key, value in scales[0].items():
            if (there := flat.get(key, at(flat, key))) != value:
                raise ConfigError(
                    f"study.imports: {path} was made with {key}={there!r}, and scale 1 has {value!r}; make that "
                    f"the first scale, or import nothing"
                )


def _first(given: Any, full: int | None) -> dict[str, Any]:
    """Return all settings of the strategy at the smallest scale; `full` is how far its trainings go where it halves."""
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
                f"strategy.first.counts: must be configurations, given {settings['counts']!r}; a ladder plans by points"
            )
    return settings


def ladder_settings(strategy: Mapping[str, Any]) -> LadderSettings:
    """Return the checked settings of a ladder; ConfigError for bad ones."""
    try:
        return LadderSettings.model_validate(dict(strategy))
    except ValidationError as error:
        raise ConfigError(explain(error, "strategy.")) from error


def _refuse_numbers_beside_budget(config: StudyConfig) -> None:
    """Refuse numbers of trials where the budget says them."""
    numbers = {
        "study.trials": (config.study.trials, shipped("study", "default")["trials"]),
        "strategy.trials": (config.strategy.get("trials"), shipped("strategy", "ladder")["trials"]),
    }
    for key, (given, default) in numbers.items():
        if given != default:
            raise ConfigError(f"{key}: follows from strategy.budget, given {given} beside it; give one of the two")


def _refuse_bad_scales(config: StudyConfig, scales: list[dict[str, Any]], searched: list[str]) -> None:
    name = config.strategy.get("name")
    if name not in _STRATEGIES:
        raise ConfigError(
            f"study.scales: {name} climbs no scales; choose strategy=ladder, or strategy=grid, which trains every "
            f"point at every scale"
        )
    for key in changed_keys(scales):
        if key in searched:
            raise ConfigError(
                f"study.scales: {key} is searched, too; leave it out of the space (~space.{key}), or of the scales"
            )
    refuse_unknown_keys(config, scales)
    for (section, key), none in _COMPARING.items():
        if (given := getattr(getattr(config, section), key)) != none:
            raise ConfigError(
                f"{section}.{key}: compares trials as if all were of one scale, given {given} beside scales; leave it "
                f"out"
            )


def refuse_unknown_keys(config: StudyConfig, scales: list[dict[str, Any]]) -> None:
    """Raise ConfigError where a scale changes a key that the objective's configuration does not have."""
    flat = flatten(config.objective_config)
    for key in changed_keys(scales):
        if key not in flat and at(flat, key) is None:
            raise ConfigError(f"study.scales: the configuration has no key '{key}'{nearest(key, flat)}")


def with_scales_given(tree: Mapping[str, Any], over: str) -> tuple[dict[str, Any], Objective, ScalesDescription | None]:
    """Return a whole configuration with scales, its objective, and what that says of them, None where nothing.

    Where it has none they are those of the objective, over "width" or "depth"; ConfigError where it knows none.
    """
    config = config_from_dict(tree)
    objective = resolve(config.objective, str(Path.cwd()), config.secrets)
    objective.refuse_bad_config(config.objective_config)
    known = objective.scales_description(config.objective_config, over)
    if config.study.scales is not None:
        return dict(tree), objective, known
    if known is None:
        raise ConfigError(
            f"study.scales: {objective.owner} has no function 'describe_scales' that says at which sizes to compare "
            f"its model; give two or more, such as '[{{width: 32}}, {{width: 64}}, {{width: 128}}, {{width: 256}}]'"
        )
    return replaced(tree, {"study.scales": [dict(changes) for changes in known.scales]}), objective, known


def costs_of_scales(config: StudyConfig, objective: Objective) -> list[float]:
    """Return the cost of a training at each scale, with the configuration's own values of what is searched.

    ConfigError where the objective does not say it, or it does not grow.
    """
    count = len(config.study.scales or ())
    for number in range(1, count + 1):
        try:
            objective.refuse_bad_config(config.trial_config({SCALE: number}))
        except ConfigError as error:
            raise ConfigError(f"study.scales: scale {number}: {error}") from error
    if objective.describe_cost is None:
        raise ConfigError(
            "study.scales: the objective does not say what a training costs; give strategy.costs, such as "
            f"{[4**place for place in range(count)]}, or describe_cost"
        )
    costs = [objective.cost(config.trial_config({SCALE: number}), 0) for number in range(1, count + 1)]
    for number, (before, after) in enumerate(pairwise(costs), start=1):
        if after <= before:
            raise ConfigError(
                f"study.scales: cost must grow from scale to scale, and scale {number + 1} costs {after / before:.2g} "
                f"times what scale {number} does; put the cheapest first and the target last, or give strategy.costs "
                f"where trainings differ in length alone"
            )
    return costs
