"""Trains the best of a search by amounts to their end, so that the winner is one of full trainings.

Once the search is over, they go on from where they are, with the seeds that they have. It is no part of the search,
which stays the same under a larger budget; what was trained stays known.
"""

import logging
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from hpo.config.study_config import StudyConfig
from hpo.engine.strategies.asha import Asha
from hpo.engine.strategies.first import FirstPoints
from hpo.engine.strategies.halving import SuccessiveHalving
from hpo.files import copy_tree
from hpo.study.notes import Notes
from hpo.study.study import PreparedStudy
from hpo.trials.goal import finished, goal_of
from hpo.trials.record.record import Record
from hpo.trials.trial import Outcome, Trial
from hpo.workers.dispatch.dispatcher import Dispatcher, outcomes
from hpo.workers.training.payload import Task

_log = logging.getLogger(__name__)

# After the name of a state in the search, which is left as it is: the search may still go on from it.
_SUFFIX = "_full"


def expected_at_end(study: PreparedStudy) -> str | None:
    """Return a line on how many configurations are expected to be trained to the end; None where all are."""
    strategy = study.strategy.strategy if isinstance(study.strategy, FirstPoints) else study.strategy
    if study.counts == "trials" or not isinstance(strategy, Asha | SuccessiveHalving):
        return None
    budget = study.config.study.trials
    expected, best = strategy.expected_at_end(budget), min(_count(study), budget)
    return (
        f"of {budget} configurations about {expected} reach {study.full_amount} in the search, if none fails; after it "
        f"the best {best} are trained to there where they were not"
    )


def trials_to_finish(study: PreparedStudy, record: Record, with_next: bool = False) -> list[Trial]:
    """Return the trials of the search that are trained to their end after it, the best first.

    They are those of the `eta` best points (`study.finalists`, if that is more), each by its furthest trial: first
    those within the limits, with several metrics by fronts. In the place of one whose further training failed comes the
    next; `with_next` adds those that may come so. None where the budget counts trials.
    """
    full = study.full_amount
    if full is None or study.counts == "trials":
        return []
    history, known = record.history(), Notes(record).full_outcomes
    best: dict[str, Trial] = {}
    # What exceeds a limit when it is fully trained is known to; the winner keeps the limits, also where others were
    # trained further.
    beyond = {trial.key for trial in history if trial.amount == full and trial.excess > 0}
    for trial in sorted(history.leaders(len(history)), key=lambda trial: trial.excess > 0):
        if trial.key not in beyond:
            best.setdefault(trial.key, trial)
    # As many failures are made up for: where the full training cannot be done at all, not everything is tried.
    tried = list(best.values())[: 2 * _count(study)]
    sound = [trial for trial in tried if not any(each.outcome.error for each in known[trial.number].values())]
    return [trial for trial in (sound if with_next else sound[: _count(study)]) if (trial.amount or full) < full]


def are_trained_to_the_end(study: PreparedStudy, record: Record) -> bool:
    """Return whether nothing is missing of the trainings that follow the search."""
    known = Notes(record).full_outcomes
    return all(len(known[trial.number]) == study.layout.size for trial in trials_to_finish(study, record))


def further_trainings(config: StudyConfig, record: Record) -> list[Trial]:
    """Return the finished trainings that followed the search (not those that it made itself since), as trials."""
    known, section, trials = Notes(record).full_outcomes, config.study, record.trials()
    full = config.strategy.get("max_amount")
    by_search = {trial.key for trial in trials if trial.amount == full and trial.state == "complete"}
    trainings = []
    for trial in (trial for trial in trials if known and trial.key not in by_search):
        there = known[trial.number]
        outcomes_there = {index: each.outcome for index, each in there.items()}
        if len(there) == record.layout.size and not any(outcome.error for outcome in outcomes_there.values()):
            training = _further(trial, full, min(each.trained for each in there.values()))
            trainings.append(finished(training, outcomes_there, goal_of(section)))
    return trainings


