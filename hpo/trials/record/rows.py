"""Writes a record to an Optuna storage and reads it; `optuna.load_study` and optuna-dashboard can also read the record.

Other programs may also write trials to the storage. Such trials are ignored, except queued trials (`enqueue_trial`).
Because other trials may come in between, the number of a trial in the study may differ from its number in Optuna.
"""

import logging
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from optuna import Study
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.exceptions import ExperimentalWarning, OptunaError
from optuna.storages import RDBStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial
from sqlalchemy.exc import IntegrityError

from hpo.errors import StudyError, first_line
from hpo.machine import machine_faults
from hpo.trials.record.optuna_tables import Tables
from hpo.trials.record.own_file import DamagedRecordError, Guard, Mark
from hpo.trials.record.record import LAST, NUMBER, ROUND, STUDY, Rows, is_of_study
from hpo.trials.space.dimensions import Dimension, Range, from_stored, to_stored
from hpo.trials.space.space import Point, Space
from hpo.trials.trial import Direction, State

_log = logging.getLogger(__name__)

STATES: Mapping[State, TrialState] = {
    "running": TrialState.RUNNING,
    "complete": TrialState.COMPLETE,
    "failed": TrialState.FAIL,
    "stopped": TrialState.PRUNED,
}
STATE_NAMES: Mapping[TrialState, State] = {state: name for name, state in STATES.items()}

_SHOWN = 5


