"""A plain function as an objective: `f(config)`, `f(config, trial)` or `f(trial)`."""

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
from greenlet import error as SwitchError  # noqa: N812 -- greenlet's own name is too general

from hpo.config.keys import flatten
from hpo.trials import reported_values
from hpo.workers.objective.given_data import GivenData

TaskDict = Mapping[str, Any]


class TrainingStopped(GreenletExit):
    """Raised by `RunningTrial.report` when the search stops a training. The training's result is then ignored.

    It is not a subclass of `Exception`, so that `except Exception` in the training does not catch it.
    """


class StateIsAhead(BaseException):
    """Raised if an interrupted training may have saved a state after its last report.

    The training is then repeated from the beginning, without the state. Like TrainingStopped, this class is not a
    subclass of `Exception`.
    """


class RunningTrial:
    """The trial that a plain function trains. It has the settings of the training, and `report` for the learning curve.

    Attributes:
        number, fold, repeat: the number of the trial, of the fold and of the repeat, each counted from 0. `fold` is -1
            in the final training and in a test evaluation.
        seed: seed for all random numbers of the training.
        threads: number of threads that the training may use.
        train, validation, test: the positions of each split's examples in the data that the training gets; None if the
            objective loads its data itself. `test` is None in every training. If `data` was passed to `hpo.search`, the
            positions are integer arrays.
        data_dir: folder that the objective's `prepare_data` wrote; None if the objective has no `prepare_data`.
        metrics: names of the study's metrics, the leading one first.
        checkpoint_dir: folder to create and to save the trained model in; in `run_test`, the folder with the model to
            score. The study keeps the models of the best `study.checkpoints` trials. None = this training's model is
            not stored. In a search, only the first repeat of a trial with a single fold can store its model.
        resume_dir: folder to save the training's state in, and to read the state from when the training continues; None
            = no state is kept.
        amount: amount of training, counted from the start, such as a number of epochs; None = a full training.
        max_amount: largest amount in the search; None = all trainings are full.
        earlier_amount: amount of an earlier trial from which this training continues; 0 = it continues no trial.
        mlflow_run_id: id of the MLflow run for the training's own logs; None = there is no run.
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
        self.earlier_amount: int = task["trained"]
        self._was_interrupted: bool = task.get("interrupted", False)
        self.mlflow_run_id: str | None = task.get("mlflow_run_id")
        self.data_dir, self.checkpoint_dir, self.resume_dir, self._files_dir = (
            Path(task[name]) if task.get(name) else None
            for name in ("data_dir", "checkpoint_dir", "resume_dir", "files_dir")
        )
        self._metric: str = task["metric"]
        self.metrics: tuple[str, ...] = tuple(task.get("metrics") or [task["metric"]])
        self._reader: greenlet | None = None
        self._is_stopped = False

    @property
    def trained(self) -> int:
        """Amount of training that is already done when this training begins; 0 = none.

        Usually, `resume_dir` has the state at this amount. If an earlier attempt of this training was interrupted,
        `resume_dir` may have a later state, so reading `trained` raises `StateIsAhead`. This exception makes the
        toolkit restart the training from the beginning, with an empty `resume_dir` and with `trained` = 0. To continue
        from the later state instead, store the epoch in the state, and do not read `trained`.
        """
        if self._was_interrupted:
            raise StateIsAhead
        return self.earlier_amount

    def report(self, point: Any = None, step: Any = None, /, **numbers: Any) -> None:
        """Add a report to the learning curve; for example, `report(epoch=3, loss=0.2)` reports the loss at epoch 3.

        `report(0.3, 5)` and `report(value=0.3, step=5)` report the study's metric at epoch 5. If there is a step but no
        epoch, the step is used as the epoch. Either all reports have an epoch, in ascending order, or none has. Reports
        without an epoch are numbered from `trained` + 1; `trained` is the amount that is already done. If the first
        epoch is 0, the last epoch of a full training is the amount minus 1. `more=False` says that this report is the
        last one of the training, so that the search need not wait for another report.

        Raises:
            TrainingStopped: the search stops the training.
            TypeError: `point` is neither a number nor a mapping, or `step` is not a number.
            RuntimeError: the objective's function has already returned, or runs in another thread.
        """
        if self._is_stopped:
            raise TrainingStopped
        self._send("report", point_of(self._metric, point, step, numbers))

    __call__ = report

    def note(self, name: str, value: float | str) -> None:
        """Store a number or a text with the trial, such as `note("checkpoint", path)`.

        A later note replaces an earlier note with the same name. Notes appear as columns of `study.trials`, and in
        report.json, `hpo show --trial` and MLflow. A text is cut to 1,000 characters. With several folds, a
        number is stored as the mean over the folds.

        Raises:
            TypeError: the value is neither a finite number nor a text.
            RuntimeError: the objective's function has already returned, or runs in another thread.
        """
        self._send("note", {"note": reported_values.note({name: value})})

    @functools.cached_property
    def dir(self) -> Path:
        """A folder for the training's files other than the model and the state, such as plots and predictions.

        The files are saved in the study's folder, even if the training runs on another machine. If their total size
        exceeds `study.trial_files_bytes`, all these files are deleted, with a warning. In a test evaluation, and in a
        training outside a study (for example in `hpo compare`), the folder is temporary.
        """
        if self._files_dir is None:
            temporary = tempfile.mkdtemp(prefix="hpo-files-")
            weakref.finalize(self, shutil.rmtree, temporary, ignore_errors=True)
            return Path(temporary)
        self._files_dir.mkdir(parents=True, exist_ok=True)
        return self._files_dir

    @functools.cached_property
    def data(self) -> Any:
        """The rows of `hpo.search(..., data=...)`, in their original type. `train` and `validation` index them.

        During a search, these are the rows outside the test split; in `hpo test`, these are all rows. Each training
        gets a separate copy. None = no rows were passed.
        """
        if self._rows is None or not self._rows.has_rows or self.data_dir is None:
            return None
        return self._rows.read(self.data_dir)

    def warn(self, text: str) -> None:
        """Show a warning to the user. Equal warnings are shown once, and warnings after the training are not shown.

        Raises:
            RuntimeError: the objective's function runs in another thread.
        """
        if self._reader is not None:
            self._send("warn", {"warning": text})

    def _send(self, method: str, step: Mapping[str, Any]) -> None:
        if self._reader is None:
            raise RuntimeError(f"{method}() was called after the end of the training; call it while the function runs")
        try:
            self._reader.switch(step)
        except SwitchError as error:
            raise RuntimeError("call report(), note() and warn() in the thread that runs the function") from error

    def run(self, call: Callable[[], Any]) -> Generator[Mapping[str, Any], None, Any]:
        """Run `call`, yield its reports, notes and warnings, and return its result.

        Closing the generator raises TrainingStopped in `call`, at its last report. `call` runs in a coroutine of this
        thread, because some libraries must not be used from a second thread.
        """
        training = greenlet(call)
        training.gr_context = contextvars.copy_context()
        try:
            step = self._continue(training)
            while not training.dead:
                yield step
                step = self._continue(training)
            return step
        finally:
            if not training.dead:
                self._is_stopped = True
                training.parent = getcurrent()
                training.throw(TrainingStopped)
            self._reader = None

    def _continue(self, training: greenlet) -> Any:
        self._reader = training.parent = getcurrent()
        return training.switch()


def point_of(metric: str, point: Any, step: Any, numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Return a report for the learning curve as a dict, from the arguments of `RunningTrial.report`.

    Raises:
        TypeError: `point` is neither a number nor a mapping of names to numbers, or `step` is not a number.
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
    """A trial with Optuna's interface. Its `suggest_...` methods return values, and can be called in any order.

    Attributes:
        params: the trial's values by name.
        user_attrs: the values set by `set_user_attr`.
    """

    def __init__(self, task: TaskDict, rows: GivenData | None = None) -> None:
        super().__init__(task, rows)
        self.params: dict[str, Any] = flatten(task["config"])
        self.user_attrs: dict[str, Any] = {}

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        """Return the trial's value of `name`. Raise ValueError if the value is missing or not in `low` to `high`."""
        del step, log  # The space has already determined the value.
        return float(self._within(name, low, high))

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        """Return the value of `name`. Raise ValueError if it is missing, fractional or not in `low` to `high`."""
        del step, log
        value = self._within(name, low, high)
        if value != int(value):
            raise ValueError(
                f"'{name}' must be a whole number, because the function calls suggest_int, but the space gives "
                f"{value!r}; give '{name}' only whole numbers in the space, or call suggest_float"
            )
        return int(value)

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        """Return the trial's value of `name`. Raise ValueError if the value is missing or not one of `choices`."""
        value = self._value(name)
        for choice in choices:
            # A tuple among the choices is stored as a list in the configuration.
            plain = list(choice) if isinstance(choice, tuple) else choice
            if plain == value and type(plain) is type(value):
                return choice
        raise ValueError(
            f"'{name}' must be one of {list(choices)!r}, the choices in the function's suggest_... call, but the space "
            f"gives {value!r}"
        )

    suggest_uniform = suggest_loguniform = suggest_float

    def should_prune(self) -> bool:
        """Return False: when the search stops a training, `report` raises TrainingStopped instead."""
        return False

    def set_user_attr(self, key: str, value: Any) -> None:
        """Store a number as a further result of the trial, or a text as a note. Warn about any other value.

        Numbers are stored only if the objective function returns a number or a dict. If `key` is `seconds`, `units` or
        the study's metric, warn and store nothing.
        """
        if key in (self._metric, "seconds", "units"):
            self.warn(f"set_user_attr: '{key}' is ignored, because hpo uses this name itself; give another name")
            return
        self.user_attrs[key] = value
        if isinstance(value, str):
            self.note(key, value)
        elif reported_values.number(value) is None:
            self.warn(f"set_user_attr: '{key}' is ignored, because its value is neither a finite number nor a text")

    def results(self, returned: Any) -> Any:
        """Return a dict with the function's result and the numbers from `set_user_attr`.

        If the result is neither a number nor a dict, warn, and return it without these numbers.
        """
        numbers = reported_values.numbers(self.user_attrs)
        if not numbers:
            return returned
        if isinstance(returned, Mapping):
            return {**numbers, **returned}
        if reported_values.number(returned) is not None:
            return {**numbers, self._metric: returned}
        self.warn(
            f"set_user_attr: cannot store {', '.join(numbers)}, because the function returned neither a finite number "
            f"nor a dict; return a dict of all metrics by name"
        )
        return returned

    def _within(self, name: str, low: float, high: float) -> Any:
        value = self._value(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise ValueError(
                f"'{name}' must be between {low!r} and {high!r}, the range in the function's suggest_... call, but the "
                f"space gives {value!r}"
            )
        return value

    def _value(self, name: str) -> Any:
        if name not in self.params:
            known = ", ".join(self.params)
            raise ValueError(
                f"'{name}' is suggested by the function, but the space has only {known}; add '{name}' to the space"
            )
        return self.params[name]


def as_run_fold(function: Callable[..., Any], form: str, rows: GivenData | None = None) -> Callable[[TaskDict], Any]:
    """Convert a plain function to a function that takes a task.

    Args:
        function: the plain function.
        form: the parameters of the plain function: "config", "config, trial" or "trial".
        rows: the data that was passed to the search from Python; None = no data was passed.
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
    """Return a function's result unchanged; if it is a coroutine, run the coroutine and return its result."""
    if not inspect.iscoroutine(returned):
        return returned
    # A notebook already runs an event loop in this thread.
    outer = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    try:
        return asyncio.run(returned)
    finally:
        asyncio._set_running_loop(outer)