def join_trainings(trials: Sequence[Trial], further: Iterable[Trial]) -> list[Trial]:
    """Return the trials of a search, those that were trained further with all of their training."""
    continued = {trial.number: trial for trial in further}
    return [_joined(trial, continued[trial.number]) if trial.number in continued else trial for trial in trials]


def train_to_the_end(
    study: PreparedStudy, record: Record, dispatcher: Dispatcher, tell: Callable[[str, int, int], None]
) -> None:
    """Train what is missing; each outcome is recorded before the next is waited for. `tell` gets how far that is."""
    while missing := _missing(study, record):
        record.begin_stretch(dispatcher.slots)
        for task, outcome in outcomes(dispatcher, missing, partial(tell, "the best to the end")):
            Notes(record).write_full_outcome(task, outcome)
            if outcome.error:
                _log.warning("trial %d: its training to the end failed: %s", task.trial, outcome.error)


def state_names(study: PreparedStudy, trials: Iterable[Trial]) -> set[str]:
    """Return the names of the states that these trials' further trainings begin with, and of their own."""
    names = study.task_builder().state_names(trials)
    return names | {f"{name}{_SUFFIX}" for name in names}


def _count(study: PreparedStudy) -> int:
    count: int = max(study.config.strategy["eta"], study.config.study.finalists)
    return count


def _missing(study: PreparedStudy, record: Record) -> list[Task]:
    """Return the tasks that are not trained, each from where the search left it, or else from the start."""
    known, missing = Notes(record).full_outcomes, []
    for trial in trials_to_finish(study, record):
        assert trial.amount is not None
        builder = study.as_of(Notes(record).allowed_changes, trial).task_builder()
        tasks = builder.tasks_of(_further(trial, study.full_amount, trial.amount))
        tasks = [task for task in tasks if task.index not in known[trial.number]]
        states = [Path(str(task.payload.resume_dir)) for task in tasks]
        own = [state.with_name(f"{state.name}{_SUFFIX}") for state in states]
        have = [_has_state(study, *pair) for pair in zip(states, own, strict=True)]
        trained = trial.amount if all(have) else 0
        for task, state in zip(tasks, own, strict=True):
            earlier = record.earlier(_further(trial, None, trained), task.index) if trained else ()
            payload = replace(task.payload, resume_dir=str(state), trained=trained, earlier=earlier)
            missing.append(replace(task, payload=payload))
    return missing


def _has_state(study: PreparedStudy, before: Path, own: Path) -> bool:
    """Let a training have the state of the search as its own; return whether it has one."""
    if study.artifacts is None:
        if before.is_dir() and not own.exists():
            copy_tree(before, own)
        return own.exists()
    with tempfile.TemporaryDirectory(prefix="hpo-state-") as scratch:
        state = Path(scratch, "state")
        if not study.artifacts.get_folder(f"states/{own.name}", state):
            if not study.artifacts.get_folder(f"states/{before.name}", state):
                return False
            study.artifacts.put_folder(f"states/{own.name}", state)
        return True


def _further(trial: Trial, full: int | None, trained: int) -> Trial:
    return replace(trial.as_opened, amount=full, continues=trial.number, trained=trained)


def _joined(before: Trial, after: Trial) -> Trial:
    """Return the result of the second training, with the times and cost of both, and the whole curve."""

    def both(first: Outcome, second: Outcome) -> Outcome:
        # One that began anew has the whole curve itself.
        curve = [*first.curve, *second.curve] if after.trained else second.curve
        seconds, units = first.seconds + second.seconds, first.units + second.units
        return replace(second, curve=curve, seconds=seconds, units=units, started=first.started)

    outcomes = {index: both(before.outcomes[index], outcome) for index, outcome in after.outcomes.items()}
    trained, continues = (before.trained, before.continues) if after.trained else (0, None)
    return replace(after, outcomes=outcomes, continues=continues, trained=trained, ended_later=after.ended)
