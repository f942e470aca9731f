"""The test evaluation: scores the winner or the whole Pareto front, and the default configuration, on the test split.

The default's score shows overtuning: a search has overtuned if its winner is no better than the default on unseen
examples.
Source: Schneider et al. 2025, "Overtuning in Hyperparameter Optimization" (arXiv 2506.19540).
"""

import datetime
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hpo.config.goals import SCALE
from hpo.errors import MachineError, StudyError
from hpo.formatting import format_count
from hpo.study.results.choosing import why_none
from hpo.study.results.run import StudyRun
from hpo.study.study import PreparedStudy
from hpo.study.test_log import TestEvaluation, all_evaluations, num_scored, write_evaluation
from hpo.study.winner.estimates import Sample, Scored
from hpo.study.winner.final_model import has_own_model, lacks_model, model_task
from hpo.trials.estimate import Estimate
from hpo.trials.record.record import Record
from hpo.trials.space.first_points import default_of, why_no_default
from hpo.trials.space.space import Point
from hpo.trials.trial import Outcome, Trial
from hpo.workers.dispatch.process.group import run_here
from hpo.workers.objective.examples import Examples
from hpo.workers.objective.objective import Objective
from hpo.workers.training.splits import open_test_part
from hpo.workers.training.tasks import Task, TaskBuilder, checkpoint_name
from hpo.workers.training.worker import outcome_of

# The trial number of the default configuration.
_DEFAULT = -1


@dataclass(frozen=True)
class _Model:
    """A trial to score, with the study under whose configuration it was trained.

    `checkpoint_dir` is None if the objective saves no models, or if the training failed with `error`.
    """

    trial: Trial
    study: PreparedStudy
    checkpoint_dir: str | None = None
    error: str | None = None


def open_test(
    study: PreparedStudy,
    run: StudyRun,
    again: bool,
    with_default: bool = True,
    with_front: bool = False,
) -> dict[str, Any]:
    """Score the winner on the test split. If there is a default configuration, score it on this split, too.

    Args:
        again: whether to score even if an earlier test evaluation used this test split.
        with_default: whether to score the default configuration.
        with_front: whether to score the other trials on the Pareto front in the same evaluation. Missing models are
            first trained again with the trials' seeds. A trial that fails gets an error in place of scores.

    Returns:
        The content of test.json.

    Raises:
        StudyError: the search, or a training after the search, is not finished.
        StudyError: there is no winner, no test split, or no model of the winner.
        StudyError: an earlier test evaluation used this test split, and `again` is false.
        StudyError: `with_front` is true, and the study has only one metric.
        StudyError: another program runs the trainings (ask-and-tell), or the scoring of the winner fails.
        MachineError: the machine could not score the winner.
    """
    if with_front and len(study.goal.metrics) == 1:
        raise StudyError(
            f"test: `--front` (from Python `front=True`) needs several metrics, and study '{study.reference}' has one; "
            f"remove this option"
        )
    if study.is_outside:
        raise StudyError(
            f"test: another program trains the trials of study '{study.reference}' (`hpo ask`, `hpo tell`), so the "
            f"study has no test split; score its winner in that program, and only once"
        )
    winner = _winner(study, run)
    # The report needs this file; read it now, so that an incomplete one fails before the test split is read.
    study.environment()
    if study.examples is None or study.plan is None:
        raise StudyError(_no_test_part(study.objective))
    test = open_test_part(study.examples, study.config.split)
    fingerprint = study.examples.fingerprint(test)
    earlier = all_evaluations(study.folder, fingerprint)
    if earlier and not again:
        raise StudyError(_evaluated_before(earlier, study.examples))
    allowed = run.notes.allowed_changes
    # If fresh seeds decided, the winner may not be on the search's front.
    others = [trial for trial in run.front if trial.number != winner.number] if with_front else []
    evaluation: dict[str, Any] = {
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "study": study.config.study.name,
        "study_id": run.notes.study_id,
        "trial": winner.number,
    }
    if with_front:
        evaluation["scored"] = [trial.number for trial in (winner, *others)]
    evaluation["fingerprint"] = fingerprint
    with TemporaryDirectory(prefix="hpo-test-") as scratch:
        default = _default_model(study, Path(scratch, "default")) if with_default else None
        models = [
            _member_model(study.as_of(allowed, trial), trial, run.record, Path(scratch, str(trial.number)))
            for trial in others
        ]
        # Log the evaluation before reading the test split, so that a crash cannot hide it.
        write_evaluation(study.folder, evaluation)
        checkpoint_dir = (
            str(study.folder.inside(run.model.checkpoint_dir)) if run.model and study.keeps_models else None
        )
        scored = _score(_Model(winner, study.as_of(allowed, winner), checkpoint_dir), test)
        default_scored = None if default is None else _try_score(default, test)
        others_scored = [_try_score(model, test) for model in models]
    sample = Sample(len(test), study.described.method, study.examples.groups is not None)
    differences = sample.differences(scored, default_scored) if isinstance(default_scored, Scored) else {}
    names = study.goal.names
    result = evaluation | {
        **_describe(scored, sample, names),
        "default": None if default_scored is None else _describe(default_scored, sample, names),
        "difference": _describe_estimates(differences, names),
        "size": len(test),
        "validation_score": (run.fresh_winner or winner).score,
        **({"search_score": winner.score} if run.fresh_winner else {}),
        "evaluations_of_these_data": len(earlier) + 1,
    }
    if with_front:
        members = zip((winner, *others), (scored, *others_scored), strict=True)
        result["front"] = [_describe_member(study, trial, _describe(each, sample, names)) for trial, each in members]
        result["scored_of_these_data"] = num_scored([*earlier, evaluation])
    study.folder.write_json(study.folder.test_path, result)
    return result


