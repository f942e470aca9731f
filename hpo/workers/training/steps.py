"""Runs an objective step by step, and counts its units of training."""

import contextlib
import inspect
import sys
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Never

from hpo.config.secrets import reveal_secrets
from hpo.errors import ConfigError, MachineError
from hpo.trials import reported_values
from hpo.workers.objective.objective import Objective
from hpo.workers.objective.pickled_function import PickledFunction
from hpo.workers.objective.plain_function import StateIsAhead, await_result
from hpo.workers.objective.process_state import isolated_state
from hpo.workers.objective.resolution import resolve
from hpo.workers.objective.source_files import code_watch
from hpo.workers.training.journal import Entry
from hpo.workers.training.own_lines import own_run
from hpo.workers.training.reports import Reports
from hpo.workers.training.tasks import FINAL_FOLD, Payload

_OF_A_GROUP = "scores by example are not collected if a task has several processes"

Steps = Generator[tuple[str, Any], None, Any]


@dataclass
class Units:
    """The units of training that a task has done."""

    done: float = 0.0
    more: bool | None = None  # whether the training continues after the last report; None = unknown
    # The number to add to reported units. It is not 0 if the objective continues from a state but counts from 0 again.
    # None before the first report of units.
    _uncounted: float | None = None

    def step(self, given: Any, more: Any) -> float:
        """Count a report. Return the units of training since the previous report.

        Args:
            given: the total number of units that the report states; None = one unit more than before.
            more: whether the training says that it continues after this report; None = it does not say.

        Raises:
            ValueError: the total did not rise by at least 1.
        """
        before = self.done
        units = before + 1 if given is None else self._counted(given, before + 1)
        if units is None or units < before + 1:
            raise ValueError(
                f"'units' must count all units so far and rise by at least 1 with every report, given {given!r} after "
                f"{before:g}"
            )
        self.done, self.more = float(units), None if more is None else bool(more)
        return self.done - before

    def repeat(self, entry: Entry) -> None:
        """Count a report of an earlier, interrupted attempt."""
        self.done, self.more = self.done + entry.units, entry.more

    def end(self, given: Any) -> None:
        """Set the final number of units.

        The least possible number is the units at the last report, plus 1 if the training continued after this report.
        The least possible number is never below 1.

        Args:
            given: the final number; None = the least possible number.

        Raises:
            ValueError: `given` is smaller than the least possible number, or is not a number.
        """
        least = max(self.done + bool(self.more), 1.0)
        units = least if given is None else self._counted(given, least)
        if units is None or units < least:
            raise ValueError(f"'units' at the end of the training must be at least {least:g}, given {given!r}")
        self.done = float(units)

    def _counted(self, given: Any, least: float) -> float | None:
        number = reported_values.number(given)
        if number is not None and self._uncounted is None:
            # If an objective does not save its count in the state, it counts from 0 again.
            self._uncounted = self.done if number < least else 0.0
        return None if number is None else number + (self._uncounted or 0.0)


def steps_of(
    payload: Payload, values: Mapping[str, str], import_from: str, units: Units, must_score: bool
) -> Generator[tuple[str, Any], None, None]:
    """Run the objective and yield pairs of a kind and a content; the kind of the last pair is `result`.

    The other kinds are `point`, `note`, `warning`, `mlflow_run`, `differs` and, before the result of a test,
    `scores_by_example`. Only new points of the learning curve are yielded, each with its epoch or step.

    Args:
        payload: the task.
        values: the secrets of the configuration, by name.
        import_from: the folder to import the objective from, in addition to installed packages.
        units: an object that this function updates with the number of trained units.
        must_score: whether the objective must return a score; False in the processes of a group except the first.

    Raises:
        MachineError: this machine cannot import the objective, or the code has changed since the start of the search.
    """
    watch = code_watch(tuple((payload.code or {}).items()), import_from)
    try:
        pickled = PickledFunction.read(Path(payload.function_file)) if payload.function_file else None
        try:
            objective = resolve(payload.objective, import_from, pickled=pickled)
        except ConfigError as error:
            # The driver could import the objective, so this machine lacks it or one of its imports.
            raise MachineError(str(error)) from error
        watch.refuse_changed()
        made = Reports.of(payload, objective.reports_again, is_first=must_score)
        # In a group of processes, only the first process has an MLflow run.
        lines = payload.own_lines if must_score else None
        with contextlib.closing(made) as reports, own_run(lines, payload.trial, payload.secrets) as own:
            if own.warning is not None:
                yield "warning", own.warning
            if own.id is not None:
                yield "mlflow_run", own.id
            # Seed after the run is found, because MLflow draws random numbers too.
            with isolated_state(payload.seed, payload.threads):
                given = payload if own.id is None else replace(payload, mlflow_run_id=own.id)
                yield from _trained(objective, given, values, units, reports, must_score)
    finally:
        watch.refuse_changed(has_failed=isinstance(sys.exception(), Exception))


