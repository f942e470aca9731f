"""The one interface to what is trained: an objective, and optional functions of its module."""

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

LONGEST_REASON = 200  # characters of an error in a user's own code
OPTIONAL_FUNCTIONS = (
    *("check", "describe_data", "describe_method", "describe_search", "prepare_data", "run_test"),
    *("predict", "describe_prediction", "attention", "describe_cost", "describe_defaults"),
    *("describe_scales", "describe_length", "output_sizes"),
)
TAKE_CONFIG = tuple(
    name for name in OPTIONAL_FUNCTIONS if name not in ("run_test", "predict", "attention", "output_sizes")
)
# Parts of their answers that people see; the rest (labels, hashes, a space) is not searched for secrets.
_SHOWN = ("name", "source", "licence", "files", "notes", "preprocessing", "vocabulary")
_CONSTANTS = ("continues", "continues_with", "reports_again")
_ALL = (*OPTIONAL_FUNCTIONS, *_CONSTANTS)


@overload
def objective(function: Callable[..., Any], /) -> Callable[..., Any]: ...
@overload
def objective(**functions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]: ...
def objective(function: Callable[..., Any] | None = None, /, **functions: Any) -> Callable[..., Any]:
    """Return a decorator that gives a plain function what the search may ask besides training.

    Args:
        function: given by `@hpo.objective` without parentheses, and then returned.
        functions: by the names of `hpo.workers.objective.objective.Objective`, such as `run_test`,
            `describe_data`, `describe_cost`, `predict`, and `continues=True` for a function that goes on from
            `trial.resume_dir`.

    Raises:
        ConfigError: there is no such function.
    """
    for name in functions:
        if name not in _ALL:
            raise ConfigError(f"objective: has no function '{name}'{nearest(name, _ALL)}")

    def give(function: Callable[..., Any]) -> Callable[..., Any]:
        for name, value in functions.items():
            setattr(function, name.upper() if name in _CONSTANTS else name, value)
        return function

    return give if function is None else give(function)


def guard(function: Callable[..., Any], name: str, secrets: Secrets) -> Callable[..., Any]:
    """Return the function for sealed configurations: its answers show no secret, its errors are one HpoError each."""

    @functools.wraps(function)
    def call(config: Mapping[str, Any], *arguments: Any) -> Any:
        values = values_of(config, secrets)
        try:
            with Isolation(values).enter():
                answer = function(reveal_secrets(config, values), *arguments)
        except BaseException as error:
            # A user's function may raise anything, or exit like a script.
            if is_interruption(error) or machine_fault(error) is not None:
                raise
            raise _refusal(name, error, values) from error
        if isinstance(answer, Examples):
            answer = vars(answer)
        if not isinstance(answer, Mapping) or not values:
            return answer
        return {key: hide_secrets_in(part, values) if key in _SHOWN else part for key, part in answer.items()}

    return call


def guard_task(function: Callable[..., Any], name: str, secrets: Secrets) -> Callable[..., Any]:
    """Return the function for tasks of sealed configurations, as `guard` does for configurations."""

    @functools.wraps(function)
    def call(task: Mapping[str, Any]) -> Any:
        return guard(lambda config: function({**task, "config": config}), name, secrets)(task["config"])

    return call


def _refusal(name: str, error: BaseException, values: Secrets) -> HpoError:
    """Return the user's error for an error of a function."""
    if isinstance(error, HpoError):
        return type(error)(hide_secrets(str(error), values))
    if isinstance(error, ValidationError):
        return ConfigError(hide_secrets(explain(error), values))
    if isinstance(error, OSError) and error.filename is not None:
        return DataError(hide_secrets(f"data: {error.filename}: {error.strerror}; give a readable file", values))
    text = excerpt(text_of(error), values)
    if isinstance(error, ValueError) and text:
        # Written for people.
        return ConfigError(text)
    text, kind = text[:LONGEST_REASON], type(error).__name__
    return ConfigError(f"objective: {name} raised {f'{kind}: {text}' if text else kind}; --debug shows where")


TaskDict = Mapping[str, Any]


@dataclass(frozen=True)
class DataFile:
    """A file that an objective reads: its path as given, the SHA-256 of its content in hexadecimal, its size."""

    path: str
    sha256: str
    bytes: int


@dataclass(frozen=True)
class SearchDescription:
    """What an objective knows of its own search: what `describe_search` returns."""

    space: Mapping[str, Any] = field(default_factory=dict)  # a tree as in conf/space; the study's own overrides it
    keys: Sequence[str] | None = ()  # what the study's own may have besides keys of the configuration; None = anything
    needs: Sequence[str] = ()  # keys that the study's space or the configuration must have
    points: Sequence[Mapping[str, Any]] | None = None  # all existing points; None = the space defines them
    folds: int = 1  # number of the objective's own folds
    files: tuple[DataFile, ...] = ()  # the files that it reads
    notes: tuple[str, ...] = ()  # lines for people
    amounts_need: str | None = None  # what the configuration lacks for trainings to be continued; None = nothing
    needs_amounts: str | None = None  # what of it has a value only where a strategy trains by amounts; None = nothing

    @classmethod
    def from_dict(cls, described: Mapping[str, Any]) -> Self:
        """Read what `describe_search` returned; raises TypeError for an unknown key or wrong type."""
        files = tuple(DataFile(**file) for file in described.get("files", ()))
        notes = tuple(str(note) for note in described.get("notes", ()))
        return cls(**{**described, "folds": int(described.get("folds", 1)), "files": files, "notes": notes})