def _describe(scored: Scored | str, sample: Sample, names: Collection[str]) -> dict[str, Any]:
    """Return a model's entry in test.json: the metrics with their intervals, or the error."""
    if isinstance(scored, str):
        return {"error": scored}
    return {"metrics": dict(scored.metrics), "estimates": _describe_estimates(sample.estimates(scored), names)}


def _describe_estimates(estimates: Mapping[str, Estimate], names: Collection[str]) -> dict[str, Any]:
    """Return the estimates as dicts; omit each estimate without an interval, unless its name is in `names`."""
    return {name: asdict(each) for name, each in estimates.items() if each.low is not None or name in names}


def _describe_member(study: PreparedStudy, trial: Trial, scored: Mapping[str, Any]) -> dict[str, Any]:
    """Return a front trial's entry in test.json: the test scores or the error, and the scores in the search."""
    values = {name: trial.mean(name) for name in study.goal.names}
    return {"trial": trial.number, **scored, "validation_score": trial.score, "validation_metrics": values}


def _no_test_part(objective: Objective) -> str:
    advice = "write the function describe_data in the objective's module"
    if objective.pickled is not None:
        advice = "write `@hpo.objective(describe_data=...)` above the objective"
    hint = "" if objective.revision is not None else f"; {advice}, and start another study"
    return f"test: {objective.owner} has no describe_data, so there is no test split{hint}"


def _evaluated_before(earlier: Sequence[TestEvaluation], examples: Examples) -> str:
    last = earlier[-1]
    number = num_scored([last])
    front = "" if number == 1 else f" with {number} configurations"
    return (
        f"test: this test split was used before ({format_count(len(earlier), 'time*')}, last by study "
        f"'{last['study']}' at {last['time']}{front}); the split was recognized by {examples.compared_by}; "
        f"`--again` (from Python `again=True`) scores the winner on this split once more; the report always says how "
        f"often the split was used"
    )


