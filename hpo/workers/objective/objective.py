"""The interface between a search and a training: the function that trains, and optional functions."""

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

LONGEST_REASON = 200  # the most characters to show of an error that a user's code raised
OPTIONAL_FUNCTIONS = (
    *("check", "describe_data", "describe_method", "describe_search", "prepare_data", "run_test"),
    *("predict", "describe_prediction", "attention", "describe_cost", "describe_defaults"),
    *("describe_scales", "describe_length", "output_sizes"),
)
# These functions get a configuration or (`output_sizes`) a task, in which secrets are redacted; see `guard`.
GUARDED = tuple(name for name in OPTIONAL_FUNCTIONS if name not in ("run_test", "predict", "attention"))
# Fields of the optional functions' results that users see. Secrets are redacted only in these fields, and not in
# labels, hashes or search spaces.
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
            and constants by name, such as `continues=True` for a function that continues from `trial.resume_dir`. See
            `hpo.workers.objective.objective.Objective`.

    Raises:
        ConfigError: a given name is not the name of an optional function or constant.
    """
    for name in functions:
        if name not in _ALL:
            raise ConfigError(f"objective: there is no optional function '{name}'{nearest(name, _ALL)}")

    def add_functions(function: Callable[..., Any]) -> Callable[..., Any]:
        for name, value in functions.items():
            setattr(function, name.upper() if name in _CONSTANTS else name, value)
        return function

    return add_functions if function is None else add_functions(function)


def guard(function: Callable[..., Any], name: str, secrets: Secrets) -> Callable[..., Any]:
    """Wrap an optional function, so that it can be called with a configuration or task whose secrets are redacted.

    The wrapper inserts the secrets before the call, and redacts them in those fields of the result that users see. It
    converts the function's errors to HpoError; interruptions and faults of the machine are raised unchanged.
    """

    @functools.wraps(function)
    def call(given: Mapping[str, Any], *arguments: Any) -> Any:
        values = values_of(given, secrets)
        try:
            with Isolation(values).enter():
                answer = function(reveal_secrets(given, values), *arguments)
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


def _refusal(name: str, error: BaseException, values: Secrets) -> HpoError:
    """Return the HpoError for an exception from a user's function. The secrets in its message are redacted."""
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
    return ConfigError(
        f"objective: {name} raised {f'{kind}: {text}' if text else kind}; in a shell, --debug shows the traceback"
    )


TaskDict = Mapping[str, Any]


@dataclass(frozen=True)
class DataFile:
    """A file that an objective reads: its path, the SHA-256 of its content in hexadecimal, and its size."""

    path: str
    sha256: str
    bytes: int


@dataclass(frozen=True)
class SearchDescription:
    """The search space and other settings that the objective itself provides, as returned by `describe_search`."""

    space: Mapping[str, Any] = field(default_factory=dict)  # a tree as in conf/space; the study's space overrides it
    # Keys that the study's space may have, in addition to keys of the configuration; None = any key.
    keys: Sequence[str] | None = ()
    needs: Sequence[str] = ()  # keys that must each be in the study's space or in the configuration
    points: Sequence[Mapping[str, Any]] | None = None  # all points that may be tried; None = all of the space
    folds: int = 1  # number of folds, if the objective itself defines them
    files: tuple[DataFile, ...] = ()  # the files that the objective reads
    notes: tuple[str, ...] = ()  # lines to show to the user
    # What the user must add to the configuration so that trainings can be continued; None = nothing.
    amounts_need: str | None = None
    # A setting that has no value unless the strategy trains trials in several amounts; None = there is no such setting.
    needs_amounts: str | None = None

    @classmethod
    def from_dict(cls, described: Mapping[str, Any]) -> Self:
        """Build a description from the result of `describe_search`.

        Raises:
            TypeError, ValueError, AttributeError: a key or a type is wrong.
        """
        files = tuple(DataFile(**file) for file in described.get("files", ()))
        notes = tuple(str(note) for note in described.get("notes", ()))
        return cls(**{**described, "folds": int(described.get("folds", 1)), "files": files, "notes": notes})


