"""Preflight checks of a whole study: those that need no data, then those that need data. They create nothing."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from hpo.config.composing.references import references_to
from hpo.config.goals import SCALE, changed_keys
from hpo.config.keys import GROUPS, at, flatten, refuse_inside_of_list, typed_key
from hpo.config.sections import FAILURES
from hpo.config.study_config import keys_at_fault
from hpo.errors import ConfigError, SpaceError, nearest
from hpo.formatting import format_short
from hpo.study.basis.bounds import refuse_bad_bounds
from hpo.study.basis.units import Units, varied_keys
from hpo.study.study import PreparedStudy
from hpo.trials.goal import Goal, searched_goal
from hpo.trials.space.dimensions import Dimension, Range, Value
from hpo.workers.objective.examples import Examples
from hpo.workers.objective.objective import Objective, SearchDescription
from hpo.workers.objective.path import ObjectivePath
from hpo.workers.training.splits import Plan

# Keys of `study` that have no effect if another program trains, with the values that turn them off.
_TRAINING_KEYS = {
    **{"repeats": 1, "finalists": 0, "minutes": None, "trial_minutes": None},
    "stop_after_failures": FAILURES,
}
_CONTINUE_ADVICE = "stop at trial.amount and continue from trial.resume_dir"


def refuse_bad_parts(study: PreparedStudy) -> None:
    """Raise HpoError for faults that can be found without the study's data."""
    _refuse_bad_space(study)
    _refuse_missing_keys(study)
    _refuse_bad_amounts(study)
    _refuse_training_keys(study)
    refuse_unknown_metrics(study.goal, study.described.method or {}, study.objective)
    refuse_bad_bounds(study.described.method or {}, study.config.objective)
    refuse_several_metrics(study)


def refuse_bad_data(study: PreparedStudy) -> None:
    """Raise HpoError for faults that can be found only after the study's data are split."""
    _refuse_other_examples(study)
    after, folds, section = study.config.split.race_after, study.num_folds, study.config.study
    if after is not None and folds <= after:
        raise ConfigError(
            f"split.race_after: must be less than the number of folds, {folds}, given {after}; give more folds, or null"
        )
    seeds = section.finalist_repeats if section.finalists else section.repeats
    if section.winner == "one_standard_error" and folds * seeds == 1:
        raise ConfigError(
            "study.winner: one_standard_error needs several trainings per trial, and there is one; give split.folds or "
            "study.repeats of 2 or more, or study.winner=best"
        )


def _refuse_bad_space(study: PreparedStudy) -> None:
    """Refuse keys that neither the configuration nor the objective knows, and values that the objective refuses."""
    config, space, own = study.config, study.space, study.own
    flat = flatten(config.objective_config)
    keys = {*flat, *own.space, *(own.keys or ())}
    for dimension in space.dimensions if own.keys is not None else ():
        if dimension.key == SCALE:
            continue
        # The toolkit's own trainer knows all its keys: refuse a key that it lacks and to which no other key refers.
        is_known = not config.objective.startswith("model.") or dimension.key.partition(".")[0] in GROUPS
        if not is_known and not references_to(config.study.references or {}, [dimension.key]):
            raise SpaceError(f"space.{dimension.key}: nothing reads '{dimension.key}'{nearest(dimension.key, keys)}")
        if dimension.key not in keys and at(flat, dimension.key) is None:
            refuse_inside_of_list(config.objective_config, dimension.key)
            example = format_short(dimension.from_unit(0.5) if isinstance(dimension, Range) else dimension.values[0])
            raise SpaceError(
                f"space.{dimension.key}: the configuration has no key '{dimension.key}'; give it a default with "
                f"+{typed_key(dimension.key)}={example}{nearest(dimension.key, keys)}"
            )
    for dimension in space.dimensions:
        for value in _values_to_check(dimension):
            _refuse_bad_value(study, dimension, value)


