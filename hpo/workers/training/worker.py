"""Runs one task in this process: resolves the objective, runs it, and catches its errors."""

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
from hpo.machine import describe_memory, machine_fault
from hpo.trials import reported_values
from hpo.trials.places import Point, place_of, reached
from hpo.trials.trial import Outcome, loss_of
from hpo.workers.objective.process_state import Isolation
from hpo.workers.training.journal import state_of
from hpo.workers.training.steps import Steps, Units, steps_of
from hpo.workers.training.tasks import FINAL_FOLD, Payload

Message = dict[str, Any]

# A check for links that lead out of a state may be slow, because a state may have many files. The next check waits for
# at least 1 second, and for at least 50 times the duration of the last check. So checks take at most 2 % of the time.
BETWEEN_CHECKS = (1.0, 50.0)
# The last message of a task has one of these keys. `died` occurs only if the task ran in a separate process.
LAST_MESSAGES = frozenset({"outcome", "machine_fault", "died"})
_LONGEST_LINE, _LONGEST_DETAILS = 500, 20_000  # limits, in characters, for a recorded error and its traceback
_PACKAGE = Path(__file__).parents[2]
_PYTHON_FOLDERS = [sysconfig.get_path(kind) for kind in ("stdlib", "purelib", "platlib")]
_SENT_CODE = "<dynamic-code>"  # the file name of a pickled function in cloudpickle 3.1.3 and later
# Prefixes of the file names of code that is not the user's. The location in an error is always in the user's code.
_FOREIGN = ("<", *(f"{folder}/" for folder in (_PACKAGE, _PACKAGE.with_name("model"), *_PYTHON_FOLDERS)))


