"""Callbacks from Python: functions `f(study, trial)` that run when a trial ends on the study's clock."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpo.errors import ConfigError
from hpo.session.callbacks import Steering
from hpo.trials.trial import Trial

Callback = Callable[[Any, "EndedTrial"], Any]
"""A function `f(study, trial)`. The study has the methods `add`, `retry` and `stop`; see `SteeredStudy`."""


@dataclass(frozen=True)
class EndedTrial:
    """An ended trial, in the form that callbacks receive.

    Attributes:
        number: the trial's number, from 0, in the order of proposal.
        state: `complete`, `failed` or `stopped`.
        score: the value of the metric, or of the first metric if there are several; None = no score.
        scores: the values by name, for each metric and each name in `study.limits` and `study.measured`. If the trial
            is not complete, `scores` is empty.
        point: the values of the searched hyperparameters, by dotted key.
        config: the trial's complete configuration, with the names of environment variables instead of secrets.
        amount: how far the strategy trains the trial; None = fully.
        retry_of: the number of the failed trial that this trial retries; None = not a retry.
        error: the error of a failed trial; else None.
        seconds: the sum of the wall-clock seconds of the trial's trainings.
    """

    number: int
    state: str
    score: float | None
    scores: Mapping[str, float]
    point: Mapping[str, Any]
    config: Mapping[str, Any]
    amount: int | None
    retry_of: int | None
    error: str | None
    seconds: float


def given_callbacks(
    callbacks: Sequence[Callback], study_of: Callable[[Steering], Any]
) -> tuple[Callable[[Steering, Trial], None], ...]:
    """Convert callbacks `f(study, trial)` to the functions that a search calls.

    `study_of` returns the argument `study` of the callbacks. ConfigError if `callbacks` is not a list of functions.
    """
    if not isinstance(callbacks, list | tuple) or not all(map(callable, callbacks)):
        raise ConfigError(f"callbacks: must be a list of functions f(study, trial), given {callbacks!r:.200}")
    return tuple(_adapted(callback, study_of) for callback in callbacks)


def _adapted(callback: Callback, study_of: Callable[[Steering], Any]) -> Callable[[Steering, Trial], None]:
    def call(steering: Steering, trial: Trial) -> None:
        names = steering.study.goal.names if trial.state == "complete" else ()
        ended = EndedTrial(
            number=trial.number,
            state=trial.state,
            score=trial.score,
            scores={name: trial.mean(name) for name in names},
            point=dict(trial.point),
            config=steering.study.config.trial_config(trial.point),
            amount=trial.amount,
            retry_of=trial.retry_of,
            error=trial.error,
            seconds=trial.seconds,
        )
        callback(study_of(steering), ended)

    call.__name__ = getattr(callback, "__name__", type(callback).__name__)
    return call
