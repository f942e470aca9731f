"""Ask-and-tell: a search whose trainings run outside of the toolkit, in the user's own loop."""

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
from hpo.formatting import format_count
from hpo.trials import reported_values
from hpo.trials.places import Places, place_of, reached
from hpo.trials.record.record import Asked, Ended, EndedBy, Record
from hpo.trials.record.user_actions import Add
from hpo.trials.trial import Outcome, seconds_trained
from hpo.workers.dispatch.dispatcher import TaskReport
from hpo.workers.training.tasks import Task
from hpo.workers.training.worker import Limits, one_line

_LONGEST_LINE = 500  # characters of an error in the record, as for trainings in a worker
_LANES = sys.maxsize  # the caller decides how many trainings run at once


class AskAndTell:
    """Proposes one trial per `ask`, and records the values from `report` and `tell`.

    At each `ask`, the strategy gets the results that `tell` got since the previous `ask`, in the order of the trials'
    numbers. So the same calls give the same trials, even if the record is closed and opened again between two
    calls.

    Args:
        rules: what determines the search. The rules must have the order `free` and one task per trial, and must set
            `is_ask_and_tell`.
        record: the events so far; the search writes each new event to it.
        num_trials: the budget, in the unit of `Rules.counts`.
        observers: the observers to notify of each event.
    """

    def __init__(self, rules: Rules, record: Record, num_trials: int, observers: Sequence[Observer] = ()) -> None:
        self._rules, self._record, self._num_trials, self._observers = rules, record, num_trials, observers
        self._begin_again(observers)

    def _begin_again(self, notified: Sequence[Observer]) -> None:
        """Make a new scheduler from the record, and notify the observers in `notified` about the open trials."""
        current = [*notified]
        self._scheduler = Scheduler(self._rules, self._record, self._num_trials, _LANES, current)
        # No trial may be opened until the next `ask`.
        self._scheduler.is_out_of_time = True
        self.open = {key.trial: self._scheduler.task(key) for key in self._scheduler.advance()}
        current[:] = self._observers
        self._reports = {number: _Reports(task, self.asked(number).curve) for number, task in self.open.items()}
        for task in self.open.values():
            for observer in notified:
                observer.task_begun(task)

    def asked(self, number: int) -> Asked:
        """Return the record's note about an open trial: the time of its `ask`, its place (see `Asked`) and its reports.

        If the record has no note about the trial, return the current time, place 1 and no reports.
        """
        # The process may have died between opening the trial and writing this note.
        return self._record.asked.get(number) or Asked(time.time(), 1)

    def stops(self, number: int) -> bool:
        """Return whether the median rule has decided to stop the training of an open trial.

        Raise StudyError if the trial is not open.
        """
        return self._reports[self.task(number).trial].stop_reason is not None

    @property
    def ended_by(self) -> EndedBy | None:
        """What ended the search: `trials` if the budget is used up, else None.

        This value is also None if the strategy has no more points, because only `ask` consults the strategy.
        """
        return "trials" if self._scheduler.ended_by == "trials" else None

    def add_point(self, add: Add, by: str | None = None) -> None:
        """Add a user's point or a retry, which an `ask` returns before the strategy's next new point."""
        self._scheduler.add_point(add, time.time(), by)

    def ask(self) -> Task:
        """Return the one task of a new trial.

        Raises:
            NoTrialError: the budget or the space is used up, the target is reached, `stop_without_gain` ends the
                search, or the strategy waits for the results of open trials.
        """
        scheduler = self._scheduler
        scheduler.is_out_of_time = False
        try:
            key, by = next(scheduler.advance(), None), scheduler.ended_by
        finally:
            # In `finally`, because a user's own strategy may raise an error.
            scheduler.is_out_of_time = True
        if key is None:
            # An `ask` that returns no trial must leave no trace. Otherwise, a session that opens the record again would
            # differ from this one.
            self._begin_again(())
            raise self._no_trial_error(by)
        self.open[key.trial] = task = scheduler.task(key)
        asked = {number: each for number, each in self._record.asked.items() if number in self.open}
        taken = {each.place for each in asked.values()}
        place = next(place for place in range(1, len(taken) + 2) if place not in taken)
        self._record.asked = asked | {key.trial: Asked(time.time(), place)}
        self._reports[key.trial] = _Reports(task)
        if self._record.ended and self._record.ended.by:
            self._note_end(None)
        for observer in self._observers:
            observer.task_begun(task)
        return task

    def _no_trial_error(self, by: EndedBy) -> NoTrialError:
        """Return the error for an `ask` that finds no trial. If no trial is open, record the end of the search."""
        if by == "space" and self.open:
            return NoTrialError(
                f"no trial for now: the strategy waits for the results of trials {self._numbers}; tell them first", True
            )
        if not self.open:
            self._note_end(by)
        counts = self._rules.counts.removesuffix("s")
        reasons: Mapping[EndedBy, str] = {
            "trials": f"the budget of {format_count(self._num_trials, f'{counts}*')} is used up",
            "space": "every point of the space has been tried, or the strategy proposes no more points",
            "target": "a trial has reached study.target",
            "stop_without_gain": "the last trials brought no gain (study.stop_without_gain)",
        }
        return NoTrialError(f"no further trial: {reasons[by]}{f'; open trials: {self._numbers}' if self.open else ''}")

    @property
    def _numbers(self) -> str:
        """The numbers of the open trials, as text."""
        return ", ".join(map(str, sorted(self.open)))

    def report(self, number: int, point: Mapping[str, Any]) -> None:
        """Add a report to the learning curve of an open trial, and write the report to the record.

        Raises:
            StudyError: the trial is not open.
            ConfigError: the report has two values of one name, or `Places.take` refuses the report's place on the
                curve. A place must be 0 or more, above the previous report's place, and of the same kind (epoch, step).
        """
        task, asked = self.task(number), self.asked(number)
        try:
            placed = self._reports[number].take(reported_values.numbers(reported_values.flat(point)))
        except ValueError as error:
            raise ConfigError(f"trial {number}: {error}") from error
        curve = [*asked.curve, placed]
        self._record.asked = self._record.asked | {number: replace(asked, curve=curve)}
        self._take(TaskReport(task, point=placed, units=len(curve)))

    def tell(self, number: int, returned: Any = None, error: str | BaseException | None = None) -> None:
        """End an open trial, and write its result to the record.

        If a metric is NaN, infinite or too large, the trial fails.

        Args:
            number: the trial's number.
            returned: the score, a list with the value of each metric in order, or a mapping of metrics by name. A
                mapping may also hold the duration in `seconds`, and texts, which become notes. None = take the result
                from the reports: the best score if the median rule has stopped the trial, else the values of the report
                that `study.score` selects.
            error: the reason why the training failed, as a text or an exception. Give it instead of a result.

        Raises:
            StudyError: the trial is not open.
            ConfigError: a metric is missing or is not a number, or `error` is neither a text nor an exception. The
                record is unchanged.
        """
        task, asked, stopped = self.task(number), self.asked(number), None
        payload, metrics, seconds = task.payload, dict[str, float](), None
        if isinstance(error, BaseException):
            error = one_line(error, payload.known_secrets())
        elif error is not None and not isinstance(error, str):
            raise ConfigError(f"error: must be a text or an exception, given {error!r:.200}")
        elif error is not None:
            error = excerpt(error, payload.known_secrets(), _LONGEST_LINE) or "failed without a reason"
        elif returned is None and (stopped := self._reports[number].stop_reason) is not None:
            metrics[payload.metric] = self._reports[number].best
        else:
            metrics, error = self._metrics(task, returned)
        if "seconds" in metrics and "seconds" not in self._record.goal.names:
            seconds = reported_values.seconds(metrics.pop("seconds"))
        duration = max(0.0, time.time() - asked.time) if seconds is None else seconds
        units = max(len(asked.curve) + (error is not None), 1)
        secrets = payload.known_secrets()
        texts = {} if not isinstance(returned, Mapping) else reported_values.texts(reported_values.flat(returned))
        notes = {name: excerpt(text, secrets, reported_values.LONGEST_TEXT) for name, text in texts.items()}
        outcome = Outcome(
            metrics, asked.curve, duration, error, units, started=asked.time, worker=asked.place, notes=notes
        )
        outcome = replace(outcome, stopped=stopped, reached=reached(payload.earlier, asked.curve))
        self._take(TaskReport(task, outcome=outcome))
        del self.open[number], self._reports[number]
        if not self.open and self.ended_by is not None:
            self._note_end(self.ended_by)

    def _metrics(self, task: Task, returned: Any) -> tuple[dict[str, float], str | None]:
        """Return the metrics and None, or {} and an error text if a metric is NaN, infinite or too large."""
        goal, payload, result = self._record.goal, task.payload, returned
        try:
            if result is None:
                curve = [*payload.earlier, *self.asked(task.trial).curve]
                is_max = payload.direction == "maximize"
                result = reported_values.of_curve(curve, payload.metric, payload.score, is_max)
            elif isinstance(result, Mapping):
                result = reported_values.flat(result)
            return reported_values.result(result, goal.names, len(goal.metrics)), None
        except ValueError as error:
            given = result if isinstance(result, list | tuple) else [result]
            values = result if isinstance(result, Mapping) else dict(zip(goal.metrics, given, strict=False))
            of_goal = (reported_values.plain(values.get(name)) for name in goal.names)
            if any(isinstance(value, int | float) and reported_values.number(value) is None for value in of_goal):
                return {}, str(error)
            raise ConfigError(f"trial {task.trial}: {error}; for a failed training, give its error instead") from error

    def _take(self, report: TaskReport) -> None:
        self._scheduler.take(report)
        for _ in self._scheduler.advance():
            pass

    def task(self, number: int) -> Task:
        """Return the task of an open trial; raise StudyError if the trial is not open."""
        # The number may be a text from a shell or from JSON. A bool must be refused, because True equals 1 in Python.
        is_number = isinstance(number, Integral) and not isinstance(number, bool)
        if not is_number or number not in self.open:
            trials = self._record.trials()
            is_known = is_number and 0 <= number < len(trials)
            why = f"has a result already ({trials[number].state})" if is_known else "was not asked for"
            raise StudyError(f"trial {number!r}: {why}; open trials: {self._numbers or 'none'}")
        return self.open[number]

    def _note_end(self, by: EndedBy | None) -> None:
        seconds = seconds_trained(self._record.trials())
        self._record.ended = Ended(by, seconds, self._rules.stop_without_gain)


class _Reports:
    """The place of an open trial's last report, and the decision of the median rule.

    `stop_reason`: why the rule stops the training; None = the training continues.
    """

    def __init__(self, task: Task, curve: Sequence[Mapping[str, Any]] = ()) -> None:
        payload = task.payload
        counted = max(payload.trained, reached(payload.earlier, curve) or 0)
        self._places = Places(counted, last=place_of(curve[-1]) if curve else None)
        self._limits = Limits(payload)
        self.stop_reason: str | None = None
        for point in curve:
            self._judge(point)

    @property
    def best(self) -> float:
        assert self._limits.best is not None
        return self._limits.best

    def take(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """Return the report `point` with its place on the learning curve (epoch or step).

        If `point` has no place, add the next epoch. Raise ValueError if the place is negative, not above the last
        report's place, or of another kind than the last report's place.
        """
        placed = self._places.take(point)
        self._judge(placed)
        return placed

    def _judge(self, point: Mapping[str, Any]) -> None:
        # Pass every point to `stops`, even after it has given a reason. Keep the first reason.
        reason = self._limits.stops(point)
        self.stop_reason = self.stop_reason or reason
