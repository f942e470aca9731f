"""The base classes of displays of a running search, and the lines that all displays share."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from hpo.config.keys import is_number
from hpo.config.sections import DispatchSection
from hpo.engine.observers import Observer
from hpo.engine.schedule.rules import is_counted
from hpo.errors import ConfigError
from hpo.formatting import format_count, format_duration
from hpo.machine import GIB
from hpo.study.basis.environment import gpu_driver
from hpo.study.results.choosing import choose_best
from hpo.study.results.run import StudyRun
from hpo.study.study import PreparedStudy
from hpo.study.view.view import StudyView
from hpo.trials.goal import goal_of
from hpo.trials.history import History
from hpo.trials.ranking import front
from hpo.trials.record.record import Record
from hpo.trials.record.user_actions import Raise, UserAction
from hpo.trials.score_format import score_format, shown_value
from hpo.trials.trial import Trial
from hpo.workers.dispatch.code import Code
from hpo.workers.dispatch.dispatcher import Gpus
from hpo.workers.dispatch.other_searches import OtherSearch

if TYPE_CHECKING:
    # Imported for types only, because it imports pandas, which viewers do not need.
    from hpo.report.write import WrittenReport


How = Literal["auto", "json", "none"] | bool
"""The display of a running search or training. True means `auto`. False means no output."""


def refuse_unknown_progress(progress: How) -> None:
    """Raise ConfigError for an unknown kind of progress."""
    if progress not in (True, False, "auto", "json", "none"):
        raise ConfigError(f"progress: must be auto, json, none, True or False, given {progress!r}")


@dataclass(frozen=True)
class Ended:
    """A study after its end: its view, its report, and whether the tracker received everything."""

    view: StudyView
    report: "WrittenReport"
    is_tracked: bool


ShownStudy = PreparedStudy | StudyRun
"""A study that a progress display shows: in the driver a PreparedStudy, in a viewer a StudyRun."""


class Progress(Observer, AbstractContextManager["Progress", None]):
    """Counts the trials of a search and tracks the best trial, the scores and the time; this base class shows nothing.

    With several metrics it tracks the Pareto front. `history` has the trials of earlier sessions; these sessions took
    `seconds_before` seconds. Enter the context before the first trial.
    """

    def __init__(
        self,
        study: ShownStudy,
        history: History,
        seconds_before: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._study, self._counts = study.config.study, study.counts
        self._clock, self._seconds_before = clock, seconds_before
        self.num_done = self._done_before = sum(is_counted(trial, study.counts) for trial in history)
        self._goal = goal_of(self._study)
        # One front per scale, because only scores of one scale are comparable. Without scales there is one front.
        scales = sorted({trial.scale for trial in history})
        fronts = {scale: front(trial for trial in history if trial.scale == scale) for scale in scales}
        self._fronts = {scale: self._reduced(members) for scale, members in fronts.items() if members}
        self._values: dict[str, list[float | None]] = {name: [] for name in self._goal.names}
        # The rule of one standard error needs all complete trials.
        self._complete: list[Trial] = []
        for trial in history:
            self._keep(trial)
        self._running_trials: set[int] = set()
        self._started = clock()

    def __exit__(self, *_: object) -> None:
        """End the display."""

    def trial_opened(self, trial: Trial) -> None:
        """Add the trial to the running trials."""
        self._running_trials.add(trial.number)

    def trial_finished(self, trial: Trial) -> None:
        """Count the trial."""
        self._count(trial)

    def user_acted(self, action: UserAction) -> None:
        """Use the new budget if the user raised the budget."""
        if isinstance(action.request, Raise):
            given = {name: value for name, value in vars(action.request).items() if value is not None}
            self._study = self._study.model_copy(update=given)

    def _count(self, trial: Trial) -> bool:
        """Count a trial; return whether this trial is the best of its scale, or on the Pareto front of its scale."""
        self.num_done += is_counted(trial, self._counts)
        self._running_trials.discard(trial.number)
        self._keep(trial)
        if trial.keeps_limits:
            before = self._fronts.get(trial.scale, [])
            self._fronts[trial.scale] = self._reduced(front([*before, trial]))
        return self._is_best(trial)

    @property
    def _front(self) -> list[Trial]:
        """The Pareto front of the largest scale so far."""
        return self._fronts[max(self._fronts)] if self._fronts else []

    @property
    def _best(self) -> Trial | None:
        """The best trial so far, by the rule that chooses the winner."""
        trials = self._front if self._study.winner == "best" else self._complete
        return choose_best(self._study, self._goal, trials, at_target=False)

    def _is_best(self, trial: Trial) -> bool:
        return any(trial.number == one.number for one in self._fronts.get(trial.scale, ()))

    def _reduced(self, members: list[Trial]) -> list[Trial]:
        """Return the members of a front; with one metric, only the earliest of equally good trials."""
        is_one = len(self._goal.metrics) == 1
        return sorted(members, key=lambda trial: trial.number)[:1] if is_one else members

    def _keep(self, trial: Trial) -> None:
        if self._study.winner != "best" and trial.state == "complete":
            self._complete.append(trial)
        for name, values in self._values.items():
            values.append(shown_value(trial, name, self._goal))

    def _score_text(self, score: float, name: str | None = None) -> str:
        """Return a value as text. `name` is the metric of the value; None = the leading metric."""
        return score_format([*self._values[name or self._goal.metric], score])(score)

    def _values_text(self, trial: Trial) -> str:
        """Return a complete trial's values as text, each as the mean over the trial's tasks.

        The values are the metrics, the values with limits, and the values of `study.measured`.
        """
        return "  ".join(f"{name} {self._score_text(trial.mean(name), name)}" for name in self._goal.names)

    @property
    def _best_text(self) -> str:
        """The best score so far as text; with several metrics, the number of trials on the Pareto front."""
        if len(self._goal.metrics) > 1:
            return f"front of {len(self._front)}"
        best = "none yet"
        if self._best is not None and self._best.score is not None:
            best = f"{self._score_text(self._best.score)} (trial {self._best.number})"
        return f"best {self._study.metric} {best}"

    def _point_texts(self, point: Mapping[str, Any]) -> list[str]:
        """Return two texts about a report: the epoch, and the value of the leading metric.

        If the report has no epoch, the first text is empty. If the report has no such value, the second text is empty.
        """
        epoch = f"epoch {point['epoch']}" if "epoch" in point else ""
        epoch += f"/{point['epochs']}" if epoch and "epochs" in point else ""
        value: Any = point.get(self._study.metric)
        return [epoch, f"{self._study.metric} {self._score_text(value)}" if is_number(value) else ""]

    def _time_left(self) -> str:
        """Return `seconds_left` as text; empty without an estimate, and if no time is left."""
        seconds = self.seconds_left()
        return format_duration(seconds) if seconds else ""

    def seconds_left(self) -> float | None:
        """Return an estimate of the seconds until the search ends.

        Return None if no trial has ended in this session, or if no trial remains. The estimate assumes this session's
        pace, and that each running trial is half done. The estimate is never above the rest of `study.minutes`.
        """
        done, missing = self.num_done - self._done_before, self._study.trials - self.num_done
        if not done or not missing:
            return None
        passed = self._clock() - self._started
        half_done = len(self._running_trials) / 2
        seconds = passed / (done + half_done) * max(missing - half_done, 0.0)
        if self._study.minutes is not None:
            seconds = max(0.0, min(seconds, 60 * self._study.minutes - self._seconds_before - passed))
        return seconds


class Display:
    """Shows a search from its start to its end; this base class shows nothing."""

    def announce(self, study: PreparedStudy) -> None:
        """Show the study before the search."""

    def show_code(self, code: Code) -> None:
        """Show which of the user's code goes to other machines."""

    def show_other_searches(self, dispatch: DispatchSection, others: Sequence[OtherSearch]) -> None:
        """Show the other searches on this machine."""

    def show_start(self, dispatch: DispatchSection) -> None:
        """Show that the workers start."""

    def show_workers(self, study: PreparedStudy, workers: int, gpus: Gpus) -> None:
        """Show each worker's share of the GPUs, and the number of lanes."""

    def progress(self, study: PreparedStudy, record: Record) -> Progress:
        """Return the observer that shows the trials."""
        return Progress(study, record.history())

    def conclude(self, study: PreparedStudy, ended: Ended) -> None:
        """Show the result."""


