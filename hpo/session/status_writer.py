"""Writes status.json and running.json of a running study, for readers in other processes."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from hpo.engine.loop import seconds_spent
from hpo.errors import first_line
from hpo.machine import Host
from hpo.show.display import Progress, follow_up_in_words
from hpo.study.files.status import Phase, RunningTask, State, Status, write_running, write_status
from hpo.study.notes import Notes
from hpo.study.results.run import StudyRun
from hpo.study.study import PreparedStudy
from hpo.trials.estimate import ExpectedScore
from hpo.trials.record.record import Record
from hpo.trials.record.user_actions import UserAction
from hpo.trials.trial import Trial
from hpo.workers.dispatch.dispatcher import TaskReport
from hpo.workers.training.tasks import Task

if TYPE_CHECKING:
    from hpo.report.write import WrittenReport

# A curve that reaches this number of points loses every second point.
_MOST_POINTS = 200


class StatusWriter(Progress):
    """Writes status.json and running.json after changes, at most every 2 seconds, in a thread.

    Use an instance in a `with` block. Inside the block, the status is `running`. If an error ends the block, the status
    is `failed` afterwards. If the block ends without an error, the status is `open` in an ask-and-tell session, and
    `interrupted` in a search, until the caller calls `conclude`. `conclude` writes the final status.

    Args:
        study: the study.
        record: the study's record.
        host: the machine and process that trains all tasks; None = each worker reports where it trains.
    """

    seconds_between = 2.0
    """The least number of seconds between two writes; the first write is immediate."""

    def __init__(self, study: PreparedStudy, record: Record, host: Host | None = None) -> None:
        super().__init__(study, record.judged_by(study.goal).history(), seconds_spent(record))
        self._prepared, self._record, notes = study, record, Notes(record)
        self._id, self._user = notes.study_id or "", notes.user or ""
        self._ended = dict.fromkeys(("complete", "failed", "stopped"), 0)
        for trial in record.history():
            self._ended[trial.state] += 1
        self._open = {trial.number for trial in record.trials() if trial.state == "running"}
        self._begun = min((stretch.start for stretch in record.stretches), default=None)
        self._host = {} if host is None else vars(host)
        self._tasks: dict[tuple[int, int], RunningTask] = {}
        self._phase: Phase = "ask-and-tell" if study.is_outside else "search"
        self._following: str | None = None
        self._fresh: Trial | None = None
        self._expected: ExpectedScore | None = None
        self._state_on_exit: State = "open" if study.is_outside else "interrupted"
        self._changing, self._is_changed, self._is_over = threading.Lock(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._write_changes, daemon=True)

    def __enter__(self) -> Self:
        self._write()
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._is_over.set()
        self._is_changed.set()
        self._thread.join()
        self._tasks.clear()
        error = next((first_line(error) for error in raised if isinstance(error, Exception)), None)
        self._write("failed" if error else self._state_on_exit, error)

    def conclude(self, run: StudyRun, report: "WrittenReport | None") -> Status:
        """Write the final status and return it. Call this last, after the exit from the `with` block."""
        self._expected = None if report is None else ExpectedScore.of(report.summary)
        study, winner = self._prepared, run.winner
        # A study that another program trains has no trainings after its search.
        is_over = study.is_over(self._record) and (study.is_outside or run.is_trained)
        self._fronts = {} if winner is None else {winner.scale: [winner]}
        self._fresh = run.fresh_winner
        for trial in run.fresh.values():
            self._keep(trial)
        return self._write("ended" if is_over else self._state_on_exit, on_front=len(run.front))

    def trial_opened(self, trial: Trial) -> None:
        """Count the trial as running."""
        with self._change():
            self._open.add(trial.number)

    def task_begun(self, task: Task) -> None:
        """Add the task to the running tasks, with the index of the first free worker."""
        busy, now = {running.worker for running in self._tasks.values()}, time.time()
        worker = next(place for place in range(len(busy) + 1) if place not in busy)
        with self._change():
            self._begun = self._begun or now
            self._tasks[task.trial, task.index] = RunningTask(
                trial=task.trial, task=task.index, worker=worker, started=now, **self._host
            )

    def reported(self, trial: Trial, report: TaskReport) -> None:
        """Update the running task from its report: add a step of the learning curve, or set the host.

        If the report contains the task's outcome, remove the task from the running tasks.
        """
        place = (trial.number, report.task.index)
        with self._change():
            if report.outcome is not None:
                self._tasks.pop(place, None)
            elif place in self._tasks and report.point is not None:
                self._tasks[place] = self._with_point(self._tasks[place], dict(report.point))
            elif place in self._tasks and report.host is not None:
                self._tasks[place] = self._tasks[place].model_copy(update=vars(report.host))

    def trial_finished(self, trial: Trial) -> None:
        """Count the trial as ended."""
        with self._change():
            super().trial_finished(trial)
            self._open.discard(trial.number)
            self._ended[trial.state] += 1

    def user_acted(self, action: UserAction) -> None:
        """Store the new budget if a user raised the budget."""
        with self._change():
            super().user_acted(action)
            config = self._prepared.config.model_copy(update={"study": self._study})
            self._prepared = replace(self._prepared, config=config)

    def search_ended(self) -> None:
        """Change the phase to `after the search`."""
        with self._change():
            self._phase = "after the search"

    def followed_up(self, what: str, num_ended: int, num_all: int) -> None:
        """Store a text about the progress of the trainings that follow the search."""
        with self._change():
            self._following = follow_up_in_words(what, num_ended, num_all)

    def _with_point(self, task: RunningTask, point: dict[str, float]) -> RunningTask:
        curve, value = task.curve, point.get(self._goal.metric)
        if value is not None:
            step = point.get("epoch", point.get("step", len(curve) + 1))
            curve = [*(curve[::2] if len(curve) >= _MOST_POINTS else curve), (step, value)]
        return task.model_copy(update={"reported": time.time(), "point": point, "curve": curve})

    @contextmanager
    def _change(self) -> Iterator[None]:
        with self._changing:
            yield
        self._is_changed.set()

    def _write_changes(self) -> None:
        while not self._is_over.is_set():
            self._is_changed.wait()
            self._is_changed.clear()
            if not self._is_over.is_set():
                self._write()
            self._is_over.wait(self.seconds_between)

    def _write(self, state: State = "running", error: str | None = None, on_front: int | None = None) -> Status:
        with self._changing:
            status, tasks = self._status(state, error, on_front), sorted(self._tasks.items())
        # Ignore a file that cannot be written, because the record has everything.
        with suppress(OSError):
            write_status(self._prepared.folder, status)
            write_running(self._prepared.folder, [task for _, task in tasks])
        return status

    def _status(self, state: State, error: str | None, on_front: int | None) -> Status:
        study, best, ended = self._prepared, self._best, self._record.ended
        deciding = self._fresh or best
        scores = {name: deciding.mean(name) for name in self._goal.names} if deciding else {}
        in_search = {name: best.mean(name) for name in self._goal.names} if best and self._fresh else {}
        has_several_metrics = len(self._goal.metrics) > 1
        return Status(
            name=self._study.name,
            state=state,
            phase=self._phase if state == "running" else None,
            following=self._following if state == "running" else None,
            study_id=self._id,
            user=self._user,
            updated=time.time(),
            begun=self._begun,
            strategy=study.config.strategy["name"],
            data=study.described.name or "",
            metrics=dict(self._goal.metrics),
            best=best.number if best else None,
            scores=scores,
            search_scores=in_search,
            expected=self._expected,
            expected_texts=self._expected.texts(self._score_text) if self._expected else {},
            texts={name: self._score_text(score, name) for name, score in scores.items()},
            search_texts={name: self._score_text(score, name) for name, score in in_search.items()},
            on_front=(len(self._front) if on_front is None else on_front) if has_several_metrics else None,
            done=self.num_done,
            budget=self._study.trials,
            counts=self._counts,
            trials={**self._ended, "running": len(self._open)},
            minutes=(self._seconds_before + self._clock() - self._started) / 60,
            ended_by=ended.by if ended and state != "running" else None,
            error=error,
        )
