"""The payload: everything that a worker gets to train one task, and nothing else of the study."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hpo.config.sealing import values_of
from hpo.errors import ConfigError
from hpo.trials.trial import Direction
from hpo.workers.training.journal import state_of

# What an objective is not told.
_NOT_TOLD = {"secrets", "before", "earlier", "limits", "limits_after", "limit_minutes", "kept", "code"}


@dataclass(frozen=True)
class Payload:
    """What one task trains; JSON-able."""

    objective: str  # its path; see `ObjectivePath`
    config: Mapping[str, Any]  # the objective's configuration with the trial's point written into it, sealed
    metric: str  # the score's name; with several metrics that of the leading one
    direction: Direction = "maximize"  # which way it is better
    score: Literal["best", "last"] = "best"  # which reported value of it counts where the objective returns nothing
    seed: int = 0
    threads: int = 1
    processes: int = 1  # that train it together, each with so many threads
    # These four identify the task in messages.
    study: str = ""
    trial: int = 0
    fold: int = 0
    repeat: int = 0
    # Indices of examples; None where the objective brings its own data. `validation` is empty in the final training,
    # which has no validation part.
    train: Sequence[int] | None = None
    validation: Sequence[int] | None = None
    test: Sequence[int] | None = None  # indices of the test part, where a kept model is scored on it; else None
    data_dir: str | None = None  # folder of the objective's `prepare_data`, or None
    amount: int | None = None  # how far to train, counted from the start; None = to the end
    max_amount: int | None = None  # how far the search trains at most; None where all trainings are full ones
    trained: int = 0  # how far it is trained already
    resume_dir: str | None = None  # folder of the training's state and its journal (see there), or None
    # The points of the trainings that this one continues, as the record has them.
    earlier: Sequence[Mapping[str, Any]] = ()
    # `config` and `amount` of the training that this one continues, which is done first where its state is not there
    # yet; None = none.
    before: Mapping[str, Any] | None = None
    checkpoint_dir: str | None = None  # folder of the best model, or None
    # Of the final training, the learning curves of the trial's trainings, so that it can repeat what their evaluations
    # decided; None in all others.
    curves: Sequence[Sequence[Mapping[str, float]]] | None = None
    limit_minutes: float | None = None  # after how many the training has failed, at its next report; None = no limit
    # By place on the curve, the score by which a rule stops the training, after so many points; see `Limits`.
    limits: Sequence[tuple[float, float]] = ()
    limits_after: int = 1
    # With several metrics, or limits: the names in their order, and what else must be returned because it has a limit.
    metrics: Sequence[str] = ()
    limited: Sequence[str] = ()
    kept: str | None = None  # the file of a function that was given from Python; None for one that is imported
    # A hash of each source file of the user's as the search began, by its path: what a worker imports must be the same;
    # None where nothing is compared.
    code: Mapping[str, str] | None = None
    # Values by name that open the config (see `sealing.py`); objectives see them only there.
    secrets: Mapping[str, str] = field(default_factory=dict)

    def task(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the objective's argument: what is for it, and the configuration opened."""
        if_any = ("test", "curves", "metrics", "limited")
        absent = _NOT_TOLD | {name for name in if_any if getattr(self, name) in (None, ())}
        task = {name: value for name, value in vars(self).items() if name not in absent}
        return task | {"config": config, "resume_dir": None if self.resume_dir is None else state_of(self.resume_dir)}

    def known_secrets(self) -> Mapping[str, str]:
        """Return the secrets by name, those of the environment included, as far as they are set."""
        try:
            return values_of(self.config, self.secrets)
        except ConfigError:
            return self.secrets  # That one of them is not set is the task's failure.


@dataclass(frozen=True)
class Task:
    """The unit of work that is dispatched: one fold of one trial, with one seed."""

    trial: int  # its number, from 0 in the order of proposal
    index: int  # within the trial, from 0; see `TaskLayout`
    payload: Payload
