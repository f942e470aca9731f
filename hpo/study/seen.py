"""A study as those see it who only look on: nothing of it is imported or run, and nothing is created or changed."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

from hpo.config.keys import flatten
from hpo.config.study_config import StudyConfig
from hpo.engine.record.record import Record, Rows, memory_record
from hpo.engine.record.seen import SeenRows
from hpo.engine.space.reader import space_from_dict
from hpo.engine.space.space import Space
from hpo.engine.trials.goal import Goal, finished, goal_of
from hpo.engine.trials.history import History
from hpo.engine.trials.table import Row, metric_columns, point_of, read_rows
from hpo.engine.trials.trial import Outcome, TaskLayout, Trial
from hpo.study.basis.described import Described
from hpo.study.files.folder import StudyFolder, short_path
from hpo.study.winner.full_training import further_trainings, join_trainings

_FOLD = re.compile(r"fold_(\d+)(_repeat_\d+)?")
# As trials.csv has errors, and `Trial.error` returns them.
_WHICH_FOLDS = re.compile(r"^fold [\d, ]+: ")


@dataclass(frozen=True)
class SeenStudy:
    """What the folder tells of it, as of now; a study that was published has trials.csv in the place of its record."""

    folder: StudyFolder
    config: StudyConfig
    space: Space
    layout: TaskLayout
    record: Record

    @classmethod
    def at(cls, folder: StudyFolder) -> Self:
        """Return the study in a folder; HpoError where it cannot be read."""
        config, described = folder.config(), Described.at(short_path(folder.described_path))
        space = space_from_dict(config.space, flatten(config.objective_config), described.points if described else None)
        rows, table = _rows(folder, config, space), [] if folder.database_path.exists() else _table(folder)
        names = [*(name for *_, attributes in rows.read() for name in attributes), *(table[0] if table else ())]
        folds = described.folds if described else 1 + max(map(_fold, names), default=0)
        layout, goal = TaskLayout(folds, config.study.repeats), goal_of(config.study)
        if table:
            return cls(folder, config, space, layout, memory_record(goal, layout, _trials(table, space, goal, layout)))
        return cls(folder, config, space, layout, Record(rows, goal, layout))

    @property
    def goal(self) -> Goal:
        """What is better, and what is allowed."""
        return self.record.goal

    @cached_property
    def trials(self) -> list[Trial]:
        """All trials with all of their training, running ones included."""
        return join_trainings(self.record.trials(), further_trainings(self.config, self.record))

    @cached_property
    def best(self) -> Trial | None:
        """The best of the search so far, as its display has it; with several metrics in the leading one, on the front.

        The winner of one that has ended may be another: see report.json.
        """
        return next(iter(History(trial for trial in self.trials if trial.state != "running").front), None)


def _rows(folder: StudyFolder, config: StudyConfig, space: Space) -> Rows:
    if config.study.storage is not None:
        # Here, since most studies have a file of their own, and Optuna takes half a second.
        from hpo.engine.record.storage import open_rows

        return open_rows(folder.storage_url(config), config.study.name, space)
    if not folder.database_path.exists():
        return Rows()
    return SeenRows(folder.database_path, config.study.name, space.dimensions, folder.holder() is not None)


def _table(folder: StudyFolder) -> list[Row]:
    path = folder.trials_path
    return [*read_rows(short_path(path), ("number", "state", "score"))] if path.exists() else []


def _fold(name: str) -> int:
    match = _FOLD.fullmatch(name)
    return int(match[1]) if match else 0


def _trials(table: Iterable[Row], space: Space, goal: Goal, layout: TaskLayout) -> Iterable[Trial]:
    """Yield the trials of a trials.csv, of which each task has the trial's mean of the further metrics."""
    for row in table:
        further = {name: float(row[c]) for name, c in metric_columns(row, goal).items() if row[c] and c != "score"}
        scores = {index: row.get(layout.name(index)) for index in range(layout.size)}
        outcomes = {index: Outcome({goal.metric: float(text), **further}) for index, text in scores.items() if text}
        if error := row.get("error"):
            outcomes[0] = Outcome(error=_WHICH_FOLDS.sub("", error))
        if outcomes:
            first = min(outcomes)
            outcomes[first] = replace(outcomes[first], seconds=float(row.get("seconds") or 0.0))
        amount = int(row["amount"]) if row.get("amount") else None
        trial = Trial(int(row["number"]), int(row.get("round") or 0), point_of(row, space) or {}, amount=amount)
        is_over = row["state"] != "running" and outcomes
        yield (
            finished(trial, outcomes, goal, row["state"] == "stopped") if is_over else replace(trial, outcomes=outcomes)
        )
