"""What the study cost: field 24."""

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, NotRequired

from pydantic import Field, with_config
from typing_extensions import TypedDict

from hpo.engine.record.record import Stretch
from hpo.engine.trials.trial import Trial, seconds_trained
from hpo.report.analysis.stretches import stretch_runs
from hpo.report.blocks import Block, Paragraph
from hpo.report.missing import EXACT, Count, Seconds, Share, require
from hpo.report.subject import Subject
from hpo.study.study import Study

if TYPE_CHECKING:
    from hpo.report.sections.report import ReportJson


@with_config(EXACT)
class Prediction(TypedDict):
    """How well the cost of a trial, on the study's clock, predicts its seconds."""

    correlation: Annotated[float | None, Field(description="of the logarithms; null where all costs are the same")]
    sigma: Annotated[float, Field(description="standard deviation of log(seconds / cost)")]
    factor: Annotated[float, Field(description="exp(sigma): two of three trials lie within it")]


@with_config(EXACT)
class Cost(TypedDict):
    """Field 24."""

    training_seconds: Seconds
    seconds_per_trial_mean: float | None
    seconds_per_trial_median: float | None
    wall_seconds: Annotated[float | None, Field(description="first start to last end, without pauses of the search")]
    workers_seen: Annotated[Count, Field(description="at once")]
    device: str
    device_hours: Seconds
    idle_share: Share | None
    overhead_share: Share | None
    lanes: NotRequired[Annotated[int | None, Field(description="trainings planned to be under way at once")]]
    order: NotRequired[Annotated[Literal["clock", "free"] | None, Field(description="null before there was a clock")]]
    prediction: NotRequired[Prediction | None]


_LEAST_PAIRS = 3


# Below it a standard deviation is rounding.
_TINY = 1e-9


def describe_cost(
    trials: Sequence[Trial],
    workers: int | None,
    gpus_per_worker: float,
    lanes: int | None = None,
    order: Literal["clock", "free"] | None = None,
    stretches: Sequence[Stretch] = (),
) -> Cost:
    """Return the seconds of training and of the whole study, and the shares of time without training.

    Returns:
        `training_seconds` (all tasks together), `seconds_per_trial_mean` and `_median`, `wall_seconds` (first start to
        last end, without the pauses between stretches), `workers_seen` (at once: a resumed search has new ones),
        `device_hours` (training time of a worker with its GPUs, or with its CPUs), `idle_share` (of the workers' time,
        0 to 1: no task, or between two tasks) and `overhead_share` (of the wall time, 0 to 1: no worker trained). None
        if nothing was trained. And `lanes`, `order` and `prediction`: how the search was planned, None in a study of
        before the clock.
    """
    seconds = [trial.seconds for trial in trials]
    outcomes = [outcome for trial in trials for outcome in trial.outcomes.values() if outcome.worker]
    ran = stretch_runs(outcomes, stretches)
    wall = sum(each.seconds for each in ran) if ran else None
    # Of the workers that there were; in an older record those configured, or seen, if as many as fit were configured.
    there = [max(each.workers, each.seen) if each.workers else workers or each.seen for each in ran]
    time_there = sum(each.seconds * number for each, number in zip(ran, there, strict=True))
    busy = sum(outcome.seconds for outcome in outcomes)
    return {
        "training_seconds": sum(seconds),
        "seconds_per_trial_mean": statistics.fmean(seconds) if seconds else None,
        "seconds_per_trial_median": statistics.median(seconds) if seconds else None,
        "wall_seconds": wall,
        "workers_seen": max((each.seen for each in ran), default=0),
        "device": f"{gpus_per_worker:g} GPU(s) a worker" if gpus_per_worker else "CPU",
        "device_hours": busy / 3600 * (gpus_per_worker or 1),
        "idle_share": max(0.0, 1 - busy / time_there) if wall else None,
        "overhead_share": max(0.0, 1 - seconds_trained(trials) / wall) if wall else None,
        "lanes": lanes,
        "order": order,
        "prediction": predict_seconds(trials),
    }


def predict_seconds(trials: Sequence[Trial]) -> Prediction | None:
    """Return how well the cost of a trial predicts its seconds; None for fewer than three trials with both.

    Returns:
        `correlation` of the logarithms (None where all costs are the same), `sigma`, the standard deviation of
        log(seconds / cost), and `factor`, exp(sigma): about two of three trials lie within that factor of what their
        cost says.
    """
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


def describe_study_cost(study: Study, subject: Subject, gpu_share: float | None) -> Cost:
    """Return the cost of a study, with what its configuration planned."""
    dispatch, section = study.config.dispatch, study.config.study
    order = section.order if study.has_clock else None
    lanes = section.lanes if study.waits or order == "free" else None
    gpus = (dispatch.gpus_per_worker or 0.0) if gpu_share is None else gpu_share
    return describe_cost(subject.as_they_ran, dispatch.workers, gpus, lanes, order, subject.stretches)


def read_cost(report: "ReportJson") -> Iterator[Block]:
    """Say how long the trainings took, and how much of their time the workers were idle."""
    cost = require(report["cost"])
    if cost["wall_seconds"] is None:
        yield Paragraph("Nothing was trained.")
        return
    yield Paragraph(
        f"{cost['training_seconds']:.0f} s of training on {cost['workers_seen']} worker(s), first start to last end "
        f"{cost['wall_seconds']:.0f} s without pauses; {cost['seconds_per_trial_mean']:.1f} s a trial (median "
        f"{cost['seconds_per_trial_median']:.1f} s). Idle share of the workers: {cost['idle_share']:.0%}."
    )
