"""What a training that keeps a state has reported, in a file beside the state, written before `report` returns.

Whoever repeats the training after a crash goes on from the state, and reports only what follows: the journal has the
rest.
"""

import hashlib
import itertools
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpo.trials.places import Point, place_of

# In the folder of a training's state: what the objective keeps, and the journal.
_STATE, _REPORTS = "state", "reports.jsonl"
_MOST_FILES = 100  # of a state that are looked at with each report
_SMALL = 1 << 16  # bytes of a file that is read for it


def state_of(folder: str) -> str:
    """Return where the objective keeps its state, in the folder that a payload names."""
    return f"{folder}/{_STATE}"


@dataclass(frozen=True)
class Entry:
    """A report.

    Attributes:
        point: with its place.
        units: how many units of training it took.
        more: whether the training said that it goes on; None = it did not say.
        state: what the state was then; see `Journal.state`.
    """

    point: Point
    units: float
    more: bool | None
    state: str | None = None


class Journal:
    """The reports of a training, and of those that it continues, which have the same state.

    Nothing is written before there is a state: without one a training starts again.

    Attributes:
        entries: in the order of their places.
        is_whole: whether the last attempt came to its own end, so that the state is where the entries end.
    """

    def __init__(self, folder: Path) -> None:
        self._state, self._path = folder / _STATE, folder / _REPORTS
        self._file: int | None = None
        self.entries, self.is_whole = list[Entry](), False
        for line in self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else ():
            try:
                content = json.loads(line)
            except ValueError:
                continue  # Its writing was cut off.
            if "point" in content:
                self.entries.append(Entry(**content))
            self.is_whole = "ended" in content

    @property
    def has_state(self) -> bool:
        """Whether the objective has kept anything."""
        return self._state.is_dir() and any(self._state.iterdir())

    def state(self) -> str | None:
        """Return a hash of what the objective has kept, which another state does not have; None where none is known.

        That is so with many files, and while another thread writes.
        """
        hashed, folder = hashlib.sha256(), str(self._state)
        try:
            paths = sorted(itertools.islice(_files(folder), _MOST_FILES + 1))
            for path in map(Path, paths):
                # Of a file that takes a while to write its time is enough; a small one may be written twice in a tick.
                status = path.stat()
                content = path.read_bytes() if status.st_size <= _SMALL else str(status.st_mtime_ns).encode()
                hashed.update(f"{path.relative_to(folder)}\0{status.st_size}\0".encode() + content)
        except OSError:
            return None
        return hashed.hexdigest()[:16] if len(paths) <= _MOST_FILES else None

    def after(self, place: float) -> list[Entry]:
        """Return the entries after a place."""
        return [entry for entry in self.entries if place_of(entry.point) > place]

    def begin(self) -> None:
        """Begin to write, after these entries; what follows is another attempt."""
        lines = [*map(vars, self.entries), {"begun": True}]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        aside = self._path.with_suffix(".new")
        aside.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
        aside.replace(self._path)
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND)

    def begin_anew(self, place: float) -> None:
        """Begin an attempt without a state, and without the entries after a place."""
        self.close()
        self.entries = [entry for entry in self.entries if place_of(entry.point) <= place]
        shutil.rmtree(self._state, ignore_errors=True)
        self._path.unlink(missing_ok=True)

    def add(self, entry: Entry) -> None:
        """Write a report."""
        self.entries.append(entry)
        if self._file is None and self.has_state:
            self.begin()
        else:
            self._write(vars(entry))

    def end(self) -> None:
        """Write that the training has come to its own end."""
        if self._file is None and self.has_state:
            self.begin()
        self._write({"ended": True})
        self.close()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
        self._file = None

    def _write(self, content: Mapping[str, Any]) -> None:
        if self._file is not None:
            os.write(self._file, f"{json.dumps(content)}\n".encode())


def _files(folder: str) -> Iterator[str]:
    for inside, _, names in os.walk(folder):
        yield from (f"{inside}/{name}" for name in names)
