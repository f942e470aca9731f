"""The figures of a report, as `report.json` holds them."""

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

from hpo.final import noted_final_model
from hpo.finalists import choose_winner, describe_finalists
from hpo.keys import flatten
from hpo.record import Record
from hpo.report.cautions import cautions
from hpo.report.expected_performance import describe_expected
from hpo.study import Study
from hpo.trials import Trial

FORMAT = 1

_CHOSEN_BY = {
    False: "the best mean score over the folds; the earlier trial on ties",
    True: "of the best trials of the search, the best mean score on fresh seeds",
}


def summarise(study: Study, record: Record) -> dict[str, Any]:
    """Return everything that is reported of a study, JSON-able."""
    config = study.config
    trials = record.trials()
    winner = choose_winner(study, record)
    summary = {
        "format": FORMAT,
        "study": {
            "name": config.study.name,
            "id": record.noted("id"),
            "seed": config.study.seed,
            "objective": config.objective,
            "rerun": rerun_command(study),
        },
        "data": _data(study),
        "metric": {
            "name": config.study.metric,
            "direction": config.study.direction,
            "aggregation": "mean over folds and repeats",
            "checkpoint": "the epoch with the best validation value",
        },
        "space": study.space.to_dict(),
        "space_size": study.space.size,
        "space_rules": [constraint.text for constraint in study.space.constraints],
        "first": [dict(point) for point in study.space.first],
        "fixed": {key: v for key, v in flatten(config.trial).items() if key not in study.space.keys},
        "strategy": dict(config.strategy) | {"rounds_run": 1 + max((t.round for t in trials), default=-1)},
        "counts": _counts(trials, config.study.trials, study.grid.size),
        "winner": _winner(study, record, winner) if winner else None,
        "finalists": describe_finalists(study, record),
        "imported": len(study.imported(record)),
        "top": [_short(trial) for trial in record.history().ranked(5) if trial.state == "complete"],
        "cost": _cost(trials, config.dispatch.workers),
        "test": study.folder.test_result(),
        "environment": study.environment(),
    }
    scores = [t.score for t in trials if t.state == "complete" and t.score is not None]
    return summary | {
        "expected_performance": describe_expected(config.strategy["name"], scores, config.study.direction),
        "cautions": cautions(study.space, trials, winner, config.study.metric, config.study.direction, summary),
    }


def rerun_command(study: Study) -> str:
    """Return the command that runs the same search again."""
    return f"hpo search --config {study.folder.config_path} study.name={study.config.study.name}-again"


def _data(study: Study) -> dict[str, Any]:
    if study.plan is None or study.examples is None:
        return {"name": None, "split": None}
    examples = study.examples
    return {
        "name": examples.name,
        "source": examples.source,
        "licence": examples.licence,
        "files": [dict(file) for file in examples.files],
        "size": examples.size,
        "split_seed": study.config.split.seed,
        "split": study.plan.to_dict(),
    }


def _counts(trials: Sequence[Trial], budget: int, size: int) -> dict[str, Any]:
    states = Counter(trial.state for trial in trials)
    reasons = Counter(_reason(trial) for trial in trials if trial.state == "failed")
    return {
        "budget": budget,
        "proposed": len(trials),
        "complete": states["complete"],
        "failed": states["failed"],
        "stopped": states["stopped"],
        "tasks_saved": sum(size - len(t.outcomes) for t in trials if t.state == "stopped"),
        "running": states["running"],
        "failures": dict(reasons.most_common()),
    }


def _reason(trial: Trial) -> str:
    """Return why the trial failed, without the fold, so that equal reasons count together."""
    return next(outcome.error for _, outcome in sorted(trial.outcomes.items()) if outcome.error)


def _winner(study: Study, record: Record, winner: Trial) -> dict[str, Any]:
    values = winner.values(study.config.study.metric)
    model = noted_final_model(record)
    return {
        "number": winner.number,
        "round": winner.round,
        "point": dict(winner.point),
        "score": winner.score,
        "folds": values,
        "standard_deviation": statistics.stdev(values) if len(values) > 1 else None,
        "num_parameters": max((int(n) for n in winner.values("num_parameters")), default=None),
        "config": str(study.folder.best_path),
        "model": vars(model) if model else None,
        "chosen_by": _CHOSEN_BY[study.config.study.finalists > 0],
    }


def _short(trial: Trial) -> dict[str, Any]:
    return {"number": trial.number, "score": trial.score, "point": dict(trial.point)}


def _cost(trials: Sequence[Trial], workers: int | None) -> dict[str, Any]:
    seconds = [trial.seconds for trial in trials]
    outcomes = [o for trial in trials for o in trial.outcomes.values() if o.worker]
    starts, ends = [o.started for o in outcomes], [o.started + o.seconds for o in outcomes]
    wall = max(ends) - min(starts) if outcomes else None
    seen = len({outcome.worker for outcome in outcomes})
    busy = sum(outcome.seconds for outcome in outcomes)
    return {
        "training_seconds": sum(seconds),
        "seconds_per_trial_mean": statistics.fmean(seconds) if seconds else None,
        "seconds_per_trial_median": statistics.median(seconds) if seconds else None,
        "wall_seconds": wall,
        "workers_seen": seen,
        # Of the time of all workers that were asked for; of those seen, where as many as fit were.
        "idle_share": max(0.0, 1 - busy / (wall * (workers or seen))) if wall else None,
        "best_so_far": _best_so_far(trials, min(starts, default=0.0)),
    }


def _best_so_far(trials: Sequence[Trial], start: float) -> list[dict[str, Any]]:
    """Return every improvement in the order of time: when its trial ended, its number, and its score."""
    ended = sorted(
        (max(o.started + o.seconds for o in trial.outcomes.values()) - start, trial.number, trial.score, trial.loss)
        for trial in trials
        if trial.state == "complete" and trial.score is not None
    )
    improvements: list[dict[str, Any]] = []
    best = math.inf
    for seconds, number, score, loss in ended:
        if loss < best:
            best = loss
            improvements.append({"seconds": seconds, "trial": number, "score": score})
    return improvements
