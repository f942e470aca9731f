"""Runs a prepared study to its end: the search, the trainings after the search, and the report."""

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
from hpo.study.files.requests import answering, refuse_left_over
from hpo.study.notes import Notes
from hpo.study.opening import code_of, open_study
from hpo.study.results.after_search import trials_to_finish
from hpo.study.results.run import StudyRun
from hpo.study.study import PreparedStudy
from hpo.study.view.making import view_of
from hpo.study.view.view import NextStep
from hpo.study.winner.final_model import lacks_model, make_final_model
from hpo.study.winner.training import state_names, train_finalists, train_to_the_end
from hpo.track.make import MlflowTracker, make_tracker
from hpo.track.own_lines import own_lines_of
from hpo.track.projection import close_in_tracker, interrupt_in_tracker, open_in_tracker
from hpo.trials.history import History
from hpo.trials.record.record import Record
from hpo.trials.trial import Trial
from hpo.workers.dispatch.dispatcher import Dispatcher, Setup, code_to_send, make_dispatcher, use_of
from hpo.workers.dispatch.local import LocalDispatcher
from hpo.workers.dispatch.other_searches import announce_use, other_searches, total_use

# After an interruption, a tracker that makes no progress for this long leaves the rest to `hpo sync`.
_HURRY_SECONDS = 8.0


def run_to_the_end(study: PreparedStudy, display: Display) -> Ended:
    """Run a new or an existing study to its budget, and return how the search ended.

    Raises:
        HpoError: the study cannot begin or continue.
        Stopped: a signal or a user stopped the search. Everything is saved and closed. The exception's attribute `says`
            is the text about what is saved and how to continue.
    """
    run_preflight_checks(study.config)
    try:
        with Stopping() as stopping, machine_faults("study: cannot go on", study.folder.path):
            ended = _run(study, display, stopping)
    except MachineError as error:
        command = f"`hpo resume {study.reference}`" if study.folder.exists else "the same command"
        raise MachineError(f"{error}; fix that, then continue with {command}") from error
    display.conclude(study, ended)
    return ended


def _run(study: PreparedStudy, display: Display, stopping: Stopping) -> Ended:
    # Hash the code before workers start, because they check their imports against it.
    study, config = replace(study, code=code_of(study)), study.config
    with ExitStack() as stack:
        # Lock first: readers then show that the study is starting.
        stack.enter_context(study.folder.lock())
        stack.enter_context(answering(study.folder))
        stopping.tidy_up = study.folder.remove_uncreated
        # Create a new study after its workers have started, so that an error leaves no trace. Open an existing record
        # first, because it may need no workers at all.
        record = _open_record(study) if study.folder.exists else None
        refuse_bad_urls(config, study.folder, None if record is None else Notes(record).study_id)
        if record is not None:
            num_before = study.num_counted(record.history())
            stopping.last_words = lambda: _last_words(study, num_before)
        display.announce(study)
        has_work = record is None or _has_work(study, record)
        # In a resumed search, a simulated clock starts at the end of the last training.
        now = max((trial.ended or 0.0 for trial in record.trials()), default=0.0) if record else 0.0
        dispatcher = start_dispatcher(study, display, stack, config.artifacts, now) if has_work else LocalDispatcher()
        stopping.check()
        if has_work:
            display.show_workers(study, dispatcher.slots, dispatcher.gpus)
        record = record or _open_record(study)
        stack.callback(record.close)
        notes = Notes(record)
        # Use the code noted in the record: files that trainings have written since then are not part of it.
        study = replace(study, code=notes.code)
        study = replace(study, own_lines=own_lines_of(study, notes.study_id or ""))
        if has_work and dispatcher.gpus.share != notes.gpu_share:
            notes.gpu_share = dispatcher.gpus.share
        stopping.take_signals()
        progress = display.progress(study, record)
        requests = UserRequests(study, record)
        stopping.begin(lambda: _last_words(requests.study, progress.num_done), dispatcher.runs_here)
        tracker = make_tracker(study)
        observers: list[Observer] = [progress]
        if mirror := mirror_of(config, study.folder, notes.study_id or ""):
            copying = Mirroring(mirror)
            stack.callback(copying.close)
            observers.append(copying)
        status_writer = StatusWriter(study, record, _host(dispatcher))
        with progress, status_writer:
            session_dispatcher = SessionDispatcher(dispatcher, stopping, study)
            result = run_study(study, record, session_dispatcher, tracker, [*observers, status_writer], requests)
        status = status_writer.conclude(result.run, result.report)
        view = view_of(result.run, status)
        if not result.is_tracked:
            sync = NextStep(f"hpo sync {study.reference}", "sends the missing data to MLflow")
            view = replace(view, next=[sync, *(step for step in view.next if step.command != "hpo ui")])
        return Ended(view, result.report, result.is_tracked)


def _open_record(study: PreparedStudy) -> Record:
    refuse_left_over(study.folder)
    return open_study(study)


