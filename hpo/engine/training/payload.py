"""The payload: everything that a worker gets to train one task, and nothing else of the study."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from hpo.config.sealing import values_of
from hpo.engine.trials.trial import Direction
from hpo.errors import ConfigError


@dataclass(frozen=True)
class Payload:
    """What one task trains; JSON-able.

    Attributes:
        objective: its path; see `ObjectivePath`.
        config: the objective's configuration with the trial's point written into it, sealed.
        metric, direction: the score's name, and which way is better.
        score: which reported value of it counts where the objective returns nothing.
        seed: of the training.
        threads: number of threads that it may use.
        processes: that train it together, each with so many threads.
        study, trial, fold, repeat: identify the task in messages.
        train, validation: indices of examples; None where the objective brings its own data. `validation` is empty in
            the final training, which has no validation part.
        test: indices of the test part, where a kept model is scored on it; else None.
        data_dir: folder of the objective's `prepare_data`, or None.
        amount: how far to train, counted from the start; None = to the end.
        trained: how far it is trained already.
        resume_dir: folder of the training's state, or None.
        before: `config` and `amount` of the training that this one continues, which is done first where its state is
            not there yet; None = none.
        checkpoint_dir: folder of the best model, or None.
        curves: of the final training, the learning curves of the trial's trainings, so that it can repeat what their
            evaluations decided; None in all others.
        limit_minutes: after how many the training has failed, at its next report; None = no limit.
        limits: scores by which a rule stops the training; see `Limits`. None = no rule.
        kept: the file of a function that was given from Python; None for one that is imported.
        code: a hash of each source file of the user's as the search began, by its path: what a worker imports must be
            the same; None where nothing is compared.
        secrets: values by name that open the config (see `sealing.py`); objectives see them only there.
    """

    objective: str
    config: Mapping[str, Any]
    metric: str
    direction: Direction = "maximize"
    score: Literal["best", "last"] = "best"
    seed: int = 0
    threads: int = 1
    processes: int = 1
    study: str = ""
    trial: int = 0
    fold: int = 0
    repeat: int = 0
    train: Sequence[int] | None = None
    validation: Sequence[int] | None = None
    test: Sequence[int] | None = None
    data_dir: str | None = None
    amount: int | None = None
    trained: int = 0
    resume_dir: str | None = None
    before: Mapping[str, Any] | None = None
    checkpoint_dir: str | None = None
    curves: Sequence[Sequence[Mapping[str, float]]] | None = None
    limit_minutes: float | None = None
    limits: Sequence[float | None] | None = None
    kept: str | None = None
    code: Mapping[str, str] | None = None
    secrets: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able dict that `from_dict` reads back."""
        return dict(vars(self))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        return cls(**values)

    def task(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the objective's argument: what is for it, the configuration opened, and `epochs` for `amount`."""
        task = self.to_dict() | {"config": config, "epochs": self.amount}
        for name in ("secrets", "before", "limits", "limit_minutes", "kept", "code", "score"):
            del task[name]
        for name in ("test", "curves"):
            if task[name] is None:
                del task[name]
        return task

    def known_secrets(self) -> Mapping[str, str]:
        """Return the secrets by name, those of the environment included, as far as they are set."""
        try:
            return values_of(self.config, self.secrets)
        except ConfigError:
            return self.secrets  # That one of them is not set is the task's failure.


@dataclass(frozen=True)
class Task:
    """The unit of work that is dispatched: one fold of one trial, with one seed.

    Attributes:
        trial: number of the trial, from 0 in the order of proposal.
        index: number of the task within the trial, from 0; see `TaskLayout`.
        payload: what the worker gets.
    """

    trial: int
    index: int
    payload: Payload
