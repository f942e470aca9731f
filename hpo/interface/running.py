"""Runs a study, or a single training, for a script or a notebook, and shows it where it runs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hpo.errors import StudyError
from hpo.session.display import Display, Nowhere
from hpo.session.interrupts import say_in_one_line
from hpo.session.run import run_to_the_end
from hpo.session.stopping import Stopped, Stopping
from hpo.session.terminal import Terminal
from hpo.study.study import Study


def run_shown(study: Study, progress: bool) -> None:
    """Run a prepared study to its budget.

    Args:
        study: a new one, or one to be continued.
        progress: whether it is shown.

    Raises:
        KeyboardInterrupt: after a signal; everything that was finished is saved.
    """
    stopping = Stopping()
    try:
        run_to_the_end(study, _display(progress), stopping)
    except Stopped:
        said = stopping.last_words().strip().partition("\n")[0]
        interruption = KeyboardInterrupt(f"{said}; the same call goes on")
        say_in_one_line(interruption)
        raise interruption from None


def train_shown(tree: Mapping[str, Any], progress: bool, kept: Path | None = None) -> dict[str, float]:
    """Train one configuration and return its metrics; arguments as of `train_once`, StudyError where it failed."""
    from hpo.session.curve import print_point
    from hpo.study.train_once import train_once

    _, outcome = train_once(tree, print_point if progress else lambda _: None, kept)
    if outcome.error:
        raise StudyError(f"train: failed: {outcome.error}")
    return dict(outcome.metrics)


def _display(progress: bool) -> Display:
    if not progress:
        return Nowhere()
    from hpo.interface.notebook import Notebook, is_notebook

    return Notebook() if is_notebook() else Terminal(next_step=False)
