"""Runs a study for a command: at a terminal, to an exit code."""

import sys

from hpo.session.program import is_ours, leave
from hpo.session.run import run_to_the_end
from hpo.session.stopping import Stopped, Stopping
from hpo.session.terminal import Terminal
from hpo.study.study import Study


def run_at_terminal(study: Study) -> int:
    """Run the study and return the exit code: 0 done, 1 every trial failed.

    After signal n the command's own process ends with 128 + n.

    Raises:
        Stopped: by a signal, in the process of another program.
    """
    stopping = Stopping()
    try:
        result = run_to_the_end(study, Terminal(), stopping)
    except Stopped as stopped:
        sys.stderr.write(stopping.last_words())
        if not is_ours():
            raise
        # Everything is closed. Remaining threads, of Ray's start or of an objective, must not keep the process alive.
        leave(128 + stopped.number)
    return 0 if result.verdict.winner else 1
