"""Shows a running search: a live panel on a terminal, plain lines elsewhere."""

import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from hpo.errors import printable
from hpo.formatting import format_count, format_short
from hpo.show.display import Progress, ShownStudy, follow_up_in_words, peak_in_words
from hpo.trials.history import History
from hpo.trials.places import to_amount
from hpo.trials.record.user_actions import UserAction
from hpo.trials.space.dimensions import Dimension, Range
from hpo.trials.space.space import short_text
from hpo.trials.trial import Trial
from hpo.workers.dispatch.dispatcher import TaskReport
from hpo.workers.training.tasks import Task

# The first trials, the best and the last one always have a line. The others have at most ten lines per second, because
# a search in a table ends thousands of trials per second.
_LINES_AT_ONCE = 200
_LINES_PER_SECOND = 10
_AMOUNTS = "`to N` is a trial's amount of training; * = the best so far among the trials that were trained furthest"
_SCALES = "* = the best trial so far of its scale; scores of different scales are not comparable"
_SEVERAL = "* = on the Pareto front: no trial so far dominates this trial"
_FURTHEST = "`to N` is a trial's amount of training; the front has only the trials that were trained furthest"
# Without a panel: seconds of silence before a line shows running tasks, and the most tasks in that line.
_SECONDS_OF_SILENCE = 60
_MOST_TASKS = 3
# Width of a number such as 5.57e-5.
_NUMBER = 7


@dataclass(frozen=True)
class Sign:
    """The last report of a running task.

    Attributes:
        at: the time of the report in seconds, by the display's function `clock`; before the first report, the time of
            the task's start.
        point: the reported point of the learning curve; empty before the first report.
        where: the host of the training; empty if the display does not show hosts.
    """

    at: float
    point: Mapping[str, Any]
    where: str = ""


