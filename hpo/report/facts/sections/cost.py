"""Field 24: what the study cost."""

import statistics
from collections.abc import Sequence

from hpo.engine.trials.trial import Trial
from hpo.report.facts.schema.results import Cost


def describe_cost(trials: Sequence[Trial], workers: int | None, gpus_per_worker: float) -> Cost:
    """Return the seconds of training and of the whole study, and the shares of time without training.

    Returns:
        `training_seconds` (all tasks together), `seconds_per_trial_mean` and `_median`, `wall_seconds` (first start to
        last end), `workers_seen`, `device_hours` (training time of a worker with its GPUs, or with its CPUs),
        `idle_share` (of the workers' time, 0 to 1: no task, or between two tasks) and `overhead_share` (of the wall
        time, 0 to 1: no worker trained). None if nothing was trained.
    """
    seconds = [trial.seconds for trial in trials]
    outcomes = [outcome for trial in trials for outcome in trial.outcomes.values() if outcome.worker]
    intervals = sorted((outcome.started, outcome.started + outcome.seconds) for outcome in outcomes)
    wall = max(end for _, end in intervals) - intervals[0][0] if intervals else None
    seen = len({outcome.worker for outcome in outcomes})
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
        "overhead_share": max(0.0, 1 - _covered(intervals) / wall) if wall else None,
    }


def _covered(intervals: Sequence[tuple[float, float]]) -> float:
    """Return the length of the union of intervals, which are sorted by start."""
    covered, reached = 0.0, float("-inf")
    for start, end in intervals:
        covered += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return covered
