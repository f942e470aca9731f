"""A study, put together and checked before anything is created: configuration, space, strategy, objective, split."""

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from hpo.config import StudyConfig, explain, keys_at_fault
from hpo.dimensions import Dimension, Range, Value
from hpo.environment import describe_environment
from hpo.errors import ConfigError, SpaceError, StudyError, nearest
from hpo.examples import Examples
from hpo.folder import RUNS, StudyFolder, find_study, refuse_changes
from hpo.keys import flatten
from hpo.objective import Objective, resolve
from hpo.record import Record, create_record, open_record, sqlite_url
from hpo.space import Space
from hpo.space_reader import space_from_dict
from hpo.splits import Plan, make_plan
from hpo.strategies import Strategy, make_strategy
from hpo.tasks import TaskBuilder
from hpo.trials import Direction


@dataclass(frozen=True)
class Study:
    """Everything a search needs, checked. Building one reads data and creates nothing."""

    config: StudyConfig
    folder: StudyFolder
    objective: Objective
    space: Space
    strategy: Strategy
    examples: Examples | None
    plan: Plan | None

    @property
    def num_folds(self) -> int:
        """How many tasks a trial has."""
        return len(self.plan.folds) if self.plan else 1

    @property
    def keeps_models(self) -> bool:
        """Whether the objective can score a kept model on the test part."""
        return self.objective.run_test is not None

    def task_builder(self) -> TaskBuilder:
        """Return what builds the workers' payloads."""
        return TaskBuilder(
            self.config,
            self.plan,
            self.folder.data_dir.absolute() if self.plan and self.objective.prepare_data else None,
            self.folder.checkpoints_dir.absolute() if self.keeps_models else None,
        )

    def environment(self) -> dict[str, Any]:
        """Return what the study was started on."""
        values: dict[str, Any] = json.loads(self.folder.environment_path.read_text())
        return values

    def open(self) -> Record:
        """Create the study's files, or go on with what is there, and return the record.

        Raises:
            StudyError: when it exists with another configuration or other data.
        """
        if self.folder.exists:
            refuse_changes(self.folder.config(), self.config)
            record = self.read()
            self._refuse_smaller_budget(record)
        else:
            self.folder.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            # The record first and the configuration last: a study exists once its configuration is there.
            self.folder.remove_unfinished()
            record = create_record(*self._record_arguments())
            record.note("id", uuid.uuid4().hex)
            record.note("data", self.plan.to_dict() if self.plan else None)
            self.folder.write_json(self.folder.environment_path, describe_environment())
        if self.plan and not self.folder.data_dir.exists():
            self.objective.write_development_data(self.config.trial, self.plan.development, self.folder.data_dir)
        self.folder.freeze(self.config)
        return record

    def read(self) -> Record:
        """Return the record of a study that exists.

        Raises:
            StudyError: when the record is missing or damaged, or the data is not what the study was started with.
        """
        record = open_record(*self._record_arguments())
        self._refuse_other_data(record)
        return record

    @property
    def reference(self) -> str:
        """What commands call the study: its name under runs/, or its folder where it lies elsewhere."""
        name = self.config.study.name
        return name if self.folder.path == RUNS / name else str(self.folder.path)

    def _record_arguments(self) -> tuple[str, str, Space, str, Direction, int]:
        study = self.config.study
        url = study.storage or sqlite_url(self.folder.database_path)
        return url, study.name, self.space, study.metric, study.direction, self.num_folds

    def _refuse_other_data(self, record: Record) -> None:
        before = (record.noted("data") or {}).get("parts", {})
        now = self.plan.parts if self.plan else {}
        changed = [
            part
            for part in {**before, **now}
            if before.get(part, {}).get("fingerprint") != now.get(part, {}).get("fingerprint")
        ]
        if changed:
            raise StudyError(
                f"study '{self.config.study.name}': the data has changed since it was started (part "
                f"{', '.join(changed)}); put the old files back, or choose another study.name"
            )

    def _refuse_smaller_budget(self, record: Record) -> None:
        there, asked = len(record.trials()), self.config.study.trials
        if asked < there:
            raise StudyError(f"study.trials: the study has {there} trials already, given {asked}; give {there} or more")


def prepare_study(config: StudyConfig) -> Study:
    """Check everything that can be checked without creating anything, and return the study.

    Raises:
        HpoError: the first fault, in one line.
    """
    objective = resolve(config.objective, str(Path.cwd()))
    objective.refuse_bad_config(config.trial)
    space = space_from_dict(config.space)
    _refuse_bad_space(space, config, objective)
    try:
        strategy = make_strategy(config.strategy, space, config.study.seed)
    except ValidationError as error:
        raise ConfigError(explain(error, "strategy.")) from error
    examples = objective.examples(config.trial)
    if examples is None and (config.split.folds or 1) > 1:
        raise ConfigError(
            f"split.folds: has no effect: {config.objective.partition(':')[0]} has no describe_data that says what "
            f"there is to split, given {config.split.folds}; set split.folds=1"
        )
    _refuse_other_examples(space, config, objective, examples)
    plan = make_plan(examples, config.split) if examples else None
    return Study(config, StudyFolder(RUNS / config.study.name), objective, space, strategy, examples, plan)


def load_study(name: str, config: StudyConfig | None = None) -> Study:
    """Return an existing study, from its frozen configuration, or from that with another budget or workers.

    Raises:
        HpoError: when there is no such study, more than budget or workers differ, or its data cannot be read.
    """
    folder = find_study(name)
    frozen = folder.config()
    refuse_changes(frozen, config or frozen)
    return replace(prepare_study(config or frozen), folder=folder)


def _refuse_bad_space(space: Space, config: StudyConfig, objective: Objective) -> None:
    """Refuse dimensions that the configuration does not have, and values that the objective refuses."""
    keys = flatten(config.trial)
    for dimension in space.dimensions:
        if dimension.key not in keys:
            hint = nearest(dimension.key, keys)
            raise SpaceError(f"space.{dimension.key}: the configuration has no key '{dimension.key}'{hint}")
    for dimension in space.dimensions:
        for value in _values_to_check(dimension):
            _refuse_bad_value(space, dimension, value, config, objective)


def _refuse_other_examples(space: Space, config: StudyConfig, objective: Objective, examples: Examples | None) -> None:
    """Refuse dimensions that change which examples there are: they are read and divided once a study."""
    for dimension in space.dimensions:
        if examples is None or not dimension.key.startswith("data."):
            continue
        for value in _values_to_check(dimension):
            other = objective.examples(config.trial_config({dimension.key: value}))
            if other is None or (other.size, other.digests) != (examples.size, examples.digests):
                raise SpaceError(
                    f"space.{dimension.key}: the value {value!r} changes the examples themselves, which are read and "
                    f"divided once a study; take it out of the space and run a study for each value"
                )


def _values_to_check(dimension: Dimension) -> Iterator[Value]:
    if isinstance(dimension, Range):
        yield from (dimension.from_unit(0.0), dimension.from_unit(1.0))
    else:
        yield from dimension.values


def _refuse_bad_value(
    space: Space, dimension: Dimension, value: Value, config: StudyConfig, objective: Objective
) -> None:
    try:
        objective.refuse_bad_config(config.trial_config({dimension.key: value}))
    except ConfigError as error:
        # A rule between several searched keys may hold for other values of the others: such a point fails
        # when it is tried, and the strategy lives with it.
        cause: Any = error.__cause__
        if len(set(keys_at_fault(cause)) & set(space.keys)) > 1:
            return
        raise SpaceError(f"space.{dimension.key}: the value {value!r} is refused: {error}") from error
