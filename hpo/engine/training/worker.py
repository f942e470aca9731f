"""Runs one task in the calling process: resolves the objective, runs it, catches its errors."""

import contextlib
import functools
import inspect
import os
import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Never

from hpo.config.sealing import excerpt, make_writable, open_sealed, values_of
from hpo.engine.training.failure import LONGEST_LINE, one_line
from hpo.engine.training.limits import Limits
from hpo.engine.training.objective.contained import Containment, contained_state
from hpo.engine.training.objective.kept_function import KeptFunction
from hpo.engine.training.objective.objective import Objective
from hpo.engine.training.objective.plain_function import awaited
from hpo.engine.training.objective.resolution import resolve
from hpo.engine.training.objective.source_files import code_watch, watch_steps
from hpo.engine.training.payload import Payload
from hpo.engine.trials import reported
from hpo.engine.trials.trial import Outcome
from hpo.errors import ConfigError, MachineError, is_interruption, text_of
from hpo.machine import machine_fault
from hpo.tree import links_out

Message = dict[str, Any]

# Between two looks at the links of a state, which may have many files and be written at every report; a look takes at
# most a fiftieth of the time.
_SECONDS_BETWEEN_LOOKS, _TIMES_A_LOOK = 1.0, 50.0


@dataclass
class Progress:
    """How many units of its training a task has done, and what it last said of whether it goes on; None = nothing."""

    units: float = 0.0
    more: bool | None = None

    @property
    def goes_on(self) -> bool:
        """Whether it has said that it goes on."""
        return bool(self.more)

    def step(self, given: Any, more: Any) -> None:
        """Note a report after `given` units; None = one more than before. ValueError for less than one more."""
        units = self.units + 1 if given is None else reported.number(given)
        if units is None or units < self.units + 1:
            raise ValueError(
                f"'units' must count what is done so far, at least 1 more with every report; given {given!r} after "
                f"{self.units:g}"
            )
        self.units, self.more = float(units), None if more is None else bool(more)

    def end(self, given: Any) -> None:
        """Note the end after `given` units; None = with the last report, or after one unit."""
        least = max(self.units + self.goes_on, 1.0)
        units = least if given is None else reported.number(given)
        if units is None or units < least:
            raise ValueError(f"'units' must count what was done in the end, {least:g} or more; given {given!r}")
        self.units = float(units)


# The last message of a task has one of these keys.
LAST_MESSAGES = frozenset({"outcome", "machine_fault"})
_LONGEST_DETAILS = 20_000  # characters of a traceback that are kept


