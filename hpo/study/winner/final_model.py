"""The winner's configuration and model; the model comes from the hold-out training, or is trained on all folds."""

import logging
import statistics
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from hpo.config.keys import plain_own
from hpo.errors import StudyError
from hpo.study.notes import FinalModel
from hpo.study.results.run import StudyRun
from hpo.study.study import PreparedStudy
from hpo.study.winner.training import Report, full_state
from hpo.trials.record.record import Record
from hpo.trials.trial import Trial, training_seed
from hpo.workers.dispatch.dispatcher import Dispatcher, outcomes
from hpo.workers.objective.path import ObjectivePath
from hpo.workers.training.tasks import Task, TaskBuilder, checkpoint_name

_log = logging.getLogger(__name__)


def lacks_model(study: PreparedStudy, run: StudyRun) -> bool:
    """Return whether the study needs the winner's model, but the model is missing.

    If the objective has `run_test` and the data are split, the study needs the model. The model is missing if the
    record does not note it, or if the model's files were changed or deleted.

    Any other study needs the model if its trainings have saved models. The model is then missing if the record does not
    note it; the files are not checked.
    """
    if run.winner is None or run.model is not None:
        return False
    if study.keeps_models and study.described.split is not None:
        return True
    noted = run.notes.final_model
    return (noted is None or noted.trial != run.winner.number) and _has_models(study)


def _has_models(study: PreparedStudy) -> bool:
    names = [path.name for path in study.folder.checkpoints_dir.glob("*")]
    return bool(names) or (study.artifacts is not None and bool(study.artifacts.folders("checkpoints")))


def make_final_model(study: PreparedStudy, run: StudyRun, dispatcher: Dispatcher, report: Report) -> FinalModel | None:
    """Train the winner's model if it is missing, and note the model in the record.

    With a hold-out split, a missing model is trained again with the winner's seed; an existing model is only noted.
    With folds, the winner's configuration is trained once on all folds together; the number of epochs is the mean of
    the folds' best epochs.

    Returns:
        The model; None if there is no winner, if the winner's model already exists and is noted, or (with a warning)
        if the training wrote no model.

    Raises:
        StudyError: the training failed.
    """
    winner = run.winner
    if winner is None or not lacks_model(study, run):
        return None
    study, seconds = study.as_of(run.notes.allowed_changes, winner), 0.0
    task, is_hold_out = model_task(study.task_builder(), winner, run.record), study.num_folds == 1
    name, epochs = f"checkpoints/{checkpoint_name(winner.number)}", None
    if not is_hold_out:
        name, epochs = "checkpoints/final", task.payload.amount
    state = task.payload.resume_dir
    if is_hold_out and state is not None and winner.number in {trial.number for trial in run.further}:
        task = replace(task, payload=replace(task.payload, resume_dir=full_state(state)))
    if not (is_hold_out and has_own_model(study, winner)):
        ((_, outcome),) = outcomes(dispatcher, [task], partial(report, "the winner's model"))
        if outcome.error:
            action = "training the model of trial {} again" if is_hold_out else "final training of trial {}"
            raise StudyError(f"{action.format(winner.number)} failed: {outcome.error}")
        seconds = outcome.seconds
    model = FinalModel(winner.number, name, epochs, seconds)
    run.notes.final_model = model
    if study.has_model(name):
        return model
    message = (
        "model: the training of trial %d wrote no model; the objective must save a model in `trial.checkpoint_dir` or "
        "`task['checkpoint_dir']`; without a model, `run_test` cannot score the trial"
    )
    _log.warning(message, winner.number)
    return None


def model_task(builder: TaskBuilder, trial: Trial, record: Record) -> Task:
    """Return the task that trains a trial's model, with the trial's seed.

    With a hold-out split, the task repeats the trial's training. With folds, the task trains on all folds together;
    the number of epochs is the mean of the folds' best epochs, if the trainings returned best epochs.
    """
    if builder.layout.folds == 1:
        return builder.tasks_of(replace(trial, trained=0))[0]
    best = trial.values("best_epoch")
    curves = [[*record.earlier(trial, index), *outcome.curve] for index, outcome in sorted(trial.outcomes.items())]
    return builder.final_task(trial, max(1, round(statistics.fmean(best))) if best else None, curves)


def has_own_model(study: PreparedStudy, trial: Trial) -> bool:
    """Return whether a trial's hold-out training left a model that still exists unchanged."""
    name = f"checkpoints/{checkpoint_name(trial.number)}"
    return study.has_model(name) and not study.folder.changed_files(name)


def best_config(study: PreparedStudy, winner: Trial) -> dict[str, object]:
    """Return the configuration with which `hpo train` repeats the training of the winner's first fold."""
    config, frozen = study.config, study.config.to_dict()["study"]
    tree = config.trial_config(winner.point)
    section = {name: frozen[name] for name in ("name", "metric", "direction", "score") if name in frozen}
    section |= {name: frozen[name] for name in ("metrics", "limits") if frozen.get(name) is not None}
    seed, training = {"seed": training_seed(config.study.seed, winner.key, 0)}, tree.get("training", {})
    if ObjectivePath.of(config.objective).form == "task" and isinstance(training, Mapping):
        tree["training"] = {**training, **seed}
    else:
        # The whole tree belongs to the user's function, so the seed goes into `study`.
        section |= seed
    return {
        **plain_own(tree),
        "split": config.split.model_dump() | {"folds": study.num_folds},
        "objective": config.objective,
        "study": section,
        "dispatch": {name: getattr(config.dispatch, name) for name in ("threads", "processes_per_task")},
    }
