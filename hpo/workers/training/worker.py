"""Runs one task in the calling process: resolves the objective, runs it, catches its errors."""

import contextlib
import functools
import math
import os
import shutil
import sysconfig
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hpo.config.secrets import excerpt, make_writable, values_of
from hpo.errors import HpoError, MachineError, is_interruption, text_of
from hpo.files import links_out
from hpo.machine import describe_memory, machine_fault, resident_bytes
from hpo.trials import reported_values
from hpo.trials.places import Point, place_of, reached
from hpo.trials.trial import Outcome, loss_of
from hpo.workers.objective.process_state import Isolation
from hpo.workers.training.journal import state_of
from hpo.workers.training.steps import Units, steps_of
from hpo.workers.training.tasks import Payload

Message = dict[str, Any]

# Least seconds between two looks at the links of a state, which may have many files and be written at every report, and
# how many times the last look they are: a look takes at most a fiftieth of the time.
_BETWEEN_LOOKS = (1.0, 50.0)
# The last message of a task has one of these keys; `died` where it runs in a process of its own.
LAST_MESSAGES = frozenset({"outcome", "machine_fault", "died"})
_LONGEST_LINE, _LONGEST_DETAILS = 500, 20_000  # characters of an error, and of its traceback, that are kept
_OURS = Path(__file__).parents[2]
_OF_PYTHON = [sysconfig.get_path(kind) for kind in ("stdlib", "purelib", "platlib")]
_SENT = "<dynamic-code>"  # the file of a function of a script or a cell, as cloudpickle 3.1.3 and later names it
# Whoever reads the line looks for it in code of their own.
_OF_OTHERS = ("<", *(f"{folder}/" for folder in (_OURS, _OURS.with_name("model"), *_OF_PYTHON)))


