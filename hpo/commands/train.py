"""`train`, one training without a search; and a trained model in use: the winner of a study, or any checkpoint."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from hpo.commands.arguments import ConfigFile, ConfigFolder, ConfigPrint, Overrides, Progress
from hpo.commands.given.settings import Composed, compose_given
from hpo.commands.resume import read_results
from hpo.config.documents import read_yaml
from hpo.errors import DataError, StudyError
from hpo.files import write_atomically
from hpo.show.display import How, refuse_unknown_progress
from hpo.show.json_lines import tell_message
from hpo.study.files.folder import find_study, short_path
from hpo.study.preparing.preparation import known_study
from hpo.study.train_once import check_tree, train_once
from hpo.workers.objective.objective import Objective
from hpo.workers.objective.resolution import resolve

# Assumed, because a folder of weights does not name its objective.
_OBJECTIVE_OF_CHECKPOINTS = "model.objective:run_fold"


@dataclass(frozen=True)
class Trained:
    """One training without a search.

    Attributes:
        folder: where everything is.
        metrics: by name; empty where it failed.
        seconds: of training.
        error: why it failed; else `null`.
    """

    folder: Path
    metrics: Mapping[str, float]
    seconds: float
    error: str | None = None

    def __str__(self) -> str:
        if self.error:
            return f"failed: {self.error}"
        lines = [f"{name} = {value:.6g}" for name, value in self.metrics.items()]
        return "\n".join([*lines, f"{self.seconds:.1f} s; everything is in {short_path(self.folder)}"])

    @property
    def exit_code(self) -> int:
        """1 where it failed."""
        return 1 if self.error else 0

    def to_dict(self) -> dict[str, Any]:
        """Return its fields."""
        return asdict(self)


def train_composed(
    overrides: Overrides = (),
    *,
    cfg: ConfigPrint | None = None,
    config_dir: ConfigFolder | None = None,
    config: ConfigFile | None = None,
    progress: Progress = "auto",
) -> Trained | Composed:
    """Train one configuration on the first fold of the split, no search.

    Raises:
        hpo.HpoError: it cannot be trained; one line that says what is allowed.

    Examples:
        hpo train
        hpo train model.num_layers=3 training.lr=0.001 training.seed=7
        hpo train --config runs/digits/best.yaml          the winner of a study, as its first fold was trained
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
        overrides: as of `compose`: `hpo.train("model.num_layers=3", "training.lr=0.001")`.
        config_dir: as of `compose`.
        config_file: start from this one, such as a study's best.yaml.
        progress: how the learning curve is shown: `"auto"` = lines, `"json"` = JSON lines on standard error, `"none"`
            or `False` = not.

    Raises:
        hpo.HpoError: it cannot be trained, or the training failed.
    """
    return train_tree(compose_given("train", overrides, config_dir, config_file), progress)


def train_tree(tree: Mapping[str, Any], progress: How, kept: Path | None = None) -> dict[str, float]:
    """Train one configuration and return its metrics; `kept` as of `train_once`, StudyError where it failed."""
    trained = _train(tree, progress, kept)
    if trained.error:
        raise StudyError(f"train: failed: {trained.error}")
    return dict(trained.metrics)


def _train(tree: Mapping[str, Any], progress: How, kept: Path | None = None) -> Trained:
    refuse_unknown_progress(progress)
    shows = {"json": tell_message, "none": lambda _: None, False: lambda _: None}
    folder, outcome = train_once(tree, shows.get(progress, print_point), kept)
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


@dataclass(frozen=True)
class TrainedModel:
    """A checkpoint, and the objective that can read it."""

    objective: Objective
    checkpoint_dir: str

    def predict(self, inputs: Sequence[str], options: Mapping[str, Any]) -> list[str]:
        """Return one text per input; StudyError where the objective cannot, DataError where something given cannot."""
        results: list[str] = self._ask("predict", inputs, options)
        return results

    def attention(self, text: str, target: str | None) -> list[Mapping[str, Any]]:
        """Return the maps of every layer; raises as `predict` does."""
        maps: list[Mapping[str, Any]] = self._ask("attention", text, target)["maps"]
        return maps

    def _ask(self, name: str, *arguments: Any) -> Any:
        companion = getattr(self.objective, name)
        if companion is None:
            see = "see docs/extending/write_an_objective.md for what it must return"
            raise StudyError(f"{name}: {self.objective.owner} has no function '{name}'; {see}")
        try:
            return companion(self.checkpoint_dir, *arguments)
        except (ValueError, OSError) as error:
            raise DataError(str(error)) from error


def find_model(name: str) -> TrainedModel:
    """Return the final model of a study, the model of `hpo train`, or the checkpoint in a folder."""
    trained = Path(name) / "checkpoint"
    # `Path.is_dir` raises for a name that no file can have.
    if os.path.isdir(trained):  # noqa: PTH112
        # A folder of `hpo train`: one training, with the configuration that names its objective.
        objective = read_yaml(Path(name) / "config.yaml", "model").get("objective")
        if not isinstance(objective, str):
            raise StudyError(f"model: {name}/config.yaml names no objective; restore what `hpo train` wrote")
        return TrainedModel(resolve(objective, str(Path.cwd())), str(trained.absolute()))
    try:
        find_study(name)
    except StudyError as error:
        if os.path.isdir(name):  # noqa: PTH112
            return TrainedModel(resolve(_OBJECTIVE_OF_CHECKPOINTS), name)
        known = str(error).partition("; ")[2]
        raise StudyError(f"model: '{name}' is neither a study nor a checkpoint folder; {known}") from error
    study = known_study(name)
    with read_results(study) as (_, verdict):
        model = verdict.model
    if not study.keeps_models:
        raise StudyError(f"model: study '{name}' keeps no models: {study.config.objective} has no run_test beside it")
    if model is None:
        lacks = "has no final model, or another than its report knows"
        raise StudyError(f"model: study '{name}' {lacks}; `hpo resume {name}` trains it")
    return TrainedModel(study.objective, str(study.folder.inside(model.checkpoint_dir)))


def draw_attention(model: str, text: str, target: str | None, output: Path | None) -> Sequence[Mapping[str, Any]]:
    """Return the maps of attention, and write a picture of them; None = write nothing."""
    from hpo.report.pages.attention import attention_html, write_attention_png

    if output is not None:
        refuse_bad_picture(output)
    maps = find_model(model).attention(text, target)
    if output is not None:
        with _writing(output):
            if output.suffix.lower() == ".html":
                write_atomically(output, attention_html(maps, text))
            else:
                write_attention_png(output, maps)
    return maps


def refuse_bad_picture(path: Path) -> None:
    """Raise DataError if the file cannot be written, or is of no kind that a picture can be."""
    if path.suffix.lower() not in (".png", ".html"):
        raise DataError(f"output: must end in .png or .html, given '{path}'")
    refuse_bad_output(path)


def refuse_bad_output(path: Path) -> None:
    """Raise DataError if the file cannot be written, before anything is computed for it."""
    if path.is_dir():
        raise DataError(f"output: '{path}' is a folder; give a file")
    if path.exists() and not path.is_file():
        # The atomic write would replace it by a regular file.
        raise DataError(f"output: '{path}' is a device or a pipe; give a file, or leave it out")
    if not path.parent.is_dir():
        raise DataError(f"output: there is no folder '{path.parent}'; make it, or give another file")


def write_output(path: Path, content: str | bytes) -> None:
    """Write the file whole or not at all; DataError if it cannot be written."""
    with _writing(path):
        write_atomically(path, content)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(f"output: {path}: {error.strerror}") from error
