"""The notes in a study's record: each under its key, with its type."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpo.config.study_config import StudyConfig
from hpo.engine.course.course import EndedBy
from hpo.engine.loop import ENDED
from hpo.engine.record.record import Record
from hpo.engine.training.payload import Task
from hpo.engine.trials.trial import Outcome, Trial
from hpo.study.basis.changes import AllowedChange, Basis
from hpo.study.basis.source_code import CodeHashes
from hpo.study.imports import from_notes, to_notes


@dataclass(frozen=True)
class FinalModel:
    """The trained model of the winner.

    Attributes:
        trial: number of the winner.
        checkpoint_dir: folder of its weights, relative to the study's folder.
        epochs: how far it was trained; None where the best checkpoint of a hold-out was kept.
        seconds: wall time of the final training; 0 where there was none.
    """

    trial: int
    checkpoint_dir: str
    epochs: int | None
    seconds: float


@dataclass(frozen=True)
class FullOutcome:
    """What a training that takes a trial to its end has come to.

    Attributes:
        trained: how far the trial was trained where it began; 0 = it began anew.
        outcome: its own.
    """

    trained: int
    outcome: Outcome


class Notes:
    """The notes of one study; reading returns the current content of the record."""

    def __init__(self, record: Record) -> None:
        self._record = record

    @property
    def study_id(self) -> str | None:
        """The unique id of the study; a copy has another."""
        return self._text("id")

    @property
    def imports(self) -> list[Trial]:
        """The trials that were imported when the study was created."""
        return from_notes(self._record.noted("imports"))

    def write_imports(self, trials: Sequence[Trial]) -> None:
        """Write the imported trials."""
        self._record.note("imports", to_notes(trials))

    def basis(self, frozen: StudyConfig) -> Basis:
        """Return the basis on which the study was started, or last allowed to continue.

        A study of an early version has only `frozen`, the configuration in its folder.
        """
        code = self._record.noted("code")
        config = self._record.noted("config") or frozen.to_dict()
        return Basis(config, self._record.noted("data"), None if code is None else CodeHashes.from_note(code))

    def write_basis(self, basis: Basis) -> None:
        """Write the basis."""
        self._record.note("config", basis.config)
        self._record.note("data", basis.data)
        self._record.note("code", None if basis.code is None else vars(basis.code))

    @property
    def allowed_changes(self) -> list[AllowedChange]:
        """The changes with which the study was continued, the earliest first."""
        return [AllowedChange.from_dict(change) for change in self._record.noted("allowed_changes") or []]

    def write_allowed(self, change: AllowedChange) -> None:
        """Add an allowed change."""
        self._record.note("allowed_changes", [vars(known) for known in (*self.allowed_changes, change)])

    @property
    def final_model(self) -> FinalModel | None:
        """The recorded final model."""
        noted = self._record.noted("final")
        return FinalModel(**noted) if noted else None

    def write_final_model(self, model: FinalModel) -> None:
        """Write the final model."""
        self._record.note("final", vars(model))

    @property
    def gpu_share(self) -> float | None:
        """The GPUs that each worker had when the search last went on; None for a study of before version 0.2.0."""
        share: float | None = self._record.noted("gpu_share")
        return share

    def write_gpu_share(self, share: float) -> None:
        """Write the GPUs of each worker, where they are others than on record."""
        if share != self.gpu_share:
            self._record.note("gpu_share", share)

    @property
    def ended_by(self) -> EndedBy | None:
        """The budget that ended the search; None before its end, and for studies of before version 0.2.0."""
        ended = self._record.noted(ENDED)
        return ended["by"] if ended else None

    def finalist_outcome(self, task: Task) -> Outcome | None:
        """Return the outcome of a finalist's further training; None while it is missing."""
        noted = self._record.noted(_finalist(task))
        return None if noted is None else Outcome.from_dict(noted)

    def write_finalist_outcome(self, task: Task, outcome: Outcome) -> None:
        """Write the outcome of a finalist's further training."""
        self._record.note(_finalist(task), outcome.to_dict())

    @property
    def full_outcomes(self) -> dict[tuple[int, int], FullOutcome]:
        """What the trainings after the search have come to, by the number of the trial and the task's index."""
        noted = self._record.noted("full") or []
        return {
            (each["trial"], each["index"]): FullOutcome(each["trained"], Outcome.from_dict(each["outcome"]))
            for each in noted
        }

    def write_full_outcome(self, task: Task, outcome: Outcome) -> None:
        """Add the outcome of a task that takes a trial to its end."""
        place = {"trial": task.trial, "index": task.index, "trained": task.payload.trained}
        self._record.note("full", [*(self._record.noted("full") or []), place | {"outcome": outcome.to_dict()}])

    @property
    def data_hashes(self) -> Mapping[str, str] | None:
        """The hash of each file in the workers' copy of the data; None before it is written."""
        hashes: Mapping[str, str] | None = self._record.noted("prepared")
        return hashes

    def write_data_hashes(self, hashes: Mapping[str, str]) -> None:
        """Write the hashes of the workers' copy."""
        self._record.note("prepared", dict(hashes))

    def _text(self, key: str) -> str | None:
        value: Any = self._record.noted(key)
        return value if isinstance(value, str) else None


def _finalist(task: Task) -> str:
    return f"finalist_{task.trial}_{task.index}"
