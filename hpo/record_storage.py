"""Keeps a record in an Optuna storage, whose tables `optuna.load_study` and optuna-dashboard read as they stand.

Optuna's trial numbers are ours. Rows are written into Optuna's own tables, each step in one transaction: its public
calls re-read the study for every parameter that they store, which costs 5 to 8 ms a trial with six of them, against
under 1 ms here (benchmarks/dispatch.md). The tables are Optuna's schema, which it migrates and reads; a test compares
what `optuna.load_study` makes of these rows with what it makes of its own.
"""

import datetime
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
    distribution_to_json,
)
from optuna.storages import RDBStorage
from optuna.storages._rdb import models
from optuna.trial import TrialState
from sqlalchemy import Table, event, insert, update

from hpo.dimensions import Dimension, Range
from hpo.errors import StudyError
from hpo.record import Record
from hpo.space import Point, Space
from hpo.trials import Direction, State, TaskGrid

_TRIALS: Table = models.TrialModel.__table__
_PARAMS: Table = models.TrialParamModel.__table__
_ATTRIBUTES: Table = models.TrialUserAttributeModel.__table__
_VALUES: Table = models.TrialValueModel.__table__

_STATES: Mapping[State, TrialState] = {
    "running": TrialState.RUNNING,
    "complete": TrialState.COMPLETE,
    "failed": TrialState.FAIL,
    "stopped": TrialState.PRUNED,
}
_NAMES: Mapping[TrialState, State] = {state: name for name, state in _STATES.items()}


class OptunaRows:
    """The rows of one study in an Optuna storage."""

    def __init__(self, storage: RDBStorage, study_id: int, space: Space) -> None:
        self._storage = storage
        self._engine = storage.engine
        self._study_id = study_id
        self._keys = space.keys
        self._distributions = {d.key: distribution(d) for d in space.dimensions}
        self._json = {key: distribution_to_json(kind) for key, kind in self._distributions.items()}

    def open(self, number: int, point: Point, attributes: Mapping[str, Any]) -> int:
        """Write a RUNNING trial with its parameters and user attributes; return Optuna's id of it."""
        with self._engine.begin() as connection:
            start = {
                "study_id": self._study_id,
                "number": number,
                "state": TrialState.RUNNING,
                "datetime_start": _now(),
            }
            key = connection.execute(insert(_TRIALS).values(start)).inserted_primary_key
            assert key is not None
            trial_id = int(key[0])
            connection.execute(insert(_PARAMS), [self._parameter(trial_id, *item) for item in point.items()])
            connection.execute(insert(_ATTRIBUTES), _attributes(trial_id, attributes))
        return trial_id

    def add(self, trial_id: int, attributes: Mapping[str, Any]) -> None:
        """Write user attributes."""
        with self._engine.begin() as connection:
            connection.execute(insert(_ATTRIBUTES), _attributes(trial_id, attributes))

    def close(self, trial_id: int, state: State, score: float | None, attributes: Mapping[str, Any]) -> None:
        """Write the last user attributes and, with them or not at all, the trial's score and final state."""
        with self._engine.begin() as connection:
            if attributes:
                connection.execute(insert(_ATTRIBUTES), _attributes(trial_id, attributes))
            if score is not None:
                kind = models.TrialValueModel.TrialValueType.FINITE
                row = {"trial_id": trial_id, "objective": 0, "value": score, "value_type": kind}
                connection.execute(insert(_VALUES).values(row))
            end = {"state": _STATES[state], "datetime_complete": _now()}
            connection.execute(update(_TRIALS).where(_TRIALS.c.trial_id == trial_id).values(end))

    def read(self) -> Iterator[tuple[int, int, Point, State, Mapping[str, Any]]]:
        """Yield every trial of the study."""
        for frozen in self._storage.get_all_trials(self._study_id, deepcopy=False):
            point = {key: frozen.params[key] for key in self._keys if key in frozen.params}
            yield frozen._trial_id, frozen.number, point, _NAMES[frozen.state], frozen.user_attrs

    def note(self, key: str, value: Any) -> None:
        """Write a user attribute of the study."""
        self._storage.set_study_user_attr(self._study_id, key, value)

    def noted(self, key: str) -> Any:
        """Return a user attribute of the study; None when there is none of that name."""
        return self._storage.get_study_user_attrs(self._study_id).get(key)

    def dispose(self) -> None:
        """Close the connection."""
        self._storage.remove_session()

    def _parameter(self, trial_id: int, key: str, value: Any) -> dict[str, Any]:
        return {
            "trial_id": trial_id,
            "param_name": key,
            "param_value": _internal(self._distributions[key], value),
            "distribution_json": self._json[key],
        }


