"""The one interface to what is trained: an objective, and optional functions of its module."""

import functools
import importlib
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import ValidationError

from hpo.config.sealing import Secrets, hidden, hidden_tree, opened, told, values_of
from hpo.config.study_config import explain
from hpo.engine.training.examples import Examples
from hpo.engine.training.modules import out_of_the_way, put_first
from hpo.engine.training.origin import Origin, origin_of, refuse_another
from hpo.engine.training.own_place import OwnPlace
from hpo.engine.training.own_search import OwnSearch
from hpo.engine.trials import reported
from hpo.errors import ConfigError, DataError, HpoError, StudyError, is_interruption, text_of
from hpo.machine import machine_fault

TaskDict = Mapping[str, Any]

_LONGEST_REASON = 200  # characters of an error in a user's own code

_COMPANIONS = (
    *("check", "describe_data", "describe_method", "describe_search", "prepare_data", "run_test"),
    *("predict", "describe_prediction", "attention", "describe_cost"),
)


_TAKE_CONFIG = (
    *("check", "describe_data", "describe_method", "describe_search", "describe_cost", "prepare_data"),
    "describe_prediction",
)
# Parts of their answers that people see; the rest (labels, hashes, a space) is not searched for secrets.
_SHOWN = ("name", "source", "licence", "files", "notes", "preprocessing", "vocabulary")


@dataclass(frozen=True)
class Objective:
    """A resolved objective. Only `run_fold` is required; the module offers the others by these names.

    Attributes:
        path: the dotted path `package.module:function`.
        run_fold: `(task) -> dict` of numbers, including the study's metric, or a generator that yields
            one dict per step of its learning curve (`epoch` and numbers) and returns that dict. A number `seconds`
            in it replaces the measured wall time. A step may say `more`: whether the training goes on after it, which
            saves other trainings a wait.
        check: `(config) -> None`; raises ValueError for a configuration that cannot be trained.
        describe_data: `(config) -> dict` with the fields of `Examples`.
        describe_method: `(config) -> dict` with what a report says of every training: `preprocessing`, `vocabulary`,
            `checkpoint` (which is scored) and `determinism`, a text each, and `metrics`, a definition by name.
        prepare_data: `(config, indices, data_dir) -> None`; writes only these examples into the folder, so that
            workers read them by position and cannot read the others.
        run_test: `(task) -> dict`; scores the examples `task["test"]` with the model in `task["checkpoint_dir"]`.
        predict: `(checkpoint_dir, inputs, options) -> list of str`; the kept model's output per input text.
            `options` may hold `temperature`, `top_k`, `top_p`, `max_tokens` and `seed`.
        describe_prediction: `(config) -> dict` with what `predict` reads: `inputs`, which is "text" or, for models that
            read a row of numbers per input, "rows"; and `options`, by name `{"type": "integer" or "number",
            "default": ...}`. Without it, texts and no options.
        attention: `(checkpoint_dir, text, target) -> {"maps": [...]}`; each map has `name`, `rows` and `columns`
            (tokens) and `heads` (per head a list of rows, each summing to 1). `target` is a text or None.
            Both raise ValueError, in one line, for what they cannot read.
        describe_search: `(config) -> dict` with the fields of `OwnSearch`.
        describe_cost: `(config) -> number`, above 0: what one unit of training costs, as a share of any fixed amount
            of work, always the same for the same configuration. A unit is what lies between two steps of the learning
            curve; without a curve, the whole training. With `describe_cost`, a step may say in `units` how many are
            done so far, at least one more than the step before, and the returned dict how many there were. Without it
            every unit costs 1. It may refuse what `check` refuses: such a trial fails anyway.
        continues: whether trainings can be continued (`CONTINUES = True` in the module): run_fold stops after
            `task["epochs"]` and continues from the state that it left in `task["resume_dir"]`. After an interruption it
            yields every point after `task["trained"]` again: their number is what the training has cost.
        continues_with: keys of the configuration that may change when a training is continued (`CONTINUES_WITH` in the
            module), such as the number of epochs: `hpo extend` then goes on from states.

    The functions get the study's sealed configuration: `resolve` wraps the module's own so that they get it opened
    (`sealing.py`). `run_fold` and `run_test` are not wrapped: the worker opens their configuration.
    """

    path: str
    run_fold: Callable[[TaskDict], Any]
    check: Callable[[Mapping[str, Any]], None] | None = None
    describe_data: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    describe_method: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    prepare_data: Callable[[Mapping[str, Any], Sequence[int], str], None] | None = None
    run_test: Callable[[TaskDict], Mapping[str, float]] | None = None
    predict: Callable[[str, Sequence[Any], Mapping[str, Any]], list[str]] | None = None
    describe_prediction: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    attention: Callable[[str, str, str | None], Mapping[str, Any]] | None = None
    describe_search: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    describe_cost: Callable[[Mapping[str, Any]], float] | None = None
    continues: bool = False
    continues_with: Sequence[str] = ()

    def refuse_bad_config(self, config: Mapping[str, Any]) -> None:
        """Raise ConfigError where the objective's own check refuses the configuration."""
        if self.check is None:
            return
        self.check(config)

    def examples(self, config: Mapping[str, Any]) -> Examples | None:
        """Return the data to split, or None for an objective with its own data; DataError where it is unreadable."""
        if self.describe_data is None:
            return None
        described = self.describe_data(config)
        try:
            return Examples(**described)
        except (TypeError, AttributeError) as error:
            module = self.path.partition(":")[0]
            raise DataError(
                f"objective: {module}.describe_data does not return the fields of Examples: {text_of(error)}"
            ) from error

    def own_search(self, config: Mapping[str, Any]) -> OwnSearch:
        """Return what the objective knows of its own search; empty without `describe_search`."""
        if self.describe_search is None:
            return OwnSearch()
        described = self.describe_search(config)
        try:
            return OwnSearch.from_dict(described)
        except (TypeError, ValueError, AttributeError) as error:
            module = self.path.partition(":")[0]
            raise DataError(
                f"objective: {module}.describe_search does not return the fields of OwnSearch: {text_of(error)}"
            ) from error

    def cost(self, config: Mapping[str, Any], number: int) -> float:
        """Return the cost of one unit of a trial's training; StudyError for one that no clock can count."""
        if self.describe_cost is None:
            return 1.0
        try:
            described = self.describe_cost(config)
        except ConfigError:
            if not self._refuses(config):
                raise
            # It fails as soon as it is tried, and the trial says why.
            return 1.0
        cost = reported.number(described)
        if cost is None or cost <= 0:
            raise StudyError(
                f"trial {number}: {self.path.partition(':')[0]}.describe_cost must return a finite number above 0, it "
                f"returned {described!r}"
            )
        return float(cost)

    def _refuses(self, config: Mapping[str, Any]) -> bool:
        try:
            self.refuse_bad_config(config)
        except ConfigError:
            return True
        return False

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


