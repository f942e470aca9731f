"""Reads a registered model for `mlflow.pyfunc.load_model`.

A model in MLflow is a folder of data and the name of this module. The data are the files that the objective kept
(weights as safetensors, all else as JSON) and the objective's name; there is no code in it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hpo.config.documents import read_json
from hpo.workers.objective.objective import Objective
from hpo.workers.objective.resolution import resolve

# Names inside the folder.
CHECKPOINT, DESCRIPTION = "checkpoint", "model.json"


class ServedModel:
    """Predicts as `hpo predict` does."""

    def __init__(self, objective: Objective, checkpoint_dir: str, options: Mapping[str, Any]) -> None:
        self._objective = objective
        self._checkpoint_dir = checkpoint_dir
        self._defaults = {name: option["default"] for name, option in options.items()}

    def predict(self, model_input: Any, params: Mapping[str, Any] | None = None) -> list[str]:
        """Return one text per input; ValueError, in one line, for an input or an option that cannot be used.

        Args:
            model_input: texts, as a list or as the first column of a table; for models that read numbers, one row of
                numbers per input, as a list, an array or a table.
            params: options of the objective's `predict` that differ from their defaults.
        """
        chosen = {k: v for k, v in (params or {}).items() if k in self._defaults and v != self._defaults[k]}
        assert self._objective.predict is not None
        return self._objective.predict(self._checkpoint_dir, _inputs(model_input), chosen)


def _load_pyfunc(path: str) -> ServedModel:
    """Return the model in a folder; MLflow calls this function by its name."""
    described = read_json(Path(path) / DESCRIPTION)
    objective = resolve(described["objective"], str(Path.cwd()))
    return ServedModel(objective, str(Path(path) / CHECKPOINT), described["prediction"]["options"])


def _inputs(given: Any) -> Sequence[Any]:
    """Return the inputs as a list: texts, or rows of numbers as nested lists."""
    if isinstance(given, str):
        return [given]
    if hasattr(given, "columns"):
        first = given.iloc[:, 0]
        is_text = len(first) > 0 and isinstance(first.iloc[0], str)
        given = first if is_text else given.to_numpy()
    rows: Sequence[Any] = given.tolist() if hasattr(given, "tolist") else list(given)
    return rows
