"""Runs a study from where it stands to its end: search, final model, report, and the tracker beside it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hpo.engine.dispatch.protocol import Dispatcher
from hpo.engine.keepers import CheckpointKeeper, StateKeeper
from hpo.engine.loop import search
from hpo.engine.observer import Observer
from hpo.engine.record.record import Record
from hpo.engine.trials.history import History
from hpo.engine.trials.trial import Trial
from hpo.report import write_report
from hpo.study.study import Study
from hpo.study.winner.final_model import FinalModel, make_final_model
from hpo.study.winner.finalists import choose_winner, train_finalists
from hpo.track import Tracker
from hpo.track.projection import close_in_tracker, interrupt_in_tracker, open_in_tracker

# How long a tracker may take nothing at the end of a study, or after an interruption, before the rest is left for
# `hpo sync`. An upload of the winner's weights has to fit into the former.
_PATIENCE_SECONDS = 60.0
_HURRY_SECONDS = 8.0


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
    watching: list[Observer] = [StateKeeper(), *observers]
    if study.keeps_models and study.num_folds == 1:
        kept = max(study.config.study.checkpoints, study.config.study.finalists)
        keeper = CheckpointKeeper(study.folder.checkpoints_dir, kept, list(record.history()))
        watching.insert(0, keeper)
    if tracker is not None:
        watching.append(tracker)
        open_in_tracker(study, record, tracker)
    is_tracked, report = True, None
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
        # Only the last rung, and the one before where the budget cut the last, may still be continued later.
        recent = [t for t in history if t.amount is not None and t.round >= history[-1].round - 1]
        study.folder.remove_states(study.task_builder().state_names(recent))
        winner, final_model = _finish(study, record, dispatcher)
        study.folder.remove_states(study.task_builder().state_names(recent))
        report = write_report(study, record)
        if tracker is not None:
            close_in_tracker(study, record, tracker, report)
    finally:
        if tracker is not None:
            if report is None:
                interrupt_in_tracker(study, record, tracker)
            # Whoever interrupts does not wait for MLflow.
            is_tracked = tracker.close(_PATIENCE_SECONDS if report else _HURRY_SECONDS)
    return Result(history, winner, final_model, report.paths[0], is_tracked)


def _finish(study: Study, record: Record, dispatcher: Dispatcher) -> tuple[Trial | None, FinalModel | None]:
    """Train what comes after the search; should that fail, what was searched is still reported."""
    try:
        train_finalists(study, record, dispatcher)
        winner = choose_winner(study, record)
        return winner, make_final_model(study, record, dispatcher, winner) if winner else None
    except BaseException:
        # An interruption too: the search is over and has its report.
        write_report(study, record, has_page=False)
        raise
