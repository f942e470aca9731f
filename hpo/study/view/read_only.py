"""A study as those see it who only look on: nothing of it is imported or run, and nothing is created or changed."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Self

from hpo.config.keys import flatten
from hpo.config.study_config import StudyConfig
from hpo.engine.schedule.rules import Counts
from hpo.errors import StudyError, first_line
from hpo.study.basis.described import Described, PartFigures
from hpo.study.files.folder import StudyFolder, short_path
from hpo.study.files.status import NOT_OURS
from hpo.study.study import counts_of
from hpo.study.upgrade import upgraded
from hpo.study.winner.choosing import choose_best, decided_by
from hpo.study.winner.finalists import candidates, on_fresh_seeds
from hpo.study.winner.full_training import further_trainings, join_trainings
from hpo.trials.goal import Goal, finished, goal_of
from hpo.trials.history import History
from hpo.trials.record.own_file import DamagedRecordError
from hpo.trials.record.read_only import RowsLookedAt, folds_of
from hpo.trials.record.record import FORM, Record, Rows, memory_record
from hpo.trials.space.reader import space_from_dict
from hpo.trials.space.space import Space
from hpo.trials.table import Row, metric_columns, point_of, read_rows
from hpo.trials.trial import Outcome, TaskLayout, Trial

# As trials.csv has errors, and `Trial.error` returns them.
_WHICH_FOLDS = re.compile(r"^fold [\d, ]+: ")


@dataclass(frozen=True)
class ReadOnlyStudy:
    """What the folder tells of it, as of now; a study that was published has trials.csv in the place of its record.

    It also has no `described`.
    """

    folder: StudyFolder
    config: StudyConfig
    space: Space
    record: Record
    described: Described | None

    @classmethod
    def at(cls, folder: StudyFolder) -> Self:
        """Return the study in a folder; HpoError where it cannot be read."""
        config = folder.config()
        try:
            return cls._of(folder, config)
        except NOT_OURS as error:
            why = f"{type(error).__name__}: {first_line(error)}"
            raise DamagedRecordError(f"record: what {folder} holds is not that of a study ({why})") from error

    @classmethod
    def _of(cls, folder: StudyFolder, config: StudyConfig) -> Self:
        described = Described.at(short_path(folder.described_path))
        space = space_from_dict(config.space, flatten(config.objective_config), described.points if described else None)
        path, goal = _file(folder, config), goal_of(config.study)
        if path is not None and not path.exists() and folder.trials_path.exists():
            table = read_rows(short_path(folder.trials_path), ("number", "state", "score"))
            layout = TaskLayout(folds_of(table[0] if table else ()), config.study.repeats)
            record = memory_record(goal, layout, _trials(table, space, goal, layout))
            return cls(folder, config, space, record, described)

        def is_written() -> bool:
            # A storage that several studies share may be written for another one.
            return config.study.storage is not None or folder.holder() is not None

        if described is None:
            raise StudyError(f"{short_path(folder.described_path)}: is missing; restore the file")
        if path is None:
            # Here, since most studies have a file of their own, and this loads Optuna.
            from hpo.trials.record.storage import open_rows

            rows: Rows = open_rows(folder.storage_url(config), config.study.name, space)
        else:
            rows = RowsLookedAt(path, config.study.name, space, is_written)
        record = Record(rows, goal, TaskLayout(described.folds, config.study.repeats))
        upgraded("record", {"format": record.read_note(FORM)}, f"{folder}: record")
        return cls(folder, config, space, record, described)

    @property
    def goal(self) -> Goal:
        """What is better, and what is allowed."""
        return self.record.goal

    @property
    def layout(self) -> TaskLayout:
        """The tasks of a trial."""
        return self.record.layout

    @property
    def parts(self) -> Mapping[str, PartFigures]:
        """The parts of its split by name; empty without one."""
        return self.described.parts if self.described else {}

    @property
    def counts(self) -> Counts:
        """What the budget of trials counts."""
        return counts_of(self.config)

    @cached_property
    def trials(self) -> list[Trial]:
        """All trials with all of their training, running ones included."""
        return join_trainings(self.record.trials(), self._further)

    @cached_property
    def _further(self) -> list[Trial]:
        return further_trainings(self.config, self.record)

    @property
    def further_trained(self) -> list[Trial]:
        """Those that were trained to their end after the search."""
        numbers = {trial.number for trial in self._further}
        return [trial for trial in self.trials if trial.number in numbers]

    def trial(self, number: int, name: str) -> Trial:
        """Return one of them; StudyError where there is none of this number in the study, which has this name."""
        trials = {trial.number: trial for trial in self.trials}
        if number not in trials:
            last = max(trials, default=0)
            there = f"its trials are 0 to {last}" if last else "its only trial is 0" if trials else "it has none yet"
            raise StudyError(f"trial: study '{name}' has no trial {number}; {there}")
        return trials[number]

    @cached_property
    def history(self) -> History:
        """The trials that have ended."""
        return History(trial for trial in self.trials if trial.state != "running")

    @cached_property
    def finalists(self) -> list[Trial]:
        """The finalists as trained on fresh seeds, as far as that went; empty where the study has none."""
        section = self.config.study
        those = candidates(section, self.goal, self.history) if section.finalists else []
        return [on_fresh_seeds(trial, self.record, section) for trial in those]

    @cached_property
    def fresh(self) -> dict[int, Trial]:
        """The finalists that decide, by number; empty where the scores of the search do."""
        return {trial.number: trial for trial in decided_by(self.finalists)}

    @cached_property
    def winner(self) -> Trial | None:
        """The winner by all that is recorded; None where there is none."""
        return choose_best(self.config.study, self.goal, self.history, self.finalists)

    @cached_property
    def best(self) -> Trial | None:
        """The winner, or below the target scale the best so far."""
        return choose_best(self.config.study, self.goal, self.history, self.finalists, at_target=False)


def _file(folder: StudyFolder, config: StudyConfig) -> Path | None:
    """Return the file of SQLite that has the record; None where it is in another database."""
    if config.study.storage is None:
        return folder.database_path
    from hpo.trials.record.address import sqlite_path

    return sqlite_path(folder.storage_url(config))


def _trials(table: Iterable[Row], space: Space, goal: Goal, layout: TaskLayout) -> Iterable[Trial]:
    """Yield the trials of a trials.csv, of which each task has the trial's mean of the further metrics."""
    for row in table:
        further = {name: float(row[c]) for name, c in metric_columns(row, goal).items() if row[c] and c != "score"}
        scores = {index: row.get(layout.name(index)) for index in range(layout.size)}
        outcomes = {index: Outcome({goal.metric: float(text), **further}) for index, text in scores.items() if text}
        if error := row.get("error"):
            outcomes[0] = Outcome(error=_WHICH_FOLDS.sub("", error))
        amount = int(row["amount"]) if row.get("amount") else None
        trial = Trial(int(row["number"]), int(row.get("round") or 0), point_of(row, space) or {}, amount=amount)
        is_over = row["state"] != "running" and outcomes
        yield (
            finished(trial, outcomes, goal, row["state"] == "stopped") if is_over else replace(trial, outcomes=outcomes)
        )