class OptunaRows(Rows):
    """The rows of a study in an Optuna storage.

    If `guard` is set, every completed write reports its number of new rows to this `Guard`.
    """

    def __init__(self, storage: RDBStorage, study_id: int, space: Space) -> None:
        self._storage = storage
        self._study_id = study_id
        self._dimensions = space.dimensions
        self._distributions = {d.key: distribution(d) for d in space.dimensions}
        self._calls = Tables.reflected(storage.engine, study_id, self._distributions) or _PublicCalls(
            storage, study_id, self._distributions
        )
        # Optuna's ids of the study's trials, by number. At the last reading: the number of rows of the study's trials
        # and of their copies, and the trials of other programs (copies included).
        self._ids: dict[int, int] = {}
        self._num_rows = 0
        self._others: Sequence[FrozenTrial] = ()
        # Optuna's numbers of the trials that were named in a warning, and of the queued trials that were returned.
        self._warned: set[int] = set()
        self._returned: set[int] = set()
        self.guard: Guard | None = None

    def open(self, number: int, point: Point, attributes: Mapping[str, Any]) -> None:
        """Write a RUNNING trial with its parameters and user attributes."""
        study = self.read_note(LAST)
        attributes = {NUMBER: number, **attributes, **({} if study is None else {STUDY: study})}
        with self._writing(1 + len(attributes)):
            self._ids[number] = self._calls.open({key: to_stored(value) for key, value in point.items()}, attributes)

    def add(self, number: int, attributes: Mapping[str, Any]) -> None:
        """Write more user attributes of a trial."""
        with self._writing(len(attributes)):
            self._calls.add(self._ids[number], attributes)

    def close(
        self,
        number: int,
        state: State,
        scores: Sequence[float],
        attributes: Mapping[str, Any],
        constraints: Mapping[str, float],
    ) -> None:
        """Write more user attributes of a trial, its constraints in Optuna's form, its scores and its final state."""
        own = constraint_attributes(constraints)
        with self._writing(len(attributes)):
            has_replaced = self._calls.close(self._ids[number], STATES[state], scores, attributes, own)
        if has_replaced:
            _log.warning("record: another program wrote a result of trial %d; the search replaced it", number)

    def read(self) -> Sequence[tuple[int, Point, State, Mapping[str, Any]]]:
        """Return the number, point, state and attributes of each of the study's trials.

        Raises:
            DamagedRecordError: a trial is missing.
        """
        trials = self._storage.get_all_trials(self._study_id, deepcopy=False)
        own = trials_of_study(trials, self.read_note(LAST))
        missing = next((number for number in range(len(own)) if number not in own), None)
        if missing is not None:
            raise DamagedRecordError(f"{self.address} is incomplete: trial {missing} of {max(own) + 1} is missing")
        self._ids = {number: trial._trial_id for number, trial in own.items()}
        self._num_rows = sum(1 + len(trial.user_attrs) for trial in trials if ROUND in trial.user_attrs)
        ids = {*self._ids.values()}
        self._others = [trial for trial in trials if trial._trial_id not in ids and trial.state != TrialState.WAITING]
        return [
            (number, point_of(trial, self._dimensions), STATE_NAMES[trial.state], trial.user_attrs)
            for number, trial in own.items()
        ]

    def warn_of_other_trials(self) -> None:
        """Warn about other programs' trials found at the last reading; warn only once about each trial."""
        others = [trial.number for trial in self._others if trial.number not in self._warned]
        if not others:
            return
        self._warned.update(others)
        more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
        numbers = ", ".join(map(str, others[:_SHOWN])) + more
        message = "record: another program wrote trials into %s; these trials are ignored (Optuna's numbers: %s)"
        _log.warning(message, self.address, numbers)

    def queued(self) -> list[tuple[int, Mapping[str, Any]]]:
        """Return Optuna's number and the parameters of each queued trial that no earlier call has returned."""
        waiting = self._storage.get_all_trials(self._study_id, deepcopy=False, states=(TrialState.WAITING,))
        new = [trial for trial in waiting if trial.number not in self._returned]
        self._returned.update(trial.number for trial in new)
        # `enqueue_trial` does not know the distributions, so it stores the parameters in a system attribute.
        return [(trial.number, trial.system_attrs.get("fixed_params", trial.params)) for trial in new]

    @property
    def address(self) -> str:
        """The path of the SQLite file; for any other database, its URL without the password."""
        url = self._storage.engine.url
        return str(url.database) if url.drivername.startswith("sqlite") else url.render_as_string()

    def note(self, key: str, value: Any) -> None:
        """Write a user attribute of the study."""
        with self._writing(key not in self._notes, value if key == LAST else None):
            self._storage.set_study_user_attr(self._study_id, key, value)
        self._notes[key] = value

    def read_note(self, key: str) -> Any:
        """Return a user attribute of the study from the cache; None if the attribute does not exist."""
        return self._notes.get(key)

    def mark(self) -> Mark:
        """Return the id of the study and the record's number of rows.

        The number is (the number of trial rows at the latest call of `read`) + (the number of notes now). Copies of the
        study's trials, which other programs may add, also count.
        """
        notes = self._read_notes()
        return Mark(notes.get(LAST, ""), self._num_rows + len(notes))

    def dispose(self) -> None:
        """Close the connection; if there is a guard, first call `Guard.end` and `warn_of_other_trials`."""
        if self.guard is not None:
            self.guard.end()
            self.warn_of_other_trials()
        self._storage.remove_session()
        self._storage.engine.dispose()

    @cached_property
    def _notes(self) -> dict[str, Any]:
        """The notes; they are read only once, because only the driver of the study writes them."""
        return self._read_notes()

    def _read_notes(self) -> dict[str, Any]:
        with self._name_changes():
            return dict(self._storage.get_study_user_attrs(self._study_id))

    @contextmanager
    def _name_changes(self) -> Iterator[None]:
        """Raise StudyError in place of errors that occur because another program changed the open study."""
        try:
            yield
        except (KeyError, OptunaError, IntegrityError) as error:
            raise StudyError(
                f"record: another program has changed or deleted the study in {self.address} ({first_line(error)}); "
                f"run `hpo resume` to continue from the last sound state"
            ) from error

    @contextmanager
    def _writing(self, rows: int, study_id: str | None = None) -> Iterator[None]:
        """Within the `with` block, turn errors that the machine or other programs cause into HpoErrors.

        If the block succeeds, call `Guard.count_rows` with the arguments; `rows` is the number of rows that the block
        adds.
        """
        with (
            machine_faults("record: cannot be written", Path(self._storage.engine.url.database or ".")),
            self._name_changes(),
        ):
            yield
        if self.guard is not None:
            self.guard.count_rows(rows, study_id)


