"""Writes trials directly into Optuna's tables, each step in one transaction.

No other file writes directly to these tables, but `read_only.py` reads them.

Writing a trial of six hyperparameters and one task takes 0.9 ms of processor time; with Optuna's public calls it takes
13 ms (benchmarks/dispatch/README.md). A test checks that `optuna.load_study` reads the same trials from rows written
here and from rows written by Optuna.
"""

import datetime
import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any, Self

from optuna.distributions import BaseDistribution, CategoricalDistribution, distribution_to_json
from optuna.trial import TrialState
from sqlalchemy import Engine, MetaData, Table, bindparam, case, delete, insert, literal, select, update
from sqlalchemy.exc import InvalidRequestError

from hpo.trials.record.record import LAST, STUDY
from hpo.trials.space.dimensions import rank_of
from hpo.trials.space.space import Point

COLUMNS = {
    "studies": {"study_id"},
    "trials": {"trial_id", "study_id", "number", "state", "datetime_start", "datetime_complete"},
    "trial_params": {"trial_id", "param_name", "param_value", "distribution_json"},
    "trial_user_attributes": {"trial_id", "key", "value_json"},
    "trial_system_attributes": {"trial_id", "key", "value_json"},
    "trial_values": {"trial_id", "objective", "value", "value_type"},
}


class Tables:
    """The tables of an Optuna storage, for writing the trials of one study."""

    def __init__(
        self, engine: Engine, tables: Mapping[str, Table], study_id: int, distributions: Mapping[str, BaseDistribution]
    ) -> None:
        self._engine = engine
        self._studies, self._trials, self._params, self._attributes, self._own, self._values = (
            tables[name] for name in COLUMNS
        )
        self._study_id = study_id
        self._distributions = distributions
        self._json = {key: distribution_to_json(kind) for key, kind in distributions.items()}
        # Build the statements only once, because building them takes longer than running them.
        trials = self._trials
        is_before = (trials.c.study_id == study_id) & (trials.c.trial_id < bindparam("before"))
        self._last = select(trials.c.number).where(is_before).order_by(trials.c.trial_id.desc()).limit(1)
        # SQLite allows only one writer at a time, so it needs no lock.
        is_locked = engine.dialect.name != "sqlite"
        study = select(self._studies.c.study_id).where(self._studies.c.study_id == study_id)
        self._lock = study.with_for_update() if is_locked else None
        self._drop_values = delete(self._values).where(self._values.c.trial_id == bindparam("trial_id"))
        self._free = 0

    @classmethod
    def reflected(cls, engine: Engine, study_id: int, distributions: Mapping[str, BaseDistribution]) -> Self | None:
        """Return the tables of a storage; None if a table or column that this module needs is missing."""
        known = MetaData()
        try:
            known.reflect(engine, only=list(COLUMNS))
        except InvalidRequestError:
            return None  # A table is missing.
        if any(not columns <= set(known.tables[name].columns.keys()) for name, columns in COLUMNS.items()):
            return None
        return cls(engine, known.tables, study_id, distributions)

    def open(self, point: Point, attributes: Mapping[str, Any]) -> int:
        """Write a RUNNING trial with its parameters and user attributes; return Optuna's id of the trial."""
        start = {
            "study_id": self._study_id,
            "number": self._free,
            "state": TrialState.RUNNING.name,
            "datetime_start": current_time(),
        }
        with self._engine.begin() as connection:
            if self._lock is not None:
                # Lock the study, as Optuna does, so that no other trial gets the same number.
                connection.execute(self._lock)
            key = connection.execute(insert(self._trials).values(start)).inserted_primary_key
            assert key is not None
            trial_id = int(key[0])
            last = connection.execute(self._last, {"before": trial_id}).scalar()
            free = 0 if last is None else last + 1
            if free != self._free:
                is_new = self._trials.c.trial_id == trial_id
                connection.execute(update(self._trials).where(is_new).values({"number": free}))
            parameters = [
                {
                    "trial_id": trial_id,
                    "param_name": key,
                    "param_value": _internal(self._distributions[key], value),
                    "distribution_json": self._json[key],
                }
                for key, value in point.items()
            ]
            connection.execute(insert(self._params), parameters)
            connection.execute(insert(self._attributes), _rows(trial_id, attributes))
        self._free = free + 1
        return trial_id

    def add(self, trial_id: int, attributes: Mapping[str, Any]) -> None:
        """Write user attributes of a trial."""
        with self._engine.begin() as connection:
            connection.execute(insert(self._attributes), _rows(trial_id, attributes))

    def close(
        self,
        trial_id: int,
        state: TrialState,
        scores: Sequence[float],
        attributes: Mapping[str, Any],
        own: Mapping[str, Any],
    ) -> bool:
        """Write the final state of a trial, its scores, more user attributes, and the system attributes `own`.

        Return whether `scores` replaced scores that another program wrote.
        """
        with self._engine.begin() as connection:
            has_replaced = connection.execute(self._drop_values, {"trial_id": trial_id}).rowcount > 0
            if attributes:
                connection.execute(insert(self._attributes), _rows(trial_id, attributes))
            if own:
                connection.execute(insert(self._own), _rows(trial_id, own))
            if scores:
                rows = [
                    {"trial_id": trial_id, "objective": place, "value": score, "value_type": "FINITE"}
                    for place, score in enumerate(scores)
                ]
                connection.execute(insert(self._values), rows)
            # If the machine's clock was set back since the trial began, write the begin as the end.
            now, began = literal(current_time()), self._trials.c.datetime_start
            values = {"state": state.name, "datetime_complete": case((began > now, began), else_=now)}
            connection.execute(update(self._trials).where(self._trials.c.trial_id == trial_id).values(values))
        return has_replaced


def rename_study(file: sqlite3.Connection, name: str, other: str, study_id: str) -> bool:
    """Rename the study `name` in a SQLite file to `other`, and replace its id by `study_id`, also in its trials.

    The file must not contain another study. Return False if the file is locked, or if its tables are not as expected.
    """
    new, of_study = json.dumps(study_id), "(SELECT value_json FROM study_user_attributes WHERE key = ?)"
    try:
        with file:
            file.execute("UPDATE studies SET study_name = ? WHERE study_name = ?", (other, name))
            file.execute(
                f"UPDATE trial_user_attributes SET value_json = ? WHERE key = ? AND value_json = {of_study}",
                (new, STUDY, LAST),
            )
            file.execute("UPDATE study_user_attributes SET value_json = ? WHERE key = ?", (new, LAST))
    except sqlite3.OperationalError:
        return False
    return True


def _internal(kind: BaseDistribution, value: Any) -> float:
    if isinstance(kind, CategoricalDistribution):
        # Do not use `to_internal_repr` here: it confuses false with 0, and true with 1.
        return rank_of(kind.choices, value)
    return kind.to_internal_repr(value)


def _rows(trial_id: int, attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"trial_id": trial_id, "key": key, "value_json": json.dumps(value)} for key, value in attributes.items()]


def current_time() -> datetime.datetime:
    """Return the current time in Optuna's form: in UTC, as a datetime without a time zone."""
    return datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
