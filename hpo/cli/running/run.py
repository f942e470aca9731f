"""Runs a checked study at a terminal: workers, record, tracker, progress, signals, and which command comes next."""

import math
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from hpo.cli.running.program import is_ours, leave
from hpo.cli.running.progress import Progress
from hpo.cli.running.stopping import StoppableDispatcher, Stopped, Stopping
from hpo.config.keys import flatten
from hpo.engine.dispatch import make_dispatcher
from hpo.engine.dispatch.local import LocalDispatcher
from hpo.engine.record.record import Record
from hpo.engine.space.first_points import default_point
from hpo.errors import MachineError, SpaceError
from hpo.machine import machine_faults
from hpo.report.facts.schema.missing import known
from hpo.report.facts.words import ended
from hpo.run import Result, run_study
from hpo.study.folder import shown
from hpo.study.opening import open_study
from hpo.study.preparation import refuse_missing_lanes
from hpo.study.study import Study
from hpo.study.winner.verdict import lacks_model, read_verdict
from hpo.track import make_tracker, refuse_bad_uri

# Idle share of the workers' time from which a hint is printed.
_MUCH_IDLE = 0.4
# Where cost predicts seconds within a third or so; measured in benchmarks/clock.md.
_LANES_PER_WORKER = 1.5


def run_to_the_end(study: Study) -> int:
    """Run the study and return the exit code: 0 done, 1 every trial failed.

    After signal n the command's own process ends with 128 + n.

    Raises:
        Stopped: by a signal, in the process of another program.
    """
    refuse_bad_uri(study.config)
    if not study.folder.exists:
        refuse_missing_lanes(study.config)
    stopping = Stopping()
    try:
        with stopping, machine_faults("study: cannot go on", study.folder.path):
            result = _run(study, stopping)
    except MachineError as error:
        again = f"`hpo resume {study.reference}`" if study.folder.exists else "the same command"
        raise MachineError(f"{error}; fix that, then continue with {again}") from error
    except Stopped as stopped:
        sys.stderr.write(stopping.last_words())
        if not is_ours():
            raise
        # Everything is closed. Remaining threads, of Ray's start or of an objective, must not keep the process alive.
        leave(128 + stopped.number)
    _conclude(study, result)
    return 0 if result.verdict.winner else 1


def _run(study: Study, stopping: Stopping) -> Result:
    config = study.config
    with ExitStack() as stack:
        # A new study is created after its workers have started, so that a refusal leaves no trace. The record of an
        # existing one is read first, because it may not need workers at all.
        if study.folder.exists:
            stack.enter_context(study.folder.lock())
            record = open_study(study)
            _announce(study)
            has_work = _has_work(study, record)
            dispatcher = make_dispatcher(config.dispatch, config.secrets) if has_work else LocalDispatcher()
            stack.callback(dispatcher.close)
            if has_work:
                _tell_lanes(study, dispatcher.slots)
        else:
            _announce(study)
            dispatcher = make_dispatcher(config.dispatch, config.secrets)
            stack.callback(dispatcher.close)
            stopping.check()
            _tell_lanes(study, dispatcher.slots)
            stack.enter_context(study.folder.lock())
            record = open_study(study)
        stack.callback(record.close)
        stopping.take_signals()
        progress = Progress(config.study, study.layout, record.history())
        stopping.begin(lambda: _last_words(study, progress))
        tracker = make_tracker(config, study.layout, study.folder.path)
        with progress:
            return run_study(study, record, StoppableDispatcher(dispatcher, stopping), tracker, [progress])


def _has_work(study: Study, record: Record) -> bool:
    if not study.is_over(record):
        return True
    verdict = read_verdict(study, record)
    return not verdict.are_finalists_trained or lacks_model(study, verdict)


def _last_words(study: Study, progress: Progress) -> str:
    return (
        f"\nstopped: {progress.num_done} of {study.config.study.trials} trials are saved in {study.folder}\n"
        f"continue with: hpo resume {study.reference}\n"
    )


