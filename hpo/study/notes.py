"""What a study's record holds beside its trials: each note under its key, with its type."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpo.config.study_config import StudyConfig
from hpo.engine.record.record import Record
from hpo.engine.training.payload import Task
from hpo.engine.trials.trial import Outcome, Trial
from hpo.study.basis.changes import AllowedChange, Basis
from hpo.study.basis.source_code import Code
from hpo.study.imports import from_notes, to_notes


@dataclass(frozen=True)
class FinalModel:
    """The trained model of the winner.

    Attributes:
        trial: number of the winner.
        checkpoint_dir: where its weights are, relative to the study's folder.
        epochs: how far it was trained; None where the best checkpoint of a hold-out was kept.
        seconds: wall time of the final training; 0 where there was none.
    """

    trial: int
    checkpoint_dir: str
    epochs: int | None
    seconds: float


class Notes:
    """The notes of one study; what is read is what the record holds now."""

    def __init__(self, record: Record) -> None:
        self._record = record

    @property
    def study_id(self) -> str | None:
        """The id of the study, which no other has, a copy of it neither."""
        return self._text("id")

    @property
    def imports(self) -> list[Trial]:
        """The trials that were imported when the study was created, whatever became of where they came from."""
        return from_notes(self._record.noted("imports"))

    def write_imports(self, trials: Sequence[Trial]) -> None:
        """Write them down."""
        self._record.note("imports", to_notes(trials))

    def basis(self, frozen: StudyConfig) -> Basis:
        """Return what the study was started on, or was last allowed to go on with.

        Args:
            frozen: the configuration in its folder, which is all that a study of an early version has.
        """
        code = self._record.noted("code")
        config = self._record.noted("config") or frozen.to_dict()
        return Basis(config, self._record.noted("data"), None if code is None else Code.from_note(code))

    def write_basis(self, basis: Basis) -> None:
        """Write it down."""
        self._record.note("config", basis.config)
        self._record.note("data", basis.data)
        self._record.note("code", None if basis.code is None else vars(basis.code))

    @property
    def allowed_changes(self) -> list[AllowedChange]:
        """What had changed when the study went on all the same, the earliest first."""
        return [AllowedChange.from_dict(change) for change in self._record.noted("allowed_changes") or []]

    def write_allowed(self, change: AllowedChange) -> None:
        """Write down a further change."""
        self._record.note("allowed_changes", [vars(known) for known in (*self.allowed_changes, change)])

    @property
    def final_model(self) -> FinalModel | None:
        """The final model that the record knows of."""
        noted = self._record.noted("final")
        return FinalModel(**noted) if noted else None

    def write_final_model(self, model: FinalModel) -> None:
        """Write it down."""
        self._record.note("final", vars(model))

    def finalist_outcome(self, task: Task) -> Outcome | None:
        """Return what the further training of a finalist came to; None while it is missing."""
        noted = self._record.noted(_finalist(task))
        return None if noted is None else Outcome.from_dict(noted)

    def write_finalist_outcome(self, task: Task, outcome: Outcome) -> None:
        """Write it down."""
        self._record.note(_finalist(task), outcome.to_dict())

    @property
    def data_hashes(self) -> Mapping[str, str] | None:
        """The hash of each file of the workers' copy of the data; None before it is written."""
        hashes: Mapping[str, str] | None = self._record.noted("prepared")
        return hashes

    def write_data_hashes(self, hashes: Mapping[str, str]) -> None:
        """Write them down."""
        self._record.note("prepared", dict(hashes))

    def _text(self, key: str) -> str | None:
        value: Any = self._record.noted(key)
        return value if isinstance(value, str) else None


def _finalist(task: Task) -> str:
    return f"finalist_{task.trial}_{task.index}"
