"""The error tree: every fault that a user can cause is one of these, with one clear line."""

import difflib
import signal
from collections.abc import Iterable, Sequence

OUTPUT = "standard output"
"""Stands for the name of a file, in faults of writing to it."""


class HpoError(Exception):
    """A fault that the command shows as one line, without a traceback, and its exit code."""

    exit_code = 2


class ConfigError(HpoError):
    """A configuration value is unknown, of the wrong type, out of bounds, or in conflict with another."""


class SpaceError(HpoError):
    """The search space as written cannot be searched."""


class DataError(HpoError):
    """The data cannot be read or cannot be split as asked."""


class MachineError(HpoError):
    """The machine stopped correct work, such as by a full disk. After a repair, `hpo resume` continues."""

    exit_code = 1


class StudyError(HpoError):
    """The study on disk does not allow the operation (missing, changed, unfinished, in use)."""


class NoTrialError(StudyError):
    """No trial can be asked for now: the budget or the space is used up, or what is open must be told first.

    `is_waiting`: whether it is the latter.
    """

    exit_code = 1

    def __init__(self, text: str, is_waiting: bool = False) -> None:
        super().__init__(text)
        self.is_waiting = is_waiting


class DocumentError(HpoError):
    """A file cannot be read as the YAML or JSON that it should be."""


class DispatchError(HpoError):
    """The workers cannot be started as asked."""


class TrackError(HpoError):
    """The tracker cannot be used as asked."""


class Interruption(KeyboardInterrupt):
    """A signal asked this process to stop (not an objective's own KeyboardInterrupt); `number` is the signal's."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def text_of(error: BaseException) -> str:
    """Return an error's text; it may be unreadable."""
    try:
        return str(error)
    except BaseException as fault:
        # The __str__ of a user's own error may raise anything.
        if is_interruption(fault):
            raise
        return f"(its text cannot be read: {type(fault).__name__})"


def is_interruption(error: BaseException) -> bool:
    """Return whether this process is being stopped; without our handler, Ctrl-C looks like the user code's own."""
    if isinstance(error, Interruption):
        return True
    return isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def printable(text: str) -> str:
    """Return a text of one line without control characters: a terminal would execute them."""
    return "".join(sign if sign.isprintable() else " " if sign.isspace() else "�" for sign in text)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, or the name of its class where the text is empty."""
    text = text_of(error).strip()
    # Some errors list every byte that could not be read.
    return text.splitlines()[0][:300] if text else type(error).__name__


def nearest(name: str, allowed: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the allowed name closest to `name`, or an empty text.

    Of dotted keys one with the same last part, else one beside it: `lr` and `trainng.lr` mean `training.lr`. Letter
    case makes no difference.
    """
    names = list(allowed)
    parent, _, last = name.rpartition(".")
    close = [each for each in names if "." in each and each.rpartition(".")[2] == last]
    beside = [each for each in names if each.rpartition(".")[0] == parent]
    if not close and parent and beside:
        close = [f"{parent}.{part}" for part in _closest(last, [each.rpartition(".")[2] for each in beside])]
    elif not close:
        close = _closest(name, names)
    return f"; did you mean '{close[0]}'?" if close else ""


def _closest(name: str, names: Sequence[str]) -> list[str]:
    """Return the one of these names that is closest, if any is close; of others in other letter case the same."""
    if close := difflib.get_close_matches(name, names, n=1, cutoff=0.6):
        return close
    by_lower = {each.lower(): each for each in names}
    return [by_lower[each] for each in difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)]
