"""The error tree: everything a user can cause ends in one of these, with one clear line."""

import difflib
import signal
from collections.abc import Iterable


class HpoError(Exception):
    """A fault that the command shows as one line, without a traceback, and its exit code."""

    exit_code = 2


class ConfigError(HpoError):
    """A configuration value is unknown, of the wrong type, out of bounds, or at odds with another."""


class SpaceError(HpoError):
    """The search space cannot be searched as it is written."""


class DataError(HpoError):
    """The data cannot be read or cannot be split as asked."""


class MachineError(HpoError):
    """The machine stopped what was right in itself: a full disk, say. Once it is put right, `hpo resume` goes on."""

    exit_code = 1


class StudyError(HpoError):
    """The study on disk cannot do what is asked of it (missing, changed, unfinished, in use)."""


class DocumentError(HpoError):
    """A file cannot be read as the YAML or JSON that it should be."""


class DispatchError(HpoError):
    """The workers cannot be started as asked."""


class TrackError(HpoError):
    """The tracker cannot be used as asked."""


class Interruption(KeyboardInterrupt):
    """A signal asked this process to stop; an objective's own KeyboardInterrupt is none.

    Attributes:
        number: the signal's.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def text_of(error: BaseException) -> str:
    """Return what an error says; some cannot say it."""
    try:
        return str(error)
    except BaseException as fault:
        # An error of a user's own class may raise anything when it is asked.
        if is_interruption(fault):
            raise
        return f"(its text cannot be read: {type(fault).__name__})"


def is_interruption(error: BaseException) -> bool:
    """Return whether somebody stops this process; without a handler of ours Ctrl-C looks like a user's code's own."""
    if isinstance(error, Interruption):
        return True
    return isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says, or the name of its kind where it says nothing."""
    text = text_of(error).strip()
    # Some name every byte of what they could not read.
    return text.splitlines()[0][:300] if text else type(error).__name__


def nearest(name: str, allowed: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the allowed name closest to `name`, or an empty text."""
    close = difflib.get_close_matches(name, list(allowed), n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else ""