def gpus_in_words(gpus: Gpus, dispatch: DispatchSection) -> str | None:
    """Return the line about each worker's share of the GPUs; None without GPUs."""
    if not gpus.count:
        return None
    kinds = ", ".join((*gpus.kinds, *([f"driver {driver}"] if (driver := gpu_driver()) else [])))
    available = f"{gpus.count:g} GPU{'' if gpus.count == 1 else 's'}{f' ({kinds})' if kinds else ''}"
    if not gpus.share:
        return f"{available}, but the workers use none; dispatch.gpus_per_worker=null gives each worker a share"
    if gpus.share < 1:
        part = gpus.share if dispatch.memory_per_worker is None else dispatch.memory_per_worker
        return f"{available}: each worker gets {gpus.share:g} of a GPU, with {part:.0%} of the GPU's memory"
    each = f"{available}: {gpus.share:g} for each worker"
    if dispatch.gpus_per_worker is not None:
        return each
    return f"{each}; dispatch.workers={2 * gpus.count:g} would run two trainings per GPU, which suits small networks"


def others_in_words(others: Sequence[OtherSearch], dispatch: DispatchSection) -> str:
    """Return the line about other searches on this machine, and about their effect on this search."""
    are = "another search runs" if len(others) == 1 else f"{len(others)} other searches run"
    each = ", ".join(f"process {other.process} of {other.user} with {other.use}" for other in others)
    effect = ""
    if dispatch.type.has_own_processes and dispatch.workers is None:
        effect = "; this search takes the remaining workers, at least one (dispatch.workers=N sets the number)"
    return f"{are} on this machine: {each}{effect}"


def peak_in_words(peak: int, total: int) -> str:
    """Return a line with a training's peak GPU memory, and with the number of trainings of this size that fit on a GPU.

    Args:
        peak: the peak GPU memory in bytes.
        total: the GPU's whole memory in bytes.
    """
    used = f"the first training used {peak / GIB:.2g} of {total / GIB:.3g} GiB of its GPU"
    fit = f"about {total // max(peak, 1)} trainings of this size fit on one GPU"
    return f"{used}; {fit} (dispatch.workers=N sets the number of workers)"


def follow_up_in_words(what: str, num_ended: int, num_all: int) -> str:
    """Return the line about trainings after the search, and about their progress."""
    return f"training {what}, {num_ended} of {format_count(num_all, 'training*')} done"