def run_task(payload: Payload, import_from: str | None = None, must_score: bool = True) -> Iterator[Message]:
    """Train one fold; yield a message per step of the learning curve, and the outcome as the last message.

    Args:
        payload: the task.
        import_from: a folder to import the objective from besides installed packages; None = the working directory.
        must_score: False where this process only takes part in a training whose score another one returns.

    With `payload.limits` a training that falls behind them is closed at that point, which is its last.

    Yields:
        `{"point": {...}, "units": ..., "goes_on": ...}` for each step of the curve, `{"warning": text}` for people,
        then once `{"outcome": {...}}`, the fields of `Outcome`. Errors of the objective are not raised: a failure is an
        outcome. Where the machine is at fault and not the point, as with a full disk, the last is `{"machine_fault":
        text}`. All texts of the objective have their secrets hidden; names of metrics stay as they are.
    """
    started, clock = time.time(), time.perf_counter()
    next_look = clock + _SECONDS_BETWEEN_LOOKS
    curve: list[Mapping[str, float]] = []
    metrics: dict[str, float] = {}
    seconds: float | None = None
    progress = Progress()
    error = details = stopped = None
    limits = Limits(payload.limits or (), payload.metric, payload.direction)
    values = payload.secrets
    place, steps = Containment(values), None

    @functools.cache
    def shown(name: str) -> str:
        return make_writable(name, LONGEST_LINE)

    while True:
        try:
            with place.enter():
                if steps is None:
                    values = place.secrets = values_of(payload.config, values)
                    folder = import_from or str(Path.cwd())
                    steps = _steps(payload, values, folder, progress, must_score)
                    steps = watch_steps(steps, code_watch(payload.code, folder))
                if stopped is not None:
                    steps.close()
                step = next(steps, None)
            now = time.perf_counter()
            if step is None or now >= next_look:
                _refuse_links_out(payload)
                next_look = time.perf_counter() + max(
                    _SECONDS_BETWEEN_LOOKS, _TIMES_A_LOOK * (time.perf_counter() - now)
                )
        except BaseException as caught:
            if is_interruption(caught):
                raise
            # The objective's fault, sys.exit() included: it must not end the worker.
            fault = (
                text_of(caught) if isinstance(caught, MachineError) else machine_fault(caught, _study_folder(payload))
            )
            if fault is not None:
                yield {"machine_fault": excerpt(fault, values)}
                return
            error = one_line(caught, values)
            details = excerpt(traceback.format_exc(), values, _LONGEST_DETAILS, has_lines=True)
            metrics, stopped = {}, None
            # It failed in the unit that follows the last report.
            progress.units += 1
            break
        if step is None:
            break
        kind, content = step
        if kind == "point":
            point = {shown(name): number for name, number in content.items()}
            curve.append(point)
            # At its last point a training keeps its own result.
            stopped = None if progress.more is False else limits.stops(content)
            yield {"point": point, "units": progress.units, "goes_on": progress.goes_on and stopped is None}
            if stopped is not None:
                assert limits.best is not None
                metrics, seconds = {shown(payload.metric): limits.best}, content.get("seconds")
                stopped = excerpt(stopped, values)
                continue
        elif kind == "warning":
            yield {"warning": excerpt(content, values, LONGEST_LINE)}
        else:
            seconds = content.pop("seconds", None)
            metrics = {shown(name): number for name, number in content.items()}
        if payload.limit_minutes is not None and time.perf_counter() - clock > 60 * payload.limit_minutes:
            error, metrics = f"took longer than study.trial_minutes={payload.limit_minutes:g}", {}
            # It failed in the unit that follows the last report.
            progress.units += kind != "result"
            break
    if error is not None:
        # Also of a training that failed otherwise.
        with contextlib.suppress(ValueError):
            _refuse_links_out(payload)
    # An objective that only looks up its score reports the duration of the original training.
    took = reported.seconds(seconds)
    taken = time.perf_counter() - clock if took is None else took
    outcome = Outcome(
        metrics,
        curve,
        taken,
        error,
        progress.units,
        started=started,
        worker=os.getpid(),
        details=details,
        stopped=stopped,
    )
    yield {"outcome": outcome.to_dict()}


def outcome_of(messages: Iterable[Message], show: Callable[[Message], None] | None = None) -> Outcome:
    """Return the outcome at the end of the messages of `run_task`; `show` gets the messages before it.

    Raises:
        MachineError: the machine could not run the task.
    """
    for message in messages:
        if "outcome" in message:
            return Outcome.from_dict(message["outcome"])
        if "machine_fault" in message:
            raise MachineError(message["machine_fault"])
        if show is not None:
            show(message)
    raise RuntimeError("a task ended without an outcome")


def _refuse_links_out(payload: Payload) -> None:
    """Raise ValueError for links that lead out of the state or the model; they are deleted.

    What it leads to would be missing on another machine, and no command opens a study whose folder has such a link.
    """
    for name in ("resume_dir", "checkpoint_dir") if payload.test is None else ():
        folder = getattr(payload, name)
        if folder is None or not (links := links_out(Path(folder))):
            continue
        target = links[0].path.readlink()
        for link in links:
            link.path.unlink()
        raise ValueError(
            f"{name}/{links[0].name}: is a link that leads out of the folder, to {target}; allowed are links within "
            f"it, so keep there what it leads to"
        )


def _study_folder(payload: Payload) -> Path | None:
    """Return the study's folder, as far as the task knows it."""
    if payload.data_dir:
        return Path(payload.data_dir).parent
    inner = payload.checkpoint_dir or payload.resume_dir
    return Path(inner).parent.parent if inner else None