def _announce(study: Study) -> None:
    config = study.config
    for note in study.own.notes:
        print(note)
    if config.secrets:
        names = ", ".join(config.secrets)
        print(f"secrets are kept by name alone: set {names} in the environment before you resume or reproduce this")
    print(f"study {config.study.name}: {config.study.trials} trials, {config.study.metric} ({config.study.direction})")
    print(study.strategy.announcement)
    if "default" in config.space.get("first", ()):
        try:
            default_point(study.space, flatten(config.objective_config))
        except SpaceError as error:
            print(f"not tried first: {error}")
    if study.plan is not None:
        parts = [f"{name} {part['size']:,} ({part['fraction']:.1%})" for name, part in study.plan.parts.items()]
        kind = study.plan.kind.replace("_", " ")
        folds = f", {study.num_folds} folds" if study.num_folds > 1 else ""
        print(f"data: {', '.join(parts)}; validation: {kind}{folds}", flush=True)


def _conclude(study: Study, result: Result) -> None:
    name, metric = study.reference, study.config.study.metric
    history, winner = result.verdict.history, result.verdict.winner
    failed = sum(trial.state == "failed" for trial in history)
    counts = known(result.report.summary["counts"])
    print(f"\n{len(history)} trials, {failed} failed{ended(counts.get('ended_by'))}")
    if not history:
        print("nothing was left to try: all points of the space are known already")
    elif winner is None:
        errors = [trial.error for trial in history if trial.error]
        print(f"every trial failed, the first with: {errors[0]}" if errors else "no trial is complete")
    else:
        assert winner.score is not None
        print(f"winner: trial {winner.number}, {metric} {winner.score:.4f}")
        for key, value in winner.point.items():
            print(f"  {key} = {value:g}" if isinstance(value, float) else f"  {key} = {value}")
    _tell_time(study, result.report.summary["cost"])
    print(f"report: {shown(result.report.paths[0])}")
    if not result.is_tracked:
        print(f"MLflow does not have everything: send it later with `hpo sync {name}`")
    if winner is not None and study.plan is not None and "test" in study.plan.parts:
        print(f"next:   hpo test {name}      (opens the test part, once)")
    if study.config.track.name == "mlflow":
        print("        hpo ui")


def _tell_lanes(study: Study, workers: int) -> None:
    """Print how many trainings are planned to be under way at once, and what to set where workers would be idle."""
    lanes, rules = study.config.study.lanes or 1, study.rules()
    if rules.order == "free":
        effect = "another run of this search would have other trials"
        if not replace(rules, order="clock").waits:
            effect = "study.order=free has no effect with this strategy, whose trials are the same in any order"
        print(f"{_count(workers, 'worker')}, free order: {effect}", flush=True)
        return
    if not rules.waits:
        is_in_rounds = study.strategy.learns == "by_round"
        waits = "a round waits for its last trial" if is_in_rounds else "none waits for another"
        print(f"{_count(workers, 'worker')}: {waits} with this strategy, whatever the lanes", flush=True)
        return
    says = f"{_count(lanes, 'lane')}, {_count(workers, 'worker')}"
    # Lanes that wait for the clock leave no worker idle if there are some more of them.
    suits = math.ceil(_LANES_PER_WORKER * workers)
    if workers > lanes:
        says += f": {workers - lanes} will be idle; study.lanes={suits} keeps all busy, in a study of its own"
    elif workers > 1 and lanes < suits:
        says += f" (study.lanes={suits} would keep them busier, in a study of its own)"
    print(says, flush=True)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _tell_time(study: Study, cost: Mapping[str, Any]) -> None:
    """Print how long simulated workers took, and how much of the time workers were idle."""
    dispatch = study.config.dispatch
    if cost.get("wall_seconds") is None:
        return
    if dispatch.name == "simulated":
        print(
            f"simulated: {_count(dispatch.workers or 1, 'worker')} took {cost['wall_seconds']:,.0f} s for "
            f"{cost['training_seconds']:,.0f} s of training; when the best was found: see Cost in the report"
        )
    if (dispatch.workers or 1) > 1 and cost["idle_share"] > _MUCH_IDLE:
        print(f"workers were idle for {cost['idle_share']:.0%} of the time: see the timeline in the report")
