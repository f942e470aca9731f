"""Fields 1 and 24 of the report: the environment and the cost of the study."""

import bisect
import itertools
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

from pydantic import Field
from typing_extensions import TypedDict

from hpo.formatting import format_count, format_duration
from hpo.report.part import Block, Count, Missing, Paragraph, Seconds, Share, Text, missing, reason_missing, require
from hpo.report.sections import ReportJson
from hpo.report.subject import Subject
from hpo.trials.record.record import Stretch
from hpo.trials.trial import Outcome, Trial, seconds_trained


class EnvironmentPart(TypedDict):
    """Fields 1 and 24 of the report: the versions, the machine and the code at the study's start."""

    python: str
    platform: str
    processor: str
    cpus: int | None
    memory_bytes: int
    packages: dict[str, str]
    cuda: str
    driver: str
    gpus: list[str] | str
    commit: Text
    is_dirty: bool | Missing
    command: str


class Prediction(TypedDict):
    """How well a trial's cost on the study's clock predicts the trial's seconds of training."""

    correlation: Annotated[
        float | None,
        Field(description="correlation of log(cost) and log(seconds); null if all costs or all seconds are equal"),
    ]
    sigma: Annotated[float, Field(description="standard deviation of log(seconds / cost)")]
    factor: Annotated[
        float,
        Field(
            description="spread of the trials' ratios seconds / cost, as a factor: exp(`sigma`); for example, if "
            "`factor` is 2 and the geometric mean of the ratios is 10, about two thirds of the ratios are from 5 to 20"
        ),
    ]


class Cost(TypedDict):
    """Field 24: the time and the cost of all trainings, except the final model's (see `winner.model`)."""

    training_seconds: Seconds
    seconds_per_trial_mean: float | None
    seconds_per_trial_median: float | None
    wall_seconds: Annotated[
        float | None,
        Field(description="seconds from the start of the first task to the end of the last, excluding pauses"),
    ]
    workers_seen: Annotated[Count, Field(description="largest number of workers at the same time")]
    device: str
    device_hours: Seconds
    idle_share: Share | None
    overhead_share: Share | None
    lanes: Annotated[
        int | None,
        Field(
            description="study.lanes; null if study.order is `clock` and the search does not depend on which trial "
            "ends first, because study.lanes then has no effect"
        ),
    ]
    order: Annotated[Literal["clock", "free"], Field(description="study.order")]
    prediction: Annotated[Prediction | None, Field(description="null = fewer than three trials have cost and seconds")]


_LEAST_PAIRS = 3
_TINY = 1e-9  # a smaller standard deviation is a rounding error


def describe_cost(subject: Subject) -> Cost:
    """Return the training seconds, the wall time excluding pauses, and two shares of unused time.

    `idle_share` is the share of the wall time in which the average worker was idle. `overhead_share` is the share of
    the wall time in which all workers were idle at the same time.
    """
    gpus, seconds = subject.gpus, [trial.seconds for trial in subject.trials]
    every = [*subject.all_trainings, *subject.other_trainings]
    outcomes = [outcome for _, _, outcome in subject.outcomes]
    ran = stretch_runs(outcomes, subject.stretches)
    wall = sum(each.seconds for each in ran) if ran else None
    # Use the real number of workers. For simulated workers use the configured number, or the observed one if none is
    # set.
    workers = [max(each.workers, each.seen) if each.workers else subject.workers or each.seen for each in ran]
    worker_seconds = sum(each.seconds * number for each, number in zip(ran, workers, strict=True))
    busy = sum(outcome.seconds for outcome in outcomes)
    return {
        "training_seconds": sum(trial.seconds for trial in every),
        "seconds_per_trial_mean": statistics.fmean(seconds) if seconds else None,
        "seconds_per_trial_median": statistics.median(seconds) if seconds else None,
        "wall_seconds": wall,
        "workers_seen": max((each.seen for each in ran), default=0),
        "device": f"{gpus:g} {'GPU' if gpus <= 1 else 'GPUs'} a worker" if gpus else "CPU",
        "device_hours": busy / 3600 * (gpus or 1),
        "idle_share": None if wall is None else _unused(busy, worker_seconds),
        "overhead_share": None if wall is None else _unused(seconds_trained(every), wall),
        "lanes": subject.lanes,
        "order": subject.order,
        "prediction": predict_seconds(subject.trials),
    }


def _unused(used: float, available: float) -> float:
    """Return the share of the available seconds that were not used; 0 if no time has passed."""
    return max(0.0, 1 - used / available) if available else 0.0


def predict_seconds(trials: Sequence[Trial]) -> Prediction | None:
    """Return how well a trial's cost predicts the trial's seconds; None if fewer than three trials have both."""
    pairs = [
        (math.log(trial.total_cost), math.log(trial.seconds)) for trial in trials if trial.total_cost and trial.seconds
    ]
    if len(pairs) < _LEAST_PAIRS:
        return None
    costs, seconds = zip(*pairs, strict=True)
    sigma = statistics.stdev(second - cost for cost, second in pairs)
    varies = min(statistics.pstdev(costs), statistics.pstdev(seconds)) > _TINY
    correlation = statistics.correlation(costs, seconds) if varies else None
    return {"correlation": correlation, "sigma": sigma, "factor": math.exp(sigma)}


