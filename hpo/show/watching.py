"""A search that another process runs, shown in a terminal as that process shows it."""

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

# Of the trials that had ended before, so many are shown.
_LAST_LINES = 5
# Between two readings of the record pass so many times what one takes.
_TIMES_A_READING = 10.0


class WatchedProgress(TerminalProgress):
    """Shows what the looks at a study find: its new trials as lines, its tasks in the panel."""

    def __init__(self, study: StudyRun, status: Status) -> None:
        super().__init__(study, History())
        ended = _by_end(study)
        self._told = {trial.number for trial in ended[:-_LAST_LINES]}
        for trial in ended[:-_LAST_LINES]:
            self._count(trial)
        # The pace is that of the whole search.
        self._started -= 60 * (status.minutes or 0.0)

    def show(self, snapshot: Snapshot, study: StudyRun | None) -> None:
        """Show a look; `study` is None where its trials were not read again."""
        # It may have been raised; where the status cannot be read it is not known.
        self._study = self._study.model_copy(update={"trials": snapshot.status.budget or self._study.trials})
        if snapshot.status.following and snapshot.status.following != self._following:
            self._following = snapshot.status.following
            self._say(self._following)
        if snapshot.fault:
            self._say_once(snapshot.fault, f"warning: {snapshot.fault}; it is tried again")
        if study is not None:
            for trial in _by_end(study):
                if trial.number not in self._told:
                    self._told.add(trial.number)
                    self.trial_finished(trial)
        since = self._clock() - time.time()
        self._running = {
            (task.trial, task.task): Sign(since + (task.reported or task.started), task.point, printable(task.where))
            for task in snapshot.tasks
        }


def watch_at_terminal(view: StudyReader) -> Status:
    """Show a study until nothing more comes of it, and how it ended; return its last status.

    Raises:
        HpoError: it cannot be read.
    """
    view.wait_until_created(lambda text: print(printable(text), flush=True))
    looks = view.follow()
    snapshot = next(looks)
    if snapshot.status.goes_on:
        where = f", as its copy of {snapshot.copied} has it" if snapshot.copied else ""
        print(printable(f"study {snapshot.status.name}: {snapshot.status.words}{where}"), flush=True)
        snapshot = _follow(view, snapshot, looks)
        print()
    shown = view.view()
    for line in (*summary_lines(shown), *next_lines(shown)):
        print(line, flush=True)
    return snapshot.status


def _follow(view: StudyReader, snapshot: Snapshot, looks: Iterator[Snapshot]) -> Snapshot:
    study = view.study()
    with WatchedProgress(study, snapshot.status) as progress:
        progress.show(snapshot, study)
        next_reading, counted = 0.0, snapshot.status.trials
        for snapshot in looks:
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
        # One that is being written is read at the next look.
        if is_last:
            raise
        return None


def _by_end(study: StudyRun) -> list[Trial]:
    ended = [trial for trial in study.record.trials() if trial.state != "running"]
    return sorted(ended, key=lambda trial: (trial.ended or 0.0, trial.number))
