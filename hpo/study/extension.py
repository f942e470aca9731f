"""Makes a new study that trains the best trials of an old study further, or trains them again with other settings."""

import shutil
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hpo.config.keys import differences, flatten, own_key, within
from hpo.config.sections import ExtendedTrial, Extension
from hpo.config.study_config import DATA_SOURCES, SEARCH_SECTIONS, StudyConfig, is_free, study_name
from hpo.errors import ConfigError, StudyError
from hpo.files import copy_tree
from hpo.study.basis.units import Units
from hpo.study.files.folder import find_study, short_path
from hpo.study.later_limits import last_limits
from hpo.study.results.choosing import put_chosen_first
from hpo.study.study import PreparedStudy, training_command
from hpo.trials.history import History
from hpo.trials.space.reader import with_first
from hpo.trials.trial import Trial

# The keys that may change, in addition to `FREE_KEYS` and the keys of the objective.
ALLOWED = ("study.name", "study.lanes", "study.order", "study.trial_minutes")
# Values of `study` that turn off imports and the rules that end a search early: those of the old study do not fit.
NO_RULES = {"stop_rule": "none", **dict.fromkeys(("imports", "imports_fill", "minutes", "stop_without_gain", "target"))}


def extension_of(study: PreparedStudy, trials: Sequence[Trial], given: StudyConfig) -> StudyConfig:
    """Return the configuration of a new study that continues trials of an old study.

    The new study fully trains the points of `trials` with the settings in `given`. The folds and seeds stay the same.
    The new study continues from the trials' states if the states exist, and if the objective can continue with the
    changed settings (`CONTINUES_WITH`).

    Args:
        given: the old study's configuration with the changes.

    Raises:
        ConfigError: a change is not allowed, for example because it would make the new scores incomparable with the old
            scores.
        ConfigError: all `trials` are fully trained, and no setting of the trainings is changed.
    """
    changed = differences(study.config.to_dict(), given.to_dict())
    has_sources = study.plan is not None or study.config.objective.startswith("hpo.")
    units = Units.of(study.described.method, study.config.objective)
    unit_keys = [
        key
        for name in study.goal.names
        for key in units[name].depends_on
        if not units[name].is_same(key, changed.get(key))
    ]
    incomparable = [*(DATA_SOURCES if has_sources else ()), *unit_keys]
    for key in changed:
        if key.startswith("study.") and key.removeprefix("study.") in (*NO_RULES, "trials"):
            raise ConfigError(f"{key}: has no effect, because an extension proposes no new trials; remove it")
        if is_own(key) and own_key(key) in study.space.keys:
            raise ConfigError(f"{key}: is searched, so every trial keeps its own value; leave this key out")
        refuse_bad_change(key, incomparable, ALLOWED)
    if all(_is_trained(study, trial) for trial in trials) and not any(map(is_own, changed)):
        again = training_command(study.config.objective, str(short_path(study.folder.best_path)))
        raise ConfigError(
            f"extend: the chosen trials are fully trained, and you changed no training setting; change one, "
            f"such as training.epochs=60{'' if study.is_outside else f', or train the winner once more: {again}'}"
        )
    replaced = {own_key(key): before for key, (before, _) in changed.items() if is_own(key)}
    can_continue = study.objective.continues and set(replaced) <= set(study.objective.continues_with)
    # A key that refers to a searched key gets its value from each trial's point.
    references = study.config.study.references or {}
    own = {key: before for key, before in replaced.items() if not any(within(key, one) for one in references)}
    section = given.study
    extends = Extension(
        study=study.reference,
        changes=own,
        trials=[_extended_trial(study, trial, can_continue, own) for trial in trials],
    )
    name = section.name if "study.name" in changed else f"{study.config.study.name}-extended"
    study_name(name, "study.name")
    limits = {"limits": last_limits(section), "limits_after": None}
    update = {**NO_RULES, **limits, "name": name, "trials": len(trials), "lanes": section.lanes, "extends": extends}
    return given.model_copy(
        update={
            "study": section.model_copy(update=update),
            "space": with_first(given.space, [dict(trial.point) for trial in trials]),
            "strategy": {"name": "random", "round_size": len(trials)},
            "split": given.split.model_copy(update={"race_after": None}),
        }
    )


