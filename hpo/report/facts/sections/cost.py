"""Field 24: what the study cost."""

import math
import statistics
from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from hpo.engine.trials.trial import Outcome, Trial, seconds_trained
from hpo.report.facts.schema.results import Cost, Prediction

_LEAST_PAIRS = 3
# Below it a standard deviation is rounding.
_TINY = 1e-9


def describe_cost(
    trials: Sequence[Trial],
    workers: int | None,
    gpus_per_worker: float,
    lanes: int | None = None,
    order: Literal["clock", "free"] | None = None,
) -> Cost:
    """Return the seconds of training and of the whole study, and the shares of time without training.

    Returns:
        `training_seconds` (all tasks together), `seconds_per_trial_mean` and `_median`, `wall_seconds` (first start to
        last end), `workers_seen` (at once: a resumed search has new ones), `device_hours` (training time of a worker
        with its GPUs, or with its CPUs), `idle_share` (of the workers' time, 0 to 1: no task, or between two tasks)
        and `overhead_share` (of the wall time, 0 to 1: no worker trained). None if nothing was trained. And `lanes`,
        `order` and `prediction`: how the search was planned, None in a study of before the clock.
    """
    seconds = [trial.seconds for trial in trials]
    outcomes = [outcome for trial in trials for outcome in trial.outcomes.values() if outcome.worker]
    intervals = sorted((outcome.started, outcome.started + outcome.seconds) for outcome in outcomes)
    wall = max(end for _, end in intervals) - intervals[0][0] if intervals else None
    seen = _at_once(worker_spans(outcomes).values())
    busy = sum(outcome.seconds for outcome in outcomes)
    return {
        "training_seconds": sum(seconds),
        "seconds_per_trial_mean": statistics.fmean(seconds) if seconds else None,
        "seconds_per_trial_median": statistics.median(seconds) if seconds else None,
        "wall_seconds": wall,
        "workers_seen": seen,
        "device": f"{gpus_per_worker:g} GPU(s) a worker" if gpus_per_worker else "CPU",
        "device_hours": busy / 3600 * (gpus_per_worker or 1),
        # Of the time of all configured workers; of those seen, if as many as fit were configured.
        "idle_share": max(0.0, 1 - busy / (wall * (workers or seen))) if wall else None,
        "overhead_share": max(0.0, 1 - seconds_trained(trials) / wall) if wall else None,
        "lanes": lanes,
        "order": order,
        "prediction": predict_seconds(trials),
    }


def worker_spans(outcomes: Iterable[Outcome]) -> dict[int, tuple[float, float]]:
    """Return for each worker the start of its first task and the end of its last, in seconds since the epoch."""
    spans: dict[int, tuple[float, float]] = {}
    for outcome in outcomes:
        start, end = spans.get(outcome.worker, (outcome.started, 0.0))
        spans[outcome.worker] = min(start, outcome.started), max(end, outcome.started + outcome.seconds)
    return spans


def _at_once(spans: Collection[tuple[float, float]]) -> int:
    """Return the largest number of workers that were there at the same time."""
    begun_before = ([other for other in spans if other[0] <= start < other[1]] for start, _ in spans)
    return max((len(others) or 1 for others in begun_before), default=0)


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
