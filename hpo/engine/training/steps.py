"""What an objective yields and returns, step by step, and how many units of its training are done."""

import contextlib
import inspect
import sys
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Never

from hpo.config.sealing import open_sealed
from hpo.engine.objective.contained import contained_state
from hpo.engine.objective.kept_function import KeptFunction
from hpo.engine.objective.objective import Objective
from hpo.engine.objective.plain_function import await_result
from hpo.engine.objective.resolution import resolve
from hpo.engine.objective.source_files import code_watch
from hpo.engine.training.payload import Payload
from hpo.engine.trials import reported
from hpo.errors import ConfigError, MachineError


@dataclass
class Units:
    """How many units of its training a task has done, and what it last said of whether it goes on; None = nothing."""

    done: float = 0.0
    more: bool | None = None

    def step(self, given: Any, more: Any) -> None:
        """Note a report after `given` units; None = one more than before. ValueError for less than one more."""
        units = self.done + 1 if given is None else reported.number(given)
        if units is None or units < self.done + 1:
            raise ValueError(
                f"'units' must count what is done so far, at least 1 more with every report; given {given!r} after "
                f"{self.done:g}"
            )
        self.done, self.more = float(units), None if more is None else bool(more)

    def end(self, given: Any) -> None:
        """Note the end after `given` units; None = with the last report, or after one unit."""
        least = max(self.done + bool(self.more), 1.0)
        units = least if given is None else reported.number(given)
        if units is None or units < least:
            raise ValueError(f"'units' must count what was done in the end, {least:g} or more; given {given!r}")
        self.done = float(units)


def steps_of(
    payload: Payload, values: Mapping[str, str], import_from: str, units: Units, must_score: bool
) -> Generator[tuple[str, Any], None, None]:
    """Run the objective; yield `point` or `warning` and last `result`, with numbers or a text; count `units`."""
    watch = code_watch(payload.code, import_from)
    try:
        kept = KeptFunction.read(Path(payload.kept)) if payload.kept else None
        try:
            objective = resolve(payload.objective, import_from, kept=kept)
        except ConfigError as error:
            # The driver has found it, so this machine lacks it, or what it imports: no trial is at fault.
            raise MachineError(str(error)) from error
        watch.refuse_changed()
        with contained_state(payload.seed):
            yield from _trained(objective, payload, values, units, must_score)
    finally:
        watch.refuse_changed(has_failed=isinstance(sys.exception(), Exception))


def _trained(
    objective: Objective, payload: Payload, values: Mapping[str, str], units: Units, must_score: bool
) -> Generator[tuple[str, Any], None, None]:
    counts = objective.describe_cost is not None
    if payload.before is not None:
        # An objective that finds the state at hand returns at once.
        earlier = replace(payload, amount=payload.before["amount"], checkpoint_dir=None)
        before = await_result(objective.run_fold(earlier.task(open_sealed(payload.before["config"], values))))
        if inspect.isgenerator(before):
            deque(before, maxlen=0)
    run = objective.run_fold if payload.test is None else objective.run_test
    assert run is not None
    returned = await_result(run(payload.task(open_sealed(payload.config, values))))
    curve: list[Mapping[str, Any]] = []
    if inspect.isgenerator(returned):
        returned = yield from _points(returned, counts, units, curve, (payload.metric, *payload.metrics[1:]))
    if returned is None and must_score:
        returned = reported.of_curve(curve, payload.metric, payload.score, payload.direction == "maximize")
    if isinstance(returned, Mapping):
        returned = reported.flat(returned)
    if counts and isinstance(returned, Mapping):
        units.end(returned.get("units"))
        returned = {name: value for name, value in returned.items() if name != "units"}
    else:
        units.end(None)
    try:
        names = (payload.metric, *payload.metrics[1:], *payload.limited)
        # The final training has no validation part, and so no score; of a kept model some metrics may not be known.
        num_needed = 0 if payload.validation == [] else 1 if payload.test is not None else None
        numbers = reported.result(returned, names, len(payload.metrics), num_needed)
    except ValueError:
        if must_score:
            raise
        numbers, returned = {}, None
    left_out = [f"'{name}'" for name in returned if str(name) not in numbers] if isinstance(returned, Mapping) else []
    if left_out:
        yield "warning", f"the objective returned {', '.join(left_out)}, which is not kept: not a finite number"
    if "seconds" in numbers and reported.seconds(numbers["seconds"]) is None:
        yield "warning", f"the objective's 'seconds' cannot be a duration, it is {numbers['seconds']}: measured instead"
    yield "result", numbers


def _points(
    training: Generator[Any, Never, Any],
    counts: bool,
    units: Units,
    curve: list[Mapping[str, Any]],
    metrics: Sequence[str],
) -> Generator[tuple[str, Any], None, Any]:
    """Yield what a training yields, as `steps_of` does, and add it to `curve`; return what the training returns.

    A metric of the study that is no number is a gap in the curve; of each the first is told, unless it is None.
    """
    told: set[str] = set()
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
            units.step(step.get("units") if counts else None, step.get("more"))
            given = reported.flat({name: value for name, value in step.items() if name != "more"})
            curve.append(reported.numbers(given))
            for name in metrics:
                if name not in told and name not in curve[-1] and given.get(name) is not None:
                    told.add(name)
                    yield "warning", f"the objective reported a '{name}' that is a gap in its curve: no finite number"
            yield "point", dict(curve[-1])
