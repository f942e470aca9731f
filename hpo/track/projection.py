"""Sends a study to the tracker: its start and its trials, and at the end its results and the winner's model."""

import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from hpo.config.goals import SCALE, changed_keys
from hpo.config.keys import OWN, flatten, within
from hpo.config.secrets import hide_secrets
from hpo.report.part import is_missing
from hpo.report.sections.curves import improvements
from hpo.report.subject import score_of
from hpo.report.write import WrittenReport
from hpo.study.files.user_notes import tags as noted_tags
from hpo.study.notes import FinalModel
from hpo.study.results.choosing import why_none
from hpo.study.results.run import StudyRun
from hpo.study.study import PreparedStudy
from hpo.study.view.making import view_of
from hpo.study.view.view import StudyView, TrialView
from hpo.track.make import MlflowTracker, make_tracker
from hpo.track.names import metric_names, mlflow_name, mlflow_names, parameters
from hpo.track.note import study_note
from hpo.track.views import FRONT_TAG, TrialsTable
from hpo.trials.ranking import at_largest_scale
from hpo.trials.space.space import short_text
from hpo.trials.trial import Trial

if TYPE_CHECKING:
    from hpo.track.models import Winner

# The packages that a model needs for predictions; the toolkit's requirements include the rest.
_REQUIRED = ("hpo-transformer", "torch", "numpy", "scikit-learn")


def open_in_tracker(study: PreparedStudy, run: StudyRun, tracker: MlflowTracker) -> None:
    """Find the parent run by the study's id, or create it; send every trial in the record that has ended."""
    history, view = run.record.history(), view_of(run, "running")
    tracker.mlflow.open_study(
        study_id=run.notes.study_id or "",
        name=study.config.study.name,
        time=min((trial.started for trial in history if trial.started), default=time.time()),
        params=mlflow_names(fixed_parameters(study)),
        tags=_tags(study) | {"hpo.state": "running", "hpo.trials": _progress_text(view)},
        note=study_note(view),
        datasets=_datasets(study),
        table=_table(study),
    )
    for trial in history:
        tracker.trial_recorded(trial)
    tracker.show_front(history.front)


def close_in_tracker(study: PreparedStudy, run: StudyRun, tracker: MlflowTracker, report: WrittenReport) -> None:
    """Send the results of a study that no longer trains: the winner's model, the report, and the study's status.

    If the search is not finished, the status is `interrupted`.
    """
    history, winner, is_over = run.history, run.winner, study.is_over(run.record)
    view = view_of(run, "ended" if is_over else "interrupted")
    before, further = {trial.number: trial for trial in run.searched}, run.further_trained
    for trial in further:
        tracker.trained_further(before[trial.number], trial)
    # Trials are stopped if others of their rung were continued.
    stopped = set(dropped_trials(run.searched)) - {trial.number for trial in further}
    tracker.mlflow.stop_trials(numbers=sorted(stopped))
    tracker.show_front(run.front)
    tags = noted_tags(study.folder, with_removed=True)
    if reason := _why_no_model(study, run):
        tags["hpo.model"] = f"none: {reason}"
    else:
        assert winner is not None
        assert run.model is not None
        assert view.best is not None
        tracker.mlflow.register_model(winner=_model(study, run, winner, run.model, view.best))
    params: dict[str, Any] = {}
    if winner is not None:
        point = ", ".join(f"{key}={value}" for key, value in winner.point.items())
        tags["hpo.winner"] = f"trial {winner.number}: {point}"
        # MLflow cannot change parameters, so send the winner's at the end. The tag above has them at any time.
        if is_over and run.is_trained:
            params = {"hpo.winner": f"trial {winner.number}", **parameters(winner, study.config.study.scales)}
        if view.why_chosen is not None:
            tags |= {"hpo.chosen_trial": str(winner.number), "hpo.chosen_as": view.why_chosen}
    when = max((trial.ended for trial in history if trial.ended), default=time.time())
    tracker.mlflow.show_results(
        best=list(_best_so_far(run)),
        metrics=_study_metrics(study, run, report),
        params=params,
        tags=tags,
        artifacts=[str(path) for path in report.paths],
        time=when,
    )
    ended = "FINISHED" if run.record.history().best() else "FAILED"
    tracker.mlflow.close_study(
        status=ended if is_over else "KILLED",
        tags={"hpo.state": view.state, "hpo.trials": _progress_text(view)},
        note=study_note(view),
        time=when,
    )


