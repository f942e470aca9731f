"""A study with its record: what happened in it, and which trial is its winner.

Whoever runs a study has its record open for writing; for all others it is read from the folder alone, and nothing is
imported, run, created or changed.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from hpo.config.keys import flatten
from hpo.config.study_config import StudyConfig
from hpo.engine.schedule.rules import Counts
from hpo.errors import StudyError, first_line
from hpo.study.basis.described import Described, PartFigures
from hpo.study.files.folder import StudyFolder, inner, short_path
from hpo.study.files.status import NOT_OURS
from hpo.study.notes import FinalModel, Notes
from hpo.study.results.after_search import (
    Finalist,
    are_trained_to_the_end,
    fresh_indices,
    further_trainings,
    join_trainings,
    read_finalists,
)
from hpo.study.results.choosing import choose_best, decided_by
from hpo.study.study import PreparedStudy, counts_of
from hpo.study.upgrade import upgraded
from hpo.trials.goal import Goal, finished, goal_of
from hpo.trials.history import History
from hpo.trials.record.own_file import DamagedRecordError
from hpo.trials.record.read_only import ReadOnlyRows, folds_of
from hpo.trials.record.record import FORM, Record, Rows, memory_record
from hpo.trials.space.reader import space_from_dict
from hpo.trials.space.space import Space
from hpo.trials.table import Row, metric_columns, point_of, read_rows
from hpo.trials.trial import Outcome, TaskLayout, Trial

# As trials.csv has errors, and `Trial.error` returns them.
_WHICH_FOLDS = re.compile(r"^fold [\d, ]+: ")


@dataclass(frozen=True)
class StudyRun:
    """A study with its record, as of now; what is worked out from the record is worked out once.

    A study that was published has trials.csv and its report in the place of its record, and no `described`. `named` is
    the number of the winner that this report names. `trained_now` is a model that is younger than the report.
    """

    folder: StudyFolder
    config: StudyConfig
    space: Space
    record: Record
    described: Described | None
    named: int | None = None
    trained_now: FinalModel | None = None

    @classmethod
    def of(cls, study: PreparedStudy, record: Record) -> Self:
        """Return a prepared study with its open record, as of now."""
        judged = record.judged_by(study.goal)
        return cls(study.folder, study.config, study.space, judged, study.described)

    @classmethod
    def read(cls, folder: StudyFolder) -> Self:
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
        if path is not None and not path.exists():
            if not folder.trials_path.exists():
                again = f"`hpo resume {folder.reference}` replaces it by its backup"
                raise DamagedRecordError(f"record: {short_path(path)} is missing; {again}, if there is one")
            table = read_rows(short_path(folder.trials_path), ("number", "state", "score"))
            layout = TaskLayout(folds_of(table[0] if table else ()), config.study.repeats)
            record = memory_record(goal, layout, _trials(table, space, goal, layout))
            report = folder.report()
            _note_finalists(record, report, config)
            return cls(folder, config, space, record, described, inner(report, "winner").get("number"))

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
            rows = ReadOnlyRows(path, config.study.name, space, is_written)
        record = Record(rows, goal, TaskLayout(described.folds, config.study.repeats))
        upgraded("record", {"format": record.read_note(FORM)}, f"{folder}: record")
        return cls(folder, config, space, record, described)

    @property
    def goal(self) -> Goal:
        """What is better, and what is allowed."""
        return self.record.goal

    @property
    def has_front(self) -> bool:
        """Whether its report has a front: of several metrics, and within limits that it has, or had."""
        return not self.goal.is_single or bool(self.notes.changed_choices)

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

    @property
    def notes(self) -> Notes:
        """What is noted in its record."""
        return Notes(self.record)

    @cached_property
    def searched(self) -> list[Trial]:
        """All trials as the search made them, in the order of their numbers, running ones included."""
        return self.record.trials()

    @cached_property
    def further(self) -> list[Trial]:
        """The trainings that took some of them to their end after the search, under the same numbers."""
        return further_trainings(self.config, self.record)

    @cached_property
    def trials(self) -> list[Trial]:
        """All trials with all of their training, running ones included."""
        return join_trainings(self.searched, self.further)

    @property
    def further_trained(self) -> list[Trial]:
        """Those that were trained to their end after the search."""
        numbers = {trial.number for trial in self.further}
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

    @property
    def front(self) -> list[Trial]:
        """The trials that none dominates, by the search's scores; the best and its equals with one metric."""
        return self.history.front

    @cached_property
    def finalists(self) -> list[Finalist]:
        """The finalists, the best of the search first, all trained as far; empty where the study has none."""
        return read_finalists(self.config.study, self.record, self.history)

    @cached_property
    def fresh(self) -> dict[int, Trial]:
        """The finalists on the fresh seeds that decide, by number; empty where the scores of the search do."""
        return {trial.number: trial for trial in decided_by(self._again)}

    @property
    def _again(self) -> list[Trial]:
        return [finalist.again for finalist in self.finalists]

    @cached_property
    def winner(self) -> Trial | None:
        """The winner; None where no trial is complete at the target, or none keeps the limits."""
        named = (trial for trial in self.history if trial.number == self.named and trial.keeps_limits)
        return next(named, None) or choose_best(self.config.study, self.goal, self.history, self._again)

    @cached_property
    def best(self) -> Trial | None:
        """The winner, or below the target scale the best so far."""
        return choose_best(self.config.study, self.goal, self.history, self._again, at_target=False)

    @property
    def fresh_winner(self) -> Trial | None:
        """The winner as trained again on fresh seeds, where these chose it; None where the search's scores did."""
        return None if self.winner is None else self.fresh.get(self.winner.number)

    @cached_property
    def is_trained(self) -> bool:
        """Whether all that follows the search is trained, but for the final model: the best, and the finalists."""
        are_finalists = all(trial.state != "running" for trial in self._again)
        return are_finalists and are_trained_to_the_end(self.config, self.record)

    @cached_property
    def model(self) -> FinalModel | None:
        """The winner's trained model; None where it is missing or was changed, or the objective keeps none."""
        if self.trained_now is not None:
            return self.trained_now
        noted = self.notes.final_model
        if self.winner is None or noted is None or noted.trial != self.winner.number:
            return None
        is_there = self.folder.inside(noted.checkpoint_dir).exists()
        return noted if is_there and not self.folder.changed_files(noted.checkpoint_dir) else None


