"""The option that says how the progress of a command is shown."""

import argparse

_PROGRESS = {
    "auto": "lines, on a terminal with a panel below them",
    "json": "JSON lines on standard error, and nothing else",
    "none": "only how it begins and ends",
}


def add_progress(parser: argparse.ArgumentParser) -> None:
    """Add the option that says how the progress is shown."""
    what = "; ".join(f"{name} = {how}" for name, how in _PROGRESS.items())
    parser.add_argument("--progress", choices=list(_PROGRESS), default="auto", help=what)
