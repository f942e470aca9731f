"""Reads a study's SQLite file for viewers, without changing the record.

Each call of `ReadOnlyRows.read` reads only the trials that are new, or that were running at the previous call.
"""

import functools
import json
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hpo.errors import first_line
from hpo.trials.record.own_file import DATABASE_SUFFIXES, DamagedRecordError, may_be_written
from hpo.trials.record.record import LAST, NUMBER, Rows, is_of_study
from hpo.trials.space.dimensions import Dimension, from_stored
from hpo.trials.space.space import Point, Space
from hpo.trials.trial import State

# The states in Optuna's tables, without WAITING: only other programs write waiting trials.
_STATES: Mapping[str, State] = {"RUNNING": "running", "COMPLETE": "complete", "FAIL": "failed", "PRUNED": "stopped"}
_NEW = """\
SELECT trial_id, state FROM trials
WHERE study_id = :study AND (trial_id > :last OR trial_id IN (SELECT value FROM json_each(:open)))"""
# Queries for the trials that _NEW selects (without its second column). Optuna stores each parameter as a number.
_PARAMETERS = "SELECT trial_id, param_name, param_value, distribution_json FROM trial_params WHERE trial_id IN ({})"
_ATTRIBUTES = "SELECT trial_id, key, value_json FROM trial_user_attributes WHERE trial_id IN ({})"
_NOTES = "SELECT key, value_json FROM study_user_attributes WHERE study_id = :study"
_FOLD = re.compile(r"fold_(\d+)(_repeat_\d+)?")
_PATIENCE_SECONDS = 5.0


@contextmanager
def read_only_connection(path: Path, is_written: bool) -> Iterator[sqlite3.Connection]:
    """Yield a connection to a SQLite file; the rows of the record stay unchanged.

    A killed search leaves a write-ahead log. SQLite would apply this log to the file, even for a reader. So this
    function reads copies of the file and the log.

    If a process is writing to the file (`is_written`), this function reads the file itself. If this connection is then
    the last to close, SQLite applies the log to the file and removes the log. The rows stay the same.

    Raises:
        DamagedRecordError: the file cannot be read, or the code in the `with` block raises sqlite3.Error, OSError,
            LookupError, TypeError or ValueError. These errors are typical of damaged content.
    """
    logs = [path.with_name(f"{path.name}{suffix}") for suffix in DATABASE_SUFFIXES if suffix]
    with tempfile.TemporaryDirectory(prefix="hpo-read-") as scratch:
        try:
            mode = "immutable=1"
            if is_written and logs[0].exists():
                mode = "mode=rw" if may_be_written(path) else "mode=ro"
            elif logs[0].exists() and logs[0].stat().st_size:
                for source in (path, logs[0]):
                    shutil.copyfile(source, Path(scratch, source.name))
                path, mode = Path(scratch, path.name), "mode=rw"
            address = f"file:{quote(str(path.absolute()))}?{mode}"
            with closing(sqlite3.connect(address, _PATIENCE_SECONDS, uri=True)) as file:
                yield file
        except (sqlite3.Error, OSError, LookupError, TypeError, ValueError) as error:
            raise DamagedRecordError(f"record: {path.name} cannot be read: {first_line(error)}") from error


def count_states(path: Path, is_written: bool) -> dict[str, int]:
    """Return the number of a file's trials by their state, without reading the trials."""
    counts: dict[str, int] = dict.fromkeys(_STATES.values(), 0)
    with read_only_connection(path, is_written) as file:
        for state, count in file.execute("SELECT state, count(*) FROM trials GROUP BY state"):
            if state in _STATES:
                counts[_STATES[state]] = count
    return counts


def folds_of(names: Iterable[str]) -> int:
    """Return the number of folds, from task names such as fold_2 or fold_2_repeat_1; 1 if no name has this form."""
    return 1 + max((int(match[1]) for match in map(_FOLD.fullmatch, names) if match), default=0)


class ReadOnlyRows(Rows):
    """Reads the rows of a study from a SQLite file.

    `read` returns only trials that are new, or that were running at the previous call.

    Optuna takes half a millisecond per trial at each reading, and keeps the file open. This class takes a tenth of
    that time, and reads a finished trial only once. Each call of `read` opens the file and closes it again, and leaves
    no other files next to it. `is_written` returns whether a process is running the study.
    """

    def __init__(self, path: Path, name: str, space: Space, is_written: Callable[[], bool] = lambda: False) -> None:
        super().__init__()
        self._path, self._name, self._is_written = path, name, is_written
        self._dimensions: Mapping[str, Dimension] = {d.key: d for d in space.dimensions}
        # Optuna's id of the last trial read, and Optuna's ids of the trials that had not ended. `_own` maps the study's
        # trial numbers to Optuna's ids.
        self._last, self._open = 0, list[int]()
        self._own: dict[int, int] = {}

    def read(self) -> Iterator[tuple[int, Point, State, Mapping[str, Any]]]:
        """Yield the number, point, state and attributes of each trial that is new or was running at the last call.

        Raises:
            DamagedRecordError: the file cannot be read, or does not have the study.
        """
        with read_only_connection(self._path, self._is_written()) as file:
            # Use a transaction, so that all queries read the same state of the file.
            file.execute("BEGIN")
            found = file.execute("SELECT study_id FROM studies WHERE study_name = ?", (self._name,)).fetchone()
            if found is None:
                raise DamagedRecordError(f"record: there is no study '{self._name}' in {self._path.name}")
            (study,) = found
            values = {"study": study, "last": self._last, "open": json.dumps(self._open)}
            self._memory = {key: json.loads(text) for key, text in file.execute(_NOTES, values)}
            trials = file.execute(_NEW, values).fetchall()
            new_ids = _NEW.replace(", state", "")
            attributes: dict[int, dict[str, Any]] = {trial: {} for trial, _ in trials}
            points: dict[int, dict[str, Any]] = {trial: {} for trial, _ in trials}
            for trial, key, text in file.execute(_ATTRIBUTES.format(new_ids), values):
                attributes[trial][key] = json.loads(text)
            for trial, key, value, kind in file.execute(_PARAMETERS.format(new_ids), values):
                points[trial][key] = _reader(kind)(value)
        for trial, state in sorted(trials):
            if not is_of_study(attributes[trial], self._memory.get(LAST)) or state not in _STATES:
                continue
            # Other programs may add copies of our trials: of several trials with the same number, the first is ours.
            number = attributes[trial][NUMBER]
            if self._own.setdefault(number, trial) == trial:
                active = {key: d for key, d in self._dimensions.items() if key in points[trial]}
                point = {key: from_stored(d, points[trial][key]) for key, d in active.items()}
                yield number, point, _STATES[state], attributes[trial]
        self._open = [trial for trial, state in trials if state in ("RUNNING", "WAITING")]
        self._last = max([self._last, *(trial for trial, _ in trials)])


@functools.cache
def _reader(distribution: str) -> Callable[[float], Any]:
    """Return the function that turns a number stored by Optuna into a value of this distribution (given as JSON)."""
    kind = json.loads(distribution)
    if kind["name"] == "CategoricalDistribution":
        choices = kind["attributes"]["choices"]
        return lambda number: choices[int(number)]
    return int if kind["name"].startswith("Int") else float
