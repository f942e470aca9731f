"""Runs a study from where it stands to its end: search, final model, report, and the tracker beside it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpo.dispatch.protocol import Dispatcher
from hpo.final import CheckpointKeeper, FinalModel, make_final_model
from hpo.finalists import choose_winner, train_finalists
from hpo.history import History
from hpo.keys import flatten
from hpo.observer import Observer
from hpo.record import Record
from hpo.report import write_report
from hpo.search import is_over, search
from hpo.study import Study
from hpo.track import Tracker
from hpo.track import messages as track
from hpo.trials import Trial


@dataclass(frozen=True)
class Result:
    """How a study ended.

    Attributes:
        history: all its trials.
        winner: the best complete trial; None when every trial failed.
        final_model: the winner's trained model; None where the objective keeps none.
        report_path: the report to read.
        is_tracked: False when the tracker could not be reached with everything.
    """

    history: History
    winner: Trial | None
    final_model: FinalModel | None
    report_path: Path
    is_tracked: bool


def run_study(
    study: Study, record: Record, dispatcher: Dispatcher, tracker: Tracker | None, observers: Sequence[Observer] = ()
) -> Result:
    """Run the study to its budget, and write its report.

    Whatever interrupts it, the record holds every outcome that arrived, and the tracker is told that the
    run was killed.
    """
    watching: list[Observer] = list(observers)
    if study.keeps_models and study.num_folds == 1:
        kept = max(study.config.study.checkpoints, study.config.study.finalists)
        keeper = CheckpointKeeper(study.folder.checkpoints_dir, kept, list(record.history()))
        watching.insert(0, keeper)
    if tracker is not None:
        watching.append(tracker)
        open_in_tracker(study, record, tracker)
    closing = track.close_study("KILLED", {}, "", [])
    try:
        history = search(
            study.strategy,
            record,
            dispatcher,
            study.task_builder().tasks_of,
            study.config.study.trials,
            watching,
            study.imported(record),
            study.race,
        )
        # Before what comes after the search too: should that fail, what was searched is still reported.
        write_report(study, record, has_page=False)
        # Only the last rung, and the one before where the budget cut the last, may still be continued later.
        recent = [trial for trial in history if trial.round >= history[-1].round - 1]
        study.folder.remove_states(study.task_builder().state_names(recent))
        train_finalists(study, record, dispatcher)
        winner = choose_winner(study, record)
        final_model = make_final_model(study, record, dispatcher, winner) if winner else None
        report = write_report(study, record)
        closing = track.close_study(
            closing_status(study, record), report.metrics, report.markdown, [str(path) for path in report.paths]
        )
    finally:
        is_tracked = True
        if tracker is not None:
            tracker.send(closing)
            is_tracked = tracker.close()
    return Result(history, winner, final_model, report.paths[0], is_tracked)


def closing_status(study: Study, record: Record) -> str:
    """Return MLflow's status: FINISHED, FAILED where no trial is complete, KILLED where some are missing."""
    if not is_over(study.strategy, record, study.config.study.trials, study.imported(record)):
        return "KILLED"
    return "FINISHED" if record.history().best() else "FAILED"


def open_in_tracker(study: Study, record: Record, tracker: Tracker) -> None:
    """Open the parent run and send every trial that is already in the record."""
    config = study.config
    tags = {"hpo.strategy": config.strategy["name"], "hpo.seed": str(config.study.seed), "hpo.study": config.study.name}
    tags |= {"hpo.objective": config.objective, "hpo.metric": config.study.metric}
    commit = study.environment().get("commit")
    tags |= {"mlflow.source.git.commit": commit} if commit else {}
    # Addresses may hold passwords.
    hidden = ("study.storage", "track.uri")
    params = {k: v for k, v in flatten(config.to_dict()).items() if not k.startswith("space.") and k not in hidden}
    params |= {f"space.{d['key']}": _range_text(d) for d in study.space.to_dict()}
    tracker.send(track.open_study(config.study.name, record.noted("id"), params, tags, _datasets(study)))
    for trial in record.history():
        tracker.trial_opened(trial)
        for message in track.curves(trial, study.grid):
            tracker.send(message)
        tracker.trial_finished(trial)


def _range_text(dimension: Mapping[str, Any]) -> str:
    return ", ".join(f"{k}={v}" for k, v in dimension.items() if k not in ("key", "kind"))


def _datasets(study: Study) -> list[dict[str, Any]]:
    """Return one MLflow dataset a part: its size, share, label counts and fingerprint."""
    if study.plan is None or study.examples is None:
        return []
    return [
        {
            "name": f"{study.examples.name or study.config.study.name} {part}",
            "digest": figures["fingerprint"][:12],
            "source": study.examples.source,
            "context": part,
            "profile": dict(figures),
        }
        for part, figures in study.plan.parts.items()
    ]
