"""An objective of Optuna's shape, `f(trial)`, in place of one that is given its configuration."""

from collections.abc import Callable, Sequence
from typing import Any

from hpo.config.keys import flatten
from hpo.engine.training.objective.plain_function import RunningTrial, TaskDict, awaited
from hpo.engine.trials import reported


class SuggestingTrial(RunningTrial):
    """A trial whose `suggest_...` return the values of the point, whatever order they are asked in.

    Attributes:
        params: the values by name.
        user_attrs: what `set_user_attr` was given; numbers are results beside the score.
    """

    def __init__(self, task: TaskDict) -> None:
        super().__init__(task)
        self.params: dict[str, Any] = flatten(task["config"])
        self.user_attrs: dict[str, Any] = {}

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        """Return the point's value; ValueError where it has none, or none in this range."""
        del step, log  # They have decided the point.
        return float(self._within(name, low, high))

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        """Return the point's value; ValueError as above."""
        del step, log
        return int(self._within(name, low, high))

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        """Return the point's value; ValueError as above."""
        value = self._value(name)
        if not any(choice == value and type(choice) is type(value) for choice in choices):
            raise ValueError(f"'{name}' is {value!r} in the space, and none of the suggested {list(choices)!r}")
        return value

    def suggest_uniform(self, name: str, low: float, high: float) -> float:
        """Return `suggest_float(name, low, high)`."""
        return self.suggest_float(name, low, high)

    def suggest_loguniform(self, name: str, low: float, high: float) -> float:
        """Return `suggest_float(name, low, high, log=True)`."""
        return self.suggest_float(name, low, high)

    def should_prune(self) -> bool:
        """Return False: where a rule stops a training, `report` does not return."""
        return False

    def set_user_attr(self, key: str, value: Any) -> None:
        """Keep a number as a result beside the score; anything else is not kept, with a warning."""
        self.user_attrs[key] = value
        if reported.number(value) is None:
            self.warn(f"set_user_attr: '{key}' is not kept: no finite number")

    def results(self, returned: Any) -> Any:
        """Return what the function returned, with the numbers of `set_user_attr`."""
        numbers = reported.numbers(self.user_attrs)
        if reported.number(returned) is None or not numbers:
            return returned
        return {**numbers, self._metric: returned}

    def _within(self, name: str, low: float, high: float) -> Any:
        value = self._value(name)
        if reported.number(value) is None or not low <= value <= high:
            raise ValueError(f"'{name}' is {value!r} in the space, and not between the suggested {low!r} and {high!r}")
        return value

    def _value(self, name: str) -> Any:
        if name not in self.params:
            known = ", ".join(self.params)
            raise ValueError(f"'{name}' was suggested by the trial alone, and is not in its space, which has {known}")
        return self.params[name]


def suggested(function: Callable[..., Any]) -> Callable[[TaskDict], Any]:
    """Return an objective of Optuna's shape as a function that takes a task."""

    def run_fold(task: TaskDict) -> Any:
        trial = SuggestingTrial(task)
        return trial.run(lambda: trial.results(awaited(function(trial))))

    return run_fold
