"""The interface between a search and a training: the objective, and optional functions of its module."""

import functools
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, overload

from pydantic import ValidationError

from hpo.config.secrets import Secrets, excerpt, hide_secrets, hide_secrets_in, reveal_secrets, values_of
from hpo.config.study_config import explain
from hpo.errors import ConfigError, DataError, HpoError, StudyError, is_interruption, nearest, text_of
from hpo.machine import machine_fault
from hpo.trials import reported_values
from hpo.workers.objective.examples import Examples
from hpo.workers.objective.path import ObjectivePath
from hpo.workers.objective.pickled_function import PickledFunction
from hpo.workers.objective.process_state import Isolation

LONGEST_REASON = 200  # the most characters of an error in a user's own code
OPTIONAL_FUNCTIONS = (
    *("check", "describe_data", "describe_method", "describe_search", "prepare_data", "run_test"),
    *("predict", "describe_prediction", "attention", "describe_cost", "describe_defaults"),
    *("describe_scales", "describe_length", "output_sizes"),
)
TAKE_CONFIG = tuple(
    name for name in OPTIONAL_FUNCTIONS if name not in ("run_test", "predict", "attention", "output_sizes")
)
# Fields of their results that users see. Only these are searched for secrets, not labels, hashes or a space.
_VISIBLE_FIELDS = ("name", "source", "licence", "files", "notes", "preprocessing", "vocabulary")
_CONSTANTS = ("continues", "continues_with", "reports_again")
_ALL = (*OPTIONAL_FUNCTIONS, *_CONSTANTS)


@overload
def objective(function: Callable[..., Any], /) -> Callable[..., Any]: ...
@overload
def objective(**functions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]: ...
def objective(function: Callable[..., Any] | None = None, /, **functions: Any) -> Callable[..., Any]:
    """Return a decorator that adds optional functions to a plain function.

    Args:
        function: the plain function, if `@hpo.objective` is written without parentheses; it is returned unchanged.
        functions: the optional functions by name, such as `run_test`, `describe_data`, `describe_cost` and `predict`;
            or `continues=True` for a function that continues from `trial.resume_dir`. See
            `hpo.workers.objective.objective.Objective`.

    Raises:
        ConfigError: no optional function has this name.
    """
    for name in functions:
        if name not in _ALL:
            raise ConfigError(f"objective: has no optional function '{name}'{nearest(name, _ALL)}")

    def add_functions(function: Callable[..., Any]) -> Callable[..., Any]:
        for name, value in functions.items():
            setattr(function, name.upper() if name in _CONSTANTS else name, value)
        return function

    return add_functions if function is None else add_functions(function)


def guard(function: Callable[..., Any], name: str, secrets: Secrets) -> Callable[..., Any]:
    """Wrap an optional function, so that it accepts a configuration with redacted secrets.

    The results of the wrapper show no secret, and each of its errors is one HpoError.
    """

    @functools.wraps(function)
    def call(config: Mapping[str, Any], *arguments: Any) -> Any:
        values = values_of(config, secrets)
        try:
            with Isolation(values).enter():
                answer = function(reveal_secrets(config, values), *arguments)
        except BaseException as error:
            # The user's function may raise anything, or exit like a script.
            if is_interruption(error) or machine_fault(error) is not None:
                raise
            raise _refusal(name, error, values) from error
        if isinstance(answer, Examples):
            answer = vars(answer)
        if not isinstance(answer, Mapping) or not values:
            return answer
        return {key: hide_secrets_in(part, values) if key in _VISIBLE_FIELDS else part for key, part in answer.items()}

    return call


def guard_task(function: Callable[..., Any], name: str, secrets: Secrets) -> Callable[..., Any]:
    """Wrap a function of a task as `guard` does one of a configuration."""

    @functools.wraps(function)
    def call(task: Mapping[str, Any]) -> Any:
        return guard(lambda config: function({**task, "config": config}), name, secrets)(task["config"])

    return call


