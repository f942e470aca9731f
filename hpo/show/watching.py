"""Shows, in a terminal, a search that another process runs; the output looks the same as in that process."""

import time
from collections.abc import Iterator

from hpo.errors import StudyError, printable
from hpo.show.lines import next_lines, summary_lines
from hpo.show.progress import Sign, TerminalProgress
from hpo.study.files.status import Status
from hpo.study.results.run import StudyRun
from hpo.study.view.reader import Snapshot, StudyReader
from hpo.trials.history import History
from hpo.trials.trial import Trial

# Number of earlier trials that are shown.
_LAST_LINES = 5
# Time between two readings of the record, as a multiple of the time that one reading takes.
_TIMES_A_READING = 10.0


class WatchedProgress(TerminalProgress):
    """Shows the successive states of a study: new trials as lines, running tasks in the panel."""

    def __init__(self, study: StudyRun, status: Status) -> None:
        super().__init__(study, History())
        ended = _by_end(study)
        self._shown_trials = {trial.number for trial in ended[:-_LAST_LINES]}
        for trial in ended[:-_LAST_LINES]:
            self._count(trial)
        # Compute the pace from the whole search.
        self._started -= 60 * (status.minutes or 0.0)

    def show(self, snapshot: Snapshot, study: StudyRun | None) -> None:
        """Show the state in `snapshot`, and each new trial of `study` (None = the trials were not read again)."""
        # The budget may have been raised; an unreadable status has none.
        self._study = self._study.model_copy(update={"trials": snapshot.status.budget or self._study.trials})
        if snapshot.status.following and snapshot.status.following != self._following:
            self._following = snapshot.status.following
            self._say(self._following)
        if snapshot.fault:
            self._say_once(snapshot.fault, f"warning: {snapshot.fault}; hpo will try again")
        if study is not None:
            for trial in _by_end(study):
                if trial.number not in self._shown_trials:
                    self._shown_trials.add(trial.number)
                    self.trial_finished(trial)
        self._running_trials = {task.trial for task in snapshot.tasks}
        since = self._clock() - time.time()
        self._running = {
            (task.trial, task.task): Sign(since + (task.reported or task.started), task.point, printable(task.where))
            for task in snapshot.tasks
        }


def watch_at_terminal(view: StudyReader) -> Status:
    """Show a study until its search ends, then show its result; return the last status.

    Raises:
        HpoError: the study cannot be read, or the process that was starting the study ended before creating the study.
    """
    view.wait_until_created(lambda text: print(printable(text), flush=True))
    snapshots = view.follow()
    snapshot = next(snapshots)
    if snapshot.status.goes_on:
        where = f", as copied to the mirror at {snapshot.copied}" if snapshot.copied else ""
        print(printable(f"study {snapshot.status.name}: {snapshot.status.words}{where}"), flush=True)
        snapshot = _follow(view, snapshot, snapshots)
        print()
    final = view.view()
    for line in (*summary_lines(final), *next_lines(final)):
        print(line, flush=True)
    return snapshot.status


def _follow(view: StudyReader, snapshot: Snapshot, snapshots: Iterator[Snapshot]) -> Snapshot:
    study = view.study()
    with WatchedProgress(study, snapshot.status) as progress:
        progress.show(snapshot, study)
        next_reading, counted = 0.0, snapshot.status.trials
        for snapshot in snapshots:
            began, has_ended = time.monotonic(), not snapshot.status.goes_on
            is_due = began >= next_reading and snapshot.status.trials != counted
            read = _study(view, has_ended) if has_ended or is_due else None
            if read is not None:
                counted, now = snapshot.status.trials, time.monotonic()
                next_reading = now + _TIMES_A_READING * (now - began)
            progress.show(snapshot, read)
    return snapshot


def _study(view: StudyReader, is_last: bool) -> StudyRun | None:
    try:
        return view.study()
    except StudyError:
        # The record may be incomplete while it is being written; read it again next time.
        if is_last:
            raise
        return None


def _by_end(study: StudyRun) -> list[Trial]:
    ended = [trial for trial in study.record.trials() if trial.state != "running"]
    return sorted(ended, key=lambda trial: (trial.ended or 0.0, trial.number))
