"""What a record keeps of a study beside its trials: each note under its key, with how it is read and written."""

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar, overload

# What a new study writes first and last: a driver that died between them left a study that is not whole.
FIRST, LAST = "imports", "id"

T = TypeVar("T")


class Noted(Protocol):
    """What holds notes: a record, its rows, or a view of them."""

    def noted(self, key: str) -> Any:
        """Return a JSON-able value of the study; None where it is not there."""

    def note(self, key: str, value: Any) -> None:
        """Write one."""


class Note(Generic[T]):
    """A note as an attribute of what holds it: to read the attribute reads the note, to set it writes the note.

    Args:
        key: its key in the record, which never changes: studies of earlier versions have it.
        read: returns the value of what was written; of None where nothing was.
        write: returns what is written, JSON-able.
    """

    def __init__(
        self, key: str, read: Callable[[Any], T] = lambda noted: noted, write: Callable[[T], Any] = lambda value: value
    ) -> None:
        self.key = key
        self._read = read
        self._write = write

    @overload
    def __get__(self, holder: None, owner: Any) -> "Note[T]": ...
    @overload
    def __get__(self, holder: Noted, owner: Any) -> T: ...
    def __get__(self, holder: Noted | None, owner: Any) -> "T | Note[T]":
        return self if holder is None else self._read(holder.noted(self.key))

    def __set__(self, holder: Noted, value: T) -> None:
        holder.note(self.key, self._write(value))