def run_task(
    payload: Payload,
    import_from: str | None = None,
    must_score: bool = True,
    between_looks: tuple[float, float] = _BETWEEN_LOOKS,
) -> Iterator[Message]:
    """Train one fold, with `import_from` or the working directory to import from besides installed packages.

    With `payload.limits` a training that falls behind them is closed at that point, which is its last. Where this
    process only takes part in a training whose score another one returns, it need not return one.

    Yields:
        `{"point": {...}, "units": ..., "goes_on": ...}` for each step of the curve, `{"warning": text}` for people,
        `{"scores_by_example": ...}` of the test part, `{"mlflow_run": id}` where it has a run of its own,
        then once `{"outcome": Outcome, "lacks_metric": ...}`, see `TaskReport`. Errors of the objective are not raised:
        a failure is an outcome. Where the machine is at fault and not the point, as with a full disk, the last is
        `{"machine_fault": text}`. All texts of the objective have their secrets hidden; names of metrics stay as they
        are.
    """
    started, clock = time.time(), time.perf_counter()
    least_seconds, times = between_looks
    next_look = clock + least_seconds
    curve: list[Mapping[str, float]] = []
    metrics: dict[str, float] = {}
    notes: dict[str, float | str] = {}
    seconds: float | None = None
    units = Units()
    error = details = stopped = differs = None
    lacks_metric = False
    limits = Limits(payload)
    values = payload.secrets
    place, steps = Isolation(values), None

    @functools.cache
    def shown(name: str) -> str:
        return make_writable(name, _LONGEST_LINE)

    while True:
        try:
            with place.enter():
                if steps is None:
                    values = place.secrets = values_of(payload.config, values)
                    steps = steps_of(payload, values, import_from or str(Path.cwd()), units, must_score)
                if stopped is not None:
                    steps.close()
                step = next(steps, None)
                if step is not None and step[0] in ("point", "note", "result"):
                    reported_values.refuse_twice(map(shown, step[1]))
            now = time.perf_counter()
            if step is None or now >= next_look:
                _refuse_links_out(payload)
                next_look = time.perf_counter() + max(least_seconds, times * (time.perf_counter() - now))
        except BaseException as caught:
            # The objective's fault, sys.exit() included: it must not end the worker.
            if is_interruption(caught):
                raise
            fault = (
                text_of(caught) if isinstance(caught, MachineError) else machine_fault(caught, _study_folder(payload))
            )
            if fault is not None:
                yield {"machine_fault": excerpt(fault, values)}
                return
            error, lacks_metric = one_line(caught, values), isinstance(caught, reported_values.NotReportedError)
            if not _is_whole(caught):
                details = excerpt(traceback.format_exc(), values, _LONGEST_DETAILS, has_lines=True)
            units.done += 1
            break
        if step is None:
            break
        kind, content = step
        if kind == "point":
            point = {shown(name): number for name, number in content.items()}
            curve.append(point)
            # At its last point a training keeps its own result.
            stopped = None if units.more is False else limits.stops(content)
            yield {"point": point, "units": units.done, "goes_on": bool(units.more) and stopped is None}
            if stopped is not None:
                assert limits.best is not None
                metrics, seconds = {shown(payload.metric): limits.best}, content.get("seconds")
                stopped = excerpt(stopped, values)
                continue
        elif kind == "warning":
            yield {"warning": excerpt(content, values, _LONGEST_LINE)}
        elif kind == "note":
            notes |= {shown(name): number for name, number in reported_values.numbers(content).items()}
            for name, text in reported_values.texts(content).items():
                notes[shown(name)] = excerpt(text, values, reported_values.LONGEST_TEXT)
                if len(text) > reported_values.LONGEST_TEXT:
                    yield {"warning": f"the note {shown(name)!r} is cut to {reported_values.LONGEST_TEXT:,} characters"}
        elif kind in ("scores_by_example", "mlflow_run"):
            yield {kind: content}
        elif kind == "differs":
            differs = excerpt(content, values, _LONGEST_LINE)
            yield {"warning": f"repeated after an interruption, the training is not the same: {differs}"}
        else:
            seconds = content.get("seconds")
            counted = {payload.metric, *payload.metrics, *payload.limited}
            metrics = {shown(name): each for name, each in content.items() if name != "seconds" or name in counted}
        if payload.limit_minutes is not None and time.perf_counter() - clock > 60 * payload.limit_minutes:
            error = f"took longer than study.trial_minutes={payload.limit_minutes:g}"
            units.done += kind != "result"
            break
    if error is not None:
        # It failed in the unit that follows the last report, which was counted above.
        metrics, stopped = {}, None
        with contextlib.suppress(ValueError):
            _refuse_links_out(payload)
    if (refusal := _refuse_many_files(payload)) is not None:
        yield {"warning": refusal}
    # An objective that only looks up its score reports the duration of the original training.
    took = reported_values.seconds(seconds)
    taken = time.perf_counter() - clock if took is None else took
    outcome = Outcome(
        metrics=metrics,
        curve=curve,
        seconds=taken,
        error=error,
        units=units.done,
        started=started,
        worker=os.getpid(),
        details=details,
        stopped=stopped,
        reached=reached(payload.earlier, curve),
        differs=differs,
        notes=notes,
    )
    yield {"outcome": outcome, "lacks_metric": lacks_metric}


class Limits:
    """Says when a training is to be stopped, from the points of its learning curve.

    Its best so far, in the trainings that it continues and in this one, must not be worse than the limit of the place,
    where there is one; beyond the last, than that.
    """

    def __init__(self, payload: Payload) -> None:
        self._payload = payload
        self._limits = dict(payload.limits)
        self._last = max(self._limits, default=math.inf)
        self._num_points = 0
        self.best: float | None = None  # its best score; None before the first
        for point in payload.earlier:
            self._take(point)

    def stops(self, point: Point) -> str | None:
        """Take the next point of the curve; return why the training is to be stopped there, or None."""
        self._num_points += 1
        self._take(point)
        if self.best is None or self._payload.metric not in point or self._num_points < self._payload.limits_after:
            return None
        place = place_of(point)
        limit = self._limits.get(min(place, self._last))
        if limit is None or self._loss(self.best) <= self._loss(limit):
            return None
        return f"at point {place:g} ({self.best:.4g}, median {limit:.4g})"

    def _take(self, point: Point) -> None:
        score = point.get(self._payload.metric)
        if score is not None and (self.best is None or self._loss(score) < self._loss(self.best)):
            self.best = score

    def _loss(self, score: float) -> float:
        return loss_of(score, self._payload.direction)


