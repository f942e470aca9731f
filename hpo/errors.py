"""The exceptions of the toolkit; every error that a user can cause has one of these types and a one-line message."""

import difflib
import signal
from collections.abc import Iterable, Sequence

OUTPUT = "standard output"
"""The text that stands for a path in errors about writing to standard output."""


class HpoError(Exception):
    """An error that the command `hpo` prints as one line, without a traceback.

    `exit_code` is the exit code of the command after this error.
    """

    exit_code = 2


class ConfigError(HpoError):
    """A configuration key is unknown, or its value has the wrong type, is out of bounds, or contradicts another key."""


class SpaceError(HpoError):
    """The search space is not valid."""


class DataError(HpoError):
    """The data cannot be read, or cannot be split as configured."""


class MachineError(HpoError):
    """A fault of the machine, such as a full disk, prevents correct work.

    After the fault is fixed, `hpo resume` continues the study.
    """

    exit_code = 1


class StudyError(HpoError):
    """The study does not allow the operation; for example, the study is missing, changed, unfinished or in use."""


class NoTrialError(StudyError):
    """`ask` has no trial to return: the budget or the space is used up, or the strategy waits for results.

    `is_waiting`: whether the strategy waits for the results of open trials.
    """

    exit_code = 1

    def __init__(self, text: str, is_waiting: bool = False) -> None:
        super().__init__(text)
        self.is_waiting = is_waiting


class DocumentError(HpoError):
    """A file cannot be read as YAML or JSON, or has content that is not allowed, such as a YAML alias."""


class DispatchError(HpoError):
    """The workers cannot be started as configured."""


class TrackError(HpoError):
    """The tracker cannot be used as configured."""


class Interruption(KeyboardInterrupt):
    """This process got a signal to stop; `number` is the number of the signal.

    This type distinguishes the signal from a KeyboardInterrupt that an objective raises itself.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def text_of(error: BaseException) -> str:
    """Return the text of an error, or a substitute if the error's `__str__` fails."""
    try:
        return str(error)
    except BaseException as fault:
        # The error may be of a user's class, whose `__str__` may raise anything.
        if is_interruption(fault):
            raise
        return f"(its text cannot be read: {type(fault).__name__})"


def is_interruption(error: BaseException) -> bool:
    """Return whether the cause of an error is a signal to stop this process.

    If the toolkit's signal handler is not installed, Ctrl-C raises a plain KeyboardInterrupt. Then a KeyboardInterrupt
    counts as an interruption, although user code might have raised it.
    """
    if isinstance(error, Interruption):
        return True
    return isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def printable(text: str) -> str:
    """Return the text as one line without control characters, because a terminal would react to such characters."""
    return "".join(sign if sign.isprintable() else " " if sign.isspace() else "�" for sign in text)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, cut to 300 characters; for an empty text, the error's class name."""
    text = text_of(error).strip()
    # Cut the line, because some errors list every byte that could not be read.
    return text.splitlines()[0][:300] if text else type(error).__name__


# Names that other tools give to settings and strategies of this toolkit.
_OF_PEERS = {
    **dict.fromkeys(("n_trials", "num_trials", "max_trials", "num_samples", "n_iter", "run_cap"), "study.trials"),
    **dict.fromkeys(("n_jobs", "num_workers", "n_workers", "max_concurrent"), "dispatch.workers"),
    **dict.fromkeys(("sampler", "algorithm", "search_alg", "method", "scheduler", "pruner"), "strategy"),
    **dict.fromkeys(("timeout", "time_budget_s"), "study.minutes"),
    **{"study_name": "study.name", "mode": "study.direction", "learning_rate": "training.lr", "cv": "split.folds"},
    **dict.fromkeys(("bayes", "bayesian", "bo", "hyperopt"), "tpe"),
    **{"genetic": "evolutionary", "cmaes": "cma_es", "sha": "asha", "uniform": "random"},
}


def nearest(name: str, allowed: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` with the allowed name closest to `name`; an empty text if no name is close.

    The first choice is the toolkit's name for something that other tools call `name`. The second is a dotted key with
    the same last part: `lr` and `trainng.lr` both give `training.lr`. The third is a similar name. If `allowed` has
    keys in the group of `name` (`training` in `training.lx`), only these keys count as similar names. Letter case may
    differ in the first and the third choice.
    """
    names = list(allowed)
    parent, _, last = name.rpartition(".")
    if (ours := _OF_PEERS.get(last.lower().replace("-", "_"))) in names:
        return f"; did you mean '{ours}'?"
    close = [each for each in names if "." in each and each.rpartition(".")[2] == last]
    siblings = [each for each in names if each.rpartition(".")[0] == parent]
    if not close and parent and siblings:
        close = [f"{parent}.{part}" for part in _closest(last, [each.rpartition(".")[2] for each in siblings])]
    elif not close:
        close = _closest(name, names)
    return f"; did you mean '{close[0]}'?" if close else ""


def _closest(name: str, names: Sequence[str]) -> list[str]:
    """Return a list with the closest name, empty if no name is close; prefer a name in the same letter case."""
    if close := difflib.get_close_matches(name, names, n=1, cutoff=0.6):
        return close
    by_lower = {each.lower(): each for each in names}
    return [by_lower[each] for each in difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)]
