"""A checked study is run to its end while somebody watches: workers, record, signals; search, final model, report."""

import signal
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import NamedTuple

from hpo.engine.loop import search
from hpo.engine.observers import CheckpointPruner, HostRecorder, Observer, StateRemover
from hpo.errors import MachineError
from hpo.machine import Host, machine_faults
from hpo.report.write import WrittenReport, write_report
from hpo.session.callbacks import Callbacks
from hpo.session.mirroring import Mirroring, mirror_of, refuse_bad_urls
from hpo.session.preflight import run_preflight_checks
from hpo.session.status_writer import StatusWriter
from hpo.session.stopping import SessionDispatcher, Stopped, Stopping
from hpo.session.user_requests import UserRequests
from hpo.show.display import Display, Ended
from hpo.study.files.requests import delete_unread, refuse_left_over
from hpo.study.notes import Notes
from hpo.study.opening import code_of, open_study
from hpo.study.results.after_search import trials_to_finish
from hpo.study.results.run import StudyRun
from hpo.study.study import PreparedStudy
from hpo.study.view.making import view_of
from hpo.study.winner.final_model import lacks_model, make_final_model
from hpo.study.winner.training import state_names, train_finalists, train_to_the_end
from hpo.track.make import MlflowTracker, make_tracker
from hpo.track.own_lines import own_lines_of
from hpo.track.projection import close_in_tracker, interrupt_in_tracker, open_in_tracker
from hpo.trials.history import History
from hpo.trials.record.record import Record
from hpo.trials.trial import Trial
from hpo.workers.dispatch.dispatcher import Dispatcher, code_to_send, make_dispatcher, use_of
from hpo.workers.dispatch.local import LocalDispatcher
from hpo.workers.dispatch.other_searches import other_searches, shown_to_others, total_use

# Without progress after an interruption, before the tracker leaves the rest to `hpo sync`.
_HURRY_SECONDS = 8.0


def run_to_the_end(study: PreparedStudy, display: Display) -> Ended:
    """Run a study, a new one or one to be continued, to its budget, and return how it ended.

    Raises:
        HpoError: it cannot begin or go on, in one line.
        Stopped: by a signal; everything is saved and closed, and it says how to go on.
    """
    run_preflight_checks(study.config)
    try:
        with Stopping() as stopping, machine_faults("study: cannot go on", study.folder.path):
            ended = _run(study, display, stopping)
    except MachineError as error:
        again = f"`hpo resume {study.reference}`" if study.folder.exists else "the same command"
        raise MachineError(f"{error}; fix that, then continue with {again}") from error
    display.conclude(study, ended)
    return ended


def _run(study: PreparedStudy, display: Display, stopping: Stopping) -> Ended:
    # Before the workers start: they compare with it what they import.
    study, config = replace(study, code=code_of(study)), study.config
    with ExitStack() as stack:
        # Those who look on see that it starts.
        stack.enter_context(study.folder.lock())
        stopping.tidy_up = study.folder.remove_uncreated
        # A new study is created after its workers have started, so that a refusal leaves no trace. The record of an
        # existing one is read first, because it may not need workers at all.
        record = _open(study) if study.folder.exists else None
        refuse_bad_urls(config, study.folder, None if record is None else Notes(record).study_id)
        if record is not None:
            num_before = study.num_counted(record.history())
            stopping.last_words = lambda: _last_words(study, num_before)
        display.announce(study)
        has_work = record is None or _has_work(study, record)
        dispatcher = _dispatcher(study, display) if has_work else LocalDispatcher()
        stack.callback(dispatcher.close)
        if has_work and (use := use_of(dispatcher, config.dispatch)) is not None:
            stack.enter_context(shown_to_others(use))
        stopping.check()
        if has_work:
            display.show_workers(study, dispatcher.slots, dispatcher.gpus)
        record = record or _open(study)
        stack.callback(record.close)
        stack.callback(delete_unread, study.folder)
        notes = Notes(record)
        # What trainings have written since is none of the code that it began with.
        study = replace(study, code=notes.code)
        study = replace(study, own_lines=own_lines_of(study, notes.study_id or ""))
        if dispatcher.gpus.share != notes.gpu_share:
            notes.gpu_share = dispatcher.gpus.share
        stopping.take_signals()
        progress = display.progress(study, record)
        requests = UserRequests(study, record)
        stopping.begin(lambda: _last_words(requests.study, progress.num_done), dispatcher.runs_here)
        tracker = make_tracker(config, study.layout, study.folder.path, study.own_lines is not None)
        observers: list[Observer] = [progress]
        if mirror := mirror_of(config, study.folder, notes.study_id or ""):
            copying = Mirroring(mirror)
            stack.callback(copying.close)
            observers.append(copying)
        keeper = StatusWriter(study, record, _host(dispatcher))
        with progress, keeper:
            dispatching = SessionDispatcher(dispatcher, stopping, study)
            result = run_study(study, record, dispatching, tracker, [*observers, keeper], requests)
        status = keeper.conclude(result.run, result.report)
        return Ended(view_of(result.run, status), result.report, result.is_tracked)