def _trained(
    objective: Objective,
    payload: Payload,
    values: Mapping[str, str],
    units: Units,
    reports: Reports,
    must_score: bool,
) -> Generator[tuple[str, Any], None, None]:
    counts = objective.describe_cost is not None
    try:
        returned = yield from _attempt(objective, payload, values, units, reports)
    except StateIsAhead:
        reports.start_again()
        if payload.processes > 1:
            raise MachineError(
                "the saved state may be newer than the last report, so the state was deleted; run `hpo resume` to "
                "repeat this training from the beginning"
            ) from None
        returned = yield from _attempt(objective, payload, values, units, reports)
    if reports.differs is not None:
        yield "differs", reports.differs
    if returned is None and must_score and payload.metric in reports.gaps:
        raise ValueError(
            f"the last reported '{payload.metric}' is not finite: the training diverged; to use the score of an "
            f"earlier report, return it"
        )
    if returned is None and must_score:
        is_max = payload.direction == "maximize"
        returned = reported_values.of_curve(reports.points, payload.metric, payload.score, is_max, reports.named)
    if isinstance(returned, Mapping):
        returned = dict(returned)
        by_example, of_sums = returned.pop("scores_by_example", None), returned.pop("score_of_sums", None)
        is_test = payload.test is not None or (payload.fold == FINAL_FOLD and payload.validation)
        if is_test and isinstance(by_example, Mapping):
            functions = of_sums if isinstance(of_sums, Mapping) else {}
            if payload.processes > 1:
                # Messages of a group of processes are JSON, which has no functions and no arrays.
                by_example, functions = dict.fromkeys(by_example, _OF_A_GROUP), {}
            yield "scores_by_example", {"scores_by_example": by_example, "score_of_sums": functions}
        returned = reported_values.flat(returned)
    if counts and isinstance(returned, Mapping):
        units.end(returned.get("units"))
        returned = {name: value for name, value in returned.items() if name != "units"}
    else:
        units.end(None)
    try:
        names = (payload.metric, *payload.metrics[1:], *payload.limited)
        # The final training has no validation split, so it needs no metric. A test needs only one metric.
        num_needed = 0 if payload.validation == [] else 1 if payload.test is not None else None
        numbers = reported_values.result(returned, names, len(payload.metrics), num_needed)
    except ValueError:
        if must_score:
            raise
        numbers, returned = {}, None
    named = isinstance(returned, Mapping)
    others = {name: value for name, value in returned.items() if str(name) not in numbers} if named else {}
    if texts := reported_values.texts(others):
        yield "note", texts
    if left_out := [f"'{name}'" for name in others if str(name) not in texts]:
        yield "warning", f"the objective returned {', '.join(left_out)}, but only finite numbers and texts are stored"
    if "seconds" in numbers and reported_values.seconds(numbers["seconds"]) is None:
        yield "warning", f"the objective's 'seconds' must be a duration, given {numbers['seconds']}; wall time is used"
    yield "result", numbers


def _attempt(
    objective: Objective, payload: Payload, values: Mapping[str, str], units: Units, reports: Reports
) -> Steps:
    """Run the objective once, yield its new steps as `steps_of` does, and return its result. May raise StateIsAhead."""
    run = objective.run_fold if payload.test is None else objective.run_test
    assert run is not None
    counts = objective.describe_cost is not None
    payload = replace(payload, trained=reports.trained, interrupted=reports.was_interrupted)
    runs = [(run, payload, payload.config)]
    if payload.before is not None:
        # First run the earlier training. If its finished state is found, the objective returns at once.
        earlier = replace(payload, amount=payload.before["amount"], checkpoint_dir=None)
        runs.insert(0, (objective.run_fold, earlier, payload.before["config"]))
    for run, given, config in runs:
        reports.begin_run()
        returned = await_result(run(given.task(reveal_secrets(config, values))))
        if inspect.isgenerator(returned):
            returned = yield from _points(returned, counts, units, reports)
    reports.end(has_result=returned is not None)
    yield from _known(reports, units)
    return returned


def _points(training: Generator[Any, Never, Any], counts: bool, units: Units, reports: Reports) -> Steps:
    """Yield the new reports, notes and warnings of a training, as `steps_of` does, and return the training's result.

    A yielded report has only the values that are finite numbers.
    """
    warned: set[str] = set()
    with contextlib.closing(training):
        while True:
            try:
                step = next(training)
            except StopIteration as stop:
                return stop.value
            if not isinstance(step, Mapping):
                raise ValueError(f"the objective must yield dicts of numbers, given {step!r}")
            if set(step) == {"warning"}:
                yield "warning", str(step["warning"])
                continue
            if set(step) == {"note"} and isinstance(step["note"], Mapping):
                yield "note", reported_values.note(step["note"])
                continue
            given = reported_values.flat({name: value for name, value in step.items() if name != "more"})
            reports.named |= given.keys()
            numbers = reported_values.numbers(given)
            reports.gaps = [name for name in reports.metrics if name not in numbers and given.get(name) is not None]
            point = reports.take(numbers)
            yield from _known(reports, units)
            if point is None:
                continue
            took = units.step(step.get("units") if counts else None, step.get("more"))
            reports.add(point, took, units.more)
            for name in reports.gaps:
                if name not in warned:
                    warned.add(name)
                    text = f"the objective reported a '{name}' that is not finite, so the curve of '{name}' has a gap"
                    yield "warning", text
            yield "point", point


def _known(reports: Reports, units: Units) -> Steps:
    """Yield the reports of an interrupted attempt; a later call yields nothing."""
    for entry in reports.take_known():
        units.repeat(entry)
        yield "point", dict(entry.point)
