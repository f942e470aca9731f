"""Trains the best of a search again on fresh seeds: its best score is the maximum of many noisy values, so too good.

Source: the top-k protocol of Bouthillier et al. 2021 (arXiv 2103.03098), and retraining in Schneider et al. 2025
(arXiv 2506.19540, on overtuning).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from hpo.config.sections import StudySection
from hpo.study.notes import Notes
from hpo.study.study import PreparedStudy
from hpo.study.winner.choosing import chosen_first
from hpo.trials.goal import Goal, finished
from hpo.trials.history import History
from hpo.trials.ranking import leaders
from hpo.trials.record.record import Record
from hpo.trials.trial import TaskLayout, Trial
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
    section, goal, notes = study.config.study, study.goal, Notes(record)
    finalists = []
    for trial in candidates(section, goal, history):
        builder = study.as_of(notes.allowed_changes, trial).task_builder()
        again = on_fresh_seeds(trial, record, section)
        repeats = {study.layout.repeat(index) for index in fresh_indices(section, study.layout)}
        tasks = [task for repeat in sorted(repeats) for task in builder.again(trial, repeat)]
        finalists.append(Finalist(trial, again, [task for task in tasks if task.index not in again.outcomes]))
    return finalists


def on_fresh_seeds(trial: Trial, record: Record, section: StudySection) -> Trial:
    """Return a trial with the outcomes of fresh seeds alone, as far as they are recorded: `running` while one lacks."""
    indices = fresh_indices(section, record.layout)
    noted = {index: Notes(record).finalist_outcome(trial.number, index) for index in indices}
    known = {index: outcome for index, outcome in noted.items() if outcome is not None}
    again = Trial(trial.number, trial.round, trial.point, known, key=trial.key)
    return finished(again, known, record.goal) if len(known) == len(indices) else again


def fresh_indices(section: StudySection, layout: TaskLayout) -> range:
    """Return the indices of a finalist's tasks: they follow those of the search."""
    return range(layout.size, layout.size + section.finalist_repeats * layout.folds)


def candidates(section: StudySection, goal: Goal, history: History) -> list[Trial]:
    """Return the finalists of a search: the best within the limits, of those that were trained as far as the first.

    With several metrics the one that would be chosen is the first.
    """
    at_target = (trial for trial in history if trial.keeps_limits and trial.scale == goal.target)
    best = leaders(at_target, section.finalists)
    first = chosen_first(best, history.front, goal, section.choose)[: section.finalists]
    return [trial for trial in first if trial.rank[:2] == first[0].rank[:2]]


def train_finalists(
    finalists: Sequence[Finalist], record: Record, dispatcher: Dispatcher, tell: Callable[[str, int, int], None]
) -> None:
    """Train what is missing; each outcome is recorded before the next is waited for. `tell` gets how far that is."""
    what = f"the best {len(finalists)} again on fresh seeds" if len(finalists) > 1 else "the best again on fresh seeds"
    missing = [task for finalist in finalists for task in finalist.missing]
    for task, outcome in outcomes(dispatcher, missing, partial(tell, what)):
        Notes(record).write_finalist_outcome(task, outcome)
