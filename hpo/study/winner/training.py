"""Trains the best trials of a search to the end, so that the winner is fully trained; trains the finalists again.

The best trials keep their seeds. They continue from their states or, without a state, begin anew.

No training of this module affects the search: if the user raises the budget, the search proposes the same trials as
without the training. The record keeps the outcome of each training. After a raised budget, a training whose outcome is
in the record is not repeated.
"""

import logging
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from hpo.engine.strategies.asha import Asha
from hpo.engine.strategies.first import FirstPoints
from hpo.engine.strategies.halving import SuccessiveHalving
from hpo.files import copy_tree
from hpo.study.notes import Notes
from hpo.study.results.after_search import Finalist, fresh_indices, further_training, num_to_finish, trials_to_finish
from hpo.study.study import PreparedStudy
from hpo.trials.record.record import Record
from hpo.trials.trial import Trial
from hpo.workers.dispatch.dispatcher import Dispatcher, outcomes
from hpo.workers.training.tasks import Task

_log = logging.getLogger(__name__)

# The suffix of a state's copy. The original state stays unchanged, because the search may go on from it.
_SUFFIX = "_full"
Report = Callable[[str, int, int], None]
"""A function that is called with a text, the number of finished trainings, and the number of all trainings."""


def expected_at_end(study: PreparedStudy) -> str | None:
    """Return a line that says how many configurations will probably be fully trained.

    Return None if the budget counts trials, or if the strategy is neither ASHA nor successive halving.
    """
    strategy = study.strategy.strategy if isinstance(study.strategy, FirstPoints) else study.strategy
    if study.counts == "trials" or not isinstance(strategy, Asha | SuccessiveHalving):
        return None
    budget = study.config.study.trials
    expected, best = strategy.expected_at_end(budget), min(num_to_finish(study.config), budget)
    afterwards = f"afterwards the study trains the {best} best configurations to {study.full_amount}"
    if isinstance(strategy, SuccessiveHalving) and budget < (first := _first_rung(strategy, study.space.size)):
        return (
            f"the search trains no configuration beyond the first rung, because this rung has {first} configurations, "
            f"and study.trials is {budget}; raise study.trials, or lower the ratio of strategy.max_amount to "
            f"strategy.min_amount; {afterwards}"
        )
    return (
        f"about {expected} of {budget} configurations will reach {study.full_amount} in the search if none fails; "
        f"{afterwards}"
    )


def _first_rung(strategy: SuccessiveHalving, size: int | None) -> int:
    """Return the number of points on the first rung of a search whose space has `size` points; None = infinite."""
    points = strategy.settings.first_points(strategy.next_halvings(None))
    return points if size is None else min(points, size)


def train_to_the_end(study: PreparedStudy, record: Record, dispatcher: Dispatcher, report: Report) -> None:
    """Train the best trials to the end, except fully trained trials; record each outcome as soon as it arrives."""
    while missing := _missing_tasks(study, record):
        record.begin_stretch(dispatcher.slots)
        for task, outcome in outcomes(dispatcher, missing, partial(report, "the best trials to the end")):
            Notes(record).write_full_outcome(task, outcome)
            if outcome.error:
                _log.warning("trial %d: its full training failed: %s", task.trial, outcome.error)


def train_finalists(
    study: PreparedStudy, finalists: Sequence[Finalist], record: Record, dispatcher: Dispatcher, report: Report
) -> None:
    """Train the finalists on the fresh seeds that have no outcome yet; record each outcome as soon as it arrives."""
    best = f"{len(finalists)} best trials" if len(finalists) > 1 else "best trial"
    kind = f"the {best} again on fresh seeds"
    missing: list[Task] = []
    for finalist in finalists:
        tasks = fresh_tasks(study.as_of(Notes(record).allowed_changes, finalist.trial), finalist.trial)
        missing += [task for task in tasks if task.index not in finalist.again.outcomes]
    if missing:
        record.begin_stretch(dispatcher.slots)
    for task, outcome in outcomes(dispatcher, missing, partial(report, kind)):
        Notes(record).write_finalist_outcome(task.trial, task.index, outcome)


def state_names(study: PreparedStudy, trials: Iterable[Trial]) -> set[str]:
    """Return the names of the training states of these trials, from the search and from trainings after the search."""
    names = study.task_builder().state_names(trials)
    return names | set(map(full_state, names))


def full_state(state: str) -> str:
    """Return the name or path for the state of a training after the search.

    `state` is the name or path for the state of the same task in the search.
    """
    return f"{state}{_SUFFIX}"


def _missing_tasks(study: PreparedStudy, record: Record) -> list[Task]:
    """Return the tasks of the full trainings that have no outcome yet.

    The tasks of a trial continue from their states if all these states exist; otherwise, the tasks begin anew.
    """
    known, missing = Notes(record).full_outcomes, []
    for trial in trials_to_finish(study.config, record):
        assert trial.amount is not None
        builder = study.as_of(Notes(record).allowed_changes, trial).task_builder()
        tasks = builder.tasks_of(further_training(trial, study.full_amount, trial.amount))
        tasks = [task for task in tasks if task.index not in known[trial.number]]
        states = [str(task.payload.resume_dir) for task in tasks]
        has_state = [_copy_state(study, Path(state), Path(full_state(state))) for state in states]
        trained = trial.amount if all(has_state) else 0
        for task, state in zip(tasks, states, strict=True):
            earlier = record.earlier(further_training(trial, None, trained), task.index) if trained else ()
            payload = replace(task.payload, resume_dir=full_state(state), trained=trained, earlier=earlier)
            missing.append(replace(task, payload=payload))
    return missing


def fresh_tasks(study: PreparedStudy, trial: Trial) -> list[Task]:
    """Return the tasks that train a finalist on fresh seeds, sorted by index."""
    repeats = {study.layout.repeat(index) for index in fresh_indices(study.config.study, study.layout)}
    return [task for repeat in sorted(repeats) for task in study.task_builder().again(trial, repeat)]


def _copy_state(study: PreparedStudy, before: Path, own: Path) -> bool:
    """Copy a task's state from the folder `before` to the folder `own`; return whether `own` exists afterwards.

    The search has saved `before`. If `own` exists, leave it unchanged. If the study has an artifact store, both folders
    are in this store.
    """
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
