"""Writes the rows of trials into Optuna's own tables, each step in one transaction.

Optuna's public calls re-read the study for every parameter that they store: 5 to 8 ms a trial with six of them,
against under 1 ms here (benchmarks/dispatch.md). The tables are Optuna's schema, which it migrates and reads; a
test compares what `optuna.load_study` makes of these rows with what it makes of its own.
"""

import datetime
import json
from collections.abc import Mapping
from typing import Any

from optuna.distributions import BaseDistribution, distribution_to_json
from optuna.storages._rdb import models
from optuna.trial import TrialState
from sqlalchemy import Engine, Table, insert, update

_TRIALS: Table = models.TrialModel.__table__
_PARAMS: Table = models.TrialParamModel.__table__
_ATTRIBUTES: Table = models.TrialUserAttributeModel.__table__
_VALUES: Table = models.TrialValueModel.__table__


class TrialRows:
    """Opens and closes trials of one study."""

    def __init__(self, engine: Engine, study_id: int, distributions: Mapping[str, BaseDistribution]) -> None:
        self._engine = engine
        self._study_id = study_id
        self._distributions = distributions
        self._json = {key: distribution_to_json(distribution) for key, distribution in distributions.items()}

    def open(self, number: int, point: Mapping[str, Any], attributes: Mapping[str, Any]) -> int:
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
            connection.execute(insert(_ATTRIBUTES), [_attribute(trial_id, *item) for item in attributes.items()])
        return trial_id

    def add(self, trial_id: int, key: str, value: Any) -> None:
        """Write a user attribute."""
        with self._engine.begin() as connection:
            connection.execute(insert(_ATTRIBUTES).values(_attribute(trial_id, key, value)))

    def close(self, trial_id: int, state: TrialState, score: float | None, attributes: Mapping[str, Any]) -> None:
        """Write the last user attributes and, with them or not at all, the trial's score and final state."""
        with self._engine.begin() as connection:
            for item in attributes.items():
                connection.execute(insert(_ATTRIBUTES).values(_attribute(trial_id, *item)))
            if score is not None:
                kind = models.TrialValueModel.TrialValueType.FINITE
                row = {"trial_id": trial_id, "objective": 0, "value": score, "value_type": kind}
                connection.execute(insert(_VALUES).values(row))
            end = {"state": state, "datetime_complete": _now()}
            connection.execute(update(_TRIALS).where(_TRIALS.c.trial_id == trial_id).values(end))

    def _parameter(self, trial_id: int, key: str, value: Any) -> dict[str, Any]:
        return {
            "trial_id": trial_id,
            "param_name": key,
            "param_value": self._distributions[key].to_internal_repr(value),
            "distribution_json": self._json[key],
        }


def _attribute(trial_id: int, key: str, value: Any) -> dict[str, Any]:
    return {"trial_id": trial_id, "key": key, "value_json": json.dumps(value)}


def _now() -> datetime.datetime:
    """Return the time as Optuna stores it: UTC, without a zone."""
    return datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