def send_study(study: PreparedStudy, run: StudyRun, report: WrittenReport, patience: float | None = None) -> bool:
    """Send to MLflow a study that no process is running; return whether MLflow received everything.

    Give up after `patience` seconds without progress (default: `track.patience`). `track.name` must be `mlflow`. Raise
    TrackError if `track.uri` is not usable; see `refuse_bad_uri`.
    """
    tracker = make_tracker(study)
    assert tracker is not None
    open_in_tracker(study, run, tracker)
    close_in_tracker(study, run, tracker, report)
    return tracker.close(patience)


def interrupt_in_tracker(study: PreparedStudy, run: StudyRun, tracker: MlflowTracker) -> None:
    """Mark the study in the tracker as failed if the current exception is an error, otherwise as interrupted."""
    error, note = sys.exception(), study_note(view_of(run, "interrupted"))
    status, state, text = "KILLED", "interrupted", None
    if isinstance(error, Exception):
        status, state = "FAILED", "failed"
        text = hide_secrets("".join(traceback.format_exception(error)), study.config.secrets)
    tracker.mlflow.close_study(status=status, tags={"hpo.state": state}, note=note, time=time.time(), error=text)


def dropped_trials(trials: Sequence[Trial]) -> list[int]:
    """Return the numbers of dropped trials.

    A dropped trial is complete and not continued, but another trial of its round is continued.
    """
    continued = {trial.continues for trial in trials if trial.continues is not None}
    judged = {trial.round for trial in trials if trial.number in continued}
    return [t.number for t in trials if t.state == "complete" and t.round in judged and t.number not in continued]


def _table(study: PreparedStudy) -> TrialsTable:
    """Return the columns and charts of a study's table of trials."""
    goal = study.goal
    keys = sorted(study.space.keys, key=lambda key: key != SCALE)
    return {
        "metrics": [*metric_names(goal).values()],
        "direction": goal.direction,
        "flags": [*[FRONT_TAG] * (len(goal.metrics) > 1), *["hpo.is_within_limits"] * bool(goal.limits)],
        "keys": [mlflow_name(key) for key in keys],
        "others": ["cost"] if goal.target else [] if study.full_amount is None else ["amount"],
        "curves": [mlflow_name(f"{study.layout.name(0)}/{goal.metric}")],
    }


def _progress_text(view: StudyView) -> str:
    return f"{view.done} of {view.budget}"


def _study_metrics(study: PreparedStudy, run: StudyRun, report: WrittenReport) -> dict[str, float]:
    """Return the metrics of the study's run.

    With several metrics or with limits, add the winner's number and metrics, with the prefix `chosen/`.
    """
    numbers, winner, goal = dict(report.metrics), run.winner, study.goal
    cost = report.summary["cost"]
    if not is_missing(cost) and cost["wall_seconds"] is not None:
        numbers["hours"] = round(cost["wall_seconds"] / 3600, 4)
    test = study.folder.test_result()
    if test is not None and goal.metric in test["metrics"]:
        numbers["test_score"] = test["metrics"][goal.metric]
    if len(goal.metrics) > 1:
        numbers["num_on_front"] = float(len(run.front))
    if not goal.is_single and winner is not None:
        # The chosen trial need not be the one with the best score.
        numbers["chosen/trial"] = numbers.pop("best_trial")
        trial = run.fresh_winner or winner
        values = {goal.metric: score_of(trial)} | {name: trial.mean(name) for name in goal.names[1:]}
        numbers |= {f"chosen/{name}": value for name, value in mlflow_names(values).items()}
    return numbers


