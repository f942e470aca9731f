"""Shows a running comparison: bars on a terminal, one line per search elsewhere."""

import math
import sys
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from hpo.compare.comparison import ComparisonPlan
from hpo.compare.curves import FinishedSearch
from hpo.engine.observers.observer import Observer
from hpo.engine.trials.trial import Trial, loss_sign


class ComparingProgress(Observer):
    """An observer that counts searches, of which `num_done` are finished, and the trials of the running one."""

    def __init__(self, comparison: ComparisonPlan, num_done: int) -> None:
        study = comparison.study.config.study
        self._metric = study.metric
        self._sign = loss_sign(study.direction)
        self._total = len(list(comparison.searches()))
        self._num_done = num_done
        self._console = Console(file=sys.stdout)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._searches = self._bars.add_task("searches", total=self._total, completed=num_done)
        self._trials = self._bars.add_task("trials", total=study.trials)

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def search_started(self, repeat: int, label: str) -> None:
        """Begin the bar of the search's trials."""
        self._bars.reset(self._trials, description=f"repeat {repeat}  {label}")

    def search_finished(self, search: FinishedSearch) -> None:
        """Count the search; without a terminal print its line."""
        self._num_done += 1
        self._bars.update(self._searches, completed=self._num_done)
        if self._console.is_terminal:
            return
        best = min(search.losses, default=math.inf)
        result = f"{self._metric} {self._sign * best:.6g}" if math.isfinite(best) else "no complete trial"
        width = len(str(self._total))
        head = f"{self._num_done:>{width}}/{self._total}  repeat {search.repeat}  {search.label}"
        line = f"{head}  {result} after {len(search.losses)} trials, {math.fsum(search.seconds):.1f} s of training"
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)

    def trial_finished(self, trial: Trial) -> None:  # noqa: ARG002 -- the same call as its siblings
        """Count the trial."""
        self._bars.advance(self._trials)