def _internal(kind: BaseDistribution, value: Any) -> float:
    if isinstance(kind, CategoricalDistribution):
        # Optuna's own look-up takes false for 0 and true for 1.
        return next(
            i for i, v in enumerate(kind.choices) if v == value and isinstance(v, bool) == isinstance(value, bool)
        )
    return kind.to_internal_repr(value)


def _attributes(trial_id: int, attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"trial_id": trial_id, "key": key, "value_json": json.dumps(value)} for key, value in attributes.items()]


def _now() -> datetime.datetime:
    """Return the time as Optuna stores it: UTC, without a zone."""
    return datetime.datetime.now(datetime.UTC).replace(tzinfo=None)


def create_record(url: str, name: str, space: Space, metric: str, direction: Direction, grid: TaskGrid) -> Record:
    """Create an empty record for a new study.

    Raises:
        StudyError: when the storage holds a study of that name, or cannot be opened.
    """
    storage = _open_storage(url)
    sign = optuna.study.StudyDirection.MAXIMIZE if direction == "maximize" else optuna.study.StudyDirection.MINIMIZE
    try:
        study_id = storage.create_new_study([sign], name)
    except optuna.exceptions.DuplicatedStudyError as error:
        raise StudyError(f"study.storage: holds a study '{name}' already; choose another study.name") from error
    return Record(OptunaRows(storage, study_id, space), metric, direction, grid)


def open_record(url: str, name: str, space: Space, metric: str, direction: Direction, grid: TaskGrid) -> Record:
    """Open the record of an existing study.

    Raises:
        StudyError: when there is no such study in the storage, or it is damaged.
    """
    storage, study_id = _find(url, name)
    try:
        return Record(OptunaRows(storage, study_id, space), metric, direction, grid)
    except optuna.exceptions.StorageInternalError as error:
        raise StudyError(f"record: {_without_password(url)} cannot be read: {_cause(error)}") from error


def look_up(url: str, name: str) -> tuple[int, Mapping[str, Any]]:
    """Return Optuna's number of a study and the notes in its record, without a look at its trials.

    Raises:
        StudyError: when there is no such study in the storage.
    """
    storage, study_id = _find(url, name)
    notes = storage.get_study_user_attrs(study_id)
    storage.remove_session()
    return study_id, notes


def _find(url: str, name: str) -> tuple[RDBStorage, int]:
    path = Path(url.removeprefix("sqlite:///"))
    if url.startswith("sqlite:///") and not path.exists():
        raise StudyError(f"record: {path} is missing; put it back, or start anew with another study.name")
    storage = _open_storage(url)
    try:
        return storage, storage.get_study_id_from_name(name)
    except KeyError as error:
        raise StudyError(f"record: there is no study '{name}' in {_without_password(url)}") from error


def sqlite_url(path: Path) -> str:
    """Return the storage URL of a SQLite file."""
    return f"sqlite:///{path.absolute()}"


def _open_storage(url: str) -> RDBStorage:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        storage = RDBStorage(url, skip_compatibility_check=False)
    except Exception as error:
        # SQLAlchemy, its drivers and Optuna each raise their own kinds; all mean that it cannot be opened.
        raise StudyError(f"record: cannot open {_without_password(url)}: {_cause(error)}") from error
    if url.startswith("sqlite"):
        event.listen(storage.engine, "connect", _write_ahead)
        storage.engine.dispose()
    return storage


def _write_ahead(connection: Any, _record: Any) -> None:
    """Log writes ahead: half the time a trial, and safe when the process dies.

    Only a crash of the whole machine can lose the last commits, and a lost trial is trained again to the
    same result.
    """
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")


def distribution(dimension: Dimension) -> BaseDistribution:
    """Return a dimension as Optuna stores it: finite ones categorical, so that their values read as they are."""
    if not isinstance(dimension, Range):
        return CategoricalDistribution(dimension.values)
    if dimension.integer:
        return IntDistribution(int(dimension.low), int(dimension.high), log=dimension.log)
    return FloatDistribution(dimension.low, dimension.high, log=dimension.log)


def _without_password(url: str) -> str:
    return re.sub(r"://[^/@]+@", "://***@", url)


def _cause(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
