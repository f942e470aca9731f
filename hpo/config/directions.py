"""The directions of metrics with well-known names."""

import re
from collections.abc import Mapping
from typing import Any

from hpo.config.goals import Direction
from hpo.errors import ConfigError, nearest

# The metrics of the toolkit's trainer (`DIRECTIONS` in model/tasks/directions.py), and `score` and `error`.
_KNOWN: dict[str, Direction] = {
    **dict.fromkeys(
        ("score", "accuracy", "macro_f1", "exact_match", "bleu", "chrf", "examples_per_second"), "maximize"
    ),
    **dict.fromkeys(
        ("loss", "error", "perplexity", "bits_per_character", "bits_per_byte", "token_error_rate"), "minimize"
    ),
    **dict.fromkeys(("parameters", "cost_per_example", "model_bytes"), "minimize"),
}
_SPLIT = re.compile(r"^(val|eval|test|dev)[_/]")


def known_direction(metric: str) -> Direction | None:
    """Return the direction of a metric with a well-known name; None = the name is not known.

    Letter case and a prefix for the split, such as `val_` or `test/`, are ignored. The rest must be the whole name of a
    known metric. For example, `log_loss_gain` is not known, although the name contains `loss`.
    """
    name = metric.lower()
    return _KNOWN.get(name) or _KNOWN.get(_SPLIT.sub("", name, count=1))


def refuse_missing_direction(study: Mapping[str, Any]) -> None:
    """Raise ConfigError if the section `study` names a single metric and gives no direction."""
    metric = study.get("metric")
    if isinstance(metric, str) and study.get("direction") is None and study.get("metrics") is None:
        raise ConfigError(
            f"study.direction: must be given, because study.metric={metric} is not a known "
            f"metric{nearest(metric, list(_KNOWN))}; add study.direction=minimize or study.direction=maximize"
        )
