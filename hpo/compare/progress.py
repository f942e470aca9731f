"""Shows a running comparison: bars on a terminal, one line per search elsewhere."""

import math
import sys

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from hpo.compare.curves import FinishedSearch
from hpo.engine.observers.observer import Observer
from hpo.engine.trials.trial import Trial, loss_sign
from hpo.study.study import PreparedStudy


class ComparingProgress(Observer):
    """Counts `total` searches, of which `num_done` are finished, and the trials of the running one, in its `bars`."""

    def __init__(self, study: PreparedStudy, total: int, num_done: int) -> None:
        self._study, self._total, self._num_done = study.config.study, total, num_done
        self._console = Console(file=sys.stdout)
        columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
        is_off = not self._console.is_terminal
        self.bars = Progress(*columns, console=self._console, transient=True, disable=is_off)
        self._searches = self.bars.add_task("searches", total=total, completed=num_done)
        self._trials = self.bars.add_task("trials", total=self._study.trials)

    def search_started(self, repeat: int, label: str) -> None:
        """Begin the bar of the search's trials."""
        self.bars.reset(self._trials, description=f"repeat {repeat}  {label}")

    def search_finished(self, search: FinishedSearch) -> None:
        """Count the search; without a terminal print its line."""
        self._num_done += 1
        self.bars.update(self._searches, completed=self._num_done)
        if self._console.is_terminal:
            return
        best = min(search.losses, default=math.inf)
        score = f"{self._study.metric} {loss_sign(self._study.direction) * best:.6g}"
        result = score if math.isfinite(best) else "no complete trial"
        head = f"{self._num_done:>{len(str(self._total))}}/{self._total}  repeat {search.repeat}  {search.label}"
        line = f"{head}  {result} after {len(search.losses)} trials, {math.fsum(search.seconds):.1f} s of training"
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def trial_finished(self, trial: Trial) -> None:  # noqa: ARG002 -- the same call as its siblings
        """Count the trial."""
        self.bars.advance(self._trials)