def choose_trials(study: PreparedStudy, history: History, best: int, numbers: Sequence[int]) -> list[Trial]:
    """Return the trials with these numbers; without numbers, return the best trials, at most `best` of them.

    Each point occurs once. With several metrics, the first of the best trials is the trial that `study.choose` picks
    from the Pareto front.

    Raises:
        StudyError: `best` is below 1, a numbered trial does not exist or has no score, or no trial is complete.
    """
    if best < 1:
        raise StudyError(f"best: must be 1 or more, given {best}")
    known = {trial.number: trial for trial in history}
    for number in numbers:
        if number not in known or known[number].score is None:
            raise StudyError(
                f"trial: study '{study.reference}' has no finished trial {number} with a score; give another number"
            )
    # Halving trains a point several times; the leaders come with the longest trainings first.
    furthest: dict[str, Trial] = {}
    leaders = history.leaders(len(history))
    leaders = put_chosen_first(leaders, history.front, study.goal, study.config.study.choose)
    for trial in (known[number] for number in numbers) if numbers else leaders:
        furthest.setdefault(trial.key, trial)
    if not furthest:
        raise StudyError(f"study '{study.reference}': no trial is complete, so no trial can be trained further")
    return list(furthest.values())[: len(numbers) or best]


def copy_states(study: PreparedStudy, extends: Extension) -> None:
    """Copy the states from which the new study's trainings continue; do nothing if the old study does not exist."""
    if not any(trial.continues for trial in extends.trials):
        return
    try:
        source_dir = find_study(extends.study).states_dir
    except StudyError:
        return
    builder = study.task_builder()
    for number, point in enumerate(study.space.first[: len(extends.trials)]):
        for name in builder.state_names([Trial(number, 0, point)]) if extends.trials[number].continues else ():
            if (source_dir / name).is_dir():
                # A driver that died while it created the study may have left part of a state.
                shutil.rmtree(study.folder.states_dir / name, ignore_errors=True)
                copy_tree(source_dir / name, study.folder.states_dir / name)


def _extended_trial(
    study: PreparedStudy, trial: Trial, can_continue: bool, changes: Mapping[str, Any]
) -> ExtendedTrial:
    assert trial.score is not None
    states = [study.folder.states_dir / name for name in study.task_builder().state_names([trial])]
    if trial.state == "stopped":
        # A stopped trial has no amount. With the same settings its training may continue from any state.
        has_states = can_continue and not changes and any(path.is_dir() for path in states)
    else:
        has_states = can_continue and all(path.is_dir() for path in states)
    return ExtendedTrial(number=trial.number, score=trial.score, amount=trial.amount, continues=has_states)


def _is_trained(study: PreparedStudy, trial: Trial) -> bool:
    """Return whether a trial is complete and fully trained."""
    # With a `training.epochs` above the full amount, no trial of this strategy is fully trained.
    epochs = flatten(study.config.objective_config).get("training.epochs")
    is_longer = isinstance(epochs, int) and study.full_amount is not None and epochs > study.full_amount
    return trial.state == "complete" and (trial.amount is None or (trial.amount == study.full_amount and not is_longer))


def is_own(key: str) -> bool:
    """Return whether a key belongs to the objective's part of the configuration, and not to the search."""
    return key.partition(".")[0] not in SEARCH_SECTIONS


def refuse_bad_change(key: str, incomparable: Collection[str], allowed: Collection[str]) -> None:
    """Raise ConfigError if a changed key refers to a searched key, or makes new scores incomparable with old scores.

    A key in `incomparable` must not change. Other keys may change if they are in `allowed` or `FREE_KEYS`, or if they
    are keys of the objective.
    """
    if key.startswith("study.references."):
        name = key.removeprefix("study.references.")
        raise ConfigError(f"{name}: refers to a searched key, so its value differs from trial to trial; remove {name}")
    if key in incomparable or not (is_own(key) or is_free(key) or key in allowed):
        raise ConfigError(
            f"{key}: would make new scores incomparable with the study's scores; remove it, or start a new study"
        )