def _refuse_missing_keys(study: PreparedStudy) -> None:
    """Refuse a study without a value for a key that the objective needs."""
    flat = flatten(study.config.objective_config)
    given = {*flat, *study.space.keys}
    for key in study.own.needs:
        if key not in given and at(flat, key) is None:
            raise ConfigError(
                f"objective: needs the key '{key}', which is neither searched nor in the configuration"
                f"{nearest(key, given)}; search it with space.{key}=..., or set it with +{typed_key(key)}=VALUE"
            )


def _refuse_other_examples(study: PreparedStudy) -> None:
    """Refuse dimensions that change the examples, because a study reads and splits them once."""
    examples = study.examples
    for dimension in study.space.dimensions:
        keys = changed_keys(study.config.study.scales) if dimension.key == SCALE else [dimension.key]
        if examples is None or not any(key.startswith("data.") for key in keys):
            continue
        for value in _values_to_check(dimension):
            other = study.objective.examples(study.config.trial_config({dimension.key: value}))
            if other is None or (other.size, other.digests) != (examples.size, examples.digests):
                raise SpaceError(
                    f"space.{dimension.key}: the value {value!r} changes the examples, and a study reads and splits "
                    f"them once; remove it from the space, and run a study for each value"
                )


def _values_to_check(dimension: Dimension) -> Iterator[Value]:
    yield from (dimension.low, dimension.high) if isinstance(dimension, Range) else dimension.values


def _refuse_bad_value(study: PreparedStudy, dimension: Dimension, value: Value) -> None:
    try:
        study.objective.refuse_bad_config(study.config.trial_config({dimension.key: value}))
    except ConfigError as error:
        # A rule between several searched keys may hold with other values of the other keys. A point that breaks it
        # fails when it is tried.
        cause: Any = error.__cause__
        if len(set(keys_at_fault(cause)) & set(study.space.keys)) > 1:
            return
        raise SpaceError(f"space.{dimension.key}: the value {value!r} is refused: {error}") from error


def refuse_unknown_metrics(goal: Goal, method: Mapping[str, Any], objective: Objective) -> None:
    """Refuse metrics and limits that `method` (of `describe_method`) does not list; pass if it lists none."""
    known = [*(method.get("metrics") or ()), *(method.get("columns") or ())]
    names = list(goal.names)
    if known and "columns" in method:
        # An objective that reads a table accepts any name for the score.
        known = list(dict.fromkeys([goal.metric, *known]))
    for name in names if known else ():
        if name not in known:
            key = "metric" if len(goal.metrics) == 1 else "metrics"
            hint = (
                "; another kind of data has other metrics"
                if objective.module.startswith("model.")
                else "; the objective reports no other"
            )
            raise ConfigError(
                f"study.{key if name in goal.metrics else 'limits'}: must be one of {', '.join(known)}, given {name!r}"
                f"{nearest(name, known)}{hint}"
            )


def notes_on_measured(study: PreparedStudy) -> tuple[str, ...]:
    """Return a line that names the metrics that depend on the machine and decide which trials are better, if any."""
    decisive = searched_goal(study.config.study).decisive
    measured = [name for name in decisive if name in ((study.described.method or {}).get("measured") or ())]
    if not measured:
        return ()
    return (
        f"{', '.join(measured)}: measured on the machine that trains, so another run of the same study may have other "
        f"trials",
    )


def notes_on_data(examples: Examples | None, plan: Plan | None) -> tuple[str, ...]:
    """Return lines on how the examples were read; add a line if the test split cannot be identified."""
    if examples is None or plan is None:
        return ()
    if examples.digests is not None or "test" not in plan.parts:
        return tuple(examples.notes)
    return (
        *examples.notes,
        "data: the examples have no digests (a hash of each), so duplicates are not found, and a test part of other "
        "data with the same size and labels counts as the same",
    )


def refuse_several_metrics(study: PreparedStudy) -> None:
    """Refuse several metrics or limits with a strategy that does not support them."""
    reason = getattr(study.strategy, "refuses_several", None)
    if reason is not None and not searched_goal(study.config.study).is_single:
        section = study.config.study
        given = f"study.metrics={section.metrics}" if section.metrics else f"study.limits={section.limits}"
        raise ConfigError(
            f"strategy: {study.config.strategy['name']} {reason}, given {given}; choose another strategy, such as "
            f"evolutionary"
        )


