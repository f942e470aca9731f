"""After the search: the winner's model, kept from its hold-out or trained once more on all folds together."""

import shutil
import statistics
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hpo.dispatch.protocol import Dispatcher, Report
from hpo.errors import StudyError
from hpo.finalists import choose_winner
from hpo.record import Record
from hpo.study import Study
from hpo.tasks import checkpoint_name
from hpo.trials import Outcome, Trial

_NOTE = "final"


@dataclass(frozen=True)
class FinalModel:
    """The trained model of the winner.

    Attributes:
        trial: number of the winner.
        checkpoint_dir: where its weights are, relative to the study's folder.
        epochs: how many epochs it was trained for; None where the best checkpoint of a hold-out was kept.
        seconds: wall time of the final training; 0 where there was none.
    """

    trial: int
    checkpoint_dir: str
    epochs: int | None
    seconds: float


def make_final_model(study: Study, record: Record, dispatcher: Dispatcher, winner: Trial) -> FinalModel | None:
    """Return the winner's model, trained where it has to be; None where the objective keeps no models.

    With folds, the winning configuration is trained once more on all of them together, for the mean of the
    epochs at which its folds were best. Done once: a second call finds the first one's model.

    Raises:
        StudyError: when the final training fails.
    """
    if not study.keeps_models or study.plan is None:
        return None
    study = study.as_of(record, winner)
    if study.num_folds == 1:
        model = _kept_model(study, dispatcher, winner)
    else:
        if has_final_model(study, record):
            return noted_final_model(record)
        epochs = mean_best_epoch(winner)
        outcome = _run(dispatcher, study.task_builder().final_task(winner, epochs))
        if outcome.error:
            raise StudyError(f"final training of trial {winner.number} failed: {outcome.error}")
        model = FinalModel(winner.number, "checkpoints/final", epochs, outcome.seconds)
    record.note(_NOTE, vars(model))
    return model


def _kept_model(study: Study, dispatcher: Dispatcher, winner: Trial) -> FinalModel:
    """Return the model that the winner's hold-out left; train it again, with its seed, where it was not kept."""
    name = f"checkpoints/{checkpoint_name(winner.number)}"
    if (study.folder.path / name).exists() and not study.folder.changed_files(name):
        return FinalModel(winner.number, name, None, 0.0)
    outcome = _run(dispatcher, study.task_builder().tasks_of(replace(winner, trained=0))[0])
    if outcome.error:
        raise StudyError(f"training the model of trial {winner.number} again failed: {outcome.error}")
    return FinalModel(winner.number, name, None, outcome.seconds)


def has_final_model(study: Study, record: Record) -> bool:
    """Return whether nothing is left to train for the final model."""
    if not study.keeps_models or study.plan is None:
        return True
    winner, noted = choose_winner(study, record), noted_final_model(record)
    if winner is None:
        return True
    if noted is None or noted.trial != winner.number or not study.folder.inside(noted.checkpoint_dir).exists():
        return False
    # Another model under its name is not the winner's.
    return not study.folder.changed_files(noted.checkpoint_dir)


def noted_final_model(record: Record) -> FinalModel | None:
    """Return the final model that the record knows of, or None."""
    noted = record.noted(_NOTE)
    return FinalModel(**noted) if noted else None


def mean_best_epoch(trial: Trial) -> int | None:
    """Return the mean over the folds of the best epoch, rounded; None where the objective does not tell it."""
    epochs = trial.values("best_epoch")
    return max(1, round(statistics.fmean(epochs))) if epochs else None


def _run(dispatcher: Dispatcher, task: Any) -> Outcome:
    dispatcher.submit(task)
    while True:
        for report in dispatcher.wait():
            if (outcome := report.settled()) is not None:
                return outcome


class CheckpointKeeper:
    """An observer that keeps the trained models of the best trials and deletes the others."""

    def __init__(self, checkpoints_dir: Path, keep: int, finished: list[Trial]) -> None:
        self._dir = checkpoints_dir
        self._keep = keep
        self._best = sorted((t for t in finished if t.state == "complete"), key=_rank)[:keep]

    def trial_opened(self, trial: Trial) -> None:
        """Do nothing."""

    def reported(self, trial: Trial, report: Report) -> None:
        """Do nothing."""

    def trial_finished(self, trial: Trial) -> None:
        """Delete the model that is no longer among the best: this one, or the one that it displaces."""
        candidates = [*self._best, trial] if trial.state == "complete" else self._best
        ranked = sorted(candidates, key=_rank)
        self._best = ranked[: self._keep]
        kept = {t.number for t in self._best}
        for dropped in {trial.number, *(t.number for t in ranked)} - kept:
            shutil.rmtree(self._dir / checkpoint_name(dropped), ignore_errors=True)


def _rank(trial: Trial) -> tuple[int, float, int]:
    """Order as `History.best` does: what was trained longest first, then the better, then the earlier."""
    return -(trial.amount or 0), trial.loss, trial.number
