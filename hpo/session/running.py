"""Runs a prepared study to its budget with a display, and returns its result."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpo.session.outside import set_up
from hpo.session.session import run_to_the_end
from hpo.show.display import Display, Ended, How, refuse_unknown_progress
from hpo.show.json_lines import JsonLines
from hpo.show.lines import next_lines
from hpo.show.notebook import Notebook
from hpo.show.terminal import Terminal
from hpo.study.study import PreparedStudy


@dataclass(frozen=True)
class Searched:
    """The result of a search in this process, or a message if another program runs the search.

    Attributes:
        study: the study's name.
        folder: the study's folder.
        says: the message if another program runs the search; else empty.
        ended: how the search ended; None = another program runs the search.
        text: the lines to print at the end in a shell, except those that the display has already shown.
    """

    study: str
    folder: Path
    says: str = ""
    ended: Ended | None = None
    text: str = ""

    def __str__(self) -> str:
        return self.text

    @property
    def exit_code(self) -> int:
        """1 if the search ended without a winner, else 0."""
        return 1 if self.ended and not self.ended.view.best else 0

    def to_dict(self) -> dict[str, Any]:
        """Return the study's view as a dict.

        If another program runs the search, return a dict with this object's `study`, `folder` and `says`.
        """
        if self.ended:
            return self.ended.view.to_dict()
        return {"study": self.study, "folder": self.folder, "says": self.says}


def run_shown(study: PreparedStudy, progress: How) -> Searched:
    """Run a prepared study to its budget. `progress` chooses the display; see `display_of`.

    If another program trains the study's trials, only create the study, or open the existing study. In this case, print
    the commands with which a user asks for trials and tells their results, except if `progress` is False.

    Raise the errors of `run_to_the_end`.
    """
    display, name, folder = display_of(progress), study.config.study.name, study.folder.path
    if study.is_outside:
        answer = set_up(study)
        if progress:
            print(answer)
        return Searched(name, folder, answer)
    ended = run_to_the_end(study, display)
    return Searched(name, folder, ended=ended, text="" if progress == "json" else "\n".join(next_lines(ended.view)))


def display_of(progress: How) -> Display:
    """Return the display of a search. Raise ConfigError for an unknown `progress`.

    Args:
        progress: `auto` or True = lines of text, or live output in a notebook; `json` = JSON lines; `none` = only the
            beginning and the end of the search; False = nothing.
    """
    refuse_unknown_progress(progress)
    if not progress:
        return Display()
    if progress == "json":
        return JsonLines()
    if progress == "none":
        return Terminal(has_trials=False)
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return Notebook() if getattr(shell, "kernel", None) is not None else Terminal()