def outcome_of(messages: Iterable[Message], show: Callable[[Message], None] | None = None) -> Outcome:
    """Return the outcome at the end of `run_task`; `show` gets the messages before it. MachineError for its faults."""
    for message in messages:
        if "outcome" in message:
            outcome: Outcome = message["outcome"]
            return outcome
        if "machine_fault" in message:
            raise MachineError(message["machine_fault"])
        if show is not None:
            show(message)
    raise RuntimeError("a task ended without an outcome")


def _refuse_links_out(payload: Payload) -> None:
    """Delete links that lead out of what is kept, to what would be missing elsewhere, and raise ValueError."""
    for name in ("resume_dir", "checkpoint_dir", "files_dir") if payload.test is None else ():
        given = getattr(payload, name)
        folder = state_of(given) if given is not None and name == "resume_dir" else given
        # Most trainings make none of them.
        if folder is None or not os.path.lexists(folder) or not (links := links_out(Path(folder))):
            continue
        target = links[0].path.readlink()
        for link in links:
            link.path.unlink()
        raise ValueError(
            f"{name}/{links[0].name}: is a link that leads out of the folder, to {target}; allowed are links within "
            f"it, so keep there what it leads to"
        )


def _refuse_many_files(payload: Payload) -> str | None:
    """Delete the training's own files where they are larger than is allowed, and say so; None where they are not."""
    folder, most = payload.files_dir, payload.most_file_bytes
    if folder is None or most is None or not os.path.lexists(folder):
        return None
    there = sum(path.lstat().st_size for path in Path(folder).rglob("*") if path.is_file())
    if there <= most:
        return None
    shutil.rmtree(folder)
    return (
        f"its own files (trial.dir) take {there:,} bytes, allowed are {most:,}, so that none is kept; raise "
        f"study.trial_files_bytes"
    )


def _study_folder(payload: Payload) -> Path | None:
    """Return the study's folder, as far as the task knows it."""
    if payload.data_dir:
        return Path(payload.data_dir).parent
    inner = payload.checkpoint_dir or payload.resume_dir
    return Path(inner).parent.parent if inner else None


def one_line(error: BaseException, values: Mapping[str, str]) -> str:
    """Return an error in one line: `ZeroDivisionError at bad.py:4: division by zero`, secrets hidden."""
    text = _said_by_argparse(error) or text_of(error).strip()
    if isinstance(error, MemoryError) and "were free" not in text:
        # Usually its own text is empty; an objective may have given a better one.
        text = f"{text or 'out of memory'}; {describe_memory(resident_bytes())}"
    if text and _is_whole(error):
        return excerpt(text, values, _LONGEST_LINE)
    name = f"{type(error).__name__}{_place(error)}"
    return excerpt(f"{name}: {text}" if text else name, values, _LONGEST_LINE)


def _is_whole(error: BaseException) -> bool:
    """Return whether an error's own line says all: it was written for people, and passed no code of the user's."""
    return isinstance(error, HpoError) and not _place(error)


def _said_by_argparse(error: BaseException) -> str | None:
    """Return what argparse printed before it ended the program, whose exception is the number 2."""
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__)) if isinstance(error, SystemExit) else ()
    for frame in frames:
        if frame.f_globals.get("__name__") == "argparse" and frame.f_code.co_name == "error":
            return str(frame.f_locals["message"])
    return None


def _place(error: BaseException) -> str:
    """Return ` at file:line` or ` at line 3 of train`, the last of the user's own code that the error passed."""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == _SENT or not frame.filename.startswith(_OF_OTHERS)
    ]
    if not frames:
        return ""
    last = frames[-1]
    # A cell of a notebook is in a file whose name is a number.
    unnamed = last.filename == _SENT or "ipykernel_" in last.filename
    return f" at line {last.lineno} of {last.name}" if unnamed else f" at {Path(last.filename).name}:{last.lineno}"
