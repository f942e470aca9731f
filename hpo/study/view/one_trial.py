"""One trial of a study: its configuration, what became of each of its trainings, their curves, logs and seeds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from hpo.machine import Host
from hpo.study.files.status import RunningTask
from hpo.study.results.run import StudyRun
from hpo.study.study import is_outside
from hpo.study.view.logs import read_log
from hpo.study.view.making import trial_view
from hpo.study.view.reader import Snapshot, StudyReader
from hpo.trials.record.record import Asked
from hpo.trials.trial import Outcome, Trial, training_seed

# Of a log, and of its end, in which these are looked for.
_LINES, _END_BYTES = 5, 100_000


@dataclass(frozen=True)
class TrainingDetails:
    """A training of a trial. What is not known is `null`, or empty; times are in seconds since the epoch.

    Attributes:
        task: which it is: `fold_0`.
        seed: of its randomness.
        state: `complete`, `failed`, `stopped`, `running` or `not trained`.
        score: its value of the (leading) metric.
        metrics: its values by name.
        notes: what its objective noted, by name.
        curve: pairs of step and metric.
        point: the last point of its learning curve.
        seconds: of training.
        started: when it began.
        host: the machine where it trained or trains.
        process: the process that did or does.
        gpus: its GPUs.
        attempt: which one, where it was repeated.
        error: why it failed, in a line.
        details: its traceback.
        stopped: where and why it was stopped.
        log: the file with what it printed.
        printed_last: the last lines of that.
        files: its own files (`trial.dir`).
    """

    task: str
    seed: int
    state: str = "not trained"
    score: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    notes: Mapping[str, float | str] = field(default_factory=dict)
    curve: Sequence[tuple[float, float]] = ()
    point: Mapping[str, Any] = field(default_factory=dict)
    seconds: float | None = None
    started: float | None = None
    host: str | None = None
    process: int | None = None
    gpus: Sequence[str] = ()
    attempt: int | None = None
    error: str | None = None
    details: str | None = None
    stopped: str | None = None
    log: Path | None = None
    printed_last: Sequence[str] = ()
    files: Sequence[Path] = ()


@dataclass(frozen=True)
class TrialDetails:
    """All of a trial. What is not known is `null`, or empty; times are in seconds since the epoch.

    Attributes:
        study: the name of its folder.
        folder: where that is; `null` of a mirror.
        copied: of a mirror, when that was written, as text (`2026-11-27 16:40:53 UTC`).
        trial: its number.
        state: `complete`, `failed`, `stopped`, `running`, or `interrupted`: not finished, and nobody trains it.
        metric: the (leading) metric.
        score: as of [a trial](#a-trial-of-it).
        scores: the same; empty while it is not complete.
        search_scores: the same.
        texts: the same.
        search_texts: the same.
        excess: how far it is beyond the limits, as a share; `null` without limits.
        point: its hyperparameters.
        default: those of the default configuration; `null` where that is not in the space.
        config: the whole configuration that it is trained with.
        amount: how far it was to be trained; `null` = all of its training.
        reached: the amount at its last report, of its shortest training; `null` = it reported nothing.
        continues: the trial that it goes on from.
        retry_of: the failed trial that it tries again.
        error: why it failed.
        stopped: where and why it was stopped.
        seconds: of training.
        started: when its first training began.
        ended: when its last one ended.
        num_parameters: of its network.
        host: of a running one, the machine of the process that runs the study.
        tasks: its trainings, as below.
    """

    study: str
    folder: Path | None
    copied: str | None
    trial: int
    state: str
    metric: str
    score: float | None
    scores: Mapping[str, float]
    search_scores: Mapping[str, float]
    texts: Mapping[str, str]
    search_texts: Mapping[str, str]
    excess: float | None
    point: Mapping[str, Any]
    default: Mapping[str, Any] | None
    config: Mapping[str, Any]
    amount: int | None
    reached: float | None
    continues: int | None
    retry_of: int | None
    error: str | None
    stopped: str | None
    seconds: float
    started: float | None
    ended: float | None
    num_parameters: int | None
    host: str | None
    tasks: Sequence[TrainingDetails]

    def to_dict(self) -> dict[str, Any]:
        """Return what `--json` prints: the fields by their names."""
        return asdict(self)


def read_trial(view: StudyReader, number: int) -> TrialDetails:
    """Return all of a trial. Nothing is created or changed.

    HpoError where the study cannot be read, or has no such trial.
    """
    snapshot, folder = view.snapshot(), view.folder
    seen = view.study()
    trial = seen.trial(number, view.reference)
    shown = trial_view(seen, snapshot.status, trial)
    holder, is_mirror = snapshot.status.holder, "://" in view.reference
    is_trained = snapshot.status.state == "running" or is_outside(seen.config)
    is_complete = trial.state == "complete"
    return TrialDetails(
        study=snapshot.status.name if is_mirror else folder.path.name,
        folder=None if is_mirror else folder.path,
        copied=snapshot.copied or None,
        trial=number,
        # Of one that nobody trains the record says only that it has not ended.
        state="interrupted" if trial.state == "running" and not is_trained else trial.state,
        metric=seen.goal.metric,
        score=shown.score,
        scores=shown.scores,
        search_scores=shown.search_scores,
        texts=shown.texts,
        search_texts=shown.search_texts,
        excess=trial.excess if is_complete and seen.goal.limits else None,
        point=shown.point,
        default=shown.default,
        config=seen.config.trial_config(trial.point),
        amount=trial.amount,
        reached=trial.reached,
        continues=trial.continues,
        retry_of=trial.retry_of,
        error=trial.error,
        stopped=trial.stopped,
        seconds=trial.seconds,
        started=trial.started,
        ended=trial.ended,
        num_parameters=trial.num_parameters,
        host=holder.host if holder and trial.state == "running" else None,
        tasks=[*_tasks(seen, snapshot, trial)],
    )


def _tasks(seen: StudyRun, snapshot: Snapshot, trial: Trial) -> Iterator[TrainingDetails]:
    layout, metric = seen.layout, seen.goal.metric
    asked = seen.record.asked.get(trial.number) if trial.state == "running" else None
    running = {0: _asked_task(trial.number, asked, metric)} if asked else {}
    running |= {task.task: task for task in snapshot.tasks if task.trial == trial.number}
    for index in range(layout.size):
        name = layout.name(index)
        seed = training_seed(seen.config.study.seed, trial.key, layout.fold(index), layout.repeat(index))
        training, path = TrainingDetails(name, seed), seen.folder.log_path(trial.number, name)
        if (outcome := trial.outcomes.get(index)) is not None:
            training = _ended(training, outcome, metric, seen.record.hosts.get((trial.number, index)))
        elif (task := running.get(index)) is not None:
            training = _running(training, task)
        if files := seen.folder.files_of(trial.number, name if layout.size > 1 else None):
            training = replace(training, files=files)
        if path.is_file():
            training = replace(training, log=path, printed_last=read_log(path, _END_BYTES).splitlines()[-_LINES:])
        yield training


def _ended(training: TrainingDetails, outcome: Outcome, metric: str, host: Host | None) -> TrainingDetails:
    # One that was trained further after the search has gone on in another process.
    is_its = host is not None and outcome.worker in (0, host.process)
    return replace(
        training,
        state="failed" if outcome.error else "stopped" if outcome.stopped else "complete",
        score=outcome.metrics.get(metric),
        metrics=dict(outcome.metrics),
        notes=dict(outcome.notes),
        curve=_curve(outcome.curve, metric),
        point=dict(outcome.curve[-1]) if outcome.curve else {},
        seconds=outcome.seconds,
        started=outcome.started or None,
        host=host.host if host and is_its else None,
        process=outcome.worker or (host.process if host else None),
        gpus=[*host.gpus] if host and is_its else [],
        attempt=outcome.attempt,
        error=outcome.error,
        details=outcome.details,
        stopped=outcome.stopped,
    )


def _running(training: TrainingDetails, task: RunningTask) -> TrainingDetails:
    return replace(
        training,
        state="running",
        curve=task.curve,
        point=task.point,
        started=task.started,
        host=task.host,
        process=task.process,
        gpus=task.gpus,
    )


def _curve(points: Sequence[Mapping[str, float]], metric: str) -> list[tuple[float, float]]:
    """Return step and value of the metric; a point without a step has its place."""
    return [
        (point.get("epoch", point.get("step", place)), point[metric])
        for place, point in enumerate(points, 1)
        if metric in point
    ]


def _asked_task(trial: int, asked: Asked, metric: str) -> RunningTask:
    """Return the one training, elsewhere, of a trial that was asked for and not told."""
    point, curve = dict(asked.curve[-1]) if asked.curve else {}, _curve(asked.curve, metric)
    return RunningTask(trial=trial, task=0, worker=asked.place - 1, started=asked.time, point=point, curve=curve)