def _tags(study: PreparedStudy) -> dict[str, str]:
    config = study.config
    tags = {"hpo.strategy": config.strategy["name"], "hpo.seed": str(config.study.seed), "hpo.study": config.study.name}
    tags |= {"hpo.objective": config.objective, "hpo.metric": config.study.metric}
    better = ", ".join(f"{direction.removesuffix('imize')} {name}" for name, direction in study.goal.metrics.items())
    tags |= {"hpo.goal": better, "hpo.data": study.described.name or "of the objective"}
    if len(study.goal.metrics) > 1:
        tags["hpo.metrics"] = ", ".join(f"{name}: {direction}" for name, direction in study.goal.metrics.items())
    if study.goal.limits:
        tags["hpo.limits"] = ", ".join(map(str, study.goal.limits))
    commit = study.environment().get("commit")
    return tags | ({"mlflow.source.git.commit": commit} if isinstance(commit, str) else {})


def fixed_parameters(study: PreparedStudy) -> dict[str, Any]:
    """Return the fixed settings as parameters of the study's run, and each dimension of the space as `space.KEY`."""
    config = study.config
    # Searched keys, and those that a scale changes, have values only in the winner.
    varied = (*study.space.keys, *changed_keys(config.study.scales))
    own = {key: value for key, value in config.fixed.items() if not any(within(key, one) for one in varied)}
    prefix = f"{OWN}." if OWN in config.to_dict() else ""
    flat = flatten(config.model_dump(mode="json", exclude={OWN})) | {f"{prefix}{key}": own[key] for key in own}
    # Addresses may contain passwords. Workers do not change results, so the settings of dispatch are left out, too.
    left_out = ("study.storage", "track.uri")
    params = {
        key: value
        for key, value in flat.items()
        if value is not None and not key.startswith(("space.", "dispatch.")) and key not in left_out
    }
    for dimension in study.space.to_dict():
        rest = {k: v for k, v in dimension.items() if k not in ("key", "kind")}
        params[f"space.{dimension['key']}"] = ", ".join(f"{k}={v}" for k, v in rest.items())
    return params


def _datasets(study: PreparedStudy) -> list[dict[str, Any]]:
    """Return one MLflow dataset per split, with the split's size, share, label counts and fingerprint."""
    described = study.described
    return [
        {
            "name": f"{described.name or study.config.study.name} {part}",
            "digest": figures["fingerprint"][:12],
            "source": described.source or "",
            "context": part,
            "profile": dict(figures),
        }
        for part, figures in described.parts.items()
    ]


def _why_no_model(study: PreparedStudy, run: StudyRun) -> str | None:
    owner, is_given = study.objective.owner, study.objective.pickled is not None
    reasons = (
        (run.winner is None, why_none(run.history, study.goal)),
        (not study.keeps_models, f"{owner} keeps no models: it has no run_test"),
        (is_given, "its objective was given from Python, so MLflow has no module from which to load the model"),
        (study.objective.predict is None, f"{owner} has no function 'predict'"),
        (run.model is None, "the study has no final model yet"),
    )
    return next((reason for is_so, reason in reasons if is_so), None)


def _model(study: PreparedStudy, run: StudyRun, winner: Trial, final: FinalModel, view: TrialView) -> "Winner":
    """Return the model to register: its trial, its folder on this machine, and its required packages."""
    describe = study.objective.describe_prediction
    config = study.as_of(run.notes.allowed_changes, winner).config.trial_config(winner.point)
    packages = study.environment()["packages"]
    return {
        "name": mlflow_name(study.config.study.name),
        "trial": winner.number,
        "point": dict(winner.point),
        "description": f"{view.values}, {short_text(winner.point)}",
        "checkpoint_dir": str(study.folder.inside(final.checkpoint_dir)),
        "objective": study.config.objective,
        "prediction": describe(config) if describe else {"inputs": "text", "options": {}},
        "packages": [f"{name}=={packages[name]}" for name in _REQUIRED if name in packages],
    }


def _best_so_far(run: StudyRun) -> Iterator[tuple[int, float, float]]:
    """Yield (trial number, score, end time) of each trial that improved the best score at the largest scale.

    If there are one metric and a winner, one more item extends the curve of the best score to the end of the search.
    This item is (count of ended trials, winner's score, end time of the search).
    """
    history, winner = [trial for trial in run.searched if trial.state != "running"], run.winner
    for trial in improvements(at_largest_scale([trial for trial in history if trial.keeps_limits])):
        yield trial.number, score_of(trial), trial.ended or 0.0
    if winner is not None and winner.score is not None and not winner.other_losses:
        yield len(history), winner.score, max(trial.ended or 0.0 for trial in run.history)
