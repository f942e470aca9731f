"""Shows a running search in a notebook, with one updated output instead of a line per trial."""

import html
import logging
import time
import warnings
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Self

from hpo.config.sections import DispatchSection
from hpo.engine.loop import seconds_spent
from hpo.show.display import Display, Ended, Progress, follow_up_in_words, gpus_in_words, others_in_words
from hpo.show.lines import summary_lines
from hpo.study.study import PreparedStudy
from hpo.trials.record.record import Record
from hpo.trials.space.space import short_text
from hpo.trials.trial import Trial
from hpo.workers.dispatch.code import Code
from hpo.workers.dispatch.dispatcher import Gpus, TaskReport
from hpo.workers.dispatch.other_searches import OtherSearch

_SECONDS_BETWEEN_UPDATES = 0.5
_LAST_LINES = 8


class Notebook(Display):
    """Shows a search in the output of the cell that runs it."""

    def __init__(self) -> None:
        self._workers = 0
        self._output: Any = None

    def announce(self, study: PreparedStudy) -> None:
        """Show the study while the workers start."""
        from IPython.display import HTML, display

        # Ray warns if ipywidgets are missing, which this display does not need.
        warnings.filterwarnings("ignore", message="IProgress not found")
        logging.getLogger("ray.widgets.util").setLevel(logging.WARNING)
        for note in study.own.notes:
            print(note)
        section = study.config.study
        goal = f"{section.trials} {study.counts}, {html.escape(', '.join(study.goal.metrics))}"
        self._output = display(HTML(f"<b>{html.escape(section.name)}</b>: {goal}; starting"), display_id=True)

    def show_code(self, code: Code) -> None:
        """Print which of the user's code goes to other machines."""
        print(code.in_words())

    def show_other_searches(self, dispatch: DispatchSection, others: Sequence[OtherSearch]) -> None:
        """Print the other searches on this machine."""
        print(others_in_words(others, dispatch))

    def show_workers(self, study: PreparedStudy, workers: int, gpus: Gpus) -> None:
        """Print each worker's share of the GPUs, if there are GPUs, and store the number of workers."""
        if (text := gpus_in_words(gpus, study.config.dispatch)) is not None:
            print(text)
        self._workers = workers

    def progress(self, study: PreparedStudy, record: Record) -> "NotebookProgress":
        """Return the observer that shows the trials."""
        return NotebookProgress(study, self._workers, record, self._output)

    def conclude(self, study: PreparedStudy, ended: Ended) -> None:  # noqa: ARG002
        """Print the result, and a hint if MLflow lacks data of the study."""
        for line in summary_lines(ended.view):
            print(line)
        if not ended.is_tracked:
            print(f"MLflow lacks data of this study; send these data later with `hpo sync {ended.view.reference}`")


class NotebookProgress(Progress):
    """A progress bar, the best trial so far, and the last trials, in a displayed output."""

    def __init__(self, study: PreparedStudy, workers: int, record: Record, output: Any) -> None:
        super().__init__(study, record.history(), seconds_spent(record))
        self._workers, self._amount_text, self._output = workers, study.amount_text, output
        self._lines: deque[str] = deque(maxlen=_LAST_LINES)
        self._updated = self._started
        # For each warning, the number of the first trial that had it.
        self._warnings: dict[str, int] = {}
        self._running: dict[int, Mapping[str, Any]] = {}
        self._following = ""

    def __enter__(self) -> Self:
        self._update()
        return self

    def __exit__(self, *_: object) -> None:
        self._update()

    def reported(self, trial: Trial, report: TaskReport) -> None:
        """Show a new warning, or the latest point of a training."""
        if report.warning is not None:
            self._warnings.setdefault(report.warning, trial.number)
        elif report.point is not None:
            self._running[trial.number] = report.point
        self._update(_SECONDS_BETWEEN_UPDATES)

    def trial_finished(self, trial: Trial) -> None:
        """Count the trial and show its line."""
        self._running.pop(trial.number, None)
        mark = " *" if self._count(trial) else ""
        mark = mark or (" !" if trial.excess > 0 else "")
        if trial.state == "stopped":
            score = "" if trial.score is None else f"{self._score_text(trial.score)}, "
            result = f"{score}stopped {trial.stopped}"
        elif trial.score is None:
            result = f"failed: {trial.error}"
        elif len(self._goal.names) == 1:
            result = f"{self._score_text(trial.score)}{mark}"
        else:
            result = f"{self._values_text(trial)}{mark}"
        self._lines.append(f"trial {trial.number}  {result}  {short_text(trial.point)}  {trial.seconds:.1f} s")
        self._update(_SECONDS_BETWEEN_UPDATES)

    def followed_up(self, what: str, num_ended: int, num_all: int) -> None:
        """Show the progress of the trainings that follow the search."""
        self._following = follow_up_in_words(what, num_ended, num_all)
        self._update()

    def _update(self, seconds_between: float = 0.0) -> None:
        from IPython.display import HTML

        if time.monotonic() - self._updated >= seconds_between:
            self._updated = time.monotonic()
            self._output.update(HTML(self._page()))

    def _page(self) -> str:
        section, best = self._study, self._best
        head = f"<b>{html.escape(section.name)}</b>: {self.num_done} of {section.trials} {self._counts}"
        if len(self._goal.metrics) > 1:
            head += f", {self._best_text}"
        elif best is not None and best.score is not None:
            where = f"trial {best.number}{self._amount_text(best)}"
            head += f", best {html.escape(section.metric)} <b>{self._score_text(best.score)}</b> ({where})"
        head += f", {self._workers} workers" if self._workers > 1 else ""
        head += f", {left} left" if (left := self._time_left()) else ""
        head += f", {self._following}" if self._following else ""
        bar = f'<progress value="{self.num_done}" max="{section.trials}" style="width: 100%"></progress>'
        lines = [*self._lines, *(self._line_of(number) for number in sorted(self._running))]
        lines += [f"warning: trial {number}: {warning}" for warning, number in self._warnings.items()]
        return f"{head}<br>{bar}<pre>{html.escape(chr(10).join(lines))}</pre>"

    def _line_of(self, number: int) -> str:
        """Return the progress of a running training."""
        return "  ".join(filter(None, (f"trial {number}", *self._point_texts(self._running[number]))))
