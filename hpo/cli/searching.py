"""Runs a search that a command has prepared, shown as `--progress` asks."""

import argparse
from typing import TYPE_CHECKING

from hpo.cli.output import show_json

if TYPE_CHECKING:
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


def run_and_show(study: "PreparedStudy", given: argparse.Namespace) -> int:
    """Run it, print what it came to where `--json` asks, and return the exit code: 0 done, 1 without a winner."""
    from hpo.session.running import run_shown

    searched = run_shown(study, given.progress)
    if searched.text:
        print(searched)
    show_json(searched.to_dict())
    return searched.exit_code
