"""A record in a file of SQLite as those see it who only look on: read without Optuna, and nothing is changed."""

import json
import shutil
import sqlite3
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hpo.engine.record.own_file import DamagedRecordError
from hpo.engine.record.record import ROUND, Rows
from hpo.engine.space.dimensions import Dimension, from_stored
from hpo.engine.space.space import Point
from hpo.engine.trials.trial import State
from hpo.errors import first_line

# Optuna's names of the states of our trials; one that waits in its queue is none of ours yet.
_STATES: Mapping[str, State] = {"COMPLETE": "complete", "FAIL": "failed", "PRUNED": "stopped", "RUNNING": "running"}
_PATIENCE_SECONDS = 5.0


@contextmanager
def looked_at(path: Path, is_held: bool) -> Iterator[sqlite3.Connection]:
    """Yield a connection to the file; DamagedRecordError for what cannot be read there.

    Where a process has it (`is_held`), SQLite notes in the log's index, the file `-shm`, that somebody reads. Otherwise
    even to read would write into the file what a killed search has left in the log: a copy is read then.
    """
    with tempfile.TemporaryDirectory(prefix="hpo-look-") as scratch:
        try:
            log = path.with_name(f"{path.name}-wal")
            how = "mode=ro" if is_held and log.exists() else "immutable=1"
            if not is_held and log.exists() and log.stat().st_size:
                for source in (path, log):
                    shutil.copyfile(source, Path(scratch, source.name))
                path, how = Path(scratch, path.name), "mode=rw"
            url = f"file:{quote(str(path.absolute()))}?{how}"
            with closing(sqlite3.connect(url, _PATIENCE_SECONDS, uri=True)) as connection:
                yield connection
        except (sqlite3.Error, OSError, LookupError, TypeError, ValueError) as error:
            raise DamagedRecordError(f"record: {path.name} cannot be read: {first_line(error)}") from error


def count_states(path: Path, is_held: bool) -> dict[str, int]:
    """Return how many trials the file holds by state, without reading them."""
    counts: dict[str, int] = dict.fromkeys(_STATES.values(), 0)
    with looked_at(path, is_held) as file:
        for state, count in file.execute("SELECT state, count(*) FROM trials GROUP BY state"):
            if state in _STATES:
                counts[_STATES[state]] = count
    return counts


class SeenRows(Rows):
    """The rows of one study in the file, as of now; DamagedRecordError where they cannot be read."""

    def __init__(self, path: Path, name: str, dimensions: Iterable[Dimension], is_held: bool) -> None:
        self._dimensions = {dimension.key: dimension for dimension in dimensions}
        with looked_at(path, is_held) as file:
            # All of it as of one moment.
            file.execute("BEGIN")
            found = file.execute("SELECT study_id FROM studies WHERE study_name = ?", (name,)).fetchone()
            if found is None:
                raise DamagedRecordError(f"record: there is no study '{name}' in {path.name}")
            study: int = found[0]
            self._noted = _json_of(
                file.execute("SELECT key, value_json FROM study_user_attributes WHERE study_id = ?", (study,))
            )
            points, attributes = defaultdict[int, dict[str, Any]](dict), defaultdict[int, dict[str, Any]](dict)
            for trial, key, value, kind in _of_trials(
                file, "trial_params", "param_name, param_value, distribution_json", study
            ):
                if key in self._dimensions:
                    points[trial][key] = self._value(key, value, json.loads(kind))
            for trial, key, text in _of_trials(file, "trial_user_attributes", "key, value_json", study):
                attributes[trial][key] = json.loads(text)
            trials = file.execute(
                "SELECT trial_id, number, state FROM trials WHERE study_id = ? ORDER BY trial_id", (study,)
            ).fetchall()
        self._rows: dict[int, tuple[int, Point, State, Mapping[str, Any]]] = {}
        for trial, number, state in trials:
            own = attributes[trial]
            if ROUND in own and state in _STATES:
                # As `OptunaRows` finds ours among those of other programs.
                number = own.get("number", number)
                point = {key: points[trial][key] for key in self._dimensions if key in points[trial]}
                self._rows.setdefault(number, (number, point, _STATES[state], own))

    def read(self) -> Iterable[tuple[int, Point, State, Mapping[str, Any]]]:
        """Return number, point, state and attributes of every trial of ours."""
        return self._rows.values()

    def _value(self, key: str, value: float, kind: Mapping[str, Any]) -> Any:
        if kind["name"] == "CategoricalDistribution":
            return from_stored(self._dimensions[key], kind["attributes"]["choices"][int(value)])
        return int(value) if kind["name"] == "IntDistribution" else value


def _of_trials(file: sqlite3.Connection, table: str, columns: str, study: int) -> sqlite3.Cursor:
    """Return the rows of a table of Optuna's that belong to the study's trials, each with the id of its trial."""
    return file.execute(
        f"SELECT trial_id, {columns} FROM {table} JOIN trials USING (trial_id) WHERE study_id = ?",
        (study,),
    )


def _json_of(rows: Iterable[tuple[str, str]]) -> dict[str, Any]:
    return {key: json.loads(text) for key, text in rows}
