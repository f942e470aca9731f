"""One trial of a study: its configuration, and the results, curves, logs and seeds of its trainings."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from hpo.machine import Host
from hpo.study.basis.changes import config_as_of
from hpo.study.files.status import RunningTask
from hpo.study.results.run import StudyRun
from hpo.study.study import is_outside
from hpo.study.view.logs import read_log
from hpo.study.view.making import TrialViewMaker
from hpo.study.view.reader import Snapshot, StudyReader
from hpo.trials.record.record import Asked
from hpo.trials.trial import Outcome, Trial, training_seed

# How many lines at the end of a log are shown, and how many bytes are read to find these lines.
_LINES, _END_BYTES = 5, 100_000


@dataclass(frozen=True)
class TrainingDetails:
    """A training of a trial. Unknown values are `null` or empty.

    Attributes:
        task: the task's name, such as `fold_0`.
        seed: the training's random seed.
        state: `complete`, `failed`, `stopped`, `running` or `not trained`.
        score: the value of the metric; with several metrics, the value of the leading one.
        metrics: the metrics by name.
        notes: the numbers and texts that the objective noted, by name.
        curve: the learning curve, as a list of pairs. The first element of a pair is the epoch or step. The second is
            the value of the same metric as in `score`.
        point: the values of the last report by name, with its epoch or step.
        seconds: the duration.
        started: when the training began, in seconds since the Unix epoch.
        host: the machine of the training.
        process: the id of the training's process.
        gpus: the GPUs of the training.
        attempt: the number of the attempt that gave the result, from 1; above 1 if workers died.
        error: why the training failed, in one line.
        details: the traceback of the error.
        stopped: where and why the training was stopped.
        log: the file with the training's output.
        printed_last: the last lines of the output.
        files: the files that the training wrote to `trial.dir`.
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
    """All details of a trial. Unknown values are `null` or empty.

    Attributes:
        study: the study's name, which is the name of its folder.
        folder: the path of the study's folder; `null` if the trial was read from the mirror (the copy at
            `study.mirror`).
        copied: when the mirror was written, as text (`2026-11-27 16:40:53 UTC`); `null` if the trial was read from the
            study's folder.
        trial: the trial's number.
        state: `complete`, `failed`, `stopped`, `running`, or `interrupted` (unfinished, and no process trains it).
        metric: the metric; with several metrics, the leading one.
        score: the mean of `metric` over folds and seeds, as in [a trial of a study](#a-trial-of-it).
        scores: the means of the metrics and of the values with a limit, by name, over the same trainings as `score`;
            empty unless the trial is complete.
        search_scores: the means in the search, by name, if `scores` are from fresh seeds; otherwise empty.
        texts: `scores` as text, with enough digits to distinguish the trials.
        search_texts: `search_scores` as text, with enough digits to distinguish the trials.
        excess: how far the trial's values exceed the limits: the sum of the excesses, each divided by its limit's
            absolute value; `null` without limits, or if the trial is not complete.
        point: the trial's hyperparameters.
        default: the default configuration's hyperparameters; `null` if the default is not in the space.
        config: the whole configuration of the trainings.
        amount: the planned amount of training; `null` = a full training.
        reached: the amount that every ended training of the trial has reached; `null` if no training has ended,
            or if an ended training has reported nothing.
        continues: the number of the trial that this trial continues.
        retry_of: the number of the failed trial that this trial tries again.
        error: why the trial failed.
        stopped: where and why the trial was stopped.
        seconds: the sum of the durations of the trainings.
        started: when the first training began, in seconds since the Unix epoch.
        ended: when the last training ended, in seconds since the Unix epoch.
        num_parameters: the number of the network's parameters.
        host: for a running trial, the machine of the process that runs the study.
        tasks: the [trainings of the trial](#a-training-of-it).
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
        """Return the output of `--json`: the fields by name."""
        return asdict(self)


def read_trial(reader: StudyReader, number: int) -> TrialDetails:
    """Return all details of a trial without changing files; HpoError if the study is unreadable or lacks the trial."""
    snapshot, folder = reader.snapshot(), reader.folder
    run = reader.study()
    trial = run.trial(number, reader.reference)
    view = TrialViewMaker(run).trial(trial)
    holder, is_mirror = snapshot.status.holder, "://" in reader.reference
    is_active = snapshot.status.state == "running" or is_outside(run.config)
    is_complete = trial.state == "complete"
    return TrialDetails(
        study=snapshot.status.name if is_mirror else folder.path.name,
        folder=None if is_mirror else folder.path,
        copied=snapshot.copied,
        trial=number,
        # In the record, unfinished trials are running even if no process trains them.
        state="interrupted" if trial.state == "running" and not is_active else trial.state,
        metric=run.goal.metric,
        score=view.score,
        scores=view.scores,
        search_scores=view.search_scores,
        texts=view.texts,
        search_texts=view.search_texts,
        excess=trial.excess if is_complete and run.goal.limits else None,
        point=view.point,
        default=view.default,
        config=config_as_of(run.config, run.notes.allowed_changes, number).trial_config(trial.point),
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
        tasks=[*_trainings(run, snapshot, trial)],
    )


def _trainings(run: StudyRun, snapshot: Snapshot, trial: Trial) -> Iterator[TrainingDetails]:
    layout, metric = run.layout, run.goal.metric
    asked = run.record.asked.get(trial.number) if trial.state == "running" else None
    running = {0: _asked_task(trial.number, asked, metric)} if asked else {}
    running |= {task.task: task for task in snapshot.tasks if task.trial == trial.number}
    for index in range(layout.size):
        name = layout.name(index)
        seed = training_seed(run.config.study.seed, trial.key, layout.fold(index), layout.repeat(index))
        training, path = TrainingDetails(name, seed), run.folder.log_path(trial.number, name)
        if (outcome := trial.outcomes.get(index)) is not None:
            training = _add_outcome(training, outcome, metric, run.record.hosts.get((trial.number, index)))
        elif (task := running.get(index)) is not None:
            training = _add_running(training, task)
        if files := run.folder.files_of(trial.number, name if layout.size > 1 else None):
            training = replace(training, files=files)
        if path.is_file():
            training = replace(training, log=path, printed_last=read_log(path, _END_BYTES).splitlines()[-_LINES:])
        yield training


def _add_outcome(training: TrainingDetails, outcome: Outcome, metric: str, host: Host | None) -> TrainingDetails:
    # The recorded host may belong to an earlier process, because a further training after the search runs in another.
    is_same_process = host is not None and outcome.worker in (0, host.process)
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
        host=host.host if host and is_same_process else None,
        process=outcome.worker or (host.process if host else None),
        gpus=[*host.gpus] if host and is_same_process else [],
        attempt=outcome.attempt,
        error=outcome.error,
        details=outcome.details,
        stopped=outcome.stopped,
    )


def _add_running(training: TrainingDetails, task: RunningTask) -> TrainingDetails:
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
    """Return pairs of step and metric; if a point has no step, use its position in the curve, counted from 1."""
    return [
        (point.get("epoch", point.get("step", place)), point[metric])
        for place, point in enumerate(points, 1)
        if metric in point
    ]


def _asked_task(trial: int, asked: Asked, metric: str) -> RunningTask:
    """Return the running training of an ask-and-tell trial: the trial was asked for, and has no result yet."""
    point, curve = dict(asked.curve[-1]) if asked.curve else {}, _curve(asked.curve, metric)
    return RunningTask(trial=trial, task=0, worker=asked.place - 1, started=asked.time, point=point, curve=curve)