def start_dispatcher(
    study: PreparedStudy, display: Display, stack: ExitStack, artifacts: str | None = None, now: float = 0.0
) -> Dispatcher:
    """Start the workers, and tell other searches on this machine which CPUs and GPUs these workers use.

    Closing `stack` stops the workers and withdraws the announcement. For `artifacts` and `now` see `Setup`.
    """
    config = study.config
    code = code_to_send(config.dispatch, study.objective)
    if code is not None and code.files:
        display.show_code(code)
    others = other_searches() if config.dispatch.is_on_this_machine else []
    if others:
        display.show_other_searches(config.dispatch, others)
    display.show_start(config.dispatch)
    setup = Setup(settings=config.dispatch, code=code, artifacts=artifacts, in_use=total_use(others), now=now)
    dispatcher = make_dispatcher(setup, config.secrets)
    stack.callback(dispatcher.close)
    if (use := use_of(dispatcher, config.dispatch)) is not None:
        stack.enter_context(announce_use(use))
    return dispatcher


def _host(dispatcher: Dispatcher) -> Host | None:
    """Return this process's host if this process trains all tasks; None if workers report their own hosts."""
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
    """The result of a session: the study after its search, its report, and whether the tracker received everything.

    Without a tracker, `is_tracked` is True.
    """

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

    After an interruption, the record has every outcome that arrived, and the tracker shows the run as killed. After an
    error, the tracker shows the run as failed. If a user stops the search, raise Stopped.
    """
    all_observers: list[Observer] = [StateRemover(study.artifacts), HostRecorder(record, _host(dispatcher)), *observers]
    pruner: CheckpointPruner | None = None
    if study.num_folds == 1:
        num_checkpoints = max(study.config.study.checkpoints, study.config.study.finalists)
        pruner = CheckpointPruner(study.folder.checkpoints_dir, num_checkpoints, record.history(), study.artifacts)
        all_observers.insert(0, pruner)
    if tracker is not None:
        all_observers.append(tracker)
        open_in_tracker(study, StudyRun.of(study, record), tracker)
    is_tracked, report = True, None
    try:
        rules, section = study.rules(Notes(record).imports), study.config.study
        requests = requests or UserRequests(study, record)
        history = search(
            rules,
            record,
            dispatcher,
            section.trials,
            all_observers,
            minutes=section.minutes,
            stop_after_failures=section.stop_after_failures,
            user_actions=requests,
            seconds_between_polls=requests.seconds_between,
            callback=Callbacks(study, record) or None,
        )
        study = requests.study
        if record.ended is not None and record.ended.by == "user":
            raise Stopped(signal.SIGINT)
        for observer in all_observers:
            observer.search_ended()
        recent = study.task_builder().state_names(_trials_to_continue(study, history))
        study.remove_states(recent | state_names(study, trials_to_finish(study.config, record, with_next=True)))
        run = _finish(study, record, dispatcher, all_observers)
        if pruner is not None:
            pruner.trials_finished(run.further_trained, [run.winner.number] if run.winner else [])
        study.remove_states(recent)
        report = write_report(study, run)
        if tracker is not None:
            close_in_tracker(study, run, tracker, report)
    finally:
        if tracker is not None:
            if report is None:
                interrupt_in_tracker(study, StudyRun.of(study, record), tracker)
            # Do not wait long for MLflow after an interruption.
            is_tracked = tracker.close(None if report else min(_HURRY_SECONDS, study.config.track.patience))
    return Result(run, report, is_tracked)


def _trials_to_continue(study: PreparedStudy, history: History) -> list[Trial]:
    """Return the trials that a larger budget may train further. The states of these trials are kept."""
    stopped = [trial for trial in history if trial.state == "stopped"]
    by_amount = [trial for trial in history if trial.amount is not None]
    if study.strategy.learns == "by_trial":
        return stopped + by_amount
    # Only the last rung continues, and the rung before it if the budget ended the last rung early.
    return stopped + [trial for trial in by_amount if trial.round >= history[-1].round - 1]


def _finish(
    study: PreparedStudy, record: Record, dispatcher: Dispatcher, all_observers: Sequence[Observer]
) -> StudyRun:
    """Run the trainings after the search. After an error or a signal, write all report files except report.html."""

    def notify(kind: str, num_ended: int, num_all: int) -> None:
        for observer in all_observers:
            observer.followed_up(kind, num_ended, num_all)

    try:
        train_to_the_end(study, record, dispatcher, notify)
        train_finalists(study, StudyRun.of(study, record).finalists, record, dispatcher, notify)
        model = make_final_model(study, StudyRun.of(study, record), dispatcher, notify)
        return replace(StudyRun.of(study, record), new_model=model)
    except BaseException:
        # Also after an interruption: the search is over and gets its report.
        write_report(study, StudyRun.of(study, record), has_page=False)
        raise
