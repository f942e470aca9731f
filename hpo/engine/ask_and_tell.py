"""A search whose trainings run elsewhere: trials are asked for, and told what came of them."""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

from hpo.config.secrets import excerpt
from hpo.engine.observers import Observer
from hpo.engine.schedule.rules import Rules
from hpo.engine.schedule.scheduler import Scheduler
from hpo.errors import ConfigError, NoTrialError, StudyError
from hpo.trials import reported_values
from hpo.trials.places import Places, place_of, reached
from hpo.trials.record.record import Asked, Ended, EndedBy, Record
from hpo.trials.record.user_actions import Add
from hpo.trials.trial import Outcome, seconds_trained
from hpo.workers.dispatch.dispatcher import TaskReport
from hpo.workers.training.tasks import Task
from hpo.workers.training.worker import Limits, one_line

_LONGEST_LINE = 500  # characters of an error that are kept, as of a training here
_LANES = sys.maxsize  # whoever asks decides how many trainings are under way


class AskAndTell:
    """Asks the strategy for one trial at a time, and writes what is told of it to the record.

    What a trial is proposed from is what was told before it was asked for, in the order of the trials' numbers. So
    everything follows from the record: the same questions and answers give the same trials, whether the record is
    closed and opened between them or not.

    Args:
        rules: what determines the search, of free order, with one task a trial; `is_ask_and_tell`.
        record: holds what has happened so far; everything is written to it.
        num_trials: the budget, of what `Rules.counts` says.
        observers: are notified of events.
    """

    def __init__(self, rules: Rules, record: Record, num_trials: int, observers: Sequence[Observer] = ()) -> None:
        self._rules, self._record, self._num_trials, self._observers = rules, record, num_trials, observers
        self._begin_again(observers)

    def _begin_again(self, notified: Sequence[Observer]) -> None:
        """Take the course that the record tells of, and notify these observers of the trials that are open."""
        heard = [*notified]
        self._scheduler = Scheduler(self._rules, self._record, self._num_trials, _LANES, heard)
        # Until somebody asks.
        self._scheduler.is_out_of_time = True
        self.open = {key.trial: self._scheduler.task(key) for key in self._scheduler.advance()}
        heard[:] = self._observers
        self._heard = {number: _Heard(task, self.asked(number).curve) for number, task in self.open.items()}
        for task in self.open.values():
            for observer in notified:
                observer.task_begun(task)

    def asked(self, number: int) -> Asked:
        """Return when a trial was asked for, and what was reported of it since."""
        # The process may have died between the two notes.
        return self._record.asked.get(number) or Asked(time.time(), 1)

    def stops(self, number: int) -> bool:
        """Return whether the median rule would end the training of an open trial at its last report."""
        return self._heard[self.task(number).trial].stops is not None

    @property
    def ended_by(self) -> EndedBy | None:
        """The budget that is used up, as far as no question is needed to know; None where there may be more."""
        return "trials" if self._scheduler.ended_by == "trials" else None

    def add_point(self, add: Add, by: str | None = None) -> None:
        """Ask for a point that the user adds, or for a retry, before the strategy's next point."""
        self._scheduler.add_point(add, time.time(), by)

    def ask(self) -> Task:
        """Return the one task of a new trial.

        Raises:
            NoTrialError: the budget or the space is used up, or the strategy waits for trials that are open.
        """
        course = self._scheduler
        course.is_out_of_time = False
        try:
            key, by = next(course.advance(), None), course.ended_by
        finally:
            # Also where a strategy of the user's own raises an error.
            course.is_out_of_time = True
        if key is None:
            # Of a question without an answer nothing is left, as if the record had been opened again.
            self._begin_again(())
            raise self._none(by)
        self.open[key.trial] = task = course.task(key)
        asked = {number: each for number, each in self._record.asked.items() if number in self.open}
        taken = {each.place for each in asked.values()}
        place = next(place for place in range(1, len(taken) + 2) if place not in taken)
        self._record.asked = asked | {key.trial: Asked(time.time(), place)}
        self._heard[key.trial] = _Heard(task)
        if self._record.ended and self._record.ended.by:
            self._note_end(None)
        for observer in self._observers:
            observer.task_begun(task)
        return task

    def _none(self, by: EndedBy) -> NoTrialError:
        """Return why there is no further trial, and note it where nothing that is told can change it."""
        if by == "space" and self.open:
            return NoTrialError(f"no trial for now: the strategy waits until these are told: {self._numbers}", True)
        if not self.open:
            self._note_end(by)
        words: Mapping[EndedBy, str] = {
            "trials": f"the budget of {self._num_trials} is used up",
            "space": "all points of the space are tried, or the strategy proposes no other",
            "target": "a trial has reached study.target",
            "stop_without_gain": "the last trials told were no gain (study.stop_without_gain)",
        }
        return NoTrialError(f"no further trial: {words[by]}{f'; still open: {self._numbers}' if self.open else ''}")

    @property
    def _numbers(self) -> str:
        """The numbers of the trials that are open."""
        return ", ".join(map(str, sorted(self.open)))

    def report(self, number: int, point: Mapping[str, Any]) -> None:
        """Add a point to the learning curve of an open trial, and write it.

        ConfigError where its place is not later than that of the point before; see `hpo.trials.places`.
        """
        task, asked = self.task(number), self.asked(number)
        try:
            placed = self._heard[number].take(reported_values.numbers(reported_values.flat(point)))
        except ValueError as error:
            raise ConfigError(f"trial {number}: {error}") from error
        curve = [*asked.curve, placed]
        self._record.asked = self._record.asked | {number: replace(asked, curve=curve)}
        self._take(TaskReport(task, point=placed, units=len(curve)))

    def tell(self, number: int, returned: Any = None, error: str | BaseException | None = None) -> None:
        """Write what came of an open trial, which ends it.

        Args:
            number: the trial's.
            returned: what a training here would return: the score; metrics by name, which may have `seconds`, how long
                it took, and texts, which are notes; or several metrics in their order. None = what was reported: of one
                that the median rule would have stopped, the best so far, which ends it as stopped; else the point that
                `study.score` says.
            error: why it failed, as a text or an exception, which stands for a result.

        Raises:
            StudyError: the trial is not open.
            ConfigError: a metric is missing, or no number. Nothing was written.
        """
        task, asked, stopped = self.task(number), self.asked(number), None
        payload, metrics, seconds = task.payload, dict[str, float](), None
        if isinstance(error, BaseException):
            error = one_line(error, payload.known_secrets())
        elif error is not None and not isinstance(error, str):
            raise ConfigError(f"error: must be a text or an exception, given {error!r:.200}")
        elif error is not None:
            error = excerpt(error, payload.known_secrets(), _LONGEST_LINE) or "told as failed"
        elif returned is None and (stopped := self._heard[number].stops) is not None:
            metrics[payload.metric] = self._heard[number].best
        else:
            metrics, error = self._metrics(task, returned)
        if "seconds" in metrics and "seconds" not in self._record.goal.names:
            seconds = reported_values.seconds(metrics.pop("seconds"))
        took = max(0.0, time.time() - asked.time) if seconds is None else seconds
        units = max(len(asked.curve) + (error is not None), 1)
        secrets = payload.known_secrets()
        texts = {} if not isinstance(returned, Mapping) else reported_values.texts(reported_values.flat(returned))
        notes = {name: excerpt(text, secrets, reported_values.LONGEST_TEXT) for name, text in texts.items()}
        outcome = Outcome(metrics, asked.curve, took, error, units, started=asked.time, worker=asked.place, notes=notes)
        outcome = replace(outcome, stopped=stopped, reached=reached(payload.earlier, asked.curve))
        self._take(TaskReport(task, outcome=outcome))
        del self.open[number], self._heard[number]
        if not self.open and self.ended_by is not None:
            self._note_end(self.ended_by)

    def _metrics(self, task: Task, returned: Any) -> tuple[dict[str, float], str | None]:
        """Return the numbers of a result; or why it is a failure: what is NaN or too large has diverged."""
        goal, payload, told = self._record.goal, task.payload, returned
        try:
            if told is None:
                curve = [*payload.earlier, *self.asked(task.trial).curve]
                is_max = payload.direction == "maximize"
                told = reported_values.of_curve(curve, payload.metric, payload.score, is_max)
            elif isinstance(told, Mapping):
                told = reported_values.flat(told)
            return reported_values.result(told, goal.names, len(goal.metrics)), None
        except ValueError as error:
            values = told if isinstance(told, Mapping) else {goal.metric: told}
            if any(
                isinstance(values.get(name), float) and reported_values.number(values[name]) is None
                for name in goal.names
            ):
                return {}, str(error)
        raise ConfigError(
            f"trial {task.trial}: must be told a number for {', '.join(goal.names)}, given {returned!r:.200}; a "
            f"training that failed is told by its error"
        )

    def _take(self, report: TaskReport) -> None:
        self._scheduler.take(report)
        for _ in self._scheduler.advance():
            pass

    def task(self, number: int) -> Task:
        """Return the task of an open trial; StudyError where it is not open."""
        # Whoever tells may give a text, from a shell or JSON; True is 1 to Python.
        is_number = isinstance(number, Integral) and not isinstance(number, bool)
        if not is_number or number not in self.open:
            trials = self._record.trials()
            is_there = is_number and 0 <= number < len(trials)
            why = f"was told before ({trials[number].state})" if is_there else "was not asked for"
            raise StudyError(f"trial {number!r}: {why}; open are: {self._numbers or 'none'}")
        return self.open[number]

    def _note_end(self, by: EndedBy | None) -> None:
        seconds = seconds_trained(self._record.trials())
        self._record.ended = Ended(by, seconds, self._rules.stop_without_gain)


class _Heard:
    """What was reported of an open trial: the place of the last report, and what the median rule says of it.

    `stops`: why the rule would end the training there; None = it goes on.
    """

    def __init__(self, task: Task, curve: Sequence[Mapping[str, Any]] = ()) -> None:
        payload = task.payload
        counted = max(payload.trained, reached(payload.earlier, curve) or 0)
        self._places = Places(counted, last=place_of(curve[-1]) if curve else None)
        self._limits = Limits(payload)
        self.stops: str | None = None
        for point in curve:
            self._judge(point)

    @property
    def best(self) -> float:
        assert self._limits.best is not None
        return self._limits.best

    def take(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """Return the point with its place; ValueError where that is not later than the last."""
        placed = self._places.take(point)
        self._judge(placed)
        return placed

    def _judge(self, point: Mapping[str, Any]) -> None:
        # Once behind it stays so.
        stops = self._limits.stops(point)
        self.stops = self.stops or stops
