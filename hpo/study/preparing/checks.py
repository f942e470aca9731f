"""Preflight checks of a study; they create nothing. Checks without data come before checks that need data."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from hpo.config.composing.references import references_to
from hpo.config.goals import SCALE, changed_keys
from hpo.config.keys import GROUPS, at, flatten, refuse_inside_of_list, typed_key
from hpo.config.sections import FAILURES
from hpo.config.shipped import shipped
from hpo.config.study_config import keys_at_fault
from hpo.errors import ConfigError, SpaceError, nearest
from hpo.formatting import format_short
from hpo.study.basis.bounds import refuse_bad_bounds
from hpo.study.basis.units import Units, varied_keys
from hpo.study.study import PreparedStudy
from hpo.trials.goal import Goal, searched_goal
from hpo.trials.space.dimensions import Dimension, Range, Value
from hpo.trials.space.reader import leaves, parted
from hpo.workers.objective.examples import Examples
from hpo.workers.objective.objective import Objective, SearchDescription
from hpo.workers.objective.path import ObjectivePath
from hpo.workers.training.splits import Plan

# Keys of `study` that have no effect if another program trains, with the values that turn them off.
_TRAINING_KEYS = {"repeats": 1, "finalists": 0, "minutes": None, "trial_minutes": None, "stop_after_failures": FAILURES}
_CONTINUE_ADVICE = "stop at trial.amount and continue from trial.resume_dir"


def refuse_bad_parts(study: PreparedStudy) -> None:
    """Raise HpoError if the study has a fault that can be found without its data."""
    _refuse_bad_space(study)
    _refuse_missing_keys(study)
    _refuse_bad_amounts(study)
    _refuse_training_keys(study)
    refuse_unknown_metrics(study.goal, study.described.method, study.objective)
    refuse_bad_bounds(study.described.method, study.config.objective)
    refuse_several_metrics(study)


def refuse_bad_data(study: PreparedStudy) -> None:
    """Raise HpoError if the study has a fault that can be found only after the split of its data."""
    _refuse_other_examples(study)
    after, folds, section = study.config.split.race_after, study.num_folds, study.config.study
    if after is not None and folds <= after:
        raise ConfigError(
            f"split.race_after: must be less than the number of folds ({folds}), given {after}; give more folds, or "
            f"set split.race_after=null"
        )
    seeds = section.finalist_repeats if section.finalists else section.repeats
    if section.winner == "one_standard_error" and folds * seeds == 1:
        raise ConfigError(
            "study.winner: one_standard_error needs several trainings per trial, and each trial has one; set "
            "split.folds or study.repeats to 2 or more, or set study.winner=best"
        )


def _refuse_bad_space(study: PreparedStudy) -> None:
    """Refuse a searched key that neither the configuration nor the objective has.

    Also refuse a searched value that the objective rejects.
    """
    config, space, own = study.config, study.space, study.own
    flat = flatten(config.objective_config)
    keys = {*flat, *own.space, *(own.keys or ())}
    for dimension in space.dimensions if own.keys is not None else ():
        if dimension.key == SCALE:
            continue
        # The toolkit's own trainer knows all its keys: refuse a key that it lacks and to which no other key refers.
        is_known = not config.objective.startswith("model.") or dimension.key.partition(".")[0] in GROUPS
        if not is_known and not references_to(config.study.references or {}, [dimension.key]):
            raise SpaceError(
                f"space.{dimension.key}: the trainer has no such key; remove it{nearest(dimension.key, keys)}"
            )
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
    """Refuse a space that changes the examples, because a study reads and splits its examples only once."""
    examples = study.examples
    for dimension in study.space.dimensions:
        keys = changed_keys(study.config.study.scales) if dimension.key == SCALE else [dimension.key]
        if examples is None or not any(key.startswith("data.") for key in keys):
            continue
        for value in _values_to_check(dimension):
            other = study.objective.examples(study.config.trial_config({dimension.key: value}))
            if other is None or (other.size, other.digests) != (examples.size, examples.digests):
                raise SpaceError(
                    f"space.{dimension.key}: the value {value!r} changes the examples, but a study reads and splits "
                    f"its examples only once; remove this key from the space, and run one study per value"
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
        raise SpaceError(f"space.{dimension.key}: the objective refuses the value {value!r}: {error}") from error


def refuse_unknown_metrics(goal: Goal, method: Mapping[str, Any], objective: Objective) -> None:
    """Raise ConfigError if the goal names a value that the objective does not report.

    `method` is the result of `describe_method`. If `method` has neither `metrics` nor `columns`, allow every name. If
    `method` has `columns` (the objective is a table), allow every name for the leading metric.
    """
    known = [*(method.get("metrics") or ()), *(method.get("columns") or ())]
    if known and "columns" in method:
        known = list(dict.fromkeys([goal.metric, *known]))
    for name in goal.names if known else ():
        if name not in known:
            key = "measured" if name in goal.measured else "limits"
            if name in goal.metrics:
                key = "metric" if len(goal.metrics) == 1 else "metrics"
            hint = (
                "; another kind of data has other metrics"
                if objective.module.startswith("model.")
                else "; the objective reports no other metric"
            )
            raise ConfigError(
                f"study.{key}: must be one of {', '.join(known)}, given {name!r}{nearest(name, known)}{hint}"
            )


def notes_on_space(study: PreparedStudy) -> tuple[str, ...]:
    """Return a note if a user's objective has the default space, which is for the toolkit's networks; otherwise ()."""
    ours = {".".join(path) for path, _ in leaves(parted(shipped("space", "transformer"))[0])}
    if study.config.objective.startswith("model.") or set(study.space.keys) != ours:
        return ()
    return (
        f"space: the search uses the default hyperparameters for the toolkit's own networks "
        f"({', '.join(study.space.keys)}); if {study.config.objective} does not use these hyperparameters, give "
        f"space=none and your own hyperparameters, such as '+space.x=[1,2]'",
    )


def notes_on_measured(study: PreparedStudy) -> tuple[str, ...]:
    """Return one line about the metrics and limits whose values depend on the machine, such as times; otherwise ()."""
    decisive = searched_goal(study.config.study).decisive
    measured = [name for name in decisive if name in (study.described.method.get("measured") or ())]
    if not measured:
        return ()
    return (
        f"{', '.join(measured)}: measured on the machine that trains, so another run of the same study may have "
        f"other trials",
    )


def notes_on_data(examples: Examples | None, plan: Plan | None) -> tuple[str, ...]:
    """Return the notes on the examples. Add a warning if there is a test split, but the examples have no hashes."""
    if examples is None or plan is None:
        return ()
    if examples.digests is not None or "test" not in plan.parts:
        return tuple(examples.notes)
    return (
        *examples.notes,
        "data: the examples have no digests (one hash per example), so duplicates are not found; two test splits "
        "count as the same split if their examples have the same indices and labels",
    )


def refuse_several_metrics(study: PreparedStudy) -> None:
    """Refuse limits, and more than one metric, if the strategy does not support them."""
    reason = getattr(study.strategy, "refuses_several", None)
    if reason is not None and not searched_goal(study.config.study).is_single:
        section = study.config.study
        given = f"study.metrics={section.metrics}" if section.metrics else f"study.limits={section.limits}"
        raise ConfigError(
            f"strategy: {study.config.strategy['name']} {reason}, given {given}; choose another strategy, such as "
            f"evolutionary"
        )


def refuse_incomparable_metric(study: PreparedStudy) -> None:
    """Refuse a metric whose unit changes from trial to trial, because its scores could not be compared.

    Call this for new studies only; an existing study gets a caution in its report.
    """
    varied = varied_keys(study.config)
    units = Units.of(study.described.method, study.config.objective)
    for metric in study.goal.decisive:
        if not (changed := units[metric].changed_by(varied)):
            continue
        others, keys = ", ".join(units.unchanged_by(varied)), ", ".join(changed)
        by_scales = not {*changed}.isdisjoint(changed_keys(study.config.study.scales))
        raise ConfigError(
            f"study.metric: scores of different trials cannot be compared, because the unit of {metric} is "
            f"{units[metric].unit} and depends on {keys} ({'changed by study.scales' if by_scales else 'searched'}); "
            f"{f'choose another metric ({others}), or ' if others else ''}"
            f"{f'remove {keys} from study.scales' if by_scales else f'do not search {keys}'}"
        )


def _refuse_training_keys(study: PreparedStudy) -> None:
    """If another program trains the study's trials, refuse keys that affect only trainings."""
    for key, none in _TRAINING_KEYS.items() if study.is_outside else ():
        if (given := getattr(study.config.study, key)) != none:
            raise ConfigError(
                f"study.{key}: has no effect on a study that another program trains, given {given}; remove it"
            )


