"""After the search: the winner's model, kept from its hold-out or trained once more on all folds together."""

import statistics
from dataclasses import dataclass, replace

from hpo.engine.dispatch.outcomes import outcomes
from hpo.engine.dispatch.protocol import Dispatcher
from hpo.engine.record.record import Record
from hpo.engine.training.task_builder import checkpoint_name
from hpo.engine.trials.trial import Trial
from hpo.errors import StudyError
from hpo.study.study import Study
from hpo.study.winner.finalists import choose_winner

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
        ((_, outcome),) = outcomes(dispatcher, [study.task_builder().final_task(winner, epochs)])
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
    ((_, outcome),) = outcomes(dispatcher, study.task_builder().tasks_of(replace(winner, trained=0))[:1])
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