def run_task(payload: Payload, import_from: str | None = None, must_score: bool = True) -> Iterator[Message]:
    """Train one fold, or score a stored model on the test split.

    If the score becomes worse than `payload.limits` allow, the training is stopped. An error in the objective is not
    raised but returned in the outcome. Secrets are redacted in the objective's texts, but not in names of metrics.

    Args:
        payload: the task.
        import_from: folder to import the objective from, in addition to installed packages; None = the working
            directory.
        must_score: whether the objective must return a score; False if another process of the same training returns it.

    Yields:
        `{"point": {...}, "units": ..., "goes_on": ...}` for each point of the curve; `{"warning": text}` for the user;
        `{"scores_by_example": ...}` for the test split; `{"mlflow_run": id}` if the training logs to an MLflow run; and
        finally `{"outcome": Outcome, "lacks_metric": ...}` (see `TaskReport`). If the machine is at fault, for example
        because its disk is full, the last message is `{"machine_fault": text}` instead.
    """
    started, clock = time.time(), time.perf_counter()
    least_seconds, times = BETWEEN_CHECKS
    next_check = clock + least_seconds
    curve: list[Mapping[str, float]] = []
    metrics: dict[str, float] = {}
    notes: dict[str, float | str] = {}
    seconds: float | None = None
    units = Units()
    error = details = stopped = differs = None
    lacks_metric = False
    limits = Limits(payload)
    isolation = Isolation(payload.secrets)
    steps = _isolated_steps(payload, isolation, import_from, units, must_score)

    @functools.cache
    def clean(name: str) -> str:
        return make_writable(name, _LONGEST_LINE)

    while True:
        try:
            if stopped is not None:
                steps.close()
            step = next(steps, None)
            if step is not None and step[0] in ("point", "note", "result"):
                reported_values.refuse_twice(map(clean, step[1]))
            now = time.perf_counter()
            if step is None or now >= next_check:
                _refuse_links_out(payload)
                next_check = time.perf_counter() + max(least_seconds, times * (time.perf_counter() - now))
        except BaseException as caught:
            # An error of the objective, even sys.exit(), must not end the worker.
            if is_interruption(caught):
                raise
            fault = (
                text_of(caught) if isinstance(caught, MachineError) else machine_fault(caught, _study_folder(payload))
            )
            if fault is not None:
                yield {"machine_fault": excerpt(fault, isolation.secrets)}
                return
            if _is_pruned(caught) and payload.test is None and payload.fold != FINAL_FOLD:
                place = f"at point {place_of(curve[-1]):g}" if curve else "before its first report"
                stopped = f"{place} ({one_line(caught, isolation.secrets)})"
                metrics = {} if limits.best is None else {clean(payload.metric): limits.best}
                units.done += 1
                break
            error, lacks_metric = (
                one_line(caught, isolation.secrets),
                isinstance(caught, reported_values.NotReportedError),
            )
            if not _explains_itself(caught):
                details = excerpt(traceback.format_exc(), isolation.secrets, _LONGEST_DETAILS, has_lines=True)
            units.done += 1
            break
        if step is None:
            break
        kind, content = step
        if kind == "point":
            point = {clean(name): number for name, number in content.items()}
            curve.append(point)
            # After its last point the training is finished, so do not stop it.
            stopped = None if units.more is False else limits.stops(content)
            yield {"point": point, "units": units.done, "goes_on": bool(units.more) and stopped is None}
            if stopped is not None:
                assert limits.best is not None
                metrics, seconds = {clean(payload.metric): limits.best}, content.get("seconds")
                stopped = excerpt(stopped, isolation.secrets)
                continue
        elif kind == "warning":
            yield {"warning": excerpt(content, isolation.secrets, _LONGEST_LINE)}
        elif kind == "note":
            notes |= {clean(name): number for name, number in reported_values.numbers(content).items()}
            for name, text in reported_values.texts(content).items():
                notes[clean(name)] = excerpt(text, isolation.secrets, reported_values.LONGEST_TEXT)
                if len(text) > reported_values.LONGEST_TEXT:
                    yield {"warning": f"the note {clean(name)!r} is cut to {reported_values.LONGEST_TEXT:,} characters"}
        elif kind in ("scores_by_example", "mlflow_run"):
            yield {kind: content}
        elif kind == "differs":
            differs = excerpt(content, isolation.secrets, _LONGEST_LINE)
            yield {"warning": f"the training differs from its interrupted attempt: {differs}"}
        else:
            seconds = content.get("seconds")
            counted = {payload.metric, *payload.metrics, *payload.limited}
            metrics = {clean(name): each for name, each in content.items() if name != "seconds" or name in counted}
        if payload.limit_minutes is not None and time.perf_counter() - clock > 60 * payload.limit_minutes:
            error = f"took longer than study.trial_minutes={payload.limit_minutes:g}"
            units.done += kind != "result"
            break
    try:
        # End a training that took too long or whose step was refused, before its files are checked.
        steps.close()
    except BaseException as caught:
        # The cleanup of the user's code may raise anything, but the outcome is already known.
        if is_interruption(caught):
            raise
    if error is not None:
        # The unit that failed, after the last report, is already counted.
        metrics, stopped = {}, None
        with contextlib.suppress(ValueError):
            _refuse_links_out(payload)
    if (refusal := _refuse_many_files(payload)) is not None:
        yield {"warning": refusal}
    # An objective that only looks up a score, as in a table, reports how long the original training took.
    reported_seconds = reported_values.seconds(seconds)
    num_seconds = time.perf_counter() - clock if reported_seconds is None else reported_seconds
    outcome = Outcome(
        metrics=metrics,
        curve=curve,
        seconds=num_seconds,
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


def _isolated_steps(
    payload: Payload, isolation: Isolation, import_from: str | None, units: Units, must_score: bool
) -> Steps:
    """Yield the steps of the training. Each step runs in isolation, and so does the cleanup when the training ends."""
    isolation.secrets = values_of(payload.config, isolation.secrets)
    steps = steps_of(payload, isolation.secrets, import_from or str(Path.cwd()), units, must_score)
    try:
        while True:
            with isolation.enter():
                step = next(steps, None)
            if step is None:
                return
            yield step
    finally:
        with isolation.enter():
            steps.close()


class Limits:
    """Decides from the reports of a training whether the training is stopped.

    The payload's `limits` contain a score for some places of the learning curve (epochs or steps). At such a place, the
    training is stopped if its best score so far is worse than the place's score. The score of the last place also
    applies to all places after it. The first `limits_after` - 1 reports never stop the training. If the training
    continues earlier trainings, its best score includes their scores.
    """

    def __init__(self, payload: Payload) -> None:
        self._payload = payload
        self._limits = dict(payload.limits)
        self._last = max(self._limits, default=math.inf)
        self._num_points = 0
        self.best: float | None = None  # the training's best score; None before the first score
        for point in payload.earlier:
            self._take(point)

    def stops(self, point: Point) -> str | None:
        """Add the next point of the curve. Return the reason to stop at this point; None = continue."""
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
    """Read the messages of a task up to its outcome, and return the outcome.

    Args:
        messages: the messages of `run_task`.
        show: called with each message before the outcome.

    Raises:
        MachineError: the machine could not run the task.
    """
    iterator = iter(messages)
    while "outcome" not in (message := next(iterator)):
        if "machine_fault" in message:
            raise MachineError(message["machine_fault"])
        if show is not None:
            show(message)
    outcome: Outcome = message["outcome"]
    return outcome


def _is_pruned(error: BaseException) -> bool:
    """Return whether an error is Optuna's `TrialPruned`, by which an objective ends its training without a failure."""
    return any(kind.__name__ == "TrialPruned" and kind.__module__.startswith("optuna") for kind in type(error).__mro__)


def _refuse_links_out(payload: Payload) -> None:
    """Raise ValueError if links lead out of a stored folder, and delete them: other machines lack their targets."""
    deleted = []
    for name in ("resume_dir", "checkpoint_dir", "files_dir") if payload.test is None else ():
        given = getattr(payload, name)
        folder = state_of(given) if given is not None and name == "resume_dir" else given
        if folder is not None and os.path.lexists(folder):
            for link in links_out(Path(folder)):
                deleted.append((f"{name}/{link.name}", link.path.readlink()))
                link.path.unlink()
    for place, target in deleted[:1]:
        raise ValueError(
            f"{place}: must not be a link out of the folder, given a link to {target}; store the target itself in the "
            f"folder"
        )


def _refuse_many_files(payload: Payload) -> str | None:
    """If the files in `files_dir` together exceed `most_file_bytes`, delete them and return a warning; else None."""
    folder, most = payload.files_dir, payload.most_file_bytes
    if folder is None or most is None or not os.path.lexists(folder):
        return None
    size = sum(path.lstat().st_size for path in Path(folder).rglob("*") if path.is_file())
    if size <= most:
        return None
    shutil.rmtree(folder)
    return (
        f"the files in trial.dir must take at most {most:,} bytes, given {size:,}; all of them were deleted; to "
        f"keep such files, raise study.trial_files_bytes"
    )


def _study_folder(payload: Payload) -> Path | None:
    """Derive the study's folder from the paths of data, model or state. Return None if the payload has none of them."""
    if payload.data_dir:
        return Path(payload.data_dir).parent
    inner = payload.checkpoint_dir or payload.resume_dir
    return Path(inner).parent.parent if inner else None


def one_line(error: BaseException, values: Mapping[str, str]) -> str:
    """Return an error as one line without secrets, such as `ZeroDivisionError at bad.py:4: division by zero`."""
    text = _argparse_message(error) or text_of(error).strip()
    if isinstance(error, MemoryError) and "were free" not in text:
        # The text of a MemoryError is usually empty.
        text = f"{text or 'out of memory'}; {describe_memory()}"
    if text and _explains_itself(error):
        return excerpt(text, values, _LONGEST_LINE)
    name = f"{type(error).__name__}{_location(error)}"
    return excerpt(f"{name}: {text}" if text else name, values, _LONGEST_LINE)


def _explains_itself(error: BaseException) -> bool:
    """Return whether an error's text is enough: the error is an HpoError, and its traceback has no user code."""
    return isinstance(error, HpoError) and not _location(error)


def _argparse_message(error: BaseException) -> str | None:
    """Return the message that argparse printed before it exited, because the exception has only the exit code 2."""
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__)) if isinstance(error, SystemExit) else ()
    for frame in frames:
        if frame.f_globals.get("__name__") == "argparse" and frame.f_code.co_name == "error":
            return str(frame.f_locals["message"])
    return None


def _location(error: BaseException) -> str:
    """Return the location of the traceback's last line of user code, such as ` at train.py:3`; "" = no user code.

    For code without a file name, such as a notebook's cell, the form is ` at line 3 of FUNCTION`.
    """
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == _SENT_CODE or not frame.filename.startswith(_FOREIGN)
    ]
    if not frames:
        return ""
    last = frames[-1]
    # The file of a notebook's cell has a number as its name.
    is_unnamed = last.filename == _SENT_CODE or "ipykernel_" in last.filename
    return f" at line {last.lineno} of {last.name}" if is_unnamed else f" at {Path(last.filename).name}:{last.lineno}"
