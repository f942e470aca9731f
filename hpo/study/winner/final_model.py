"""The winner's model after the search: kept from its hold-out, or trained on all folds together."""

import statistics
from dataclasses import replace

from hpo.engine.dispatch.dispatcher import Dispatcher
from hpo.engine.dispatch.outcomes import outcomes
from hpo.engine.record.record import Record
from hpo.engine.training.task_builder import checkpoint_name
from hpo.engine.trials.trial import Trial
from hpo.errors import StudyError
from hpo.study.notes import FinalModel, Notes
from hpo.study.study import Study
from hpo.study.winner.verdict import Verdict, lacks_model


def make_final_model(study: Study, record: Record, dispatcher: Dispatcher, verdict: Verdict) -> FinalModel | None:
    """Return the winner's model, trained if necessary; None where the objective keeps no models.

    With folds, the winning configuration is trained once on all of them together, for the mean of the epochs at which
    its folds were best. A second call returns the first one's model.

    Raises:
        StudyError: the final training failed.
    """
    winner = verdict.winner
    if winner is None or not lacks_model(study, verdict):
        return verdict.model
    study = study.as_of(Notes(record).allowed_changes, winner)
    model = _kept_model(study, dispatcher, winner) if study.num_folds == 1 else _trained(study, dispatcher, winner)
    Notes(record).final_model = model
    return model


def _trained(study: Study, dispatcher: Dispatcher, winner: Trial) -> FinalModel:
    epochs = mean_best_epoch(winner)
    ((_, outcome),) = outcomes(dispatcher, [study.task_builder().final_task(winner, epochs)])
    if outcome.error:
        raise StudyError(f"final training of trial {winner.number} failed: {outcome.error}")
    study.has_model("checkpoints/final")
    return FinalModel(winner.number, "checkpoints/final", epochs, outcome.seconds)


def _kept_model(study: Study, dispatcher: Dispatcher, winner: Trial) -> FinalModel:
    """Return the model of the winner's hold-out; train it again, with its seed, where it was not kept."""
    name = f"checkpoints/{checkpoint_name(winner.number)}"
    if study.has_model(name) and not study.folder.changed_files(name):
        return FinalModel(winner.number, name, None, 0.0)
    ((_, outcome),) = outcomes(dispatcher, study.task_builder().tasks_of(replace(winner, trained=0))[:1])
    if outcome.error:
        raise StudyError(f"training the model of trial {winner.number} again failed: {outcome.error}")
    study.has_model(name)
    return FinalModel(winner.number, name, None, outcome.seconds)


def mean_best_epoch(trial: Trial) -> int | None:
    """Return the mean of the folds' best epochs, rounded; None where the objective does not report it."""
    epochs = trial.values("best_epoch")
    return max(1, round(statistics.fmean(epochs))) if epochs else None
