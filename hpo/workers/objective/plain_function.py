"""A plain function as an objective: `f(config)` or `f(config, trial)`, in place of a generator of its curve."""

import asyncio
import contextvars
import functools
import inspect
import shutil
import tempfile
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

from greenlet import GreenletExit, getcurrent, greenlet
from greenlet import error as SwitchError  # noqa: N812 -- greenlet's name says nothing here

from hpo.config.keys import flatten
from hpo.trials import reported_values
from hpo.workers.objective.given_data import GivenData

TaskDict = Mapping[str, Any]


class TrainingStopped(GreenletExit):
    """Raised by `RunningTrial.report` where the search ends a training that fell behind; what it returns is ignored.

    No `Exception`, so that a training that handles its own errors ends all the same.
    """


class RunningTrial:
    """The trial that a plain function trains: what it is told, and `report` for its learning curve.

    Attributes:
        number, fold, repeat: which training it is, each from 0.
        seed: for all randomness of the training.
        threads: how many it may use.
        train, validation, test: indices of examples; None where the objective brings its own data. Arrays of whole
            numbers where `hpo.search` was given `data`.
        data_dir: what the objective's `prepare_data` wrote; None without it.
        metrics: the names of the study's metrics, the leading one first.
        checkpoint_dir: where to keep the trained model, a folder to be made. It is kept of the `study.checkpoints` best
            trials; None where none is kept, as with several folds.
        resume_dir: where to keep the training's state, and to look for one to continue; None where none is kept.
        amount: how far to train, counted from the start, such as epochs; None = to the end.
        max_amount: how far the search trains at most; None where every training is a full one.
        trained: how far it is trained already; see `resume_dir`.
        mlflow_run_id: the run in MLflow that the training logs to by itself; None where it has none.
    """

    def __init__(self, task: TaskDict, rows: GivenData | None = None) -> None:
        self.number: int = task["trial"]
        self.fold: int = task["fold"]
        self.repeat: int = task["repeat"]
        self.seed: int = task["seed"]
        self.threads: int = task["threads"]
        self.train, self.validation, self.test = (
            given if rows is None or given is None else rows.indices(given)
            for given in (task["train"], task["validation"], task.get("test"))
        )
        self._rows = rows
        self.amount: int | None = task["amount"]
        self.max_amount: int | None = task.get("max_amount")
        self.trained: int = task["trained"]
        self.mlflow_run_id: str | None = task.get("mlflow_run_id")
        self.data_dir, self.checkpoint_dir, self.resume_dir, self._files_dir = (
            Path(task[name]) if task.get(name) else None
            for name in ("data_dir", "checkpoint_dir", "resume_dir", "files_dir")
        )
        self._metric: str = task["metric"]
        self.metrics: tuple[str, ...] = tuple(task.get("metrics") or [task["metric"]])
        self._reader: greenlet | None = None
        self._is_stopped = False

    def report(self, point: Any = None, step: Any = None, /, **numbers: Any) -> None:
        """Add a point to the learning curve, such as `report(epoch=3, loss=0.2)`.

        `report(0.3, 5)`, or `report(value=0.3, step=5)`, is the study's metric at epoch 5; a `step` is the epoch where
        none is given. Epochs rise, and are named in all reports or in none; without them reports are counted on from
        `trained`. Where the first is 0, the last of a full training is one below the amount.
        `more=False` says that the training ends here, which saves other trainings a wait.

        Raises:
            TrainingStopped: the search ends the training.
            RuntimeError: in another thread than the function's, or after its end.
        """
        if self._is_stopped:
            raise TrainingStopped
        if self._reader is None:
            raise RuntimeError("report() was called after the end of the training; call it while the function runs")
        self._send(point_of(self._metric, point, step, numbers))

    __call__ = report

    def note(self, name: str, value: float | str) -> None:
        """Keep a number or a text with the trial, such as `note("checkpoint", path)`; the last value of a name stays.

        It is a column of `study.trials`, and in report.json, `hpo show --trial` and MLflow; a text has 1,000 characters
        at most. With several folds the mean of numbers is shown.

        Raises:
            TypeError: it is neither a finite number nor a text.
        """
        if not isinstance(value, str) and reported_values.number(value) is None:
            raise TypeError(f"note() takes a finite number or a text, given {name}={value!r:.200}")
        if self._reader is None:
            raise RuntimeError("note() was called after the end of the training; call it while the function runs")
        self._send({"note": {str(name): value}})

    @functools.cached_property
    def dir(self) -> Path:
        """A new folder for files of the training, such as plots and predictions.

        The study keeps it in its own folder, from any node, up to `study.trial_files_bytes`. In trainings that are not
        the search's, such as those of `hpo compare`, it is temporary.
        """
        if self._files_dir is None:
            temporary = tempfile.mkdtemp(prefix="hpo-files-")
            weakref.finalize(self, shutil.rmtree, temporary, ignore_errors=True)
            return Path(temporary)
        self._files_dir.mkdir(parents=True, exist_ok=True)
        return self._files_dir

    @functools.cached_property
    def data(self) -> Any:
        """The rows that `hpo.search` was given as `data`, in the same form, which `train` and `validation` index.

        Of a search they are the rows outside of the test part; on the test part all. A copy of this training's own;
        None without rows.
        """
        if self._rows is None or not self._rows.has_rows or self.data_dir is None:
            return None
        return self._rows.read(self.data_dir)

    def warn(self, text: str) -> None:
        """Show people a warning, once."""
        if self._reader is not None:
            self._send({"warning": text})

    def _send(self, step: Mapping[str, Any]) -> None:
        assert self._reader is not None
        try:
            self._reader.switch(step)
        except SwitchError as error:
            raise RuntimeError("report() must be called in the thread in which the function was called") from error

    def run(self, call: Callable[[], Any]) -> Generator[Mapping[str, Any], None, Any]:
        """Yield what `call` reports, and return what it returns; closed, it is stopped at its last report.

        The function runs in a coroutine of this thread, so that its libraries find the thread they expect.
        """
        training = greenlet(call)
        training.gr_context = contextvars.copy_context()
        try:
            step = self._go_on(training)
            while not training.dead:
                yield step
                step = self._go_on(training)
            return step
        finally:
            if not training.dead:
                self._is_stopped = True
                training.parent = getcurrent()
                training.throw(TrainingStopped)
            self._reader = None

    def _go_on(self, training: greenlet) -> Any:
        self._reader = training.parent = getcurrent()
        return training.switch()


