"""Runs a study from its current state to its end: search, final model, report, and the tracker."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from hpo.engine.dispatch.dispatcher import Dispatcher
from hpo.engine.loop import search
from hpo.engine.observers.keepers import CheckpointKeeper, StateKeeper
from hpo.engine.observers.observer import Observer
from hpo.engine.record.record import Record
from hpo.engine.trials.history import History
from hpo.engine.trials.trial import Trial
from hpo.report.write import WrittenReport, write_report
from hpo.study.notes import Notes
from hpo.study.opening import queued_points
from hpo.study.study import Study
from hpo.study.winner.final_model import make_final_model
from hpo.study.winner.finalists import train_finalists
from hpo.study.winner.full_training import state_names, train_to_the_end, trials_to_finish
from hpo.study.winner.verdict import Verdict, read_verdict
from hpo.track import MlflowTracker
from hpo.track.projection import close_in_tracker, interrupt_in_tracker, open_in_tracker

# Seconds without progress at the end of a study, or after an interruption, before the tracker leaves the rest to
# `hpo sync`. The first must suffice to upload the winner's weights.
_PATIENCE_SECONDS = 60.0
_HURRY_SECONDS = 8.0


@dataclass(frozen=True)
class Result:
    """The end of a study: its verdict, its report, and whether the tracker received everything."""

    verdict: Verdict
    report: WrittenReport
    is_tracked: bool


def run_study(
    study: Study,
    record: Record,
    dispatcher: Dispatcher,
    tracker: MlflowTracker | None,
    observers: Sequence[Observer] = (),
) -> Result:
    """Run the study to its budget, and write its report.

    After any interruption the record holds every outcome that arrived, and the tracker shows the run as killed.
    """
    watching: list[Observer] = [StateKeeper(study.artifacts), *observers]
    keeper: CheckpointKeeper | None = None
    if study.keeps_models and study.num_folds == 1:
        kept = max(study.config.study.checkpoints, study.config.study.finalists)
        keeper = CheckpointKeeper(study.folder.checkpoints_dir, kept, record.history(), study.artifacts)
        watching.insert(0, keeper)
    if tracker is not None:
        watching.append(tracker)
        open_in_tracker(study, record, tracker)
    is_tracked, report = True, None
    try:
        rules, section = study.rules(Notes(record).imports), study.config.study
        queued = partial(queued_points, study, record)
        history = search(rules, record, dispatcher, section.trials, watching, section.minutes, True, queued)
        recent = study.task_builder().state_names(_continued_later(study, history))
        study.remove_states(recent | state_names(study, trials_to_finish(study, record, with_next=True)))
        verdict = _finish(study, record, dispatcher)
        if keeper is not None:
            for trial in verdict.further_trained:
                keeper.trial_finished(trial)
        study.remove_states(recent)
        report = write_report(study, record, verdict)
        if tracker is not None:
            close_in_tracker(study, record, tracker, verdict, report)
    finally:
        if tracker is not None:
            if report is None:
                interrupt_in_tracker(study, record, tracker)
            # An interruption does not wait long for MLflow.
            is_tracked = tracker.close(_PATIENCE_SECONDS if report else _HURRY_SECONDS)
    return Result(verdict, report, is_tracked)


def _continued_later(study: Study, history: History) -> list[Trial]:
    """Return the trials whose states are kept: those that may be trained further."""
    stopped = [trial for trial in history if trial.state == "stopped"]
    by_amount = [trial for trial in history if trial.amount is not None]
    if study.strategy.learns == "by_trial":
        return stopped + by_amount
    # Only the last rung, and the one before where the budget cut the last.
    return stopped + [trial for trial in by_amount if trial.round >= history[-1].round - 1]


def _finish(study: Study, record: Record, dispatcher: Dispatcher) -> Verdict:
    """Train what follows the search; if that fails, the search is still reported."""
    try:
        train_to_the_end(study, record, dispatcher)
        train_finalists(read_verdict(study, record).finalists, record, dispatcher)
        verdict = read_verdict(study, record)
        return replace(verdict, model=make_final_model(study, record, dispatcher, verdict))
    except BaseException:
        # Also for an interruption: the search is over and gets its report.
        write_report(study, record, read_verdict(study, record), has_page=False)
        raise
