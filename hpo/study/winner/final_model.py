"""The winner's model after the search: kept from its hold-out, or trained on all folds together."""

import statistics
from dataclasses import replace

from hpo.engine.dispatch.dispatcher import Dispatcher, outcomes
from hpo.engine.record.record import Record
from hpo.engine.training.task_builder import checkpoint_name
from hpo.engine.trials.trial import Trial
from hpo.errors import StudyError
from hpo.study.notes import FinalModel, Notes
from hpo.study.study import Study
from hpo.study.winner.verdict import Verdict, lacks_model


def make_final_model(study: Study, record: Record, dispatcher: Dispatcher, verdict: Verdict) -> FinalModel | None:
    """Return the winner's model, trained if necessary; None where the objective keeps no models.

    That of a hold-out is trained again, with its seed, where it was not kept. With folds, the winning configuration is
    trained once on all of them together, for the mean of the epochs at which its folds were best. A second call returns
    the first one's model. StudyError where the training failed.
    """
    winner = verdict.winner
    if winner is None or not lacks_model(study, verdict):
        return verdict.model
    study = study.as_of(Notes(record).allowed_changes, winner)
    builder, epochs, seconds = study.task_builder(), None, 0.0
    if is_hold_out := study.num_folds == 1:
        name, task = f"checkpoints/{checkpoint_name(winner.number)}", builder.tasks_of(replace(winner, trained=0))[0]
    else:
        epochs = mean_best_epoch(winner)
        name, task = "checkpoints/final", builder.final_task(winner, epochs)
    is_kept = is_hold_out and study.has_model(name) and not study.folder.changed_files(name)
    if not is_kept:
        ((_, outcome),) = outcomes(dispatcher, [task])
        if outcome.error:
            what = "training the model of trial {} again" if is_hold_out else "final training of trial {}"
            raise StudyError(f"{what.format(winner.number)} failed: {outcome.error}")
        study.has_model(name)
        seconds = outcome.seconds
    model = FinalModel(winner.number, name, epochs, seconds)
    Notes(record).final_model = model
    return model


def mean_best_epoch(trial: Trial) -> int | None:
    """Return the mean of the folds' best epochs, rounded; None where the objective does not report it."""
    epochs = trial.values("best_epoch")
    return max(1, round(statistics.fmean(epochs))) if epochs else None
