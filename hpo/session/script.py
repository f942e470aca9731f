"""A prepared study run in a script or a notebook, and shown as fits there."""

import sys

from hpo.session.outside import set_up
from hpo.session.program import interrupted_in_one_line
from hpo.session.session import run_to_the_end
from hpo.show.display import Display
from hpo.show.notebook import Notebook
from hpo.show.terminal import Terminal
from hpo.study.study import PreparedStudy


@interrupted_in_one_line()
def run_shown(study: PreparedStudy, progress: bool) -> None:
    """Run a prepared study to its budget; after a signal a KeyboardInterrupt says what is saved."""
    if study.is_outside:
        print(set_up(study))
        return
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    is_notebook = getattr(shell, "kernel", None) is not None
    shown = Notebook() if is_notebook else Terminal(next_step=False)
    run_to_the_end(study, shown if progress else Display())
