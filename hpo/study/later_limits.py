"""Limits that a user sets after a search; they affect the choice of the winner, but no proposals and no trainings."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from hpo.config.sections import StudySection
from hpo.config.study_config import StudyConfig
from hpo.errors import StudyError, nearest
from hpo.study.notes import Notes
from hpo.study.results.after_search import fresh_indices
from hpo.study.study import PreparedStudy
from hpo.trials.record.record import Record
from hpo.trials.trial import Outcome

# The keys of `study` with which a finished search can go on.
_BUDGET = ("trials", "minutes", "stop_without_gain", "target")


def with_later_limits(frozen: StudyConfig, config: StudyConfig) -> StudyConfig:
    """Return `config` with the limits of `frozen`, because the limits of a search never change.

    If `config` has different limits, the result has them as `limits_after`.
    """
    own, given = frozen.study.limits, config.study.limits
    return config.with_study(limits=own, limits_after=None if given == own else given or {})


def last_limits(section: StudySection) -> Mapping[str, Any] | None:
    """Return the limits that the winner must keep, by name; None = there are no limits."""
    return (section.limits if section.limits_after is None else section.limits_after) or None


def refuse_early_limits(study: PreparedStudy, frozen: StudyConfig, record: Record) -> None:
    """Check the limits that a user sets after the search (`limits_after`); do nothing if they are None.

    Raises:
        StudyError: the limits or the budget have changed, and the search is not over.
        StudyError: a trial did not return a metric that a new limit names.
    """
    section, before, name = study.config.study, frozen.study, study.reference
    if section.limits_after is None:
        return
    is_new = section.limits_after != before.limits_after
    goes_on = any(getattr(section, each) != getattr(before, each) for each in _BUDGET)
    if (is_new or goes_on) and not study.is_over(record):
        own = json.dumps(before.limits).replace('"', "")
        raise StudyError(
            f"study.limits: cannot change before the search of '{name}' is over "
            f"({study.done(record.history())}); finish the search with its own limits (`hpo resume {name} "
            f"'study.limits={own}'`), or start a search with the new limits and study.name=NEW study.imports={name}"
        )
    for limited in section.limits_after if is_new else ():
        for number, outcome in _deciding_outcomes(study, record):
            if limited not in outcome.metrics:
                returned = [metric for metric in outcome.metrics if metric != "seconds"]
                raise StudyError(
                    f"study.limits: must name metrics that trials returned, given {limited}; trial {number} returned "
                    f"{', '.join(returned)}{nearest(limited, returned)}"
                )


def _deciding_outcomes(study: PreparedStudy, record: Record) -> Iterator[tuple[int, Outcome]]:
    """Yield pairs of a trial's number and an outcome, for each outcome that affects the choice of the winner."""
    notes, section = Notes(record), study.config.study
    full, fresh = notes.full_outcomes, fresh_indices(section, record.layout) if section.finalists else ()
    for trial in (trial for trial in record.history() if trial.state == "complete"):
        further = (each.outcome for each in full[trial.number].values())
        again = (notes.finalist_outcome(trial.number, index) for index in fresh)
        for outcome in (*trial.outcomes.values(), *further, *again):
            if outcome is not None and outcome.error is None:
                yield trial.number, outcome