def _winner(study: PreparedStudy, run: StudyRun) -> Trial:
    """Return the winner; raise StudyError if the search or the trainings after it are not finished."""
    advice = f"run `hpo resume {study.reference}` first"
    if not study.is_over(run.record):
        why = f"the search is not finished ({study.done(run.history)}); {advice}"
    elif not run.is_trained:
        why = f"the trainings after the search are not finished; {advice}"
    elif run.winner is None:
        why = why_none(run.history, study.goal)
    elif lacks_model(study, run):
        why = (
            f"the winner's model is missing or was changed; {advice}; if the winner's training wrote no model, the "
            "objective must save a model in `trial.checkpoint_dir` or `task['checkpoint_dir']`"
        )
    else:
        return run.winner
    raise StudyError(f"test: {why}")


def _default_model(study: PreparedStudy, scratch: Path) -> _Model | None:
    """Return the default configuration as a model to score; None if there is no default.

    If the objective saves models, first train the default's model in the folder `scratch`.
    """
    if why_no_default(study.space, study.config):
        return None
    # A default outside the space is the configuration without any point.
    outside: Point = {SCALE: study.goal.target} if study.goal.target else {}
    trial = Trial(number=_DEFAULT, round=-1, point=default_of(study.space, study.config) or outside)
    if not study.keeps_models:
        return _Model(trial, study)
    builder = _scratch_builder(study, scratch)
    is_hold_out = study.num_folds == 1
    # With folds, train on all folds together and for all epochs, because the default's best epoch is not known.
    task = builder.tasks_of(trial)[0] if is_hold_out else builder.final_task(trial, amount=None)
    return _train_model(trial, study, task)


def _member_model(study: PreparedStudy, trial: Trial, record: Record, scratch: Path) -> _Model:
    """Return a trial of the Pareto front as a model to score.

    If the objective saves models, use the model of the trial's hold-out training, if this model is unchanged. With
    folds, or without such a model, first train a model in the folder `scratch`.
    """
    if not study.keeps_models:
        return _Model(trial, study)
    if study.num_folds == 1 and has_own_model(study, trial):
        return _Model(trial, study, str(study.folder.checkpoints_dir / checkpoint_name(trial.number)))
    return _train_model(trial, study, model_task(_scratch_builder(study, scratch), trial, record))


def _scratch_builder(study: PreparedStudy, scratch: Path) -> TaskBuilder:
    """Return a builder of tasks that write their files in the folder `scratch`.

    The tasks must not use the states in the study's folder, because a task changes the state from which it continues.
    The search may need the unchanged states later.
    """
    return replace(
        study.task_builder(), checkpoints_dir=scratch / "models", states_dir=scratch / "states", files_dir=None
    )


def _train_model(trial: Trial, study: PreparedStudy, task: Task) -> _Model:
    try:
        outcome = outcome_of(run_here(task.payload))
    except MachineError as error:
        outcome = Outcome(error=str(error))
    return _Model(trial, study, None if outcome.error else task.payload.checkpoint_dir, outcome.error)


def _try_score(model: _Model, test: Sequence[int]) -> Scored | str:
    """Return the scores of a model, or the error as text, so that the evaluation goes on without this model."""
    if model.error:
        return model.error
    try:
        return _score(model, test)
    except (StudyError, MachineError) as fault:
        return str(fault)


def _score(model: _Model, test: Sequence[int]) -> Scored:
    """Return the scores of a model; if the objective saves no models, train the model first."""
    trial = model.trial
    task = model.study.task_builder().test_task(trial, test, model.checkpoint_dir)
    sent: dict[str, Any] = {}
    outcome = outcome_of(run_here(task.payload), lambda message: sent.update(message.get("scores_by_example", {})))
    if outcome.error:
        name = "the default configuration" if trial.number == _DEFAULT else f"trial {trial.number}"
        raise StudyError(f"test: scoring {name} on the test split failed: {outcome.error}")
    return Scored(outcome.metrics, sent.get("scores_by_example", {}), sent.get("score_of_sums", {}))