def _steps(
    payload: Payload, values: Mapping[str, str], import_from: str, progress: Progress, must_score: bool
) -> Generator[tuple[str, Any], None, None]:
    """Run the objective; yield `point` with numbers by name, `warning` with a text, and last `result` with numbers.

    Keeps `progress` up to date.
    """
    kept = KeptFunction.read(Path(payload.kept)) if payload.kept else None
    try:
        objective = resolve(payload.objective, import_from, kept=kept)
    except ConfigError as error:
        # The driver has found it, so this machine lacks it, or what it imports: no trial is at fault.
        raise MachineError(str(error)) from error
    code_watch(payload.code, import_from).refuse_changed()
    with contained_state(payload.seed):
        yield from _trained(objective, payload, values, progress, must_score)


def _trained(
    objective: Objective, payload: Payload, values: Mapping[str, str], progress: Progress, must_score: bool
) -> Generator[tuple[str, Any], None, None]:
    counts = objective.describe_cost is not None
    if payload.before is not None:
        _train_before(payload, objective.run_fold, open_sealed(payload.before["config"], values))
    run = objective.run_fold if payload.test is None else objective.run_test
    assert run is not None
    returned = awaited(run(payload.task(open_sealed(payload.config, values))))
    curve: list[Mapping[str, Any]] = []
    if inspect.isgenerator(returned):
        returned = yield from _points(returned, counts, progress, curve)
    if returned is None and must_score:
        returned = reported.of_curve(curve, payload.metric, payload.score, payload.direction == "maximize")
    if isinstance(returned, Mapping):
        returned = reported.flat(returned)
    if counts and isinstance(returned, Mapping):
        progress.end(returned.get("units"))
        returned = {name: value for name, value in returned.items() if name != "units"}
    else:
        progress.end(None)
    if not must_score and not _has_score(returned, payload):
        yield "result", {}
        return
    # The final training has no validation part, and so no score.
    numbers = reported.result(returned, payload.metric, is_scored=payload.validation != [])
    left_out = [f"'{name}'" for name in returned if str(name) not in numbers] if isinstance(returned, Mapping) else []
    if left_out:
        yield "warning", f"the objective returned {', '.join(left_out)}, which is not kept: not a finite number"
    if "seconds" in numbers and reported.seconds(numbers["seconds"]) is None:
        yield "warning", f"the objective's 'seconds' cannot be a duration, it is {numbers['seconds']}: measured instead"
    yield "result", numbers


def _has_score(returned: Any, payload: Payload) -> bool:
    try:
        return payload.metric in reported.result(returned, payload.metric, is_scored=payload.validation != [])
    except ValueError:
        return False


def _train_before(payload: Payload, run_fold: Callable[[dict[str, Any]], Any], config: Mapping[str, Any]) -> None:
    """Train what this task continues; an objective that finds the state at hand returns at once."""
    assert payload.before is not None
    before = awaited(run_fold(replace(payload, amount=payload.before["amount"], checkpoint_dir=None).task(config)))
    if inspect.isgenerator(before):
        deque(before, maxlen=0)


def _points(
    training: Generator[Any, Never, Any], counts: bool, progress: Progress, curve: list[Mapping[str, Any]]
) -> Generator[tuple[str, Any], None, Any]:
    """Yield what a training yields, as `_steps` does, and return what it returns; closed, the training is closed.

    Adds its points to `curve`.
    """
    with contextlib.closing(training):
        while True:
            try:
                step = next(training)
            except StopIteration as stop:
                return stop.value
            if not isinstance(step, Mapping):
                raise ValueError(f"the objective must yield dicts of numbers, it yielded {step!r}")
            if set(step) == {"warning"}:
                yield "warning", str(step["warning"])
                continue
            progress.step(step.get("units") if counts else None, step.get("more"))
            given = {name: value for name, value in step.items() if name != "more"}
            curve.append(reported.numbers(reported.flat(given)))
            yield "point", dict(curve[-1])
