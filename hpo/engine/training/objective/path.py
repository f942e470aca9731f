"""The path of an objective: where it is found, and how it is called."""

from dataclasses import dataclass
from typing import Literal, Self, get_args

from hpo.engine.training.objective.kept_function import MODULE

Form = Literal["task", "config", "config, trial", "trial"]


@dataclass(frozen=True)
class ObjectivePath:
    """What the text of an objective says: `package.module:function`, and for plain functions what they take.

    Attributes:
        module: its module; `objective.pkl` for a function that was given from Python and is kept with its study.
        function: its name there.
        form: `f(task)`, as in `Objective`; or, written behind the name, `f(config)`, `f(config, trial)`, or
            `f(trial)` of Optuna's shape.
    """

    module: str
    function: str
    form: Form

    @classmethod
    def of(cls, text: str) -> Self:
        """Read a text that the configuration accepts."""
        module, _, call = text.partition(":")
        function, _, taken = call.partition("(")
        forms: dict[str, Form] = {f"{form})": form for form in get_args(Form)} | {"": "task"}
        return cls(module, function, forms[taken])

    @property
    def is_kept(self) -> bool:
        """Whether no module has the function."""
        return self.module == MODULE

    def __str__(self) -> str:
        return f"{self.module}:{self.function}{'' if self.form == 'task' else f'({self.form})'}"
