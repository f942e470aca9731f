"""A study: configuration, space, strategy, objective, split; and how its record is created, gone on with and read."""

import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from hpo.changes import (
    Basis,
    allowed_changes,
    changed_config,
    changed_data,
    config_as_of,
    note_allowed,
    refuse_changes,
    refuse_other_config,
)
from hpo.config import StudyConfig
from hpo.documents import read_json
from hpo.environment import describe_environment, refuse_incomplete
from hpo.errors import StudyError
from hpo.examples import Examples
from hpo.folder import RUNS, StudyFolder, shown
from hpo.imports import from_notes, to_notes
from hpo.made_here import remember
from hpo.objective import Objective
from hpo.prepared_data import prepare_data
from hpo.race import Race
from hpo.record import Record
from hpo.record_guard import DamagedRecordError, backup_path
from hpo.sealing import opened, values_of
from hpo.source_code import describe_code
from hpo.space import Space
from hpo.splits import Plan
from hpo.strategies import Strategy
from hpo.tasks import TaskBuilder
from hpo.trials import Direction, TaskGrid, Trial


@dataclass(frozen=True)
class Study:
    """Everything a search needs, checked. Building one reads data and creates nothing.

    Attributes:
        config: what is frozen; a space that the objective describes itself is written into it.
        folder, objective, space, strategy: as the configuration names them.
        examples, plan: what there is to split, and how it is; None for an objective that brings its own data.
        own: what the objective itself knows of its search; see `describe_search` of `hpo.objective.Objective`.
        imports: finished trials of another study, for a study that is about to be created.
        allow_changes: whether a study that exists goes on although something that it rests on has changed.
    """

    config: StudyConfig
    folder: StudyFolder
    objective: Objective
    space: Space
    strategy: Strategy
    examples: Examples | None
    plan: Plan | None
    own: Mapping[str, Any] = field(default_factory=dict)
    imports: tuple[Trial, ...] = ()
    allow_changes: bool = False

    @property
    def num_folds(self) -> int:
        """How many folds there are: of the split, or of an objective that brings its own data; 1 with a hold-out."""
        return len(self.plan.folds) if self.plan else int(self.own.get("folds", 1))

    @property
    def grid(self) -> TaskGrid:
        """The tasks of a trial."""
        return TaskGrid(self.num_folds, self.config.study.repeats)

    @property
    def race(self) -> Race | None:
        """What decides which trials get no further folds; None where all get all."""
        split, study = self.config.split, self.config.study
        if split.race_after is None:
            return None
        return Race(split.race_after, split.race_level, study.metric, study.direction)

    @property
    def keeps_models(self) -> bool:
        """Whether the objective can score a kept model on the test part."""
        return self.objective.run_test is not None

    def task_builder(self) -> TaskBuilder:
        """Return what builds the workers' payloads."""
        return TaskBuilder(
            self.config,
            self.plan,
            self.grid,
            self.folder.data_dir if self.plan and self.objective.prepare_data else None,
            self.folder.checkpoints_dir if self.keeps_models else None,
            self.folder.states_dir,
            self.objective.continues,
        )

    def environment(self) -> dict[str, Any]:
        """Return what the study was started on.

        Raises:
            StudyError: it does not stand in its file any more.
        """
        found = read_json(shown(self.folder.environment_path))
        refuse_incomplete(found, shown(self.folder.environment_path))
        return found

    def open(self) -> Record:
        """Create the study's files, or go on with what is there, and return the record.

        Raises:
            ConfigError: a value that is kept by name is missing.
            StudyError: when it exists with another configuration or other data.
        """
        # First of all: a value that is missing would otherwise be noticed when the first task is built.
        values_of(self.config.trial, self.config.secrets)
        record = self._continue() if self.folder.exists else self._create()
        if self.plan:
            indices, data_dir = self.plan.development, self.folder.data_dir
            prepare_data(self.objective, self.config.trial, indices, data_dir, record)
        self.folder.freeze(self.config)
        remember(self.config)
        return record

    def _create(self) -> Record:
        # What may fail comes before the record, and that before the configuration, with which a study exists.
        basis, environment = self._basis(), describe_environment(self.config.secrets)
        self.folder.make()
        self.folder.remove_unfinished()
        # Here: Optuna's tables take a third of a second to import, for which no refusal should wait.
        from hpo.record_storage import FIRST_NOTE, LAST_NOTE, create_record

        record = create_record(*self._record_arguments(), is_own=self.config.study.storage is None)
        record.note(FIRST_NOTE, to_notes(self.imports))
        basis.note(record)
        self.folder.write_json(self.folder.environment_path, environment)
        record.note(LAST_NOTE, uuid.uuid4().hex)
        return record

    def _continue(self) -> Record:
        """Return the record of the study that exists, on the basis that it was started on, or was allowed to have."""
        frozen = self.folder.config()
        if not self.allow_changes:
            refuse_other_config(frozen, self.config, self.reference)
        from hpo.record_recovery import continue_record

        record = continue_record(*self._record_arguments(), is_own=self.config.study.storage is None)
        self._refuse_smaller_budget(record)
        before, now = Basis.noted(record, frozen), self._basis()
        refuse_changes(before, now, self.reference, self.allow_changes)
        if before.changes_to(now):
            # Neither goes with the new basis: what was copied of the data, and what was trained half on the old one.
            self.folder.remove_states(())
            shutil.rmtree(self.folder.data_dir, ignore_errors=True)
            # Before it is noted: killed in between, the study has changed as by an edit, and is refused as that.
            self.folder.freeze(self.config)
            note_allowed(record, before, now)
        elif before.code is None:
            now.note(record)
        return record

    def as_of(self, record: Record, trial: Trial) -> Self:
        """Return the study as it was when this trial was trained: without what was changed, and allowed, later."""
        allowed = allowed_changes(record)
        return replace(self, config=config_as_of(self.config, allowed, trial.number)) if allowed else self

    def _basis(self) -> Basis:
        return Basis(self.config.to_dict(), self._data(), describe_code(self.config.objective))

    def read(self) -> Record:
        """Return the record of a study that exists.

        Raises:
            StudyError: when the record is missing or damaged, or the data is not what the study was started with.
        """
        from hpo.record_recovery import read_record

        try:
            record = read_record(*self._record_arguments(), is_own=self.config.study.storage is None)
        except DamagedRecordError as error:
            path = self.folder.database_path
            if self.config.study.storage is None and not path.exists() and not backup_path(path).exists():
                raise StudyError(
                    f"record: {shown(path)} is missing, and so is its backup; a published folder has neither, and `hpo "
                    f"reproduce` and `hpo search --replay` need none"
                ) from error
            raise DamagedRecordError(
                f"{error}; `hpo resume {self.reference}` puts its backup in its place, if that is sound"
            ) from error
        changed = changed_config(Basis.noted(record, self.config).config, self.config.to_dict())
        if changed:
            raise StudyError(
                f"{shown(self.folder.config_path)}: is not what the study was started with "
                f"({'; '.join(changed.values())}); put that back"
            )
        self._refuse_other_data(record)
        return record

    def imported(self, record: Record) -> list[Trial]:
        """Return the trials that were imported when the study was created, whatever became of where they came from."""
        return from_notes(record.noted("imports"))

    @property
    def reference(self) -> str:
        """What commands call the study: its name under runs/, or its folder where it lies elsewhere."""
        name = self.config.study.name
        return name if self.folder.path == StudyFolder(RUNS / name).path else str(self.folder)

    def _record_arguments(self) -> tuple[str, str, Space, str, Direction, TaskGrid]:
        study = self.config.study
        url = storage_url(self.config, self.folder)
        return url, study.name, self.space, study.metric, study.direction, self.grid

    def _data(self) -> dict[str, Any] | None:
        """Return what tells whether data has changed: the parts of the split, or the files of the objective."""
        if self.plan:
            return self.plan.to_dict()
        files = {file["path"]: {"fingerprint": file["sha256"]} for file in self.own.get("files", ())}
        return {"parts": files} if files else None

    def _refuse_other_data(self, record: Record) -> None:
        changed = changed_data(record.noted("data"), self._data())
        if changed:
            raise StudyError(
                f"study '{self.config.study.name}': the data has changed since it was started (part "
                f"{', '.join(changed)}); put the old files back, or choose another study.name"
            )

    def _refuse_smaller_budget(self, record: Record) -> None:
        there, asked = len(record.trials()), self.config.study.trials
        if asked < there:
            raise StudyError(f"study.trials: the study has {there} trials already, given {asked}; give {there} or more")


def storage_url(config: StudyConfig, folder: StudyFolder) -> str:
    """Return the address of the Optuna storage that holds a study's record."""
    # Here, so that a refusal does not wait for SQLAlchemy.
    from hpo.storage import sqlite_url

    values = values_of(config.study.storage, config.secrets, "study.storage")
    return opened(config.study.storage, values) or sqlite_url(folder.database_path)