def _refusal(name: str, error: BaseException, values: Secrets) -> HpoError:
    """Return the HpoError for an error of a user's function."""
    if isinstance(error, HpoError):
        return type(error)(hide_secrets(str(error), values))
    if isinstance(error, ValidationError):
        return ConfigError(hide_secrets(explain(error), values))
    if isinstance(error, OSError) and error.filename is not None:
        return DataError(hide_secrets(f"data: {error.filename}: {error.strerror}; give a readable file", values))
    text = excerpt(text_of(error), values)
    if isinstance(error, ValueError) and text:
        # The user's `check` raises ValueError with a message for users.
        return ConfigError(text)
    text, kind = text[:LONGEST_REASON], type(error).__name__
    return ConfigError(f"objective: {name} raised {f'{kind}: {text}' if text else kind}; --debug shows where")


TaskDict = Mapping[str, Any]


@dataclass(frozen=True)
class DataFile:
    """A file that an objective reads: its path, the SHA-256 of its content in hexadecimal, and its size."""

    path: str
    sha256: str
    bytes: int


@dataclass(frozen=True)
class SearchDescription:
    """The objective's own part of a search, as `describe_search` returns it."""

    space: Mapping[str, Any] = field(default_factory=dict)  # a tree as in conf/space; the study's space overrides it
    # Keys that the study's space may have, in addition to keys of the configuration; None = any key.
    keys: Sequence[str] | None = ()
    needs: Sequence[str] = ()  # keys that the study's space or the configuration must have
    points: Sequence[Mapping[str, Any]] | None = None  # all existing points; None = the space defines them
    folds: int = 1  # number of the objective's own folds
    files: tuple[DataFile, ...] = ()  # the files that it reads
    notes: tuple[str, ...] = ()  # lines for the user
    amounts_need: str | None = None  # what the configuration lacks to continue trainings; None = nothing
    # A setting that has a value only with a strategy that trains by amounts; None = there is none.
    needs_amounts: str | None = None

    @classmethod
    def from_dict(cls, described: Mapping[str, Any]) -> Self:
        """Read the result of `describe_search`; raise TypeError for an unknown key or a wrong type."""
        files = tuple(DataFile(**file) for file in described.get("files", ()))
        notes = tuple(str(note) for note in described.get("notes", ()))
        return cls(**{**described, "folds": int(described.get("folds", 1)), "files": files, "notes": notes})