def refuse_no_amounts(own: SearchDescription, who: str) -> None:
    """Raise ConfigError if the objective needs amounts; call this only for trainings without amounts.

    The error message begins with `who`.
    """
    if own.needs_amounts is not None:
        raise ConfigError(f"{who} sets no amounts of training, but the objective needs them: {own.needs_amounts}")


def _refuse_bad_amounts(study: PreparedStudy) -> None:
    """Refuse an objective that cannot train the amounts that the strategy sets.

    If the strategy sets no amounts, refuse an objective that needs amounts. If a training would end before the largest
    amount, refuse the study.
    """
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
        raise ConfigError(
            f"strategy: {name} continues trainings, so the objective needs {needed}; alternatively, choose "
            f"another strategy"
        )
    if not study.objective.continues:
        advice = f"decorate the function with @hpo.objective(continues=True), {_CONTINUE_ADVICE}"
        if path.form == "task":
            advice = "set CONTINUES = True in the module, stop at task['amount'] and continue from task['resume_dir']"
        who = path.module if path.form == "task" else path.function
        raise ConfigError(
            f"strategy: {name} continues trainings, and {who} does not support this; choose another strategy, or "
            f"{advice}"
        )
    _refuse_short_trainings(study)


def _refuse_short_trainings(study: PreparedStudy) -> None:
    """Raise ConfigError if trainings with some values of the space cannot reach the largest amount.

    The objective's `describe_length` says how far a training can go, such as a number of epochs in the configuration.
    A training that ends too early would be compared with full trainings, although it is shorter.
    """
    if study.objective.describe_length is None:
        return
    full, where, point = study.full_amount, "strategy.max_amount:", dict[str, Value]()
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
            f"{where} a training has the length {shortest:g}, and so ends before strategy.max_amount={full}; set "
            f"strategy.max_amount={max(1, math.floor(shortest))}, or make trainings longer"
        )