def _file(folder: StudyFolder, config: StudyConfig) -> Path | None:
    """Return the file of SQLite that has the record; None where it is in another database."""
    if config.study.storage is None:
        return folder.database_path
    from hpo.trials.record.storage import sqlite_path

    return sqlite_path(folder.storage_url(config))


def _trials(table: Iterable[Row], space: Space, goal: Goal, layout: TaskLayout) -> Iterable[Trial]:
    """Yield the trials of a trials.csv, of which each task has the trial's mean of the further metrics.

    The first task has the seconds and the cost of them all.
    """
    for row in table:
        further = {name: float(row[c]) for name, c in metric_columns(row, goal).items() if row[c] and c != "score"}
        scores = {index: row.get(layout.name(index)) for index in range(layout.size)}
        metrics = {index: {goal.metric: float(text), **further} for index, text in scores.items() if text}
        outcomes = {index: Outcome(each, units=0.0) for index, each in metrics.items()}
        if error := row.get("error"):
            outcomes[0] = Outcome(error=_WHICH_FOLDS.sub("", error))
        if outcomes:
            first, seconds, cost = min(outcomes), row.get("seconds") or 0, row.get("cost") or 0
            outcomes[first] = replace(outcomes[first], seconds=float(seconds), units=float(cost))
        amount = int(row["amount"]) if row.get("amount") else None
        retry_of = int(row["retry_of"]) if row.get("retry_of") else None
        point = point_of(row, space) or {}
        trial = Trial(int(row["number"]), int(row.get("round") or 0), point, amount=amount, retry_of=retry_of)
        is_over = row["state"] != "running" and outcomes
        yield (
            finished(trial, outcomes, goal, row["state"] == "stopped") if is_over else replace(trial, outcomes=outcomes)
        )


def _note_finalists(record: Record, report: Mapping[str, Any], config: StudyConfig) -> None:
    """Note what the finalists of a published study scored on fresh seeds, as its report has it."""
    finalists = report.get("finalists")
    for each in finalists if isinstance(finalists, list) else ():
        further = {name: float(value) for name, value in each.get("fresh_scores", {}).items()}
        scores = [{**further, record.goal.metric: float(value)} for value in each["fresh_values"]]
        indices, outcomes = fresh_indices(config.study, record.layout), [*map(Outcome, scores)]
        if each["error"] is not None:
            outcomes += [Outcome(error=_WHICH_FOLDS.sub("", each["error"]))] * (len(indices) - len(outcomes))
        for index, outcome in zip(indices, outcomes, strict=False):
            Notes(record).write_finalist_outcome(int(each["number"]), index, outcome)
