"""The journal of a training: a file next to the training's state, with every report of the training.

A report is written to the journal before it is sent. After a crash, a training continues from its state, and makes only
the reports after this state. The reports from before the state are read from the journal.
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

# Names within a training's folder: the folder for the objective's state, and the journal.
_STATE, _REPORTS = "state", "reports.jsonl"
_MOST_FILES = 100  # a state with more files is not hashed
_SMALL = 1 << 16  # files of more bytes are hashed by size and time, not by content


def state_of(folder: str) -> str:
    """Return the folder for the objective's state, inside the folder `folder` (the `resume_dir` of a payload)."""
    return f"{folder}/{_STATE}"


@dataclass(frozen=True)
class Entry:
    """A report in the journal.

    Attributes:
        point: the reported values, including the epoch or step.
        units: units of training since the previous report.
        more: whether the training said that it continues after this report; None = it did not say.
        state: hash of the state when this report was made; see `Journal.state`.
    """

    point: Point
    units: float
    more: bool | None
    state: str | None = None


class Journal:
    """The reports of a training, and of the earlier trainings whose state it continues.

    The journal is not written before a state exists, because without a state the training starts from the beginning.

    Attributes:
        entries: the reports, in the order of the learning curve.
        is_whole: whether the last attempt finished. If so, the state belongs to the last entry.
    """

    def __init__(self, folder: Path) -> None:
        self._state, self._path = folder / _STATE, folder / _REPORTS
        self._file: int | None = None
        self.entries, self.is_whole = list[Entry](), False
        for line in self._path.read_text(encoding="utf-8").splitlines() if self._path.exists() else ():
            try:
                content = json.loads(line)
            except ValueError:
                continue  # A crash has cut off this line.
            if "point" in content:
                self.entries.append(Entry(**content))
            self.is_whole = "ended" in content

    @property
    def has_state(self) -> bool:
        """Whether the objective has saved a state."""
        return self._state.is_dir() and any(self._state.iterdir())

    def state(self) -> str | None:
        """Return a hash of the state; None = unknown, because the state has many files or a thread is writing to it."""
        hashed, folder = hashlib.sha256(), str(self._state)
        try:
            paths = sorted(itertools.islice(_files(folder), _MOST_FILES + 1))
            for path in map(Path, paths):
                # A small file may be written twice at the same time stamp, so hash its content.
                status = path.stat()
                content = path.read_bytes() if status.st_size <= _SMALL else str(status.st_mtime_ns).encode()
                hashed.update(f"{path.relative_to(folder)}\0{status.st_size}\0".encode() + content)
        except OSError:
            return None
        return hashed.hexdigest()[:16] if len(paths) <= _MOST_FILES else None

    def after(self, place: float) -> list[Entry]:
        """Return the entries whose epoch or step is after `place`."""
        return [entry for entry in self.entries if place_of(entry.point) > place]

    def begin(self) -> None:
        """Write all entries so far to the journal's file, and open the file for the reports of a new attempt."""
        lines = [*map(vars, self.entries), {"begun": True}]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        aside = self._path.with_suffix(".new")
        aside.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
        aside.replace(self._path)
        self._file = os.open(self._path, os.O_WRONLY | os.O_APPEND)

    def restart(self, place: float) -> None:
        """Delete the state and the journal's file, so that the training starts from the beginning.

        `place` is the last epoch or step that earlier trials reported, before this trial continued their training. Keep
        the entries up to `place` in `entries`, and drop the later entries, which this trial reported.
        """
        self.close()
        self.entries = [entry for entry in self.entries if place_of(entry.point) <= place]
        shutil.rmtree(self._state, ignore_errors=True)
        self._path.unlink(missing_ok=True)

    def add(self, entry: Entry) -> None:
        """Add a report to `entries`, and to the journal's file if the objective has saved a state."""
        self.entries.append(entry)
        if self._file is None and self.has_state:
            self.begin()
        else:
            self._write(vars(entry))

    def end(self) -> None:
        """Write to the journal's file that the training is finished, and close the file."""
        if self._file is None and self.has_state:
            self.begin()
        self._write({"ended": True})
        self.close()

    def close(self) -> None:
        """Close the journal's file, if the file is open."""
        if self._file is not None:
            os.close(self._file)
        self._file = None

    def _write(self, content: Mapping[str, Any]) -> None:
        if self._file is not None:
            os.write(self._file, f"{json.dumps(content)}\n".encode())


def _files(folder: str) -> Iterator[str]:
    for inside, _, names in os.walk(folder):
        yield from (f"{inside}/{name}" for name in names)