@dataclass(frozen=True)
class ScalesDescription:
    """The scales at which `hpo scale` compares a model, as `describe_scales` returns them."""

    scales: Sequence[Mapping[str, Any]]  # changes of the configuration, the smallest scale first
    rate: str | None = None  # key of the learning rate, to tune at each scale; None = unknown
    # By layer: a key and its least value from which the layer's output size should not change. Below, it does change.
    holds_from: Mapping[str, tuple[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Objective:
    """A resolved objective. Only `run_fold` is required. Optional functions are attributes of the function or module.

    Attributes:
        path: the dotted path `package.module:function`, or the path of a plain function; see `ObjectivePath`.
        run_fold: `(task) -> dict` of numbers, including the study's metric; or a generator that yields one dict per
            step of its learning curve (`epoch` and numbers) and returns such a dict. A number `seconds` in the result
            replaces the measured wall time. A step may have `more`: whether the training continues after it, which
            saves other trainings a wait.
        check: `(config) -> None`; raises ValueError for a configuration that cannot be trained.
        describe_data: `(config) -> dict` with the fields of `Examples`, or an `Examples`.
        describe_method: `(config) -> dict` with facts about every training, for the report. The texts `preprocessing`,
            `vocabulary`, `checkpoint` (which model is scored) and `determinism`; and `metrics`, a definition by name.
            If settings change the unit of a metric, `counted_in` has by the metric's name its `unit`, such as "tokens",
            and `depends_on`, the values of those settings by dotted key, such as `{"data.min_count": 2}`. It may also
            have `alike`: by dotted key, the values that make no difference. A study is refused if it searches a setting
            that changes the unit of its metric, because its trials do not compare. Comparisons, imports and extensions
            of studies with different units are refused too. `bounds` has by the metric's name its least and greatest
            value, such as [0, 1] or [0, None]. `shares` names the metrics that are shares of independent examples, such
            as accuracy.
        prepare_data: `(config, indices, data_dir) -> None`; writes only these examples into the folder, so that
            workers read them by position and cannot read the others.
        run_test: `(task) -> dict`; scores the examples `task["test"]` with the model in `task["checkpoint_dir"]`. The
            result may have `scores_by_example`: by the name of a metric, a number for each example in the order of
            `task["test"]`. The metric is their mean. These numbers give it a confidence interval and are not stored.
        predict: `(checkpoint_dir, inputs, options) -> list of str`; the stored model's output for each input text.
            `options` may have `temperature`, `top_k`, `top_p`, `max_tokens` and `seed`.
        describe_prediction: `(config) -> dict` with the inputs of `predict`: `inputs` is "text", or "rows" for models
            that read a row of numbers per input; `options` has by name `{"type": "integer" or "number",
            "default": ...}`. Without this function, inputs are texts and there are no options.
        attention: `(checkpoint_dir, text, target) -> {"maps": [...]}`; each map has `name`, `rows` and `columns`
            (tokens) and `heads` (per head a list of rows, each with the sum 1). `target` is a text or None. `predict`
            and `attention` raise ValueError, in one line, for inputs that they cannot read.
        describe_search: `(config) -> dict` with the fields of `SearchDescription`.
        describe_defaults: `(config, keys) -> dict` with values, by dotted key, that a search of these keys adds to the
            configuration; for an objective that reads them from its own file.
        describe_cost: `(config) -> number` above 0: the cost of one unit of training, relative to any fixed amount of
            work, and equal for equal configurations. A unit is the training between two steps of the learning curve;
            without a curve, the whole training. With `describe_cost`, a step may have `units`: the units done so far,
            at least one more than at the step before. The returned dict may have the total in `units`. Without
            `describe_cost` every unit costs 1. It may raise the errors of `check`: such a trial fails anyway.
        describe_length: `(config) -> number or None`: the longest training of this configuration, in the unit of its
            reports; None = unlimited. With a strategy that trains by amounts, it must be at least the largest amount.
        describe_scales: `(config, over) -> dict` with the fields of `ScalesDescription`: the default scales at which
            `hpo scale` compares the model. `over` is the dimension that grows, "width" or "depth".
        output_sizes: `(task) -> dict`: the output size of each layer after some steps of training, for
            `hpo scale --check`. The task is that of a training, with `steps`, such as [1, 2, 5, 10], and `over`. The
            result has by step, and then by the layer's name, the mean absolute output of the layer. Only layers that
            exist at every scale count.
        continues: whether trainings can be continued (`CONTINUES = True` in the module). Then run_fold stops after
            `task["amount"]`, continues from the state that it has saved in `task["resume_dir"]`, and yields the
            following steps.
        reports_again: whether a training that continues after an interruption yields every step after
            `task["trained"]` again (`REPORTS_AGAIN = True` in the module), so that none can be missing.
        continues_with: keys of the configuration that may change when a training is continued (`CONTINUES_WITH` in the
            module), such as the number of epochs. `hpo extend` then continues from states.
        code_keys: keys of the configuration that are code (`CODE_KEYS` in the module), such as a command line. Before
            a stranger's study runs, the user sees their values. Only the toolkit's own objectives have code keys; for
            any other objective of a stranger the user must confirm anyway.
        code_files: `(config) -> list of str`: the files that the configuration names as code, such as a command's
            script, by their paths from the working directory. Only the toolkit's own objectives have it.
        pickled: the pickled function, if no module has it.
        revision: the REVISION of a toolkit's objective, which rises when the same training gives another result. None
            for any other objective, whose code is compared by content.

    A plain function, `f(config)` or `f(config, trial)`, becomes such a `run_fold` (`plain_function.py`). So does its
    `run_test`, which is `f(config, trial)` too.

    The functions get the study's configuration with its secrets redacted. `resolve` wraps the module's functions, so
    that these get the secrets (`secrets.py`), `output_sizes` in its task. It does not wrap `run_fold` and `run_test`:
    the worker inserts their secrets.
    """

    path: str
    run_fold: Callable[[TaskDict], Any]
    check: Callable[[Mapping[str, Any]], None] | None = None
    describe_data: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    describe_method: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    prepare_data: Callable[[Mapping[str, Any], Sequence[int], str], None] | None = None
    run_test: Callable[[TaskDict], Mapping[str, Any]] | None = None
    predict: Callable[[str, Sequence[Any], Mapping[str, Any]], list[str]] | None = None
    describe_prediction: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    attention: Callable[[str, str, str | None], Mapping[str, Any]] | None = None
    describe_search: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    describe_defaults: Callable[[Mapping[str, Any], Sequence[str]], Mapping[str, Any]] | None = None
    describe_cost: Callable[[Mapping[str, Any]], float] | None = None
    describe_length: Callable[[Mapping[str, Any]], float | None] | None = None
    describe_scales: Callable[[Mapping[str, Any], str], Mapping[str, Any]] | None = None
    output_sizes: Callable[[TaskDict], Mapping[int, Mapping[str, float]]] | None = None
    continues: bool = False
    reports_again: bool = False
    continues_with: Sequence[str] = ()
    code_keys: Sequence[str] = ()
    code_files: Callable[[Mapping[str, Any]], Sequence[str]] | None = None
    pickled: PickledFunction | None = None
    revision: int | None = None

    def refuse_bad_config(self, config: Mapping[str, Any]) -> None:
        """Raise ConfigError if the objective's own check refuses the configuration."""
        if self.check is not None:
            self.check(config)

    def length(self, config: Mapping[str, Any]) -> float:
        """Return the longest training of the configuration; infinite without `describe_length`."""
        length = None if self.describe_length is None else reported_values.number(self.describe_length(config))
        return math.inf if length is None else length

    def method(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the facts about every training for the report; empty without `describe_method`."""
        return {} if self.describe_method is None else dict(self.describe_method(config))

    def examples(self, config: Mapping[str, Any]) -> Examples | None:
        """Return the examples to split; None = the objective loads its own data. Raise DataError for bad fields."""
        if self.describe_data is None:
            return None
        described = self.describe_data(config)
        with self._fields_of("describe_data", Examples):
            return Examples(**described)

    def search_description(self, config: Mapping[str, Any]) -> SearchDescription:
        """Return the objective's own part of the search; empty without `describe_search`."""
        if self.describe_search is None:
            return SearchDescription()
        described = self.describe_search(config)
        with self._fields_of("describe_search", SearchDescription):
            return SearchDescription.from_dict(described)

    def scales_description(self, config: Mapping[str, Any], over: str) -> ScalesDescription | None:
        """Return the scales at which the model is compared; None without `describe_scales`."""
        if self.describe_scales is None:
            return None
        described = self.describe_scales(config, over)
        with self._fields_of("describe_scales", ScalesDescription):
            return ScalesDescription(**described)

    @contextmanager
    def _fields_of(self, function: str, kind: type) -> Iterator[None]:
        """Raise DataError if the block cannot construct a `kind` from the result of a function."""
        try:
            yield
        except (TypeError, ValueError, AttributeError) as error:
            raise DataError(
                f"objective: {self.owner}.{function} must return the fields of {kind.__name__}: {text_of(error)}"
            ) from error

    @property
    def module(self) -> str:
        """The name of its module."""
        return self.path.partition(":")[0]

    @property
    def owner(self) -> str:
        """The owner of its optional functions, for messages; see `ObjectivePath`."""
        return ObjectivePath.of(self.path).owner

    def cost(self, config: Mapping[str, Any], number: int) -> float:
        """Return the cost of one unit of a trial's training; raise StudyError unless it is finite and above 0."""
        if self.describe_cost is None:
            return 1.0
        try:
            described = self.describe_cost(config)
        except ConfigError:
            try:
                self.refuse_bad_config(config)
            except ConfigError:
                # The trial will fail with this message, whatever its cost.
                return 1.0
            raise
        cost = reported_values.number(described)
        if cost is None or cost <= 0:
            raise StudyError(
                f"trial {number}: {self.owner}.describe_cost must return a finite number above 0 (given {described!r})"
            )
        return float(cost)

    def write_development_data(self, config: Mapping[str, Any], indices: Sequence[int], data_dir: Path) -> bool:
        """Write the development examples for the workers; return False if the objective has no `prepare_data`."""
        if self.prepare_data is None:
            return False
        # Write under another name first, so that workers never read a partial folder after an interruption.
        aside = data_dir.with_name(f".{data_dir.name}-{os.getpid()}")
        shutil.rmtree(aside, ignore_errors=True)
        self.prepare_data(config, list(indices), str(aside))
        aside.rename(data_dir)
        return True
