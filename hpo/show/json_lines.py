"""With `--progress json`, prints a running search as JSON lines on standard error, for other programs to read."""

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, Self

from hpo.config.documents import json_line
from hpo.config.sections import DispatchSection
from hpo.engine.loop import seconds_spent
from hpo.show.display import Display, Ended, Progress
from hpo.study.study import PreparedStudy
from hpo.trials.record.record import Record
from hpo.trials.trial import Trial
from hpo.workers.dispatch.dispatcher import Gpus, TaskReport
from hpo.workers.dispatch.other_searches import OtherSearch
from hpo.workers.training.tasks import Task

# Least seconds between two printed points of a training; points in between are left out.
_SECONDS_BETWEEN_POINTS = 0.5


def print_event(event: str, **values: Any) -> None:
    """Print an event as one line."""
    print(json_line({"event": event, **values}), file=sys.stderr, flush=True)


def print_message(message: Mapping[str, Any]) -> None:
    """Print a point of a single training's learning curve, or a warning."""
    if "point" in message:
        print_event("point", point=message["point"])
    else:
        print_event("warning", text=message.get("warning"))


class JsonLines(Display):
    """Prints a line for each event; docs/reference/json.md lists the events with their fields."""

    def __init__(self) -> None:
        self._workers, self._others = 0, list[dict[str, Any]]()

    def show_other_searches(self, dispatch: DispatchSection, others: Sequence[OtherSearch]) -> None:  # noqa: ARG002
        """Store the list of other searches on this machine. The event `begun` contains this list."""
        self._others = [
            {"process": other.process, "user": other.user, "cpus": other.use.cpus, "gpus": other.use.gpus}
            for other in others
        ]

    def show_workers(self, study: PreparedStudy, workers: int, gpus: Gpus) -> None:  # noqa: ARG002
        """Store the number of workers. The event `begun` contains this number."""
        self._workers = workers

    def progress(self, study: PreparedStudy, record: Record) -> "JsonProgress":
        """Return the observer that prints the events of the search."""
        return JsonProgress(study, record, self._workers, self._others)

    def conclude(self, study: PreparedStudy, ended: Ended) -> None:  # noqa: ARG002
        """Print the result of the study."""
        print_event("ended", **ended.view.to_dict())


class JsonProgress(Progress):
    """Prints the start of each task, points of its curve, and each ended trial."""

    def __init__(self, study: PreparedStudy, record: Record, workers: int, others: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(study, record.history(), seconds_spent(record))
        self._prepared, self._workers, self._others = study, workers, others
        self._printed: dict[tuple[int, int], float] = {}

    def __enter__(self) -> Self:
        study = self._prepared
        print_event(
            "begun",
            study=self._study.name,
            folder=study.folder.path,
            metrics=self._goal.metrics,
            notes=list(study.own.notes),
            limits=[str(limit) for limit in self._goal.limits],
            **self._progress_fields(),
            workers=self._workers,
            others=self._others,
        )
        return self

    def task_begun(self, task: Task) -> None:
        """Print the start of a task."""
        print_event("task", trial=task.trial, task=self._name(task.index))

    def reported(self, trial: Trial, report: TaskReport) -> None:
        """Print a warning, or a point of the curve."""
        place = trial.number, report.task.index
        if report.warning is not None:
            print_event("warning", trial=trial.number, text=report.warning)
        elif report.point is None:
            self._printed.pop(place, None)
        elif (now := time.monotonic()) - self._printed.get(place, -1.0) >= _SECONDS_BETWEEN_POINTS:
            self._printed[place] = now
            print_event("point", trial=trial.number, task=self._name(report.task.index), point=report.point)

    def trial_finished(self, trial: Trial) -> None:
        """Print the outcome of a trial."""
        is_best = self._count(trial)
        print_event(
            "trial",
            trial=trial.number,
            state=trial.state,
            score=trial.score,
            scores=self._scores(trial),
            point=trial.point,
            amount=trial.amount,
            reached=trial.reached,
            seconds=trial.seconds,
            error=trial.error,
            is_best=is_best,
            **self._progress_fields(),
        )

    def followed_up(self, what: str, num_ended: int, num_all: int) -> None:
        """Print the progress of the trainings that follow the search."""
        print_event("follow_up", what=what, ended=num_ended, total=num_all)

    def _progress_fields(self) -> Mapping[str, Any]:
        best = self._best
        best_trial = None if best is None else {"trial": best.number, "score": best.score, "scores": self._scores(best)}
        return {
            "done": self.num_done,
            "budget": self._study.trials,
            "counts": self._counts,
            "best": best_trial,
            "on_front": len(self._front) if len(self._goal.metrics) > 1 else None,
            "seconds_left": self.seconds_left(),
        }

    def _scores(self, trial: Trial) -> Mapping[str, float]:
        return {name: trial.mean(name) for name in self._goal.names} if trial.state == "complete" else {}

    def _name(self, index: int) -> str:
        return "final" if index < 0 else self._prepared.layout.name(index)
