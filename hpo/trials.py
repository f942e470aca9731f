"""Trial, task, outcome and history: the frozen values that travel between the rooms."""

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self

from hpo.space import Point, point_key

Direction = Literal["maximize", "minimize"]
State = Literal["running", "complete", "failed"]


@dataclass(frozen=True)
class Outcome:
    """What a task gives back.

    Attributes:
        metrics: numbers by name, the study's metric among them; empty when the task failed.
        curve: one dict a step of the learning curve, in order; each holds `epoch` or `step` and numbers.
        seconds: wall time of the task on its worker.
        error: None, or why it failed, as one line.
        attempt: 1 for the first try; more when workers died under it.
        started: seconds since the epoch at which the worker began (0 when it never did).
        worker: process id of the worker that ran it (0 when it never ran).
        details: the traceback of a failure; None otherwise.
    """

    metrics: Mapping[str, float] = field(default_factory=dict)
    curve: Sequence[Mapping[str, float]] = ()
    seconds: float = 0.0
    error: str | None = None
    attempt: int = 1
    started: float = 0.0
    worker: int = 0
    details: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-able dict that `from_dict` reads back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        return cls(**values)


@dataclass(frozen=True)
class Task:
    """The unit of work that is dispatched: one fold of one trial.

    Attributes:
        trial: number of the trial, from 0 in the order of proposal.
        fold: number of the fold, from 0.
        payload: the JSON-able dict that the worker gets; see `hpo.worker.run_task` for its keys.
    """

    trial: int
    fold: int
    payload: Mapping[str, Any]


@dataclass(frozen=True)
class Trial:
    """One point, evaluated.

    Attributes:
        number: from 0, in the order of proposal; never depends on the order of finishing.
        round: number of the round that proposed it, from 0.
        point: one value for every dimension that is active.
        outcomes: outcome by fold; all folds are there once the trial is finished.
        state: `running` until every fold has come back; `failed` when any fold failed.
        score: mean of the study's metric over the folds; None unless complete.
        loss: the score with its sign turned so that lower is better; infinite when failed.
    """

    number: int
    round: int
    point: Point
    outcomes: Mapping[int, Outcome] = field(default_factory=dict)
    state: State = "running"
    score: float | None = None
    loss: float = math.inf
    key: str = ""

    def __post_init__(self) -> None:
        if not self.key:
            object.__setattr__(self, "key", point_key(self.point))

    @property
    def error(self) -> str | None:
        """Why the trial failed: each error once, with the numbers of the folds that it befell."""
        folds: dict[str, list[str]] = {}
        for fold, outcome in sorted(self.outcomes.items()):
            if outcome.error:
                folds.setdefault(outcome.error, []).append(str(fold))
        return "; ".join(f"fold {', '.join(numbers)}: {error}" for error, numbers in folds.items()) or None

    @property
    def seconds(self) -> float:
        """Wall seconds of all its tasks together."""
        return math.fsum(outcome.seconds for outcome in self.outcomes.values())

    def values(self, metric: str) -> list[float]:
        """Return the metric of every fold that reported it, in the order of folds."""
        return [o.metrics[metric] for _, o in sorted(self.outcomes.items()) if metric in o.metrics]


def finished(trial: Trial, outcomes: Mapping[int, Outcome], metric: str, direction: Direction) -> Trial:
    """Return the trial with all its outcomes: complete with its score, or failed if any fold failed."""
    done = Trial(trial.number, trial.round, trial.point, dict(sorted(outcomes.items())), key=trial.key)
    if any(outcome.error for outcome in outcomes.values()):
        return _with_result(done, "failed", None, math.inf)
    values = done.values(metric)
    score = math.fsum(values) / len(values)
    return _with_result(done, "complete", score, -score if direction == "maximize" else score)


def _with_result(trial: Trial, state: State, score: float | None, loss: float) -> Trial:
    return Trial(
        trial.number,
        trial.round,
        trial.point,
        trial.outcomes,
        state=state,
        score=score,
        loss=loss,
        key=trial.key,
    )


class History(Sequence[Trial]):
    """Every trial of every earlier round, all finished, failures included, in the order of their numbers.

    Knows which points have been tried (`point in history`), so that a strategy never proposes one twice.
    """

    def __init__(self, trials: Iterable[Trial] = ()) -> None:
        self._trials = tuple(trials)
        self._keys = frozenset(trial.key for trial in self._trials)

    def __len__(self) -> int:
        return len(self._trials)

    def __getitem__(self, index: Any) -> Any:
        return self._trials[index]

    def __iter__(self) -> Iterator[Trial]:
        return iter(self._trials)

    def __contains__(self, point: object) -> bool:
        return isinstance(point, Mapping) and point_key(point) in self._keys

    @property
    def keys(self) -> frozenset[str]:
        """The keys of all points tried."""
        return self._keys

    def ranked(self) -> list[Trial]:
        """Return the trials from best to worst: failures last, ties to the earlier trial."""
        return sorted(self._trials, key=lambda trial: (trial.loss, trial.number))

    def best(self) -> Trial | None:
        """Return the best complete trial, the earlier one on ties, or None when there is none."""
        complete = [trial for trial in self._trials if trial.state == "complete"]
        return min(complete, key=lambda trial: (trial.loss, trial.number), default=None)


def training_seed(study_seed: int, key: str, fold: int, repeat: int = 0) -> int:
    """Return the seed of one training: a stable hash, so the same point always trains the same way.

    It does not depend on the trial's number, the round, the worker or the process. Bounds: 0 to 2**31 - 1,
    which every library takes.
    """
    text = f"{study_seed}|{key}|{fold}|{repeat}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big") % 2**31
