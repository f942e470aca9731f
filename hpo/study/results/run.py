"""A study with its record: the trials, the trainings after the search, and the winner.

`StudyRun.of` uses the record that the caller has opened. `StudyRun.read` only reads: it does not import or run the
objective, and does not create or change files.
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
    are_fully_trained,
    fresh_indices,
    further_trainings,
    join_trainings,
    read_finalists,
)
from hpo.study.results.choosing import choose_best, deciding_finalists
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

# The prefix that `Trial.error` puts before an error; errors in trials.csv begin with it.
_WHICH_FOLDS = re.compile(r"^fold [\d, ]+: ")


@dataclass(frozen=True)
class StudyRun:
    """A study with the state of its record at one moment; properties compute each result of the search only once.

    Attributes:
        record: the record; for a published study, a record in memory with the content of trials.csv and report.json.
        described: the objective's description; None for a published study.
        reported_winner: for a published study, the winner's number in the report; otherwise None.
        new_model: the winner's model if this process has just trained it and the report does not contain it yet;
            otherwise None.
    """

    folder: StudyFolder
    config: StudyConfig
    space: Space
    record: Record
    described: Described | None
    reported_winner: int | None = None
    new_model: FinalModel | None = None

    @classmethod
    def of(cls, study: PreparedStudy, record: Record) -> Self:
        """Return the run of a prepared study with its open record."""
        judged = record.judged_by(study.goal)
        return cls(study.folder, study.config, study.space, judged, study.described)

    @classmethod
    def read(cls, folder: StudyFolder) -> Self:
        """Return the run of the study in a folder without changing a file; raise HpoError if a file is not valid."""
        config = folder.config()
        try:
            return cls._read_folder(folder, config)
        except NOT_OURS as error:
            why = f"{type(error).__name__}: {first_line(error)}"
            raise DamagedRecordError(f"record: {folder} has no valid record ({why}); restore its files") from error

    @classmethod
    def _read_folder(cls, folder: StudyFolder, config: StudyConfig) -> Self:
        described = Described.at(short_path(folder.described_path))
        space = space_from_dict(config.space, flatten(config.objective_config), described.points if described else None)
        path, goal = _database_file(folder, config), goal_of(config.study)
        if path is not None and not path.exists():
            if not folder.trials_path.exists():
                again = f"`hpo resume {folder.reference}` restores the record from its backup"
                raise DamagedRecordError(f"record: {short_path(path)} is missing; {again}, if a backup exists")
            table = read_rows(short_path(folder.trials_path), ("number", "state", "score"))
            layout = TaskLayout(folds_of(table[0] if table else ()), config.study.repeats)
            record = memory_record(goal, layout, _read_trials(table, space, goal, layout))
            report = folder.report()
            _note_finalists(record, report, config)
            return cls(folder, config, space, record, described, inner(report, "winner").get("number"))

        def is_written() -> bool:
            # A shared storage may be written at any time, also for another study.
            return config.study.storage is not None or folder.holder() is not None

        if described is None:
            raise StudyError(f"{short_path(folder.described_path)}: is missing; restore the file")
        if path is None:
            # Import late, because this loads Optuna: most records are SQLite files, which need none of it.
            from hpo.trials.record.storage import open_rows

            rows: Rows = open_rows(folder.storage_url(config), config.study.name, space)
        else:
            rows = ReadOnlyRows(path, config.study.name, space, is_written)
        record = Record(rows, goal, TaskLayout(described.folds, config.study.repeats))
        upgraded("record", {"format": record.read_note(FORM)}, f"{folder}: record")
        return cls(folder, config, space, record, described)

    @property
    def goal(self) -> Goal:
        """The metrics, directions and limits."""
        return self.record.goal

    @property
    def has_front(self) -> bool:
        """Whether the report shows a Pareto front.

        The report shows a front if the study has several metrics or has limits, or if a user has changed the limits.
        """
        return not self.goal.is_single or bool(self.notes.changed_choices)

    @property
    def layout(self) -> TaskLayout:
        """The layout of a trial's tasks: the folds and the repeats."""
        return self.record.layout

    @property
    def parts(self) -> Mapping[str, PartFigures]:
        """The size and content of the train, validation and test splits, by name; {} if the data are not split."""
        return self.described.parts if self.described else {}

    @property
    def counts(self) -> Counts:
        """What `study.trials` counts: trials or configurations."""
        return counts_of(self.config)

    @property
    def notes(self) -> Notes:
        """The notes in the study's record."""
        return Notes(self.record)

    @cached_property
    def searched(self) -> list[Trial]:
        """All trials, sorted by number, with the outcomes of the search only; some trials may be running."""
        return self.record.trials()

    @cached_property
    def further(self) -> list[Trial]:
        """The full trainings after the search; each `Trial` has the number of the trial that was trained further."""
        return further_trainings(self.config, self.record)

    @cached_property
    def trials(self) -> list[Trial]:
        """All trials of the search; some trials may be running.

        A trial that was fully trained after the search has the scores of the further training. Its learning curves,
        times and costs include both trainings.
        """
        return join_trainings(self.searched, self.further)

    @property
    def further_trained(self) -> list[Trial]:
        """The trials that were fully trained after the search."""
        numbers = {trial.number for trial in self.further}
        return [trial for trial in self.trials if trial.number in numbers]

    def trial(self, number: int, name: str) -> Trial:
        """Return the trial with this number; StudyError if the study has no trial with this number.

        The message names the study by the text `name`.
        """
        trials = {trial.number: trial for trial in self.trials}
        if number not in trials:
            last = max(trials, default=0)
            allowed = (
                f"the study has the trials 0 to {last}"
                if last
                else f"the study has {'only trial 0' if trials else 'no trial yet'}"
            )
            raise StudyError(f"trial: study '{name}' has no trial {number}; {allowed}")
        return trials[number]

    @cached_property
    def history(self) -> History:
        """The ended trials."""
        return History(trial for trial in self.trials if trial.state != "running")

    @property
    def front(self) -> list[Trial]:
        """The Pareto front by scores in the search; with one metric, the trials with the best score."""
        return self.history.front

    @cached_property
    def finalists(self) -> list[Finalist]:
        """The finalists in the order of their scores in the search, the best first; [] without `study.finalists`."""
        return read_finalists(self.config.study, self.record, self.history)

    @cached_property
    def fresh(self) -> dict[int, Trial]:
        """The complete finalists by trial number, with only their scores on fresh seeds.

        If there are no finalists, or if a finalist is still running, the dict is empty. An empty dict means that the
        winner is chosen by scores in the search.
        """
        return {trial.number: trial for trial in deciding_finalists(self._fresh_finalists)}

    @property
    def _fresh_finalists(self) -> list[Trial]:
        return [finalist.again for finalist in self.finalists]

    @cached_property
    def winner(self) -> Trial | None:
        """The winner; None if no trial is complete at the target scale, or if no trial keeps the limits."""
        reported = (trial for trial in self.history if trial.number == self.reported_winner and trial.keeps_limits)
        return next(reported, None) or choose_best(self.config.study, self.goal, self.history, self._fresh_finalists)

    @cached_property
    def best(self) -> Trial | None:
        """The winner, or the best trial so far if no trial is complete at the target scale.

        None if no trial is complete, or if no trial keeps the limits.
        """
        return choose_best(self.config.study, self.goal, self.history, self._fresh_finalists, at_target=False)

    @property
    def fresh_winner(self) -> Trial | None:
        """The winner with only its scores on fresh seeds; None if `fresh` does not contain the winner."""
        return None if self.winner is None else self.fresh.get(self.winner.number)

    @cached_property
    def is_trained(self) -> bool:
        """Whether all trainings after the search are finished; the training of the final model does not count."""
        are_finalists = all(trial.state != "running" for trial in self._fresh_finalists)
        return are_finalists and are_fully_trained(self.config, self.record)

    @cached_property
    def model(self) -> FinalModel | None:
        """The winner's model; None if the model is missing, was changed, or is not noted in the record."""
        if self.new_model is not None:
            return self.new_model
        noted = self.notes.final_model
        if self.winner is None or noted is None or noted.trial != self.winner.number:
            return None
        exists = self.folder.inside(noted.checkpoint_dir).exists()
        return noted if exists and not self.folder.changed_files(noted.checkpoint_dir) else None