@dataclass(frozen=True)
class ScalesDescription:
    """At which sizes `hpo scale` compares the model of a configuration: what `describe_scales` returns."""

    scales: Sequence[Mapping[str, Any]]  # changes of the configuration, the smallest first
    rate: str | None = None  # the key of the learning rate, whose best is asked at each of them; None = none is known
    # By layer: the least value of a key from which on the layer's size should not change; below, it is known to.
    holds_from: Mapping[str, tuple[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Objective:
    """A resolved objective. Only `run_fold` is required; the function, or its module, has the others by these names.

    Attributes:
        path: the dotted path `package.module:function`, or that of a plain function: see `ObjectivePath`.
        run_fold: `(task) -> dict` of numbers, including the study's metric, or a generator that yields
            one dict per step of its learning curve (`epoch` and numbers) and returns that dict. A number `seconds`
            in it replaces the measured wall time. A step may say `more`: whether the training goes on after it, which
            saves other trainings a wait.
        check: `(config) -> None`; raises ValueError for a configuration that cannot be trained.
        describe_data: `(config) -> dict` with the fields of `Examples`, or one of those.
        describe_method: `(config) -> dict` with what a report says of every training: `preprocessing`, `vocabulary`,
            `checkpoint` (which is scored) and `determinism`, a text each, and `metrics`, a definition by name. Where
            settings change what a metric is counted in, `counted_in` has by the metric's name its `unit`, such as
            "tokens", and `depends_on`, the values of those settings by dotted key, such as
            `{"data.min_count": 2}`; and, if need be, `alike`, by such a key the values that make no difference. With a
            metric that depends on what a new study searches, its trials do not compare, which is refused; so are
            comparisons of studies, imports and extensions in which they differ. `bounds` has by the
            metric's name its least and greatest value, such as [0, 1] or [0, None]; `shares` names those that are
            shares of independent examples, such as accuracy.
        prepare_data: `(config, indices, data_dir) -> None`; writes only these examples into the folder, so that
            workers read them by position and cannot read the others.
        run_test: `(task) -> dict`; scores the examples `task["test"]` with the model in `task["checkpoint_dir"]`. In it
            `scores_by_example` may have, by the name of a metric, a number for each example, in the order of
            `task["test"]`, of which the metric is the mean: they give it an interval, and are not kept.
        predict: `(checkpoint_dir, inputs, options) -> list of str`; the kept model's output per input text.
            `options` may hold `temperature`, `top_k`, `top_p`, `max_tokens` and `seed`.
        describe_prediction: `(config) -> dict` with what `predict` reads: `inputs`, which is "text" or, for models that
            read a row of numbers per input, "rows"; and `options`, by name `{"type": "integer" or "number",
            "default": ...}`. Without it, texts and no options.
        attention: `(checkpoint_dir, text, target) -> {"maps": [...]}`; each map has `name`, `rows` and `columns`
            (tokens) and `heads` (per head a list of rows, each summing to 1). `target` is a text or None.
            Both raise ValueError, in one line, for what they cannot read.
        describe_search: `(config) -> dict` with the fields of `SearchDescription`.
        describe_defaults: `(config, keys) -> dict` with values, by dotted key, that a search of these keys adds to the
            configuration: those that an objective reads from a file of its own.
        describe_cost: `(config) -> number`, above 0: what one unit of training costs, as a share of any fixed amount
            of work, always the same for the same configuration. A unit is what lies between two steps of the learning
            curve; without a curve, the whole training. With `describe_cost`, a step may say in `units` how many are
            done so far, at least one more than the step before, and the returned dict how many there were. Without it
            every unit costs 1. It may refuse what `check` refuses: such a trial fails anyway.
        describe_length: `(config) -> number or None`: the most that a training of this configuration reaches by itself,
            in the unit of its reports; None = without an end. Under a strategy that trains by amounts it must reach the
            largest.
        describe_scales: `(config, over) -> dict` with the fields of `ScalesDescription`: the sizes at which `hpo scale`
            compares the model where the user gives none; `over` is what grows, "width" or "depth".
        output_sizes: `(task) -> dict`: how large what each layer gives is after some steps of training, for
            `hpo scale --check`. The task is that of a training, with `steps`, such as [1, 2, 5, 10], and `over`;
            returned is by step, and then by the layer's name, the mean absolute number that the layer gives. Layers
            that are not there at every size, such as the ninth of ten, do not count.
        continues: whether trainings can be continued (`CONTINUES = True` in the module): run_fold stops after
            `task["amount"]` and continues from the state that it left in `task["resume_dir"]`, yielding what follows.
        reports_again: whether a training that is continued after an interruption yields every step after
            `task["trained"]` once more (`REPORTS_AGAIN = True` in the module), so that none can be missing.
        continues_with: keys of the configuration that may change when a training is continued (`CONTINUES_WITH` in the
            module), such as the number of epochs: `hpo extend` then goes on from states.
        code_keys: keys of the configuration that are code (`CODE_KEYS` in the module), such as a command line: of a
            stranger's study they are shown before they are run. Only the toolkit's own objectives are asked for them;
            before any other of a stranger's the user is asked anyway.
        code_files: `(config) -> list of str`: the files that the configuration names as code, such as a command's
            script, by their paths from the working directory; asked like `code_keys`.
        kept: the function by its value, where no module has it.
        revision: the REVISION of one that comes with the toolkit: it rises where the same training would end otherwise.
            None for any other, whose code is compared by content.

    A plain function, `f(config)` or `f(config, trial)`, is turned into such a `run_fold` (`plain_function.py`), and so
    is its `run_test`, which is `f(config, trial)` too.

    The functions get the study's sealed configuration: `resolve` wraps the module's own so that they get it opened
    (`secrets.py`), `output_sizes` in its task. `run_fold` and `run_test` are not wrapped: the worker opens theirs.
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
        """Raise ConfigError where the objective's own check refuses the configuration."""
        if self.check is not None:
            self.check(config)

    def length(self, config: Mapping[str, Any]) -> float:
        """Return the most that a training of the configuration reaches by itself; infinite where it does not say."""
        length = None if self.describe_length is None else reported_values.number(self.describe_length(config))
        return math.inf if length is None else length

    def method(self, config: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what a report says of every training; empty without `describe_method`."""
        return {} if self.describe_method is None else dict(self.describe_method(config))

    def examples(self, config: Mapping[str, Any]) -> Examples | None:
        """Return the data to split, or None for an objective with its own data; DataError where it is unreadable."""
        if self.describe_data is None:
            return None
        described = self.describe_data(config)
        with self._fields_of("describe_data", Examples):
            return Examples(**described)

    def search_description(self, config: Mapping[str, Any]) -> SearchDescription:
        """Return what the objective knows of its own search; empty without `describe_search`."""
        if self.describe_search is None:
            return SearchDescription()
        described = self.describe_search(config)
        with self._fields_of("describe_search", SearchDescription):
            return SearchDescription.from_dict(described)

    def scales_description(self, config: Mapping[str, Any], over: str) -> ScalesDescription | None:
        """Return at which sizes its model is compared; None without `describe_scales`."""
        if self.describe_scales is None:
            return None
        described = self.describe_scales(config, over)
        with self._fields_of("describe_scales", ScalesDescription):
            return ScalesDescription(**described)

    @contextmanager
    def _fields_of(self, function: str, kind: type) -> Iterator[None]:
        """Raise DataError where the block cannot make the kind of thing that a function has described."""
        try:
            yield
        except (TypeError, ValueError, AttributeError) as error:
            raise DataError(
                f"objective: {self.owner}.{function} does not return the fields of {kind.__name__}: {text_of(error)}"
            ) from error

    @property
    def module(self) -> str:
        """The name of its module."""
        return self.path.partition(":")[0]

    @property
    def owner(self) -> str:
        """What has its optional functions, for messages; see `ObjectivePath`."""
        return ObjectivePath.of(self.path).owner

    def cost(self, config: Mapping[str, Any], number: int) -> float:
        """Return the cost of one unit of a trial's training; StudyError for one that no clock can count."""
        if self.describe_cost is None:
            return 1.0
        try:
            described = self.describe_cost(config)
        except ConfigError:
            try:
                self.refuse_bad_config(config)
            except ConfigError:
                # It fails as soon as it is tried, and the trial says why.
                return 1.0
            raise
        cost = reported_values.number(described)
        if cost is None or cost <= 0:
            raise StudyError(
                f"trial {number}: {self.owner}.describe_cost must return a finite number above 0, it returned "
                f"{described!r}"
            )
        return float(cost)

    def write_development_data(self, config: Mapping[str, Any], indices: Sequence[int], data_dir: Path) -> bool:
        """Write the development examples for the workers; return whether the objective reads them there."""
        if self.prepare_data is None:
            return False
        # Under another name first, so that workers never read a partial folder after an interruption.
        aside = data_dir.with_name(f".{data_dir.name}-{os.getpid()}")
        shutil.rmtree(aside, ignore_errors=True)
        self.prepare_data(config, list(indices), str(aside))
        aside.rename(data_dir)
        return True
