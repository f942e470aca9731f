"""Copies of a training's state, made while it waits: whole, to be sent to another machine while it goes on."""

import time
from pathlib import Path
from typing import Any

from hpo.tree import copy_tree

# Sending takes bandwidth; with a machine at most so much training is lost.
_SECONDS_BETWEEN = 60.0


class Snapshots:
    """Copies the state at most once a minute.

    Args:
        state: its folder; None = there is none.
        folder: for the copies, which whoever takes them deletes; None = none are made.
    """

    def __init__(self, state: str | None, folder: str | None) -> None:
        self._state = None if state is None else Path(state)
        self._folder = None if folder is None else Path(folder)
        self._last = time.monotonic()
        self._number = 0

    def take(self) -> dict[str, Any]:
        """Return `{"snapshot": path}` with a new copy; empty where it is not time yet, or there is no state."""
        if self._state is None or self._folder is None or time.monotonic() - self._last < _SECONDS_BETWEEN:
            return {}
        if not self._state.is_dir():
            return {}
        self._number += 1
        copy = self._folder / str(self._number)
        copy_tree(self._state, copy)
        self._last = time.monotonic()
        return {"snapshot": str(copy)}
