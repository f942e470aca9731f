"""The best trials trained again on fresh seeds at the end of a search, and the winner chosen on those.

The best score of a search is the maximum of many noisy values, and so too good; which trial has it is partly luck.
Fresh seeds, which the search has not selected on, tell the finalists apart without that bias.

Source: the top-k protocol of Bouthillier et al. 2021 (arXiv 2103.03098) and of retraining in Schneider et al. 2025
(arXiv 2506.19540, on overtuning).
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hpo.engine.dispatch.outcomes import outcomes
from hpo.engine.dispatch.protocol import Dispatcher
from hpo.engine.record.record import Record
from hpo.engine.training.payload import Task
from hpo.engine.trials.history import History
from hpo.engine.trials.trial import Outcome, Trial, finished
from hpo.study.study import Study


@dataclass(frozen=True)
class Finalist:
    """A trial that was trained again.

    Attributes:
        trial: as the search left it.
        again: the same trial with the outcomes of the fresh seeds alone, and their score; `running` while some are
            missing.
    """

    trial: Trial
    again: Trial


def finalists(study: Study, record: Record) -> list[Finalist]:
    """Return the finalists of the search as it stands, the best of the search first; empty where none are asked for."""
    config = study.config.study
    found = []
    for trial in _candidates(record.history(), config.finalists):
        tasks = _tasks(study, record, trial)
        noted = {task.index: record.noted(_name(task)) for task in tasks}
        known = {index: Outcome.from_dict(values) for index, values in noted.items() if values is not None}
        again = Trial(trial.number, trial.round, trial.point, known, key=trial.key)
        if len(known) == len(tasks):
            again = finished(again, known, config.metric, config.direction)
        found.append(Finalist(trial, again))
    return found


def train_finalists(study: Study, record: Record, dispatcher: Dispatcher) -> None:
    """Train what is missing of the finalists; each outcome is in the record before the next is waited for."""
    missing = [
        task
        for finalist in finalists(study, record)
        for task in _tasks(study, record, finalist.trial)
        if task.index not in finalist.again.outcomes
    ]
    for task, outcome in outcomes(dispatcher, missing):
        record.note(_name(task), outcome.to_dict())


def choose_winner(study: Study, record: Record) -> Trial | None:
    """Return the study's winner; None where no trial is complete.

    Without finalists it is the best trial of the search. With them it is the one of the best mean on the fresh seeds;
    ties go to the better one in the search. While finalists are missing there is the search's best.
    """
    known = finalists(study, record)
    complete = [finalist for finalist in known if finalist.again.state == "complete"]
    if not complete or any(finalist.again.state == "running" for finalist in known):
        return record.history().best()
    return min(complete, key=lambda finalist: finalist.again.loss).trial


def are_finalists_done(study: Study, record: Record) -> bool:
    """Return whether nothing is left to train of the finalists."""
    return all(finalist.again.state != "running" for finalist in finalists(study, record))


def describe_finalists(study: Study, record: Record) -> list[dict[str, Any]]:
    """Return one JSON-able dict a finalist: its scores in the search and on fresh seeds, with their spread."""
    described = []
    for finalist in finalists(study, record):
        values = finalist.again.values(study.config.study.metric)
        described.append(
            {
                "number": finalist.trial.number,
                "search_score": finalist.trial.score,
                "fresh_score": finalist.again.score,
                "fresh_standard_deviation": statistics.stdev(values) if len(values) > 1 else None,
                "fresh_values": values,
                "error": finalist.again.error,
            }
        )
    return described


def _candidates(history: History, count: int) -> Sequence[Trial]:
    best = history.best()
    if best is None or count == 0:
        return []
    return [t for t in history.ranked() if t.state == "complete" and t.amount == best.amount][:count]


def _tasks(study: Study, record: Record, trial: Trial) -> list[Task]:
    config, builder = study.config.study, study.as_of(record, trial).task_builder()
    repeats = range(config.repeats, config.repeats + config.finalist_repeats)
    return [task for repeat in repeats for task in builder.again(trial, repeat)]


def _name(task: Task) -> str:
    return f"finalist_{task.trial}_{task.index}"