def distribution(dimension: Dimension) -> BaseDistribution:
    """Return Optuna's distribution of a dimension, for values in the form of `to_stored`.

    For a dimension that is not a range, the distribution is categorical.
    """
    if not isinstance(dimension, Range):
        return CategoricalDistribution(list(map(to_stored, dimension.values)))
    if dimension.integer:
        return IntDistribution(int(dimension.low), int(dimension.high), log=dimension.log)
    return FloatDistribution(dimension.low, dimension.high, log=dimension.log)


def point_of(trial: FrozenTrial, dimensions: Iterable[Dimension]) -> Point:
    """Return the point of a trial: the trial's value for each active dimension in `dimensions`."""
    return {d.key: from_stored(d, trial.params[d.key]) for d in dimensions if d.key in trial.params}


def directions_of(study: Study) -> list[Direction]:
    """Return the directions of an Optuna study, one per objective."""
    return ["maximize" if each == StudyDirection.MAXIMIZE else "minimize" for each in study.directions]


def name_metrics(study: Study, names: Sequence[str]) -> None:
    """Give names to the metrics of an Optuna study; optuna-dashboard displays the names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        study.set_metric_names(list(names))


def constraint_attributes(constraints: Mapping[str, float]) -> dict[str, Any]:
    """Return the system attributes with which Optuna stores these constraints of a trial.

    A value above 0 means that the trial violates the constraint.
    """
    if not constraints:
        return {}
    trial = create_trial(state=TrialState.FAIL)
    for name, value in constraints.items():
        trial.set_constraint(name, value)
    return trial.system_attrs


def trials_of_study(trials: Iterable[FrozenTrial], study: str | None) -> dict[int, FrozenTrial]:
    """Return the trials that belong to the study with this id, by their numbers in the study.

    Other programs may add copies of a trial. Of several trials with the same number, only the first one belongs to the
    study.
    """
    own: dict[int, FrozenTrial] = {}
    for trial in trials:
        if is_of_study(trial.user_attrs, study) and trial.state in STATE_NAMES:
            own.setdefault(trial.user_attrs[NUMBER], trial)
    return own


class _PublicCalls:
    """Writes trials with Optuna's public calls, for storages whose tables are not as `Tables` expects.

    Each call is a separate transaction. If the driver dies after it wrote the last outcome and before it wrote the
    state, `Record` reads the trial as ended, but Optuna shows the trial as running. If a dimension has both 1 and true,
    or both 0 and false, Optuna stores the first of the two values in place of both.
    """

    def __init__(self, storage: RDBStorage, study_id: int, distributions: Mapping[str, BaseDistribution]) -> None:
        self._storage = storage
        self._study_id = study_id
        self._distributions = distributions

    def open(self, point: Point, attributes: Mapping[str, Any]) -> int:
        """Write a RUNNING trial; return Optuna's id of the trial."""
        kinds = {key: self._distributions[key] for key in point}
        trial = create_trial(
            state=TrialState.RUNNING, params=dict(point), distributions=kinds, user_attrs=dict(attributes)
        )
        return self._storage.create_new_trial(self._study_id, trial)

    def add(self, trial_id: int, attributes: Mapping[str, Any]) -> None:
        """Write user attributes of a trial."""
        for key, value in attributes.items():
            self._storage.set_trial_user_attr(trial_id, key, value)

    def close(
        self,
        trial_id: int,
        state: TrialState,
        scores: Sequence[float],
        attributes: Mapping[str, Any],
        own: Mapping[str, Any],
    ) -> bool:
        """Write more user attributes of a trial, the system attributes `own`, then the scores and the final state.

        Return whether this call has replaced scores that another program wrote. The answer is always False, because
        Optuna's public calls never replace scores.
        """
        self.add(trial_id, attributes)
        for key, value in own.items():
            self._storage.set_trial_system_attr(trial_id, key, value)
        self._storage.set_trial_state_values(trial_id, state, list(scores) or None)
        return False