class TerminalProgress(Progress):
    """Shows running tasks with their last reports, the best trial so far, and the time left."""

    silent_seconds = 10.0
    """Without a panel, a line about progress is printed after this many seconds without output.

    Such lines are printed until the first trial ends, and while trainings run after the search.
    """

    def __init__(
        self,
        study: ShownStudy,
        history: History,
        seconds_before: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(study, history, seconds_before, clock)
        self._layout = study.layout
        self._widths = {each.key: _width(each) for each in study.space.dimensions}
        self._running: dict[tuple[int, int], Sign] = {}
        self._last_line, self._num_printed = self._started, 0
        self._is_first_trial, self._has_begun, self._is_long = True, False, False
        # The progress of trainings after the search.
        self._following = ""
        # Keys of texts that are printed once per search, even if every trial causes them, such as warnings.
        self._printed_once: set[str] = set()
        self._console = Console(file=sys.stdout)
        panel = Live(get_renderable=self.panel, console=self._console, refresh_per_second=4, transient=True)
        self._live = panel if self._console.is_terminal else None
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch_silence, daemon=True)

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        else:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()
        else:
            self._is_over.set()
            self._thread.join()

    def task_begun(self, task: Task) -> None:
        """Add the task to the running tasks."""
        self._running[task.trial, task.index] = Sign(self._clock(), {})
        # Announce the very first task, because it may run for hours without a report.
        is_very_first = self._layout.size > 1 and not self._has_begun
        self._has_begun = True
        self._show_first_trial(f"{self._name(task.trial, task.index)} begins", is_due=self._is_long or is_very_first)

    def reported(self, trial: Trial, report: TaskReport) -> None:
        """Store the last report of a task's learning curve; print each warning and the peak GPU memory only once."""
        task = (trial.number, report.task.index)
        if report.gpu_memory is not None:
            self._say_once("memory", peak_in_words(*report.gpu_memory))
        if report.warning is not None:
            self._say_once(report.warning, f"warning: trial {trial.number}: {report.warning}")
        elif report.point is not None:
            self._running[task] = Sign(self._clock(), report.point)
            self._show_first_trial("  ".join(filter(None, self._running_cells(*task, report.point))))
        elif report.outcome is not None:
            self._running.pop(task, None)

    def trial_finished(self, trial: Trial) -> None:
        """Count the trial and print its line.

        After 200 lines, skip the line if the last line was printed less than 0.1 seconds ago. Never skip the line of a
        new best trial or of the search's final trial.
        """
        self._is_first_trial = False
        is_best = self._count(trial)
        now = self._clock()
        is_last = self.num_done == self._study.trials
        if is_best or is_last or self._num_printed < _LINES_AT_ONCE or now - self._last_line > 1 / _LINES_PER_SECOND:
            self._explain(trial)
            self._say(self._line(trial))
            self._num_printed += 1
            self._last_line = now

    def user_acted(self, action: UserAction) -> None:
        """Print the user action."""
        super().user_acted(action)
        self._say(str(action))

    def followed_up(self, what: str, num_ended: int, num_all: int) -> None:
        """Show the progress of the trainings that run after the search.

        Print a line when these trainings start. On a terminal, the panel then shows their progress. Elsewhere, print
        further lines about their progress, at least `silent_seconds` apart.
        """
        self._following = follow_up_in_words(what, num_ended, num_all)
        if not num_ended:
            self._say(f"training {what}: {format_count(num_all, 'training*')}")
            self._last_line = self._clock()
        elif not self._live and self._clock() - self._last_line >= self.silent_seconds:
            self._say(self._following)
            self._last_line = self._clock()

    def _explain(self, trial: Trial) -> None:
        """Explain the marks in a trial's line. Print each explanation once, before the first line that has the mark."""
        is_one = len(self._goal.metrics) == 1
        if trial.scale:
            self._say_once(_SCALES, _SCALES)
        if not is_one and trial.state == "complete":
            self._say_once(_SEVERAL, _SEVERAL)
        if trial.amount is not None:
            text = _AMOUNTS if is_one else _FURTHEST
            self._say_once(text, text)
        if trial.excess > 0:
            self._say_once("limits", f"! exceeds a limit: {', '.join(map(str, self._goal.limits))}")

    def _show_first_trial(self, text: str, is_due: bool = False) -> None:
        """Without a panel, print `text` during the first trial: at once if `is_due`, else only after a long silence."""
        now = self._clock()
        is_silent = now - self._last_line >= self.silent_seconds
        if self._live or not self._is_first_trial or not (is_due or is_silent):
            return
        self._say(text)
        self._is_long, self._last_line = self._is_long or is_silent, now

    def _watch_silence(self) -> None:
        while not self._is_over.wait(1.0):
            # Ignore a closed output here: the next line of a trial raises its error.
            with suppress(OSError):
                self.show_silence()

    def show_silence(self) -> None:
        """After a minute without output, print up to three running tasks with their last reports."""
        if not self._running or self._clock() - self._last_line < _SECONDS_OF_SILENCE:
            return
        running = sorted(self._running.items())
        tasks = [
            "  ".join(filter(None, [*self._running_cells(*task, sign.point), self._ago(sign)]))
            for task, sign in running
        ]
        more = f"; and {len(tasks) - _MOST_TASKS} more" if len(tasks) > _MOST_TASKS else ""
        self._last_line = self._clock()
        self._say(f"running: {'; '.join(tasks[:_MOST_TASKS])}{more}")

    def _say(self, text: str) -> None:
        self._console.print(Text(printable(text)), soft_wrap=True)

    def _say_once(self, what: str, text: str) -> None:
        if what not in self._printed_once:
            self._printed_once.add(what)
            self._say(text)

    def _line(self, trial: Trial) -> str:
        width = len(str(self._study.trials))
        head = f"{self.num_done:>{width}}/{self._study.trials}  trial {trial.number:<{width}}  "
        point = short_text(trial.point, self._widths)
        point += to_amount(trial.amount, trial.reached if trial.state == "complete" else None)
        if trial.state == "stopped":
            score = "" if trial.score is None else f"{self._study.metric} {self._score_text(trial.score)}, "
            result = f"{score}stopped {trial.stopped}"
        elif trial.score is None:
            result = f"failed: {trial.error}"
        else:
            mark = "*" if self._is_best(trial) else " " if trial.keeps_limits else "!"
            result = f"{self._values_text(trial)} {mark}"
        left = self._time_left()
        return f"{head}{result}  {point}  {trial.seconds:.1f} s{f'  ({left} left)' if left else ''}"

    def panel(self) -> Group:
        """Return the live panel: the counts, the best trial so far, the time left and the running tasks."""
        left = self._time_left()
        head = f"{self.num_done} of {self._study.trials} {self._counts}  {self._best_text}"
        head += f"  {left} left" if left else ""
        head += f"  {self._following}" if self._following else ""
        bar = ProgressBar(total=self._study.trials, completed=self.num_done, width=60)
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        for (number, index), sign in sorted(self._running.items()):
            cells = (*self._running_cells(number, index, sign.point), self._ago(sign), sign.where)
            # A plain string would be markup, in which a metric such as `f1[macro]` loses its brackets.
            table.add_row(*map(Text, cells))
        # The padding adds the line break that the bar lacks.
        return Group(Text(printable(head)), Padding(bar, 0), table)

    def _running_cells(self, number: int, index: int, point: Mapping[str, Any]) -> list[str]:
        return [self._name(number, index), *map(printable, self._point_texts(point))]

    def _ago(self, sign: Sign) -> str:
        seconds = max(0.0, self._clock() - sign.at)
        ago = f"{seconds:.0f} s ago" if seconds < 120 else f"{seconds / 60:.0f} min ago"
        return ago if sign.point else f"began {ago}"

    def _name(self, number: int, index: int) -> str:
        if index < 0:
            return f"final model of trial {number}"
        layout = self._layout
        fold = f", fold {layout.fold(index) + 1} of {layout.folds}" if layout.folds > 1 else ""
        repeat = f", repeat {layout.repeat(index) + 1} of {layout.repeats}" if layout.repeats > 1 else ""
        return f"trial {number}{fold}{repeat}"


def _width(dimension: Dimension) -> int:
    """Return the number of characters of a dimension's longest value; for real numbers, return the fixed `_NUMBER`."""
    if isinstance(dimension, Range) and not dimension.integer:
        return _NUMBER
    values = (dimension.low, dimension.high) if isinstance(dimension, Range) else dimension.values
    return max(len(format_short(value)) for value in values)
