"""`train`: trains one configuration, without a search."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hpo.commands.arguments import ConfigFile, ConfigFolder, ConfigPrint, Fields, Overrides, Progress
from hpo.commands.given.settings import Composed, compose_given
from hpo.errors import StudyError
from hpo.show.display import How, refuse_unknown_progress
from hpo.show.json_lines import print_message
from hpo.study.files.folder import short_path
from hpo.study.train_once import check_tree, train_once


@dataclass(frozen=True)
class Trained(Fields):
    """The result of one training without a search.

    Attributes:
        folder: the folder with all files of the training.
        metrics: the metrics by name; empty if the training failed.
        seconds: the training time.
        error: the error of a failed training; else `null`.
    """

    folder: Path
    metrics: Mapping[str, float]
    seconds: float
    error: str | None = None

    def __str__(self) -> str:
        if self.error:
            return f"failed: {self.error}"
        lines = [f"{name} = {value:.6g}" for name, value in self.metrics.items()]
        return "\n".join([*lines, f"trained for {self.seconds:.1f} s; all files are in {short_path(self.folder)}"])

    @property
    def exit_code(self) -> int:
        """The exit code: 1 if the training failed, else 0."""
        return 1 if self.error else 0


def train_composed(
    overrides: Overrides = (),
    *,
    cfg: ConfigPrint | None = None,
    config_dir: ConfigFolder | None = None,
    config: ConfigFile | None = None,
    progress: Progress = "auto",
) -> Trained | Composed:
    """Train one configuration on the first fold of the split, without a search.

    Args:
        progress: auto = one line per point of the learning curve; json = JSON lines on standard error; none = only the
            result.

    Raises:
        hpo.HpoError: the configuration is not allowed; the message says what is allowed.

    Examples:
        hpo train
        hpo train model.num_layers=3 training.lr=0.001 training.seed=7
        hpo train --config runs/digits/best.yaml          train a study's winner again on the first fold
    """
    tree = compose_given("train", overrides, config_dir, config)
    if cfg:
        check_tree(tree)
        return Composed(tree)
    return _train(tree, progress)


def train(
    *overrides: str,
    config_dir: str | None = None,
    config_file: str | None = None,
    progress: Literal["auto", "json", "none"] | bool = "auto",
) -> dict[str, float]:
    """Train one configuration without a search, as `hpo train` does, and return its metrics.

    Args:
        overrides: as in `compose`, for example `hpo.train("model.num_layers=3", "training.lr=0.001")`.
        config_dir: as in `compose`.
        config_file: start from this complete configuration, such as a study's best.yaml.
        progress: how to print the learning curve: `"auto"` or `True` = lines, `"json"` = JSON lines on standard error,
            `"none"` or `False` = not at all.

    Raises:
        hpo.HpoError: the configuration is not allowed, or the training failed.
    """
    return train_tree(compose_given("train", overrides, config_dir, config_file), progress)


def train_tree(tree: Mapping[str, Any], progress: How, pickled: Path | None = None) -> dict[str, float]:
    """Train one configuration and return the metrics; raise StudyError if the training failed.

    `pickled` is the objective's pickled function, as in `train_once`.
    """
    trained = _train(tree, progress, pickled)
    if trained.error:
        raise StudyError(f"train: the training failed: {trained.error}")
    return dict(trained.metrics)


def _train(tree: Mapping[str, Any], progress: How, pickled: Path | None = None) -> Trained:
    refuse_unknown_progress(progress)
    printers = {"json": print_message, "none": lambda _: None, False: lambda _: None}
    folder, outcome = train_once(tree, printers.get(progress, print_point), pickled)
    return Trained(folder.absolute(), outcome.metrics, outcome.seconds, outcome.error)


def print_point(message: Mapping[str, Any]) -> None:
    """Print a point of the learning curve, or a warning."""
    if "point" not in message:
        print(f"warning: {message.get('warning')}", file=sys.stderr, flush=True)
        return
    point = message["point"]
    numbers = [f"{name} {value:.6g}" for name, value in point.items() if name not in ("epoch", "epochs")]
    epoch = f"epoch {point['epoch']}" if "epoch" in point else ""
    print(f"{epoch}{'/' + str(point['epochs']) if 'epochs' in point else ''}  {'  '.join(numbers)}", flush=True)
