"""What a study came to, as programs read it: the object that `--json` prints of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict, TypeVar

from hpo.config.goals import Direction
from hpo.report.part import Missing, is_missing, reason_missing
from hpo.report.write import WrittenReport
from hpo.study.files.status import State
from hpo.study.study import PreparedStudy

Part = TypeVar("Part")


class TrialResult(TypedDict):
    """The winner, or one of the front; `scores` has every metric, and what has a limit; `amount` null = all of it.

    `search_scores` are those of the search, of a winner that fresh seeds chose; else null. `reached` is the amount at
    its last report.
    """

    trial: int
    score: float
    scores: Mapping[str, float]
    search_scores: Mapping[str, float] | None
    point: Mapping[str, Any]
    amount: int | None
    reached: float | None


class StudyResult(TypedDict):
    """A study, from its report; docs/reference/json.md says what each field is."""

    study: str
    folder: Path
    state: State
    metric: str
    direction: Direction
    metrics: Mapping[str, Direction]
    limits: list[str]
    done: int
    budget: int
    counts: str
    trials: Mapping[str, int]
    ended_by: str | None
    winner: TrialResult | None
    why_none: str | None
    front: list[TrialResult]
    test: Mapping[str, Any] | None
    cost: Mapping[str, Any] | None
    cautions: list[str]
    files: Mapping[str, Path]


_STATES = ("proposed", "complete", "failed", "stopped", "running", "interrupted")
_ENDED = ("complete", "failed", "stopped")


def study_result(study: PreparedStudy, report: WrittenReport, state: State = "ended") -> StudyResult:
    """Return what a study came to by its report."""
    goal, summary, section = study.goal, report.summary, study.config.study
    counts: Mapping[str, Any] = _there(summary["counts"]) or {}
    front = _there(summary.get("front"))
    trials = {name: counts.get(name, 0) for name in _STATES}
    is_by_point = study.counts == "configurations"
    return {
        "study": section.name,
        "folder": study.folder.path,
        "state": state,
        "metric": goal.metric,
        "direction": goal.direction,
        "metrics": goal.metrics,
        "limits": [str(limit) for limit in goal.limits],
        "done": counts.get("configurations", 0) if is_by_point else sum(trials[state] for state in _ENDED),
        "budget": section.trials,
        "counts": study.counts,
        "trials": trials,
        "ended_by": counts.get("ended_by"),
        "winner": None if is_missing(summary["winner"]) else _trial(summary["winner"], goal.metric),
        "why_none": reason_missing(summary["winner"]),
        "front": [] if front is None else [_trial(member, goal.metric) for member in front["members"]],
        "test": _there(summary["test"]),
        "cost": _there(summary["cost"]),
        "cautions": list(_there(summary["cautions"]) or ()),
        "files": {path.name: path for path in report.paths},
    }


def _there(part: Part | Missing | None) -> Part | None:
    return None if part is None or is_missing(part) else part


def _trial(told: Mapping[str, Any], metric: str) -> TrialResult:
    fresh, in_search = told.get("fresh"), _scores(told, metric)
    scores = in_search if fresh is None else _scores(fresh, metric)
    return {
        "trial": told["number"],
        "score": scores[metric],
        "scores": scores,
        "search_scores": None if fresh is None else in_search,
        "point": told["point"],
        "amount": told.get("amount"),
        "reached": told.get("reached"),
    }


def _scores(told: Mapping[str, Any], metric: str) -> dict[str, float]:
    spreads = told.get("scores")
    return {metric: told["score"]} if spreads is None else {name: spreads[name]["mean"] for name in spreads}