def _open(study: PreparedStudy) -> Record:
    refuse_left_over(study.folder)
    delete_unread(study.folder)
    return open_study(study)


def _dispatcher(study: PreparedStudy, display: Display) -> Dispatcher:
    config = study.config
    code = code_to_send(config.dispatch, study.objective)
    if code is not None and code.files:
        display.show_code(code)
    others = other_searches() if config.dispatch.is_on_this_machine else []
    if others:
        display.show_other_searches(config.dispatch, others)
    display.show_start(config.dispatch)
    return make_dispatcher(config.dispatch, config.secrets, code, config.artifacts, total_use(others))


def _host(dispatcher: Dispatcher) -> Host | None:
    """Return where all tasks are trained; None where their workers tell it."""
    return Host.here() if dispatcher.runs_here else None


def _has_work(study: PreparedStudy, record: Record) -> bool:
    if not study.is_over(record):
        return True
    run = StudyRun.of(study, record)
    return not run.is_trained or lacks_model(study, run)


def _last_words(study: PreparedStudy, num_done: int) -> str:
    return (
        f"\nstopped: {num_done} of {study.config.study.trials} {study.counts} are saved in {study.folder}\n"
        f"continue with: hpo resume {study.reference}\n"
    )


class Result(NamedTuple):
    """The result of a search, its report, and whether the tracker has everything."""

    run: StudyRun
    report: WrittenReport
    is_tracked: bool


def run_study(
    study: PreparedStudy,
    record: Record,
    dispatcher: Dispatcher,
    tracker: MlflowTracker | None,
    observers: Sequence[Observer] = (),
    requests: UserRequests | None = None,
) -> Result:
    """Run the study to its budget, which a user may raise, and write its report.

    After any interruption the record holds every outcome that arrived, and the tracker shows the run as killed.
    """
    watching: list[Observer] = [StateRemover(study.artifacts), HostRecorder(record, _host(dispatcher)), *observers]
    keeper: CheckpointPruner | None = None
    if study.num_folds == 1:
        kept = max(study.config.study.checkpoints, study.config.study.finalists)
        keeper = CheckpointPruner(study.folder.checkpoints_dir, kept, record.history(), study.artifacts)
        watching.insert(0, keeper)
    if tracker is not None:
        watching.append(tracker)
        open_in_tracker(study, StudyRun.of(study, record), tracker)
    is_tracked, report = True, None
    try:
        rules, section = study.rules(Notes(record).imports), study.config.study
        requests = requests or UserRequests(study, record)
        ends = section.minutes, section.stop_after_failures
        polling, callbacks = (requests, requests.seconds_between), Callbacks(study, record)
        history = search(rules, record, dispatcher, section.trials, watching, *ends, *polling, callbacks or None)
        study = requests.study
        if record.ended is not None and record.ended.by == "user":
            raise Stopped(signal.SIGINT)
        for observer in watching:
            observer.search_ended()
        recent = study.task_builder().state_names(_continued_later(study, history))
        study.remove_states(recent | state_names(study, trials_to_finish(study.config, record, with_next=True)))
        run = _finish(study, record, dispatcher, watching)
        if keeper is not None:
            keeper.trials_finished(run.further_trained, [run.winner.number] if run.winner else [])
        study.remove_states(recent)
        report = write_report(study, run)
        if tracker is not None:
            close_in_tracker(study, run, tracker, report)
    finally:
        if tracker is not None:
            if report is None:
                interrupt_in_tracker(study, StudyRun.of(study, record), tracker)
            # An interruption does not wait long for MLflow.
            is_tracked = tracker.close(None if report else min(_HURRY_SECONDS, study.config.track.patience))
    return Result(run, report, is_tracked)


def _continued_later(study: PreparedStudy, history: History) -> list[Trial]:
    """Return the trials whose states are kept: those that may be trained further."""
    stopped = [trial for trial in history if trial.state == "stopped"]
    by_amount = [trial for trial in history if trial.amount is not None]
    if study.strategy.learns == "by_trial":
        return stopped + by_amount
    # Only the last rung, and the one before where the budget cut the last.
    return stopped + [trial for trial in by_amount if trial.round >= history[-1].round - 1]


def _finish(study: PreparedStudy, record: Record, dispatcher: Dispatcher, watching: Sequence[Observer]) -> StudyRun:
    """Train what follows the search; if that fails, the search is still reported."""

    def tell(what: str, num_ended: int, num_all: int) -> None:
        for observer in watching:
            observer.followed_up(what, num_ended, num_all)

    try:
        train_to_the_end(study, record, dispatcher, tell)
        train_finalists(study, StudyRun.of(study, record).finalists, record, dispatcher, tell)
        model = make_final_model(study, StudyRun.of(study, record), dispatcher, tell)
        return replace(StudyRun.of(study, record), new_model=model)
    except BaseException:
        # Also for an interruption: the search is over and gets its report.
        write_report(study, StudyRun.of(study, record), has_page=False)
        raise
