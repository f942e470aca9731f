"""The study's record: every trial and every outcome, kept in an Optuna storage before anything is shown."""

import re
from pathlib import Path
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy import event

from hpo.dimensions import Dimension, Range
from hpo.errors import StudyError
from hpo.record_rows import TrialRows
from hpo.space import Point, Space
from hpo.trials import Direction, History, Outcome, Trial, finished

_ROUND = "round"
_FOLD = "fold_"


class Record:
    """The truth about a study. `optuna.load_study` and optuna-dashboard read it as it stands.

    Optuna's trial numbers are ours: trials are opened in the order of proposal. Each outcome is written the
    moment it arrives, as the user attribute `fold_<k>` of its trial; the trial is closed with its last one.
    A trial that is RUNNING in a study that nobody runs was interrupted: what is missing of it is run again.
    """

    def __init__(
        self, storage: RDBStorage, study_id: int, space: Space, metric: str, direction: Direction, num_folds: int
    ) -> None:
        self._storage = storage
        self._study_id = study_id
        distributions = {d.key: _distribution(d) for d in space.dimensions}
        self._rows = TrialRows(storage.engine, study_id, distributions)
        self._keys = space.keys
        self._metric = metric
        self._direction: Direction = direction
        self._num_folds = num_folds
        self._ids: dict[int, int] = {}
        self._trials: dict[int, Trial] = {}
        for frozen in storage.get_all_trials(study_id, deepcopy=False):
            self._ids[frozen.number] = frozen._trial_id
            self._trials[frozen.number] = self._read(frozen)

    def trials(self) -> list[Trial]:
        """Return all trials in the order of their numbers, interrupted ones with the outcomes they have."""
        return [self._trials[number] for number in sorted(self._trials)]

    def history(self) -> History:
        """Return the finished trials in the order of their numbers."""
        return History(trial for trial in self.trials() if trial.state != "running")

    def open_trial(self, round_number: int, point: Point) -> Trial:
        """Write down that this point is being evaluated, and return its trial with the next number."""
        number = len(self._trials)
        self._ids[number] = self._rows.open(number, point, {_ROUND: round_number})
        trial = Trial(number, round_number, point)
        self._trials[number] = trial
        return trial

    def add_outcome(self, number: int, fold: int, outcome: Outcome) -> Trial:
        """Write down a task's outcome, once, and return the trial; with the last fold it is finished."""
        trial = self._trials[number]
        if fold in trial.outcomes:
            return trial
        outcomes = {**trial.outcomes, fold: outcome}
        written = {f"{_FOLD}{fold}": outcome.to_dict()}
        if len(outcomes) == self._num_folds:
            trial = finished(trial, outcomes, self._metric, self._direction)
            state = TrialState.COMPLETE if trial.state == "complete" else TrialState.FAIL
            self._rows.close(self._ids[number], state, trial.score, written)
        else:
            trial = Trial(number, trial.round, trial.point, outcomes, key=trial.key)
            for key, value in written.items():
                self._rows.add(self._ids[number], key, value)
        self._trials[number] = trial
        return trial

    def note(self, key: str, value: Any) -> None:
        """Keep a JSON-able value with the study, such as the outcome of the final training."""
        self._storage.set_study_user_attr(self._study_id, key, value)

    def noted(self, key: str) -> Any:
        """Return what was kept under the key; None when nothing was."""
        return self._storage.get_study_user_attrs(self._study_id).get(key)

    def close(self) -> None:
        """Close the connection."""
        self._storage.remove_session()

    def _read(self, frozen: FrozenTrial) -> Trial:
        point = {key: frozen.params[key] for key in self._keys if key in frozen.params}
        attributes = frozen.user_attrs
        outcomes = {
            fold: Outcome.from_dict(attributes[f"{_FOLD}{fold}"])
            for fold in range(self._num_folds)
            if f"{_FOLD}{fold}" in attributes
        }
        trial = Trial(frozen.number, attributes[_ROUND], point, outcomes)
        if len(outcomes) < self._num_folds:
            return trial
        return finished(trial, outcomes, self._metric, self._direction)


def create_record(url: str, name: str, space: Space, metric: str, direction: Direction, num_folds: int) -> Record:
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
    return Record(storage, study_id, space, metric, direction, num_folds)


def open_record(url: str, name: str, space: Space, metric: str, direction: Direction, num_folds: int) -> Record:
    """Open the record of an existing study.

    Raises:
        StudyError: when there is no such study in the storage, or it is damaged.
    """
    path = Path(url.removeprefix("sqlite:///"))
    if url.startswith("sqlite:///") and not path.exists():
        raise StudyError(f"record: {path} is missing; put it back, or start anew with another study.name")
    storage = _open_storage(url)
    try:
        study_id = storage.get_study_id_from_name(name)
    except KeyError as error:
        raise StudyError(f"record: there is no study '{name}' in {_without_password(url)}") from error
    try:
        return Record(storage, study_id, space, metric, direction, num_folds)
    except optuna.exceptions.StorageInternalError as error:
        raise StudyError(f"record: {_without_password(url)} cannot be read: {_cause(error)}") from error


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


def _distribution(dimension: Dimension) -> BaseDistribution:
    if not isinstance(dimension, Range):
        return CategoricalDistribution(dimension.values)
    if dimension.integer:
        return IntDistribution(int(dimension.low), int(dimension.high), log=dimension.log)
    return FloatDistribution(dimension.low, dimension.high, log=dimension.log)


def _without_password(url: str) -> str:
    return re.sub(r"://[^/@]+@", "://***@", url)


def _cause(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