def _database_file(folder: StudyFolder, config: StudyConfig) -> Path | None:
    """Return the path of the SQLite file with the record; None if the record is in a database of another kind."""
    if config.study.storage is None:
        return folder.database_path
    from hpo.trials.record.storage import sqlite_path

    return sqlite_path(folder.storage_url(config))


def _read_trials(table: Iterable[Row], space: Space, goal: Goal, layout: TaskLayout) -> Iterable[Trial]:
    """Yield the trials of a trials.csv.

    The table has the score of each task, but only the trial's means of the other metrics. So each task gets these
    means. The first task gets the trial's whole duration and cost.
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
        is_over = row["state"] == "stopped" or (row["state"] != "running" and outcomes)
        yield (
            finished(trial, outcomes, goal, row["state"] == "stopped") if is_over else replace(trial, outcomes=outcomes)
        )


def _note_finalists(record: Record, report: Mapping[str, Any], config: StudyConfig) -> None:
    """Copy the finalists' scores on fresh seeds from a published study's report to the record in memory."""
    finalists = report.get("finalists")
    for each in finalists if isinstance(finalists, list) else ():
        further = {name: float(value) for name, value in each.get("fresh_scores", {}).items()}
        scores = [{**further, record.goal.metric: float(value)} for value in each["fresh_values"]]
        indices, outcomes = fresh_indices(config.study, record.layout), [*map(Outcome, scores)]
        if each["error"] is not None:
            outcomes += [Outcome(error=_WHICH_FOLDS.sub("", each["error"]))] * (len(indices) - len(outcomes))
        for index, outcome in zip(indices, outcomes, strict=False):
            Notes(record).write_finalist_outcome(int(each["number"]), index, outcome)