def point_of(metric: str, point: Any, step: Any, numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Return a point of a learning curve from the arguments of `RunningTrial.report`.

    Raises:
        TypeError: it is neither a number nor numbers by name, or the step is no number.
    """
    if point is None and numbers.keys() == {"value", "step"}:
        point, step, numbers = numbers["value"], numbers["step"], {}
    if isinstance(point, float) or reported_values.number(point) is not None:
        point = {metric: point}
    if not isinstance(point, Mapping | None):
        raise TypeError(f"report() takes numbers by name, such as report(loss=0.2), given {point!r:.200}")
    given = {**({} if step is None else {"step": step}), **(point or {}), **numbers}
    if given.get("step") is not None and reported_values.number(given["step"]) is None:
        raise TypeError(
            f"report() takes a number as the step, such as report(0.2, step=3), given {given['step']!r:.200}"
        )
    if "epoch" not in given and reported_values.number(given.get("step")) is not None:
        given = {"epoch": given.pop("step"), **given}
    return given


class SuggestingTrial(RunningTrial):
    """A trial whose `suggest_...` return the values of the point, whatever order they are asked in.

    Attributes:
        params: the values by name.
        user_attrs: what `set_user_attr` was given; numbers are results beside the score, texts are notes.
    """

    def __init__(self, task: TaskDict, rows: GivenData | None = None) -> None:
        super().__init__(task, rows)
        self.params: dict[str, Any] = flatten(task["config"])
        self.user_attrs: dict[str, Any] = {}

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        """Return the point's value; ValueError where it has none, or none in this range."""
        del step, log  # They have decided the point.
        return float(self._within(name, low, high))

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        """Return the point's value; ValueError as above."""
        del step, log
        return int(self._within(name, low, high))

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        """Return the point's value; ValueError as above."""
        value = self._value(name)
        for choice in choices:
            # The configuration has a list in place of a tuple.
            plain = list(choice) if isinstance(choice, tuple) else choice
            if plain == value and type(plain) is type(value):
                return choice
        raise ValueError(f"'{name}' is {value!r} in the space, and none of the suggested {list(choices)!r}")

    suggest_uniform = suggest_loguniform = suggest_float

    def should_prune(self) -> bool:
        """Return False: where a rule stops a training, `report` does not return."""
        return False

    def set_user_attr(self, key: str, value: Any) -> None:
        """Keep a number as a result beside the score, a text as a note; anything else is not kept, with a warning."""
        self.user_attrs[key] = value
        if isinstance(value, str):
            self.note(key, value)
        elif reported_values.number(value) is None:
            self.warn(f"set_user_attr: '{key}' is not kept: neither a finite number nor a text")

    def results(self, returned: Any) -> Any:
        """Return what the function returned, with the numbers of `set_user_attr`."""
        numbers = reported_values.numbers(self.user_attrs)
        if reported_values.number(returned) is None or not numbers:
            return returned
        return {**numbers, self._metric: returned}

    def _within(self, name: str, low: float, high: float) -> Any:
        value = self._value(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise ValueError(f"'{name}' is {value!r} in the space, and not between the suggested {low!r} and {high!r}")
        return value

    def _value(self, name: str) -> Any:
        if name not in self.params:
            known = ", ".join(self.params)
            raise ValueError(f"'{name}' was suggested by the trial alone, and is not in its space, which has {known}")
        return self.params[name]


def as_run_fold(function: Callable[..., Any], form: str, rows: GivenData | None = None) -> Callable[[TaskDict], Any]:
    """Return a function of a form in `ObjectivePath`, other than "task", as one that takes a task.

    `rows` are the data that the search was given with the function.
    """

    def run_fold(task: TaskDict) -> Any:
        if form == "config":
            return function(task["config"])
        if form == "trial":
            suggesting = SuggestingTrial(task, rows)
            return suggesting.run(lambda: suggesting.results(await_result(function(suggesting))))
        trial = RunningTrial(task, rows)
        return trial.run(lambda: await_result(function(task["config"], trial)))

    return run_fold


def await_result(returned: Any) -> Any:
    """Return what a function returned, after it was run where it is a coroutine."""
    if not inspect.iscoroutine(returned):
        return returned
    # A notebook's own loop runs already, in this thread.
    outer = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    try:
        return asyncio.run(returned)
    finally:
        asyncio._set_running_loop(outer)
