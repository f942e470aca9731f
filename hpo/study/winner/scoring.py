"""Opens the test part, once, with the winner or the whole front, and the default configuration; records the opening.

A search has overtuned if on unseen examples its result is no better than its start, trained as the winner was.
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
from hpo.study.results.choosing import why_none
from hpo.study.results.run import StudyRun
from hpo.study.study import PreparedStudy
from hpo.study.test_log import TestEvaluation, all_evaluations, num_scored, write_evaluation
from hpo.study.winner.estimates import Sample, Scored
from hpo.study.winner.final_model import has_own_model, lacks_model, model_task
from hpo.trials.estimate import Estimate
from hpo.trials.space.first_points import default_of, why_no_default
from hpo.trials.space.space import Point
from hpo.trials.trial import Outcome, Trial
from hpo.workers.dispatch.process.group import run_here
from hpo.workers.objective.examples import Examples
from hpo.workers.objective.objective import Objective
from hpo.workers.training.splits import open_test_part
from hpo.workers.training.tasks import Task, checkpoint_name
from hpo.workers.training.worker import outcome_of

# The configuration without any point of the space.
_DEFAULT = -1  # the number of the default configuration's trial


@dataclass(frozen=True)
class _Model:
    """What a trial is scored with: its study as of then, and the folder of its model, or why it has none.

    Where the objective keeps no models, it is trained when it is scored.
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
    """Score the winner on the test part, and the default configuration if there is one; return test.json's content.

    `with_front` scores the other trials of the front in the same opening: those whose models are not kept are trained
    again before it, with their seeds. Of one that fails the error is told. StudyError where the search is not finished,
    nothing can be scored, the part was opened before and not `again`, or there is only one metric for a front.
    """
    if with_front and len(study.goal.metrics) == 1:
        raise StudyError(
            f"test: `--front` (from Python `front=True`) is for several metrics, and study '{study.reference}' has "
            f"one, of which the winner is the front; leave it out"
        )
    if study.is_outside:
        raise StudyError(
            f"test: the trials of study '{study.reference}' are trained elsewhere (`hpo ask`, `hpo tell`), so there is "
            f"no test part here; score its winner where you train, once"
        )
    winner = _winner(study, run)
    # The report needs it: a fault must be noticed before the part is open.
    study.environment()
    if study.examples is None or study.plan is None:
        raise StudyError(_no_test_part(study.objective))
    test = open_test_part(study.examples, study.config.split)
    fingerprint = study.examples.fingerprint(test)
    earlier = all_evaluations(study.folder, fingerprint)
    if earlier and not again:
        raise StudyError(_opened_before(earlier, study.examples))
    allowed = run.notes.allowed_changes
    # Where fresh seeds decided, the winner may be none of the search's front.
    others = [trial for trial in run.front if trial.number != winner.number] if with_front else []
    opening: dict[str, Any] = {
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "study": study.config.study.name,
        "study_id": run.notes.study_id,
        "trial": winner.number,
    }
    if with_front:
        opening["scored"] = [trial.number for trial in (winner, *others)]
    opening["fingerprint"] = fingerprint
    with TemporaryDirectory(prefix="hpo-test-") as scratch:
        default = _default_model(study, Path(scratch, "default")) if with_default else None
        models = [
            _member_model(study.as_of(allowed, trial), trial, Path(scratch, str(trial.number))) for trial in others
        ]
        # Before the part is read, so that a crash cannot hide it.
        write_evaluation(study.folder, opening)
        pickled = str(study.folder.inside(run.model.checkpoint_dir)) if run.model and study.keeps_models else None
        scored = _score(_Model(winner, study.as_of(allowed, winner), pickled), test)
        of_default = None if default is None else _try(default, test)
        of_others = [_try(model, test) for model in models]
    sample = Sample(len(test), study.described.method, study.examples.groups is not None)
    differences = sample.differences(scored, of_default) if isinstance(of_default, Scored) else {}
    names = study.goal.names
    result = opening | {
        **_describe(scored, sample, names),
        "default": None if of_default is None else _describe(of_default, sample, names),
        "difference": _describe_estimates(differences, names),
        "size": len(test),
        "validation_score": (run.fresh_winner or winner).score,
        **({"search_score": winner.score} if run.fresh_winner else {}),
        "evaluations_of_these_data": len(earlier) + 1,
    }
    if with_front:
        told = zip((winner, *others), (scored, *of_others), strict=True)
        result["front"] = [_member(study, trial, _describe(each, sample, names)) for trial, each in told]
        result["scored_of_these_data"] = num_scored([*earlier, opening])
    study.folder.write_json(study.folder.test_path, result)
    return result


def _describe(scored: Scored | str, sample: Sample, names: Collection[str]) -> dict[str, Any]:
    """Return what test.json says of a model: its metrics and their intervals, or its error."""
    if isinstance(scored, str):
        return {"error": scored}
    return {"metrics": dict(scored.metrics), "estimates": _describe_estimates(sample.estimates(scored), names)}


