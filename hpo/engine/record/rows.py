"""Keeps a record in an Optuna storage, which `optuna.load_study` and optuna-dashboard can read.

Optuna's trial numbers are ours. This file uses Optuna's public interface only; `hpo.engine.record.optuna_tables`
writes trials faster, where Optuna's tables have the form that it knows.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

from hpo.engine.record.guard import Guard, Mark
from hpo.engine.record.optuna_tables import Tables
from hpo.engine.record.record import Rows
from hpo.engine.space.distributions import distribution
from hpo.engine.space.space import Point, Space
from hpo.engine.trials.trial import State
from hpo.machine import machine_faults

_STATES: Mapping[State, TrialState] = {
    "running": TrialState.RUNNING,
    "complete": TrialState.COMPLETE,
    "failed": TrialState.FAIL,
    "stopped": TrialState.PRUNED,
}
_NAMES: Mapping[TrialState, State] = {state: name for name, state in _STATES.items()}


class OptunaRows(Rows):
    """The rows of one study in an Optuna storage.

    Args:
        storage: Optuna's storage.
        study_id: Optuna's number of the study.
        space: decides how parameters are stored.

    Attributes:
        guard: is notified of every completed write; None = no guard.
    """

    def __init__(self, storage: RDBStorage, study_id: int, space: Space) -> None:
        self._storage = storage
        self._study_id = study_id
        self._keys = space.keys
        self._distributions = {d.key: distribution(d) for d in space.dimensions}
        self._calls = Tables.reflected(storage.engine, study_id, self._distributions) or _PublicCalls(
            storage, study_id, self._distributions
        )
        # Optuna's ids of the trials opened here; ids of others are looked up.
        self._ids: dict[int, int] = {}
        self._num_read = 0
        self.guard: Guard | None = None

    def open(self, number: int, point: Point, attributes: Mapping[str, Any]) -> None:
        """Write a RUNNING trial with its parameters and user attributes."""
        with self._writing(1 + len(attributes)):
            self._ids[number] = self._calls.open(number, point, attributes)

    def add(self, number: int, attributes: Mapping[str, Any]) -> None:
        """Write further user attributes of a trial."""
        with self._writing(len(attributes)):
            self._calls.add(self._id(number), attributes)

    def close(self, number: int, state: State, score: float | None, attributes: Mapping[str, Any]) -> None:
        """Write the last user attributes of a trial, its score and final state."""
        with self._writing(len(attributes)):
            self._calls.close(self._id(number), _STATES[state], score, attributes)

    def read(self) -> Sequence[tuple[int, Point, State, Mapping[str, Any]]]:
        """Return number, point, state and user attributes of every trial.

        Raises:
            ValueError: one is missing.
        """
        trials = self._storage.get_all_trials(self._study_id, deepcopy=False)
        for place, trial in enumerate(trials):
            if trial.number != place:
                raise ValueError(f"trial {place} is missing")
        self._num_read = sum(1 + len(trial.user_attrs) for trial in trials)
        return [(trial.number, self._point(trial), _NAMES[trial.state], trial.user_attrs) for trial in trials]

    @property
    def address(self) -> str:
        """The file, or the address without its password."""
        url = self._storage.engine.url
        return str(url.database) if url.drivername.startswith("sqlite") else url.render_as_string()

    def note(self, key: str, value: Any) -> None:
        """Write a user attribute of the study."""
        with self._writing(key not in self._notes(), value if key == "id" else None):
            self._storage.set_study_user_attr(self._study_id, key, value)

    def noted(self, key: str) -> Any:
        """Return a user attribute of the study; None where it is not there."""
        return self._notes().get(key)

    def mark(self) -> Mark:
        """Return the study's progress when it was read: its trials, and the attributes of both."""
        notes = self._notes()
        return Mark(notes.get("id", ""), self._num_read + len(notes))

    def dispose(self) -> None:
        """Close the connection."""
        if self.guard is not None:
            self.guard.end()
        self._storage.remove_session()
        self._storage.engine.dispose()

    def _point(self, trial: FrozenTrial) -> Point:
        return {key: trial.params[key] for key in self._keys if key in trial.params}

    def _notes(self) -> dict[str, Any]:
        notes: dict[str, Any] = self._storage.get_study_user_attrs(self._study_id)
        return notes

    def _id(self, number: int) -> int:
        if number not in self._ids:
            self._ids[number] = self._storage.get_trial_id_from_study_id_trial_number(self._study_id, number)
        return self._ids[number]

    @contextmanager
    def _writing(self, rows: int, study_id: str | None = None) -> Iterator[None]:
        """Name the machine's faults in a write of so many new rows; then notify the guard."""
        with machine_faults("record: cannot be written", Path(self._storage.engine.url.database or ".")):
            yield
        if self.guard is not None:
            self.guard.written(rows, study_id)


class _PublicCalls:
    """Writes trials by Optuna's public calls.

    Each call is its own transaction: after a driver died between the last outcome and the state, Optuna calls the
    trial running; read here, it has all of its outcomes and is finished. Where choices hold both 1 and true, or
    0 and false, Optuna stores the first of them.
    """

    def __init__(self, storage: RDBStorage, study_id: int, distributions: Mapping[str, BaseDistribution]) -> None:
        self._storage = storage
        self._study_id = study_id
        self._distributions = distributions

    def open(self, number: int, point: Point, attributes: Mapping[str, Any]) -> int:
        """Write a RUNNING trial; return its id in Optuna."""
        kinds = {key: self._distributions[key] for key in point}
        trial = create_trial(
            state=TrialState.RUNNING, params=dict(point), distributions=kinds, user_attrs=dict(attributes)
        )
        trial_id = self._storage.create_new_trial(self._study_id, trial)
        given = self._storage.get_trial_number_from_id(trial_id)
        assert given == number, f"trial {number} is {given} in the storage, which another program writes too"
        return trial_id

    def add(self, trial_id: int, attributes: Mapping[str, Any]) -> None:
        """Write user attributes of a trial."""
        for key, value in attributes.items():
            self._storage.set_trial_user_attr(trial_id, key, value)

    def close(self, trial_id: int, state: TrialState, score: float | None, attributes: Mapping[str, Any]) -> None:
        """Write the last user attributes, then score and final state."""
        self.add(trial_id, attributes)
        self._storage.set_trial_state_values(trial_id, state, None if score is None else [score])