@dataclass(frozen=True)
class ScalesDescription:
    """The result of `describe_scales`: the scales at which `hpo scale` compares a model, and facts about the model."""

    scales: Sequence[Mapping[str, Any]]  # each scale's changes to the configuration, smallest first
    rate: str | None = None  # key of the learning rate, which is tuned at each scale; None = unknown
    # By layer: a key and a threshold. While the key's value is below the threshold, the layer's mean absolute output
    # may change from scale to scale; from the threshold on, the mean should stay the same.
    holds_from: Mapping[str, tuple[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Objective:
    """A resolved objective. Only `run_fold` is required. Optional functions are attributes of the function or module.

    Attributes:
        path: the dotted path `package.module:function`, or the path of a plain function; see `ObjectivePath`.
        run_fold: `(task) -> dict` of numbers, including the study's metric. It may also be a generator that yields one
            dict per step of its learning curve (`epoch` and numbers) and returns the final dict. If it returns nothing,
            the score comes from the learning curve; see `study.score`. A number `seconds` in the returned dict replaces
            the measured wall time. A yielded dict may contain `more`: whether the training continues after this step.
            Without `more`, the search waits for the next step to find this out.
        check: `(config) -> None`; raises ValueError for a configuration that cannot be trained.
        describe_data: `(config) -> dict` with the fields of `Examples`, or an `Examples`.
        describe_method: `(config) -> dict` with facts that hold for every training, for the report. `preprocessing`,
            `vocabulary`, `checkpoint` (which model is scored) and `determinism` are texts. `metrics` maps the name of
            each metric to its definition. `bounds` maps a metric to its least and greatest value, such as [0, 1] or
            [0, None]. `shares` lists the metrics that are shares of independent examples, such as accuracy.
            `counted_in` is needed if settings change the unit of a metric. It maps the metric to a dict such as
            `{"unit": "tokens", "depends_on": {"data.min_count": 2}}`. `depends_on` has the current values of these
            settings. The dict may also have `alike`: for each setting, a list of values that all give the same unit. A
            study must not search a setting that changes the unit of its metric, because scores in different units
            cannot be compared. Comparisons, imports and extensions of studies with different units are refused too.
        prepare_data: `(config, indices, data_dir) -> None`; creates the folder, and writes only the examples with
            these indices into it. Workers read these examples by position, and cannot read the other examples.
        run_test: `(task) -> dict`; scores the examples `task["test"]` with the model in `task["checkpoint_dir"]`. The
            result may have `scores_by_example`, which maps a metric to one entry per example, in the order of
            `task["test"]`. For numbers x, the metric must be mean(x). For pairs (a, b), it must be sum(a) / sum(b). For
            longer rows of numbers, the result must also have `score_of_sums`, which maps the metric to a function. The
            toolkit draws random resamples of the examples, and adds up the rows of each resample. The function takes an
            array with one such sum per row, and returns one metric value per row. The entries give the confidence
            interval of the metric, and are not stored. A text in place of the entries says why there is no interval.
        predict: `(checkpoint_dir, inputs, options) -> list of str`; the stored model's output for each input text.
            `options` may have `temperature`, `top_k`, `top_p`, `max_tokens` and `seed`.
        describe_prediction: `(config) -> dict` about the arguments of `predict`. `inputs` is "text", or "rows" for
            models that read a row of numbers per input. `options` maps the name of each option to `{"type": "integer"
            or "number", "default": ...}`. Without this function, inputs are texts and there are no options.
        attention: `(checkpoint_dir, text, target) -> {"maps": [...]}`. `target` is a text or None. Each map is a dict
            with `name`, `rows`, `columns` and `heads`. `rows` and `columns` are lists of tokens. `heads` has one matrix
            of weights per head. A matrix is a list with one list per token in `rows`; each inner list sums to 1. If
            `predict` or `attention` cannot read an input, the function raises a ValueError with a one-line message.
        describe_search: `(config) -> dict` with the fields of `SearchDescription`.
        describe_defaults: `(config, keys) -> dict` with default values by dotted key, for an objective that reads its
            defaults from a file. A search of `keys` adds these values to the configuration.
        describe_cost: `(config) -> number` above 0: the cost of one unit of training, in a measure that is the same for
            all configurations, such as operations. Equal configurations must have equal costs. By default, each step of
            the learning curve is one unit; without a curve, the whole training is one unit. With `describe_cost`, the
            objective may count the units itself. It then yields `units` with each step: the number of units so far,
            which must rise by at least 1 per step. The dict that `run_fold` returns may have the total number in
            `units`. Without `describe_cost`, every unit costs 1.
            If `check` refuses a configuration, `describe_cost` may raise ValueError: the trial fails anyway.
        describe_length: `(config) -> number or None`: the largest amount that a training with this configuration can
            reach, such as a number of epochs; None = unlimited. If the strategy trains in amounts, this amount must be
            at least the strategy's largest amount.
        describe_scales: `(config, over) -> dict` with the fields of `ScalesDescription`: the default scales at which
            `hpo scale` compares the model. `over` is the dimension that grows, "width" or "depth".
        output_sizes: `(task) -> dict`: the mean absolute output of each layer after some steps of training, for
            `hpo scale --check`. The task is a training's task with two more fields: `steps`, such as [1, 2, 5, 10], and
            `over`. The result maps each step to a dict, which maps each layer's name to this mean. Layers that do not
            exist at every scale are ignored.
        continues: whether trainings can be continued (`CONTINUES = True` in the module). Then run_fold stops after
            `task["amount"]`, continues from the state that it has saved in `task["resume_dir"]`, and yields the
            following steps.
        reports_again: whether a training that continues after an interruption yields every step after
            `task["trained"]` again (`REPORTS_AGAIN = True` in the module). If not, the toolkit
            starts an interrupted training from the beginning when one of its steps may be missing.
        continues_with: keys of the configuration that may change when a training is continued (`CONTINUES_WITH` in the
            module), such as the number of epochs. `hpo extend` then continues from states.
        code_keys: keys of the configuration whose values are code, such as a command line (`CODE_KEYS` in the module).
            The user sees and confirms these values before a study of another person runs. Only the toolkit's own
            objectives need code keys. With any other objective, the user must confirm the study in any case.
        code_files: `(config) -> list of str`: the files that the configuration names as code, such as a command's
            script. Paths are relative to the working directory. Only the toolkit's own objectives need this function.
        pickled: the pickled function; None = the function is imported from a module.
        revision: the REVISION of an objective of the toolkit. The number is increased when the same training gives
            another result. None for any other objective, because such an objective's code is compared by content.

    A plain function, `f(config)` or `f(config, trial)`, is converted to a `run_fold` (see `plain_function.py`). Its
    `run_test`, also `f(config, trial)`, is converted in the same way.

    If an optional function takes a configuration, its callers pass the configuration with redacted secrets. `resolve`
    wraps such a function, so that the function gets the real secrets (see `hpo/config/secrets.py`). `output_sizes` gets
    the secrets within its task. `run_fold` and `run_test` are not wrapped: the worker inserts the secrets into their
    tasks.
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
        """Raise HpoError, usually ConfigError, if the objective's `check` refuses the configuration."""
        if self.check is not None:
            self.check(config)

    def length(self, config: Mapping[str, Any]) -> float:
        """Return the largest amount that a training with `config` can reach; infinite if unlimited or unknown."""
        length = None if self.describe_length is None else reported_values.number(self.describe_length(config))
        return math.inf if length is None else length

    def method(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the facts of `describe_method` for the report; {} if the objective has no such function."""
        return {} if self.describe_method is None else dict(self.describe_method(config))

    def examples(self, config: Mapping[str, Any]) -> Examples | None:
        """Return the examples to split; None = the objective loads its data itself.

        Raises:
            DataError: the result of `describe_data` does not have the fields of `Examples`, or a field is invalid.
        """
        if self.describe_data is None:
            return None
        described = self.describe_data(config)
        with self._fields_of("describe_data", Examples):
            return Examples(**described)

    def search_description(self, config: Mapping[str, Any]) -> SearchDescription:
        """Return the result of `describe_search`, or an empty description if the objective has no such function.

        Raises:
            DataError: a field of the result is unknown or has a wrong type.
        """
        if self.describe_search is None:
            return SearchDescription()
        described = self.describe_search(config)
        with self._fields_of("describe_search", SearchDescription):
            return SearchDescription.from_dict(described)

    def scales_description(self, config: Mapping[str, Any], over: str) -> ScalesDescription | None:
        """Return the result of `describe_scales`; None if the objective has no such function.

        Raises:
            DataError: the result does not have the fields of `ScalesDescription`.
        """
        if self.describe_scales is None:
            return None
        described = self.describe_scales(config, over)
        with self._fields_of("describe_scales", ScalesDescription):
            return ScalesDescription(**described)

    @contextmanager
    def _fields_of(self, function: str, kind: type) -> Iterator[None]:
        """Raise DataError if the block cannot create an instance of `kind` from the result of `function`."""
        try:
            yield
        except (TypeError, ValueError, AttributeError) as error:
            raise DataError(
                f"objective: {self.owner}.{function} must return the fields of {kind.__name__}: {text_of(error)}"
            ) from error

    @property
    def module(self) -> str:
        """The name of the objective's module."""
        return self.path.partition(":")[0]

    @property
    def owner(self) -> str:
        """The name of the objective's module or pickled function. Messages put it before a function's name."""
        return ObjectivePath.of(self.path).owner

    def cost(self, config: Mapping[str, Any], number: int) -> float:
        """Return the cost of one unit of a trial's training.

        The cost is 1 without `describe_cost`. The cost is also 1 if both `describe_cost` and `check` refuse the
        configuration, because such a trial fails anyway.

        Args:
            config: the trial's configuration.
            number: the number of the trial, for error messages.

        Raises:
            StudyError: the cost is not a finite number above 0.
            ConfigError: `describe_cost` failed, although `check` allows the configuration.
        """
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
                f"trial {number}: {self.owner}.describe_cost must return a finite number above 0, given {described!r}"
            )
        return float(cost)

    def write_development_data(self, config: Mapping[str, Any], indices: Sequence[int], data_dir: Path) -> bool:
        """Write the development examples to a new folder `data_dir`, from which the workers read them.

        If the objective has no `prepare_data`, write nothing and return False; otherwise, return True.
        """
        if self.prepare_data is None:
            return False
        # Write under another name first, so that workers never read a partial folder after an interruption.
        aside = data_dir.with_name(f".{data_dir.name}-{os.getpid()}")
        shutil.rmtree(aside, ignore_errors=True)
        self.prepare_data(config, list(indices), str(aside))
        if not aside.is_dir():
            raise DataError(
                f"objective: {self.owner}.prepare_data must create the folder data_dir, but created none; create it, "
                f"and write the examples into it"
            )
        aside.rename(data_dir)
        return True
