"""Reads a registered model for `mlflow.pyfunc.load_model`.

A model in MLflow consists of a folder of data, and the name of this module. The folder has the files that the objective
saved, and a description with the objective's name. The toolkit adds no code to the folder.
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
    """A registered model, which predicts as `hpo predict` does."""

    def __init__(self, objective: Objective, checkpoint_dir: str, options: Mapping[str, Any]) -> None:
        self._objective = objective
        self._checkpoint_dir = checkpoint_dir
        self._defaults = {name: option["default"] for name, option in options.items()}

    def predict(self, model_input: Any, params: Mapping[str, Any] | None = None) -> list[str]:
        """Return one text per input; raise ValueError with one line for an invalid input or option.

        Args:
            model_input: texts, as a list or as the first column of a table. For models that read numbers: one row of
                numbers per input, as a list, an array or a table.
            params: options of the objective's `predict` that differ from their defaults.
        """
        chosen = {k: v for k, v in (params or {}).items() if k in self._defaults and v != self._defaults[k]}
        assert self._objective.predict is not None
        return self._objective.predict(self._checkpoint_dir, _inputs(model_input), chosen)


def _load_pyfunc(path: str) -> ServedModel:
    """Return the model in a folder; MLflow calls this function by its name."""
    description = read_json(Path(path) / DESCRIPTION)
    objective = resolve(description["objective"], str(Path.cwd()))
    return ServedModel(objective, str(Path(path) / CHECKPOINT), description["prediction"]["options"])


def _inputs(model_input: Any) -> Sequence[Any]:
    """Return the inputs as a list: texts, or rows of numbers as nested lists."""
    if isinstance(model_input, str):
        return [model_input]
    if hasattr(model_input, "columns"):
        first = model_input.iloc[:, 0]
        is_text = len(first) > 0 and isinstance(first.iloc[0], str)
        model_input = first if is_text else model_input.to_numpy()
    rows: Sequence[Any] = model_input.tolist() if hasattr(model_input, "tolist") else list(model_input)
    return rows
