"""Trains the best of a search by amounts to their end, so that the winner is one of full trainings.

Such a search trains few points to their end, and with a small budget none: its best may have been trained a little, and
how good it is after a full training is not known. So once the search is over, the best are trained on from where they
are, with the seeds that they have. It is no part of the search, which stays the same under a larger budget.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from hpo.engine.dispatch.dispatcher import Dispatcher
from hpo.engine.dispatch.outcomes import outcomes
from hpo.engine.record.record import Record
from hpo.engine.strategies.asha import Asha
from hpo.engine.strategies.first import FirstPoints
from hpo.engine.strategies.halving import SuccessiveHalving
from hpo.engine.training.payload import Task
from hpo.engine.trials.history import History
from hpo.engine.trials.trial import Outcome, Trial, finished
from hpo.study.notes import Notes
from hpo.study.study import Study
from hpo.tree import copy_tree

# After the name of a state in the search, which is left as it is: the search may still go on from it.
_SUFFIX = "_full"


def chosen_for_the_end(study: Study, history: History) -> list[Trial]:
    """Return the trials that are trained to their end after the search, the best first.

    They are those of the `eta` best points (`study.finalists`, if that is more), each by its furthest trial, that were
    not trained so far; none where the budget counts trials, as in studies of before version 0.2.0.
    """
    full = study.full_amount
    if full is None or study.counts == "trials":
        return []
    best: dict[str, Trial] = {}
    for trial in history.leaders(len(history)):
        best.setdefault(trial.key, trial)
    return [trial for trial in list(best.values())[: _count(study)] if trial.amount is not None and trial.amount < full]


def expected_at_end(study: Study) -> str | None:
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


def further_trainings(study: Study, record: Record) -> list[Trial]:
    """Return the trainings that followed the search, each as a trial with the number of the one that it trained on.

    One that is not finished is left out; one that failed has failed.
    """
    section, trainings = study.config.study, []
    for trial in chosen_for_the_end(study, record.history()):
        known = _known(study, record, trial)
        if len(known) == study.layout.size:
            trainings.append(finished(_further(study, trial), known, section.metric, section.direction))
    return trainings


def joined(trials: Sequence[Trial], further: Iterable[Trial]) -> list[Trial]:
    """Return the trials of a search, those that were trained further with all of their training."""
    all_of_it = {trial.number: trial for trial in trials}
    for trial in further:
        all_of_it[trial.number] = _joined(all_of_it[trial.number], trial)
    return list(all_of_it.values())


def are_trained_to_the_end(study: Study, record: Record) -> bool:
    """Return whether nothing is missing of the trainings that follow the search."""
    chosen = chosen_for_the_end(study, record.history())
    return all(len(_known(study, record, trial)) == study.layout.size for trial in chosen)


def train_to_the_end(study: Study, record: Record, dispatcher: Dispatcher) -> None:
    """Train what is missing; each outcome is recorded before the next is waited for."""
    missing = []
    for trial in chosen_for_the_end(study, record.history()):
        known = _known(study, record, trial)
        missing += [task for task in _tasks(study, record, trial) if task.index not in known]
    if missing:
        record.begin_stretch(dispatcher.slots)
    for task in missing:
        _copy_state(task)
    for task, outcome in outcomes(dispatcher, missing):
        Notes(record).write_full_outcome(task, outcome)


def state_names(study: Study, trials: Iterable[Trial]) -> set[str]:
    """Return the names of the states of these trials' further trainings."""
    return {f"{name}{_SUFFIX}" for name in study.task_builder().state_names(trials)}


def _count(study: Study) -> int:
    count: int = max(study.config.strategy["eta"], study.config.study.finalists)
    return count


def _further(study: Study, trial: Trial) -> Trial:
    assert trial.amount is not None
    return replace(trial.as_opened, amount=study.full_amount, continues=trial.number, trained=trial.amount)


def _tasks(study: Study, record: Record, trial: Trial) -> list[Task]:
    builder = study.as_of(Notes(record).allowed_changes, trial).task_builder()
    tasks = builder.tasks_of(_further(study, trial))
    return [
        replace(task, payload=replace(task.payload, resume_dir=f"{task.payload.resume_dir}{_SUFFIX}")) for task in tasks
    ]


def _copy_state(task: Task) -> None:
    """Let the training go on from where the search left it; without a state it begins anew, and comes to the same."""
    assert task.payload.resume_dir is not None
    own = Path(task.payload.resume_dir)
    before = own.with_name(own.name.removesuffix(_SUFFIX))
    if before.is_dir() and not own.exists():
        copy_tree(before, own)


def _known(study: Study, record: Record, trial: Trial) -> dict[int, Outcome]:
    notes = Notes(record)
    noted = {index: notes.full_outcome(trial, index) for index in range(study.layout.size)}
    return {index: outcome for index, outcome in noted.items() if outcome is not None}


def _joined(before: Trial, after: Trial) -> Trial:
    """Return the result of the second training, with the curves, times and cost of both."""
    outcomes = {
        index: replace(
            outcome,
            curve=[*before.outcomes[index].curve, *outcome.curve],
            seconds=before.outcomes[index].seconds + outcome.seconds,
            units=before.outcomes[index].units + outcome.units,
            started=before.outcomes[index].started,
        )
        for index, outcome in after.outcomes.items()
    }
    return replace(
        after, outcomes=outcomes, continues=before.continues, trained=before.trained, ended_later=after.ended
    )
