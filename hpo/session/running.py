"""A prepared study run to its budget, shown as whoever runs it asks, and what it came to."""

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
    """How a search ended, or the answer where none ran here; what was shown as it went on is not said again.

    Attributes:
        study: its name.
        folder: where it is.
        says: the answer where no search ran here, else empty.
        ended: how it ended; None where no search ran here.
        text: what a shell prints at the end.
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
        """1 where it ended without a winner."""
        return 1 if self.ended and not self.ended.view.best else 0

    def to_dict(self) -> dict[str, Any]:
        """Return its view, or the answer."""
        if self.ended:
            return self.ended.view.to_dict()
        return {"study": self.study, "folder": self.folder, "says": self.says}


def run_shown(study: PreparedStudy, progress: How) -> Searched:
    """Run a prepared study to its budget, shown as `display_of` says; Stopped after a signal.

    One that is trained elsewhere is created or continued.
    """
    display, name, folder = display_of(progress), study.config.study.name, study.folder.path
    if study.is_outside:
        says = set_up(study)
        if progress:
            print(says)
        return Searched(name, folder, says)
    ended = run_to_the_end(study, display)
    return Searched(name, folder, ended=ended, text="" if progress == "json" else "\n".join(next_lines(ended.view)))


def display_of(progress: How) -> Display:
    """Return what shows a search: auto = lines or a notebook's output, json = JSON lines, none = its beginning and end.

    False = nothing, True = auto. ConfigError for anything else.
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