def refuse_incomparable_metric(study: PreparedStudy) -> None:
    """Refuse a metric whose unit changes from trial to trial: the winner would be meaningless.

    Call this for new studies only. An existing study gets a caution in its report.
    """
    varied = varied_keys(study.config)
    units = Units.of(study.described.method or {}, study.config.objective)
    for metric in study.goal.decisive:
        if not (changed := units[metric].changed_by(varied)):
            continue
        others, keys = ", ".join(units.unchanged_by(varied)), ", ".join(changed)
        by_scales = not {*changed}.isdisjoint(changed_keys(study.config.study.scales))
        raise ConfigError(
            f"study.metric: the unit of {metric} is {units[metric].unit}, and {keys}, which "
            f"{'study.scales changes' if by_scales else 'is searched'}, changes this unit, so scores of different "
            f"trials do not compare; {f'choose one of {others}, or ' if others else ''}"
            f"{f'remove {keys} from study.scales' if by_scales else f'do not search {keys}'}"
        )


def _refuse_training_keys(study: PreparedStudy) -> None:
    """Refuse keys about trainings in a study whose trials another program trains."""
    for key, none in _TRAINING_KEYS.items() if study.is_outside else ():
        if (given := getattr(study.config.study, key)) != none:
            raise ConfigError(
                f"study.{key}: has no effect on a study that another program trains, given {given}; remove it"
            )


def refuse_no_amounts(own: SearchDescription, who: str) -> None:
    """Refuse an objective that needs a value which only a strategy with amounts gives; `who` begins the message."""
    if own.needs_amounts is not None:
        raise ConfigError(f"{who} trains without amounts, and the objective needs them: {own.needs_amounts}")


def _refuse_bad_amounts(study: PreparedStudy) -> None:
    """Refuse a strategy and an objective that do not agree on whether trainings are continued."""
    name, needed, path = study.config.strategy["name"], study.own.amounts_need, ObjectivePath.of(study.config.objective)
    if study.objective.continues and path.form == "config":
        raise ConfigError(
            f"objective: {path.function} continues trainings, and needs the parameter `trial` for this; write "
            f"`def {path.function}(config, trial)`, {_CONTINUE_ADVICE}"
        )
    if study.full_amount is None:
        refuse_no_amounts(study.own, f"strategy: {name}")
        return
    if needed is not None:
        raise ConfigError(f"strategy: {name} continues trainings, which needs {needed}; or choose another strategy")
    if not study.objective.continues:
        advice = f"decorate it with @hpo.objective(continues=True), {_CONTINUE_ADVICE}"
        if path.form == "task":
            advice = "stop at task['amount'], continue from task['resume_dir'] and set CONTINUES = True there"
        who = path.module if path.form == "task" else path.function
        raise ConfigError(
            f"strategy: {name} continues trainings, which {who} does not support; choose another strategy, or {advice}"
        )
    _refuse_short_trainings(study)


def _refuse_short_trainings(study: PreparedStudy) -> None:
    """Refuse trainings that end by themselves before the largest amount: they would count as full ones."""
    if study.objective.describe_length is None:
        return
    full, where, point = study.full_amount, "strategy.max_amount: here", dict[str, Value]()
    assert full is not None

    def length(values: Mapping[str, Value]) -> float:
        return study.objective.length(study.config.trial_config(values))

    for dimension in study.space.dimensions:
        before, key = length(point), dimension.key
        lengths = [(length({**point, key: value}), value) for value in _values_to_check(dimension)]
        shortest, point[key] = min(lengths, key=lambda each: each[0])
        if shortest != before or len({each for each, _ in lengths}) > 1:
            where = f"space.{key}: with {point[key]!r}"
    if (shortest := length(point)) < full:
        raise ConfigError(
            f"{where} a training ends at {shortest:g}, before strategy.max_amount={full}, and would count as a full "
            f"one; set strategy.max_amount={max(1, math.floor(shortest))}, or make trainings longer"
        )
