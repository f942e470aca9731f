"""`hpo.train`: one configuration is trained, without a search."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hpo.errors import StudyError
from hpo.study.train_once import train_once


def train(
    *overrides: str, config_dir: str | None = None, config_file: str | None = None, progress: bool = True
) -> dict[str, float]:
    """Train one configuration without a search, as `hpo train` does, and return its metrics.

    Args:
        overrides: as of `compose`: `hpo.train("model.num_layers=3", "training.lr=0.001")`.
        config_dir: as of `compose`.
        config_file: start from this one, such as a study's best.yaml.
        progress: whether the learning curve is printed.

    Raises:
        hpo.HpoError: it cannot be trained, or the training failed.
    """
    from hpo.config.composing.compose import compose_config

    return train_tree(compose_config("train", list(overrides), config_dir, config_file), progress)


def train_tree(tree: Mapping[str, Any], progress: bool, kept: Path | None = None) -> dict[str, float]:
    """Train one configuration and return its metrics; arguments as of `train_once`, StudyError where it failed."""
    _, outcome = train_once(tree, print_point if progress else lambda _: None, kept)
    if outcome.error:
        raise StudyError(f"train: failed: {outcome.error}")
    return dict(outcome.metrics)


def print_point(message: Mapping[str, Any]) -> None:
    """Print a point of the learning curve, or a warning."""
    if "point" not in message:
        print(f"warning: {message.get('warning')}", file=sys.stderr, flush=True)
        return
    point = message["point"]
    numbers = [f"{name} {value:.6g}" for name, value in point.items() if name not in ("epoch", "epochs")]
    epoch = f"epoch {point['epoch']}" if "epoch" in point else ""
    print(f"{epoch}{'/' + str(point['epochs']) if 'epochs' in point else ''}  {'  '.join(numbers)}", flush=True)
