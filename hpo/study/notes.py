"""The notes in a study's record: typed values that are stored by key, such as the study's id and its final model."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hpo.study.basis.changes import AllowedChange, Basis
from hpo.study.basis.source_code import Code
from hpo.study.files.imports import BEFORE
from hpo.trials.record.record import FIRST, FORM, LAST, Note, Record, Rows
from hpo.trials.space.dimensions import as_values
from hpo.trials.trial import Outcome, Trial
from hpo.workers.training.tasks import Task


@dataclass(frozen=True)
class FinalModel:
    """The winner's model.

    Attributes:
        trial: the winner's number.
        checkpoint_dir: the model's folder, relative to the study's folder.
        epochs: for how many epochs the model was trained on the examples of all folds. None with a hold-out split, or
            if the trainings on single folds returned no best epoch.
        seconds: the duration of the model's own training; 0 if an earlier training of the winner wrote the model.
    """

    trial: int
    checkpoint_dir: str
    epochs: int | None
    seconds: float


@dataclass(frozen=True)
class ChangedChoice:
    """A change of `study.choose` or `study.limits` after the search began.

    Attributes:
        key: `study.choose` or `study.limits`.
        time: when the key was changed, in ISO 8601.
        before, after: the key's values before and after the change.
        trials: how many trials had ended at the time of the change.
        is_test_open: whether the study's test log had an evaluation at the time of the change.
    """

    key: str
    time: str
    before: Any
    after: Any
    trials: int
    is_test_open: bool


@dataclass(frozen=True)
class FullOutcome:
    """The outcome of one task in the full training of a trial; this training followed the search.

    The full training continued from the amount `trained`; 0 = the full training started anew.
    """

    trained: int
    outcome: Outcome


def imports_of(notes: list[Mapping[str, Any]] | None) -> list[Trial]:
    """Return the imported trials from their notes; the trials have negative numbers."""
    trials = [_import_of(note) for note in notes or ()]
    return [replace(trial, number=place - len(trials)) for place, trial in enumerate(trials)]


def _import_of(note: Mapping[str, Any]) -> Trial:
    loss = math.inf if note["loss"] is None else note["loss"]
    trial = Trial(0, BEFORE, as_values(note["point"]), state=note["state"], score=note["score"], loss=loss)
    if "values" not in note:
        return trial
    outcomes, others = {0: Outcome(note["values"])}, tuple(note["other_losses"])
    return replace(trial, outcomes=outcomes, other_losses=others, excess=note["excess"])


def _note_of_import(trial: Trial) -> dict[str, Any]:
    loss = trial.loss if math.isfinite(trial.loss) else None
    note: dict[str, Any] = {"point": dict(trial.point), "state": trial.state, "score": trial.score, "loss": loss}
    # Trials of a search by one metric without limits have no outcomes.
    for outcome in trial.outcomes.values():
        note |= {"values": outcome.metrics, "other_losses": list(trial.other_losses), "excess": trial.excess}
    return note


class Notes:
    """The notes on a study as a whole, in the study's record; the notes on single trials and tasks are in `Record`.

    Attributes:
        format: the record's format number; see `hpo.study.upgrade`.
        study_id: the study's unique id; a copy of the study gets a new id.
        user: the user who started the study, or made the copy; None if the machine has no name for its user.
        imports: the imported trials; see `imports_of`.
        imported: the counts of trials from each imported table; see `Imports.counts`. None without imports.
        allowed_changes: the changes of the basis that a user allowed, the earliest first.
        changed_choices: the changes of `study.choose` and `study.limits`, the earliest first.
        final_model: the last noted model of a winner; None before a model is noted.
        gpu_share: the number of GPUs per worker when the search last began or continued; None before workers started.
        data_hashes: the hash of each file in the workers' copy of the data; None before the copy is written.
        config, data, code: the parts of `basis`.
    """

    format = Note[int](FORM)
    study_id = Note[str | None](LAST, lambda noted: noted if isinstance(noted, str) else None)
    user = Note[str | None]("user")
    imports = Note[Sequence[Trial]](FIRST, imports_of, lambda trials: [*map(_note_of_import, trials)])
    imported = Note[Sequence[Mapping[str, Any]] | None]("imported")
    allowed_changes = Note[list[AllowedChange]](
        "allowed_changes",
        lambda noted: [AllowedChange(**change) for change in noted or ()],
        lambda changes: [*map(vars, changes)],
    )
    changed_choices = Note[list[ChangedChoice]](
        "changed_choices",
        lambda noted: [ChangedChoice(**each) for each in noted or ()],
        lambda changes: [*map(vars, changes)],
    )
    final_model = Note[FinalModel | None]("final", lambda noted: FinalModel(**noted) if noted else None, vars)
    gpu_share = Note[float | None]("gpu_share")
    data_hashes = Note[Mapping[str, str] | None]("prepared")
    config = Note[Mapping[str, Any]]("config")
    data = Note[Mapping[str, Any] | None]("data")
    code = Note[Code]("code", lambda noted: Code(**noted), vars)
    _full = Note[list[dict[str, Any]]]("full", lambda noted: noted or [])

    def __init__(self, record: Record | Rows) -> None:
        self._record = record

    def read_note(self, key: str) -> Any:
        """Return the JSON value of a note; None if the note is missing."""
        return self._record.read_note(key)

    def note(self, key: str, value: Any) -> None:
        """Write a note with a JSON value."""
        self._record.note(key, value)

    @property
    def basis(self) -> Basis:
        """The study's basis at the time when the study was started or last continued."""
        return Basis(self.config, self.data, self.code)

    def write_basis(self, basis: Basis) -> None:
        """Write the basis; `basis.code` must not be None."""
        assert basis.code is not None
        self.config, self.data, self.code = basis.config, basis.data, basis.code

    def finalist_outcome(self, trial: int, index: int) -> Outcome | None:
        """Return the outcome of a finalist's task on a fresh seed; None if the task has no outcome yet."""
        noted = self._record.read_note(_finalist(trial, index))
        return None if noted is None else Outcome(**noted)

    def write_finalist_outcome(self, trial: int, index: int, outcome: Outcome) -> None:
        """Write the outcome of a finalist's task on a fresh seed."""
        self._record.note(_finalist(trial, index), outcome.to_dict())

    @property
    def full_outcomes(self) -> Mapping[int, dict[int, FullOutcome]]:
        """The outcomes of the full trainings that followed the search, by trial number and task index."""
        outcomes = defaultdict[int, dict[int, FullOutcome]](dict)
        for each in self._full:
            full = FullOutcome(each["trained"], Outcome(**each["outcome"]))
            outcomes[each["trial"]][each["index"]] = full
        return outcomes

    def write_full_outcome(self, task: Task, outcome: Outcome) -> None:
        """Add the outcome of a task of a full training; full trainings follow the search."""
        place = {"trial": task.trial, "index": task.index, "trained": task.payload.trained}
        self._full = [*self._full, place | {"outcome": outcome.to_dict()}]


def _finalist(trial: int, index: int) -> str:
    return f"finalist_{trial}_{index}"
