"""Runs a search that a command has prepared, shown as `--progress` asks."""

import argparse
from typing import TYPE_CHECKING

from hpo.cli.output import show_json

if TYPE_CHECKING:
    from hpo.show.display import Ended
    from hpo.study.study import PreparedStudy

_PROGRESS = {
    "auto": "lines, on a terminal with a panel below them",
    "json": "JSON lines on standard error, and nothing else",
    "none": "only how it begins and ends",
}


def add_progress(parser: argparse.ArgumentParser) -> None:
    """Add the option that says how the progress is shown."""
    what = "; ".join(f"{name} = {how}" for name, how in _PROGRESS.items())
    parser.add_argument("--progress", choices=list(_PROGRESS), default="auto", help=what)


def run_asked(study: "PreparedStudy", progress: str) -> "Ended":
    """Run a prepared study to its budget, and return how it ended."""
    from hpo.session.session import run_to_the_end
    from hpo.show.json_lines import JsonLines
    from hpo.show.terminal import Terminal

    return run_to_the_end(study, JsonLines() if progress == "json" else Terminal(has_trials=progress == "auto"))


def run_and_show(study: "PreparedStudy", given: argparse.Namespace) -> int:
    """Run it, print what it came to where `--json` asks, and return the exit code: 0 done, 1 without a winner."""
    if study.is_outside:
        from hpo.session.outside import set_up

        says = set_up(study)
        print(says)
        show_json({"study": study.config.study.name, "folder": study.folder.path, "says": says})
        return 0
    view = run_asked(study, given.progress).view
    show_json(view.to_dict())
    return 0 if view.best else 1
