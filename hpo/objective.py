"""The one seam to what is trained: an objective, and the companions that its module may offer."""

import importlib
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from hpo.config import explain
from hpo.errors import ConfigError, DataError
from hpo.examples import Examples

TaskDict = Mapping[str, Any]

_COMPANIONS = (
    *("check", "describe_data", "describe_method", "describe_search", "prepare_data", "run_test"),
    *("predict", "attention"),
)


@dataclass(frozen=True)
class Objective:
    """A resolved objective. Only `run_fold` is required; the module offers the others by these names.

    Attributes:
        path: the dotted path `package.module:function`.
        run_fold: `(task) -> dict` of numbers with the study's metric among them, or a generator that yields
            a dict a step of its learning curve (`epoch` and numbers) and returns that dict. A number `seconds`
            among them stands for the measured wall time.
        check: `(config) -> None`; raises ValueError for a configuration that cannot be trained.
        describe_data: `(config) -> dict` with the fields of `hpo.examples.Examples`.
        describe_method: `(config) -> dict` with what a report says of every training: `preprocessing`, `vocabulary`,
            `checkpoint` (which is scored) and `determinism`, a text each, and `metrics`, a definition by name.
        prepare_data: `(config, indices, data_dir) -> None`; writes these examples, and only these, into the
            folder, so that workers read them by position and have no way to the others.
        run_test: `(task) -> dict`; scores the examples `task["test"]` with the model in `task["checkpoint_dir"]`.
        predict: `(checkpoint_dir, inputs, options) -> list of str`; what the kept model makes of each input text.
            `options` holds what the user gave of `temperature`, `top_k`, `top_p`, `max_tokens` and `seed`.
        attention: `(checkpoint_dir, text, target) -> {"maps": [...]}`; each map has `name`, `rows` and `columns`
            (tokens) and `heads` (per head a list of rows, each summing to 1). `target` is a text or None.
            Both raise ValueError, in one line, for what they cannot read.
        describe_search: `(config) -> dict` with what the objective knows of its own search: `space` (a tree as in
            conf/space; the study's own overrides it), `points` (all that exist, or None), `folds` (how many it has
            itself), `files` (that it reads: `path`, `sha256`, `bytes`) and `notes` (lines for people).
        continues: whether trainings can be continued (`CONTINUES = True` in the module): run_fold stops after
            `task["epochs"]` and goes on from the state that it left in `task["resume_dir"]`.
    """

    path: str
    run_fold: Callable[[TaskDict], Any]
    check: Callable[[Mapping[str, Any]], None] | None = None
    describe_data: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    describe_method: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    prepare_data: Callable[[Mapping[str, Any], Sequence[int], str], None] | None = None
    run_test: Callable[[TaskDict], Mapping[str, float]] | None = None
    predict: Callable[[str, Sequence[str], Mapping[str, Any]], list[str]] | None = None
    attention: Callable[[str, str, str | None], Mapping[str, Any]] | None = None
    describe_search: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    continues: bool = False

    def refuse_bad_config(self, config: Mapping[str, Any]) -> None:
        """Raise ConfigError when the objective's own check refuses the configuration."""
        if self.check is None:
            return
        try:
            self.check(config)
        except ValidationError as error:
            raise ConfigError(explain(error)) from error
        except ValueError as error:
            raise ConfigError(str(error)) from error

    def examples(self, config: Mapping[str, Any]) -> Examples | None:
        """Return what there is to split, or None for an objective that brings its own data.

        Raises:
            DataError: when the data cannot be read; the line names the file.
        """
        if self.describe_data is None:
            return None
        try:
            return Examples(**self.describe_data(config))
        except OSError as error:
            raise DataError(f"data: {error.filename}: {error.strerror}") from error
        except ValueError as error:
            raise DataError(str(error)) from error
        except TypeError as error:
            module = self.path.partition(":")[0]
            raise DataError(
                f"objective: {module}.describe_data returns something else than Examples: {error}"
            ) from error

    def write_development_data(self, config: Mapping[str, Any], indices: Sequence[int], data_dir: Path) -> bool:
        """Write the development examples for the workers; return whether the objective reads them from there."""
        if self.prepare_data is None:
            return False
        # Aside first, so that an interruption leaves no half of it under the name that workers read.
        aside = data_dir.with_name(f".{data_dir.name}-{os.getpid()}")
        shutil.rmtree(aside, ignore_errors=True)
        self.prepare_data(config, list(indices), str(aside))
        aside.rename(data_dir)
        return True


def resolve(path: str, import_from: str | None = None) -> Objective:
    """Import the objective's module and return it with its companions.

    Args:
        path: `package.module:function`.
        import_from: a folder to import from besides the installed packages, such as the working directory.

    Raises:
        ConfigError: when the module or the function does not exist.
    """
    if import_from and import_from not in sys.path:
        sys.path.insert(0, import_from)
    module_name, _, function = path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except (ImportError, SyntaxError) as error:
        raise ConfigError(
            f"objective: cannot import '{module_name}': {error}; allowed is package.module:function, importable from "
            f"the working directory or installed"
        ) from error
    run_fold = getattr(module, function, None)
    if not callable(run_fold):
        raise ConfigError(f"objective: module '{module_name}' has no function '{function}'")
    companions = {name: getattr(module, name, None) for name in _COMPANIONS}
    return Objective(path, run_fold, **companions, continues=bool(getattr(module, "CONTINUES", False)))
