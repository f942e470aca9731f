"""Reads a study's own file of SQLite for those who look on: again and again, each time only what has changed."""

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

# Of Optuna's tables; one that waits is none of ours.
_STATES: Mapping[str, State] = {"RUNNING": "running", "COMPLETE": "complete", "FAIL": "failed", "PRUNED": "stopped"}
_NEW = """\
SELECT trial_id, state FROM trials
WHERE study_id = :study AND (trial_id > :last OR trial_id IN (SELECT value FROM json_each(:open)))"""
# Of the same trials; what Optuna stores of a value is a number.
_PARAMETERS = "SELECT trial_id, param_name, param_value, distribution_json FROM trial_params WHERE trial_id IN ({})"
_ATTRIBUTES = "SELECT trial_id, key, value_json FROM trial_user_attributes WHERE trial_id IN ({})"
_NOTES = "SELECT key, value_json FROM study_user_attributes WHERE study_id = :study"
_FOLD = re.compile(r"fold_(\d+)(_repeat_\d+)?")
_PATIENCE_SECONDS = 5.0


@contextmanager
def read_only_connection(path: Path, is_written: bool) -> Iterator[sqlite3.Connection]:
    """Yield a connection to a file, which changes nothing there; DamagedRecordError where it cannot be read.

    To read a file would already write into it what a killed search has left in the log, so a copy is read then. The log
    of one that is written is removed by the last to close it, which may be this connection.
    """
    logs = [path.with_name(f"{path.name}{suffix}") for suffix in DATABASE_SUFFIXES if suffix]
    with tempfile.TemporaryDirectory(prefix="hpo-look-") as scratch:
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
    """Return how many trials a file holds by state, without reading them."""
    counts: dict[str, int] = dict.fromkeys(_STATES.values(), 0)
    with read_only_connection(path, is_written) as file:
        for state, count in file.execute("SELECT state, count(*) FROM trials GROUP BY state"):
            if state in _STATES:
                counts[_STATES[state]] = count
    return counts


def folds_of(names: Iterable[str]) -> int:
    """Return how many folds the tasks among these names have, such as fold_2 or fold_2_repeat_1; 1 without one."""
    return 1 + max((int(match[1]) for match in map(_FOLD.fullmatch, names) if match), default=0)


class ReadOnlyRows(Rows):
    """The rows of one study in a file of SQLite, read-only; `read` returns those that have changed since it did.

    Optuna's own reading takes half a millisecond per trial, each time, and keeps the file open; this takes a tenth of
    it, once. The file is opened for each reading, and nothing is left beside it. `is_written` says whether a process
    has the study.
    """

    def __init__(self, path: Path, name: str, space: Space, is_written: Callable[[], bool] = lambda: False) -> None:
        super().__init__()
        self._path, self._name, self._is_written = path, name, is_written
        self._dimensions: Mapping[str, Dimension] = {d.key: d for d in space.dimensions}
        # Optuna's ids of the last trial, and of those that had not ended; the id of each of ours by its number.
        self._last, self._open = 0, list[int]()
        self._own: dict[int, int] = {}

    def read(self) -> Iterator[tuple[int, Point, State, Mapping[str, Any]]]:
        """Yield number, point, state and attributes of the trials of ours that are new, or had not ended before."""
        with read_only_connection(self._path, self._is_written()) as file:
            # One state of the file for all of what follows.
            file.execute("BEGIN")
            found = file.execute("SELECT study_id FROM studies WHERE study_name = ?", (self._name,)).fetchone()
            if found is None:
                raise DamagedRecordError(f"record: there is no study '{self._name}' in {self._path.name}")
            (study,) = found
            asked = {"study": study, "last": self._last, "open": json.dumps(self._open)}
            self._noted = {key: json.loads(text) for key, text in file.execute(_NOTES, asked)}
            trials = file.execute(_NEW, asked).fetchall()
            those = _NEW.replace(", state", "")
            attributes: dict[int, dict[str, Any]] = {trial: {} for trial, _ in trials}
            points: dict[int, dict[str, Any]] = {trial: {} for trial, _ in trials}
            for trial, key, text in file.execute(_ATTRIBUTES.format(those), asked):
                attributes[trial][key] = json.loads(text)
            for trial, key, value, kind in file.execute(_PARAMETERS.format(those), asked):
                points[trial][key] = _reader(kind)(value)
        for trial, state in sorted(trials):
            if not is_of_study(attributes[trial], self._noted.get(LAST)) or state not in _STATES:
                continue
            # Of its number the first: others may copy one.
            number = attributes[trial][NUMBER]
            if self._own.setdefault(number, trial) == trial:
                there = {key: d for key, d in self._dimensions.items() if key in points[trial]}
                point = {key: from_stored(d, points[trial][key]) for key, d in there.items()}
                yield number, point, _STATES[state], attributes[trial]
        self._open = [trial for trial, state in trials if state in ("RUNNING", "WAITING")]
        self._last = max([self._last, *(trial for trial, _ in trials)])


@functools.cache
def _reader(distribution: str) -> Callable[[float], Any]:
    """Return what makes a value of the number that Optuna stores of it."""
    kind = json.loads(distribution)
    if kind["name"] == "CategoricalDistribution":
        choices = kind["attributes"]["choices"]
        return lambda number: choices[int(number)]
    return int if kind["name"].startswith("Int") else float
