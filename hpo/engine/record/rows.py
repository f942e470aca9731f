"""Keeps a record in an Optuna storage, whose tables `optuna.load_study` and optuna-dashboard read as they stand.

Optuna's trial numbers are ours. Rows are written into Optuna's own tables, each step in one transaction: its public
calls re-read the study for every parameter that they store, which costs 5 to 8 ms a trial with six of them, against
under 1 ms here (benchmarks/dispatch.md). The tables are Optuna's schema, which it migrates and reads; a test compares
what `optuna.load_study` makes of these rows with what it makes of its own.
"""

import datetime
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    distribution_to_json,
)
from optuna.storages import RDBStorage
from optuna.storages._rdb import models
from optuna.trial import TrialState
from sqlalchemy import Connection, Table, case, func, insert, literal, select, update

from hpo.engine.record.checksum import CHECKSUM, ChecksumError, checked, checksum, with_checksum
from hpo.engine.record.guard import Guard
from hpo.engine.space.distributions import distribution
from hpo.engine.space.space import Point, Space, point_key
from hpo.engine.trials.trial import State
from hpo.machine import machine_faults

_STUDIES: Table = models.StudyModel.__table__
_TRIALS: Table = models.TrialModel.__table__
_PARAMS: Table = models.TrialParamModel.__table__
_ATTRIBUTES: Table = models.TrialUserAttributeModel.__table__
_NOTES: Table = models.StudyUserAttributeModel.__table__
_VALUES: Table = models.TrialValueModel.__table__

_STATES: Mapping[State, TrialState] = {
    "running": TrialState.RUNNING,
    "complete": TrialState.COMPLETE,
    "failed": TrialState.FAIL,
    "stopped": TrialState.PRUNED,
}
_NAMES: Mapping[TrialState, State] = {state: name for name, state in _STATES.items()}
# A trial's attribute with the checksum of how it ended, and a study's with those of its other attributes.
_END = "checksum_of_end"
_CHECKSUMS = "checksums"


