"""Runs one task in whatever process it is called in: resolve the objective, run it, catch what goes wrong."""

import inspect
import json
import math
import os
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from hpo.errors import MachineError
from hpo.machine import machine_fault
from hpo.memory import figures, held
from hpo.objective import resolve
from hpo.sealing import hidden, opened, values_of
from hpo.trials import Outcome

Message = dict[str, Any]
# With one of these a task ends.
LAST_MESSAGES = frozenset({"outcome", "machine_fault"})
Points = Generator[Mapping[str, float], None, Any]


def run_task(payload: Mapping[str, Any], import_from: str | None = None) -> Iterator[Message]:
    """Train one fold; yield a message a step of the learning curve, and the outcome as the last message.

    Args:
        payload: a JSON-able dict with
            `objective` (dotted path), `config` (the tree with the trial's point written into it),
            `train` and `validation` (lists of indices), `data_dir` (where the objective's `prepare_data` put
            them, or None), `metric`, `direction`, `seed`, `threads`, `epochs` (None, or where to stop), `trained`
            (epochs that are trained already), `resume_dir` (None, or where the state of the training is kept),
            `checkpoint_dir` (None, or where the best model is kept), and for messages `study`, `trial`, `fold`,
            `repeat`. Perhaps also `secrets`, the values by name that the config is opened with (see `hpo.sealing`),
            which the objective gets in their places.
        import_from: a folder to import the objective from besides the installed packages.

    Yields:
        `{"point": {...}}` for each step of the curve, `{"warning": text}` for what people should know, then once
        `{"outcome": {...}}`, the fields of `Outcome`. Nothing the objective does is raised: a failure is an outcome.
        Where the machine is at fault and not the point, as with a full disk, the last is `{"machine_fault": text}`.
    """
    started, clock = time.time(), time.perf_counter()
    curve: list[Mapping[str, float]] = []
    metrics: dict[str, float] = {}
    error = details = None
    values: Mapping[str, str] = payload.get("secrets", {})
    try:
        values = values_of(payload["config"], values)
        task = {key: value for key, value in payload.items() if key != "secrets"}
        task["config"] = opened(payload["config"], values)
        run_fold = resolve(payload["objective"], import_from).run_fold
        for message in _steps(run_fold(task)):
            if "result" not in message:
                curve += [message["point"]] if "point" in message else []
                yield message
            else:
                # The final training has no validation part, and so no score.
                metrics = _checked(message["result"], payload["metric"], is_scored=payload.get("validation") != [])
    # SystemExit too: an objective that calls sys.exit() must not take the worker with it.
    except (Exception, SystemExit) as caught:  # noqa: BLE001
        fault = machine_fault(caught, _study_folder(payload))
        if fault is not None:
            yield {"machine_fault": hidden(fault, values)}
            return
        error, details = (hidden(text, values) for text in (_one_line(caught), traceback.format_exc()))
    # An objective that only looks its score up tells what the training took.
    seconds = metrics.pop("seconds", time.perf_counter() - clock)
    outcome = Outcome(metrics, curve, seconds, error, started=started, worker=os.getpid(), details=details)
    yield {"outcome": outcome.to_dict()}


def outcome_of(messages: Iterable[Message], show: Callable[[Message], None] | None = None) -> Outcome:
    """Return the outcome that the messages of `run_task` end in.

    Args:
        messages: of one task.
        show: gets every message before the last, a point or a warning; None = nobody.

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


def _study_folder(payload: Mapping[str, Any]) -> Path | None:
    """Return the folder that the study's own files lie in, as far as the task knows of one."""
    if payload.get("data_dir"):
        return Path(payload["data_dir"]).parent
    inner = payload.get("checkpoint_dir") or payload.get("resume_dir")
    return Path(inner).parent.parent if inner else None


def _steps(result: Any) -> Iterator[Message]:
    """Yield the points of a generator and then what it returned; a plain return value is the latter alone."""
    if not inspect.isgenerator(result):
        yield {"result": result}
        return
    final = yield from _points(cast("Points", result))
    yield {"result": final}


def _points(generator: Points) -> Generator[Message, None, Any]:
    while True:
        try:
            point = next(generator)
        except StopIteration as stop:
            return stop.value
        if set(point) == {"warning"}:
            yield {"warning": " ".join(str(point["warning"]).split())}
        else:
            plain = {str(name): _number(value) for name, value in point.items()}
            # Whatever an objective reports is the same for every dispatcher, and on reading the record: JSON.
            yield {"point": json.loads(json.dumps(plain, default=repr))}


def _checked(result: Any, metric: str, is_scored: bool) -> dict[str, float]:
    """Return the objective's numbers as plain floats and ints, or raise with what is wrong with them."""
    if isinstance(result, int | float) and not isinstance(result, bool):
        result = {metric: result}
    if not isinstance(result, Mapping):
        raise ValueError(f"the objective must return a number or a dict of numbers, it returned {result!r}")
    if is_scored:
        _refuse_bad_score(result, metric)
    return {str(name): number for name, value in result.items() if isinstance(number := _number(value), int | float)}


def _refuse_bad_score(result: Mapping[str, Any], metric: str) -> None:
    if metric not in result:
        raise ValueError(
            f"the objective returned no '{metric}'; it returned: {', '.join(map(str, result)) or 'nothing'}"
        )
    score = _number(result[metric])
    if not isinstance(score, int | float):
        raise ValueError(f"the objective's '{metric}' must be a number, it is {result[metric]!r}")
    if not math.isfinite(score):
        raise ValueError(f"the objective's '{metric}' is {score}: the training diverged or nothing was scored")


def _number(value: Any) -> Any:
    """Return NumPy and torch scalars as plain numbers; everything else as it is."""
    value = value.item() if hasattr(value, "item") and not isinstance(value, int | float) else value
    return int(value) if isinstance(value, bool) else value


def _one_line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, MemoryError) and "were free" not in text:
        # Its own text is empty as a rule; an objective may have found better words.
        text = f"{text or 'out of memory'}; {figures(held())}"
    return f"{type(error).__name__}: {text}"[:500] if text else type(error).__name__