def _describe_estimates(estimates: Mapping[str, Estimate], names: Collection[str]) -> dict[str, Any]:
    """Return those with an interval; of the study's own metrics also why there is none."""
    return {name: asdict(each) for name, each in estimates.items() if each.low is not None or name in names}


def _member(study: PreparedStudy, trial: Trial, scored: Mapping[str, Any]) -> dict[str, Any]:
    """Return what test.json tells of a member of the front: its scores there (or the error), and in the search."""
    values = {name: trial.mean(name) for name in study.goal.names}
    return {"trial": trial.number, **scored, "validation_score": trial.score, "validation_metrics": values}


def _no_test_part(objective: Objective) -> str:
    way = "write one in that module"
    if objective.pickled is not None:
        way = "write `@hpo.objective(describe_data=...)` above it"
    hint = "" if objective.revision is not None else f"; {way}, and start another study"
    return f"test: {objective.owner} has no describe_data, so no data is split and there is no test part{hint}"


def _opened_before(earlier: Sequence[TestEvaluation], examples: Examples) -> str:
    last = earlier[-1]
    number = num_scored([last])
    front = "" if number == 1 else f" with {number} configurations"
    return (
        f"test: the test part of these data was opened before ({len(earlier)} time(s), last by study "
        f"'{last['study']}' at {last['time']}{front}); compared were {examples.compared_by}; a test part is for one "
        f"opening: `--again` (from Python `again=True`) opens it once more, which the report will always mention"
    )


def _winner(study: PreparedStudy, run: StudyRun) -> Trial:
    """Return the winner; raise StudyError where the search, finalists or final model are not finished."""
    first = f"run `hpo resume {study.reference}` first"
    for is_so, why in (
        (not study.is_over(run.record), f"the search is not finished ({study.done(run.history)}); {first}"),
        (not run.is_trained, f"the best are not trained to their end, or again; {first}"),
        (run.winner is None, why_none(run.history, study.goal)),
        (lacks_model(study, run), f"the winner's model is missing or was replaced; {first}"),
    ):
        if is_so:
            raise StudyError(f"test: {why}")
    assert run.winner is not None
    return run.winner


def _default_model(study: PreparedStudy, scratch: Path) -> _Model | None:
    """Train the default configuration in this process; its model is below `scratch`. None where there is no default.

    With a hold-out it is stopped early on that, as every trial was; with folds it is trained on all of them together
    for all epochs, since its best epoch is not known.
    """
    if why_no_default(study.space, study.config):
        return None
    # One that is not in the space is the configuration as it is.
    outside: Point = {SCALE: study.goal.target} if study.goal.target else {}
    trial = Trial(number=_DEFAULT, round=-1, point=default_of(study.space, study.config) or outside)
    if not study.keeps_models:
        return _Model(trial, study)
    builder = replace(study.task_builder(), checkpoints_dir=scratch, files_dir=None)
    is_hold_out = study.num_folds == 1
    task = builder.tasks_of(trial)[0] if is_hold_out else builder.final_task(trial, amount=None)
    return _trained(trial, study, task)


def _member_model(study: PreparedStudy, trial: Trial, scratch: Path) -> _Model:
    """Return the model of a trial of the front: that of its hold-out if it is kept, or one trained below `scratch`."""
    if not study.keeps_models:
        return _Model(trial, study)
    if study.num_folds == 1 and has_own_model(study, trial):
        return _Model(trial, study, str(study.folder.checkpoints_dir / checkpoint_name(trial.number)))
    # Its states in the study's folder are as far as the search went.
    builder = replace(
        study.task_builder(), checkpoints_dir=scratch / "models", states_dir=scratch / "states", files_dir=None
    )
    return _trained(trial, study, model_task(builder, trial))


def _trained(trial: Trial, study: PreparedStudy, task: Task) -> _Model:
    try:
        outcome = outcome_of(run_here(task.payload))
    except MachineError as error:
        outcome = Outcome(error=str(error))
    return _Model(trial, study, None if outcome.error else task.payload.checkpoint_dir, outcome.error)


def _try(model: _Model, test: Sequence[int]) -> Scored | str:
    """Return the scores of a model that is not the winner's, or its error, which must not spoil the opening."""
    if model.error:
        return model.error
    try:
        return _score(model, test)
    except (StudyError, MachineError) as fault:
        return str(fault)


def _score(model: _Model, test: Sequence[int]) -> Scored:
    """Return the scores of a trained model, or of one trained now where the objective keeps none."""
    trial = model.trial
    task = model.study.task_builder().test_task(trial, test, model.checkpoint_dir)
    by_example: dict[str, Sequence[float]] = {}
    outcome = outcome_of(run_here(task.payload), lambda sent: by_example.update(sent.get("scores_by_example", {})))
    if outcome.error:
        what = "the default configuration" if trial.number == _DEFAULT else f"trial {trial.number}"
        raise StudyError(f"test: scoring {what} on the test part failed: {outcome.error}")
    return Scored(outcome.metrics, by_example)