class OptunaRows:
    """The rows of one study in an Optuna storage; every one has its checksum.

    Args:
        storage: Optuna's.
        study_id: its number of the study.
        space: decides how parameters are stored.

    Attributes:
        guard: is told of every write that is in the storage; None where nobody wants to know.
    """

    def __init__(self, storage: RDBStorage, study_id: int, space: Space) -> None:
        self._storage = storage
        self._engine = storage.engine
        self._study_id = study_id
        self._keys = space.keys
        self._distributions = {d.key: distribution(d) for d in space.dimensions}
        self._json = {key: distribution_to_json(kind) for key, kind in self._distributions.items()}
        self.guard: Guard | None = None
        # Checksums hold the numbers of trials, so that they are as true of a copy in another storage.
        self._numbers: dict[int, int] = {}

    def open(self, number: int, point: Point, attributes: Mapping[str, Any]) -> int:
        """Write a RUNNING trial with its parameters and user attributes; return Optuna's id of it."""
        attributes_of_opening = {**attributes, CHECKSUM: checksum(attributes, number, point_key(point))}
        with self._writing(1 + len(attributes_of_opening)) as connection:
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
            connection.execute(insert(_ATTRIBUTES), _attributes(trial_id, attributes_of_opening))
        self._numbers[trial_id] = number
        return trial_id

    def add(self, trial_id: int, attributes: Mapping[str, Any]) -> None:
        """Write user attributes, each of them a dict."""
        with self._writing(len(attributes)) as connection:
            connection.execute(insert(_ATTRIBUTES), _attributes(trial_id, self._with_checksums(trial_id, attributes)))

    def close(self, trial_id: int, state: State, score: float | None, attributes: Mapping[str, Any]) -> None:
        """Write the last user attributes and, with them or not at all, the trial's score and final state."""
        end = {**self._with_checksums(trial_id, attributes), _END: checksum([state, score], self._numbers[trial_id])}
        with self._writing(len(end)) as connection:
            connection.execute(insert(_ATTRIBUTES), _attributes(trial_id, end))
            if score is not None:
                kind = models.TrialValueModel.TrialValueType.FINITE
                row = {"trial_id": trial_id, "objective": 0, "value": score, "value_type": kind}
                connection.execute(insert(_VALUES).values(row))
            # A clock that was set back since makes no trial end before it began.
            now, began = literal(_now()), _TRIALS.c.datetime_start
            complete = case((began > now, began), else_=now)
            values = {"state": _STATES[state], "datetime_complete": complete}
            connection.execute(update(_TRIALS).where(_TRIALS.c.trial_id == trial_id).values(values))

    def read(self) -> Iterator[tuple[int, int, Point, State, Mapping[str, Any]]]:
        """Yield every trial of the study.

        Raises:
            ChecksumError: one is not what was written.
        """
        trials = self._storage.get_all_trials(self._study_id, deepcopy=False)
        # Studies of earlier versions have no checksums; from the first trial on that has one, every trial has.
        first_checked = min((t.number for t in trials if CHECKSUM in t.user_attrs), default=len(trials))
        for place, frozen in enumerate(trials):
            point = {key: frozen.params[key] for key in self._keys if key in frozen.params}
            self._numbers[frozen._trial_id] = frozen.number
            state, attributes = _NAMES[frozen.state], frozen.user_attrs
            if first_checked < len(trials) and frozen.number != place:
                raise ChecksumError(f"trial {place} is missing")
            is_old = frozen.number < first_checked
            attributes = _checked(frozen.number, point, state, frozen.value, attributes, is_old)
            yield frozen._trial_id, frozen.number, point, state, attributes

    @property
    def address(self) -> str:
        """The file, or the address without its password."""
        url = self._engine.url
        return str(url.database) if url.drivername.startswith("sqlite") else url.render_as_string()

    def refuse_broken_notes(self) -> None:
        """Raise ChecksumError where an attribute of the study is not what was written."""
        notes = self._notes()
        for key in notes.get(_CHECKSUMS, {}):
            _refuse_broken_note(notes, key)

    def note(self, key: str, value: Any) -> None:
        """Write a user attribute of the study."""
        notes = self._notes()
        # Beside the values, which stay as anybody expects to find them.
        checksums = {**notes.get(_CHECKSUMS, {}), key: checksum(value, key)}
        new = {name: content for name, content in ((key, value), (_CHECKSUMS, checksums)) if name not in notes}
        rows = [{"study_id": self._study_id, "key": k, "value_json": json.dumps(v)} for k, v in new.items()]
        with self._writing(len(new), value if key == "id" else None) as connection:
            for name, content in ((key, value), (_CHECKSUMS, checksums)):
                if name in notes:
                    there = (_NOTES.c.study_id == self._study_id) & (_NOTES.c.key == name)
                    connection.execute(update(_NOTES).where(there).values(value_json=json.dumps(content)))
            if rows:
                connection.execute(insert(_NOTES), rows)

    def rename(self, name: str) -> None:
        """Give the study another name."""
        here = _STUDIES.c.study_id == self._study_id
        with self._writing(0) as connection:
            connection.execute(update(_STUDIES).where(here).values(study_name=name))

    def noted(self, key: str) -> Any:
        """Return a user attribute of the study; None when there is none of that name.

        Raises:
            ChecksumError: it is not what was written.
        """
        notes = self._notes()
        _refuse_broken_note(notes, key)
        return notes.get(key)

    def _notes(self) -> dict[str, Any]:
        notes: dict[str, Any] = self._storage.get_study_user_attrs(self._study_id)
        return notes

    def dispose(self) -> None:
        """Close the connection."""
        if self.guard is not None:
            self.guard.end()
        self._storage.remove_session()
        self._engine.dispose()

    def num_rows(self) -> int:
        """Return how many rows the study has: trials, and attributes of trials and of the study."""
        of_study = _TRIALS.c.study_id == self._study_id
        trials = select(func.count()).select_from(_TRIALS).where(of_study)
        attributes = select(func.count()).select_from(_ATTRIBUTES).join(_TRIALS).where(of_study)
        with self._engine.connect() as connection:
            counted = [connection.execute(query).scalar_one() for query in (trials, attributes)]
        return sum(counted) + len(self._notes())

    @contextmanager
    def _writing(self, rows: int, study_id: str | None = None) -> Iterator[Connection]:
        """Give a connection whose writes, so many new rows, are there together or not at all; then tell the guard."""
        with (
            machine_faults("record: cannot be written", Path(self._engine.url.database or ".")),
            self._engine.begin() as connection,
        ):
            yield connection
        if self.guard is not None:
            self.guard.written(rows, study_id)

    def _with_checksums(self, trial_id: int, attributes: Mapping[str, Any]) -> dict[str, Any]:
        number = self._numbers[trial_id]
        return {name: with_checksum(value, f"trial {number}: {name}") for name, value in attributes.items()}

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


def _checked(
    number: int, point: Point, state: State, score: float | None, attributes: Mapping[str, Any], is_old: bool
) -> dict[str, Any]:
    """Return a trial's attributes without their checksums; raise ChecksumError where one is broken.

    A trial that an earlier version began has checksums only on what was added since, if on anything.
    """
    plain = {name: value for name, value in attributes.items() if name not in (CHECKSUM, _END)}
    opening = {name: value for name, value in plain.items() if not isinstance(value, dict)}
    if not is_old and attributes.get(CHECKSUM) != checksum(opening, number, point_key(point)):
        raise ChecksumError(f"trial {number} is not what was written")
    has_end = _END in attributes or (state != "running" and not is_old)
    if has_end and attributes.get(_END) != checksum([state, score], number):
        raise ChecksumError(f"trial {number}: its end is not what was written")
    outcomes = {name: value for name, value in plain.items() if name not in opening}
    return opening | {
        name: value if is_old and CHECKSUM not in value else checked(value, f"trial {number}: {name}")
        for name, value in outcomes.items()
    }


def _refuse_broken_note(notes: Mapping[str, Any], key: str) -> None:
    checksums = notes.get(_CHECKSUMS, {})
    if not isinstance(checksums, dict):
        raise ChecksumError("the checksums of its notes are gone")
    if key in checksums and (key not in notes or checksums[key] != checksum(notes[key], key)):
        raise ChecksumError(f"the note '{key}' is not what was written")


def _attributes(trial_id: int, attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"trial_id": trial_id, "key": key, "value_json": json.dumps(value)} for key, value in attributes.items()]


def _now() -> datetime.datetime:
    """Return the time as Optuna stores it: UTC, without a zone."""
    return datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
