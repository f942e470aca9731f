"""The exceptions of the toolkit: every error that a user can cause has one of these types and a message of one line."""

import difflib
import signal
from collections.abc import Iterable, Sequence

OUTPUT = "standard output"
"""The name of standard output in errors of writing to it, in place of a path."""


class HpoError(Exception):
    """An error that the command `hpo` prints as one line, without a traceback; `exit_code` is that of the command."""

    exit_code = 2


class ConfigError(HpoError):
    """A configuration value is unknown, of the wrong type, out of bounds, or in conflict with another."""


class SpaceError(HpoError):
    """The search space is not valid."""


class DataError(HpoError):
    """The data cannot be read, or cannot be split as configured."""


class MachineError(HpoError):
    """The machine prevents correct work, for example by a full disk. After a fix, `hpo resume` continues the study."""

    exit_code = 1


class StudyError(HpoError):
    """The study on disk does not allow the operation (missing, changed, unfinished, in use)."""


class NoTrialError(StudyError):
    """`ask` has no trial: the budget or the space is used up, or the strategy waits for results.

    `is_waiting`: whether the strategy waits for the results of open trials.
    """

    exit_code = 1

    def __init__(self, text: str, is_waiting: bool = False) -> None:
        super().__init__(text)
        self.is_waiting = is_waiting


class DocumentError(HpoError):
    """A file is not valid YAML or JSON, or lacks what it should hold."""


class DispatchError(HpoError):
    """The workers cannot be started as configured."""


class TrackError(HpoError):
    """The tracker cannot be used as configured."""


class Interruption(KeyboardInterrupt):
    """A signal to stop this process, unlike an objective's own KeyboardInterrupt; `number` is the signal's number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def text_of(error: BaseException) -> str:
    """Return the text of an error, or a note if the error's `__str__` fails."""
    try:
        return str(error)
    except BaseException as fault:
        # `__str__` of a user's own error may raise anything.
        if is_interruption(fault):
            raise
        return f"(its text cannot be read: {type(fault).__name__})"


def is_interruption(error: BaseException) -> bool:
    """Return whether the error stops this process.

    Without our signal handler, Ctrl-C raises the same KeyboardInterrupt as user code may do.
    """
    if isinstance(error, Interruption):
        return True
    return isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def printable(text: str) -> str:
    """Return the text as one line without control characters, which a terminal would execute."""
    return "".join(sign if sign.isprintable() else " " if sign.isspace() else "�" for sign in text)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text; if the text is empty, the name of its class."""
    text = text_of(error).strip()
    # Some errors list every byte that could not be read.
    return text.splitlines()[0][:300] if text else type(error).__name__


def nearest(name: str, allowed: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the allowed name closest to `name`, or an empty text.

    A dotted key with the same last part comes first, then one in the same group: `lr` and `trainng.lr` mean
    `training.lr`. Letter case makes no difference.
    """
    names = list(allowed)
    parent, _, last = name.rpartition(".")
    close = [each for each in names if "." in each and each.rpartition(".")[2] == last]
    siblings = [each for each in names if each.rpartition(".")[0] == parent]
    if not close and parent and siblings:
        close = [f"{parent}.{part}" for part in _closest(last, [each.rpartition(".")[2] for each in siblings])]
    elif not close:
        close = _closest(name, names)
    return f"; did you mean '{close[0]}'?" if close else ""


def _closest(name: str, names: Sequence[str]) -> list[str]:
    """Return the closest of the names, if one is close; the same letter case comes first."""
    if close := difflib.get_close_matches(name, names, n=1, cutoff=0.6):
        return close
    by_lower = {each.lower(): each for each in names}
    return [by_lower[each] for each in difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)]
