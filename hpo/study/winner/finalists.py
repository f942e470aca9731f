"""Trains the best of a search again on fresh seeds: its best score is the maximum of many noisy values, so too good.

Source: the top-k protocol of Bouthillier et al. 2021 (arXiv 2103.03098), and retraining in Schneider et al. 2025
(arXiv 2506.19540, on overtuning).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from hpo.study.notes import Notes
from hpo.study.study import PreparedStudy
from hpo.study.winner.choosing import chosen_first
from hpo.trials.goal import finished
from hpo.trials.history import History
from hpo.trials.ranking import leaders
from hpo.trials.record.record import Record
from hpo.trials.trial import Trial
from hpo.workers.dispatch.dispatcher import Dispatcher, outcomes
from hpo.workers.training.payload import Task


@dataclass(frozen=True)
class Finalist:
    """A trial of the search, and `again` with those of the fresh seeds alone: `running` while tasks are missing."""

    trial: Trial
    again: Trial
    missing: Sequence[Task]


def read_finalists(study: PreparedStudy, record: Record, history: History) -> list[Finalist]:
    """Return the finalists, the best of the search first, all trained as far; `history` has all of their training."""
    config = study.config.study
    finalists, notes = [], Notes(record)
    best = _candidates(study, history)
    repeats = range(config.repeats, config.repeats + config.finalist_repeats)
    for trial in (trial for trial in best if trial.rank[:2] == best[0].rank[:2]):
        builder = study.as_of(notes.allowed_changes, trial).task_builder()
        tasks = [task for repeat in repeats for task in builder.again(trial, repeat)]
        noted = {task.index: notes.finalist_outcome(task.trial, task.index) for task in tasks}
        known = {index: outcome for index, outcome in noted.items() if outcome is not None}
        again = Trial(trial.number, trial.round, trial.point, known, key=trial.key)
        if len(known) == len(tasks):
            again = finished(again, known, study.goal)
        finalists.append(Finalist(trial, again, [task for task in tasks if task.index not in known]))
    return finalists


def _candidates(study: PreparedStudy, history: History) -> list[Trial]:
    """Return the best of the search within the limits; with several metrics first the one that would be chosen."""
    section = study.config.study
    at_target = (trial for trial in history if trial.keeps_limits and trial.scale == study.goal.target)
    best = leaders(at_target, section.finalists)
    return chosen_first(best, history.front, study.goal, section.choose)[: section.finalists]


def train_finalists(
    finalists: Sequence[Finalist], record: Record, dispatcher: Dispatcher, tell: Callable[[str, int, int], None]
) -> None:
    """Train what is missing; each outcome is recorded before the next is waited for. `tell` gets how far that is."""
    what = f"the best {len(finalists)} again on fresh seeds" if len(finalists) > 1 else "the best again on fresh seeds"
    missing = [task for finalist in finalists for task in finalist.missing]
    for task, outcome in outcomes(dispatcher, missing, partial(tell, what)):
        Notes(record).write_finalist_outcome(task, outcome)