def resolve(path: str, import_from: str | None = None, secrets: Secrets | None = None) -> Objective:
    """Import the objective's module and return it with its companions.

    Args:
        path: `package.module:function`.
        import_from: a folder to import from besides installed packages, such as the working directory.
        secrets: opens configurations, besides the environment.

    Raises:
        ConfigError: the module or the function does not exist, or is not allowed: see `origin_of`.
    """
    origin = origin_of(path, import_from)
    module_name, _, function = path.partition(":")
    try:
        with OwnPlace(secrets or {}).entered():
            module = _imported(module_name, origin, import_from)
    except ConfigError:
        raise
    except (ImportError, SyntaxError, ValueError) as error:
        text = told(text_of(error), secrets or {}, _LONGEST_REASON)
        raise ConfigError(f"objective: cannot import '{module_name}': {text}; --debug shows where") from error
    except BaseException as error:
        if is_interruption(error):
            raise
        # The user's own module may raise anything, or exit like a script.
        text = told(text_of(error), secrets or {}, _LONGEST_REASON)
        raise ConfigError(
            f"objective: importing '{module_name}' raised {type(error).__name__}: {text}; --debug shows where"
        ) from error
    refuse_another(module, origin, import_from)
    run_fold = getattr(module, function, None)
    if not callable(run_fold):
        raise ConfigError(f"objective: module '{module_name}' has no function '{function}'")
    companions = {name: getattr(module, name, None) for name in _COMPANIONS}
    for name in _TAKE_CONFIG:
        companion = companions[name]
        if companion is not None:
            companions[name] = _guarded(companion, f"{module_name}.{name}", secrets or {})
    continues, keys = bool(getattr(module, "CONTINUES", False)), tuple(getattr(module, "CONTINUES_WITH", ()))
    return Objective(path, run_fold, **companions, continues=continues, continues_with=keys)


def _imported(name: str, origin: Origin, import_from: str | None) -> ModuleType:
    """Import a module of the toolkit or a package without the working directory in the way, a user's with it first."""
    top = name.partition(".")[0]
    if top in sys.modules:
        refuse_another(sys.modules[top], origin, import_from)
    if origin != "working directory":
        with out_of_the_way(import_from or str(Path.cwd())):
            module = importlib.import_module(name if origin == "toolkit" else top)
        if origin == "toolkit":
            # Neither it nor the libraries that it imports later are searched for in the working directory.
            return module
    if import_from:
        put_first(import_from)
    return importlib.import_module(name)


def _guarded(companion: Callable[..., Any], name: str, secrets: Secrets) -> Callable[..., Any]:
    """Return the function as a callable for sealed configurations.

    The function gets them opened; its answers and errors show no secret. Every error is an HpoError of one line.
    """

    @functools.wraps(companion)
    def call(config: Mapping[str, Any], *arguments: Any) -> Any:
        values = values_of(config, secrets)
        try:
            with OwnPlace(values).entered():
                answer = companion(opened(config, values), *arguments)
        except BaseException as error:
            if is_interruption(error) or machine_fault(error) is not None:
                raise
            raise _refusal(name, error, values) from error
        if not isinstance(answer, Mapping) or not values:
            return answer
        return {key: hidden_tree(part, values) if key in _SHOWN else part for key, part in answer.items()}

    return call


def _refusal(name: str, error: BaseException, values: Secrets) -> HpoError:
    """Return the user's error for an error of a companion."""
    if isinstance(error, HpoError):
        return type(error)(hidden(str(error), values))
    if isinstance(error, ValidationError):
        return ConfigError(hidden(explain(error), values))
    if isinstance(error, OSError) and error.filename is not None:
        return DataError(hidden(f"data: {error.filename}: {error.strerror}; give a readable file", values))
    text = told(text_of(error), values)
    if isinstance(error, ValueError) and text:
        # Written for people.
        return ConfigError(text)
    text, kind = text[:_LONGEST_REASON], type(error).__name__
    return ConfigError(f"objective: {name} raised {f'{kind}: {text}' if text else kind}; --debug shows where")