def read_cost(report: ReportJson) -> Iterator[Block]:
    """Yield the duration of the trainings and the idle share of the workers, or a sentence if there was no training."""
    cost = require(report["cost"])
    if cost["wall_seconds"] is None:
        yield Paragraph("There was no training.")
        return
    yield Paragraph(
        f"{format_duration(cost['training_seconds'])} of training on {format_count(cost['workers_seen'], 'worker*')}, "
        f"{format_duration(cost['wall_seconds'])} from the first task to the last, excluding pauses; "
        f"{runtime_text(cost, 'a trial')}. Idle share of the workers: {cost['idle_share']:.0%}."
    )


def runtime_text(cost: Cost, each: str) -> str:
    """Return the mean and median training time of the trials as text: `0.4 s a trial (median 0.3 s)`.

    The text is empty if there are no trials. `each` is the text after the mean, such as `a trial`.
    """
    mean, median = cost["seconds_per_trial_mean"], cost["seconds_per_trial_median"]
    if mean is None or median is None:
        return ""
    return f"{format_duration(mean)} {each} (median {format_duration(median)})"


def describe_environment(environment: Mapping[str, Any]) -> EnvironmentPart:
    """Return the machine and the code at the study's start.

    If the machine has no GPU, CUDA or driver, the text of the field `gpus`, `cuda` or `driver` begins with `none`.
    If the study was started outside of a git repository, `commit` and `is_dirty` are missing values with a reason.
    """
    given = {key: environment[key] for key in EnvironmentPart.__annotations__}
    commit = given["commit"] or missing("the study was not started inside a git repository")
    texts = {
        "cuda": given["cuda"] or "none: torch was built for the CPU",
        "gpus": given["gpus"] or "none",
        "driver": given["driver"] or "none: no NVIDIA GPU",
        "commit": commit,
        # Without a repository it is unknown whether the code had changes.
        "is_dirty": bool(given["is_dirty"]) if given["commit"] else commit,
    }
    return cast("EnvironmentPart", given | texts)


def read_environment(report: ReportJson) -> Iterator[Block]:
    """Yield the machine, the versions and the code, as recorded when the study started."""
    environment = report["environment"]
    dirty = " with uncommitted changes" if environment["is_dirty"] is True else ""
    unknown = reason_missing(environment["commit"])
    commit = f"Commit unknown: {unknown}." if unknown else f"Commit {environment['commit']}{dirty}."
    machine = f"{environment['platform']} ({environment['processor']})"
    yield Paragraph(f"Python {environment['python']} on {machine}: {versions_text(environment)}.\n{commit}")


def versions_text(environment: EnvironmentPart) -> str:
    """Return the names and the versions of the packages as text."""
    return ", ".join(f"{name} {version}" for name, version in environment["packages"].items())


@dataclass(frozen=True)
class StretchRun:
    """One uninterrupted stretch of the search.

    Attributes:
        outcomes: the outcomes of the stretch's tasks, in order of start.
        workers: the number of workers; None if the workers are simulated. Also None if the record does not say when
            each stretch started; then all tasks count as one stretch.
    """

    outcomes: Sequence[Outcome]
    workers: int | None

    @property
    def started(self) -> float:
        """The start of the first task, in seconds since the epoch; for simulated workers, in seconds of their clock."""
        return self.outcomes[0].started

    @property
    def seconds(self) -> float:
        """The seconds from the start of the first task to the end of the last task."""
        return max(outcome.started + outcome.seconds for outcome in self.outcomes) - self.started

    @property
    def seen(self) -> int:
        """The largest number of workers at the same time.

        A worker counts from the start of its first task to the end of its last task.
        """
        spans = worker_spans(self.outcomes).values()
        return max(sum(begun <= start < end for begun, end in spans) or 1 for start, _ in spans)


def stretch_runs(outcomes: Iterable[Outcome], stretches: Sequence[Stretch]) -> list[StretchRun]:
    """Return the tasks of each uninterrupted stretch of the search, in order of time.

    Tasks that never ran are left out. If `stretches` is empty, all tasks are one stretch. The tasks of simulated
    workers also are one stretch, because simulated times start at 0.
    """
    ordered = sorted((outcome for outcome in outcomes if outcome.worker), key=lambda outcome: outcome.started)
    begins = [-math.inf]
    for stretch in stretches:
        ends = (outcome.started + outcome.seconds for outcome in ordered)
        last = max((end for end in ends if end <= stretch.start), default=-math.inf)
        # Take the middle of the pause, because the clock of another machine may be behind.
        begins.append((last + stretch.start) / 2)
    workers = [None, *(stretch.workers for stretch in stretches)]
    split = itertools.groupby(ordered, key=lambda outcome: bisect.bisect_right(begins, outcome.started))
    return [StretchRun(list(group), workers[place - 1]) for place, group in split]


def worker_spans(outcomes: Iterable[Outcome]) -> dict[int, tuple[float, float]]:
    """Return two times for each worker: the start of its first task, and the end of its last task.

    The times are in seconds since the epoch, as in `Outcome.started`.
    """
    spans: dict[int, tuple[float, float]] = {}
    for outcome in outcomes:
        start, end = spans.get(outcome.worker, (outcome.started, 0.0))
        spans[outcome.worker] = min(start, outcome.started), max(end, outcome.started + outcome.seconds)
    return spans
