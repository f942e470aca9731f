"""A study's status as those see it who only look on: of its file, or of its record where its process was killed."""

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

from hpo.errors import HpoError
from hpo.study.files.folder import StudyFolder
from hpo.study.files.status import STATES, Status, read_status

if TYPE_CHECKING:
    from hpo.study.looking.seen import SeenStudy


def latest_status(folder: StudyFolder) -> Status:
    """Return a study's status; of one whose process was killed with what its record holds, if that can be read."""
    status = read_status(folder)
    if status.lags and status.state in ("interrupted", "open"):
        # Here, since few studies need it, and it loads numpy.
        from hpo.study.looking.seen import SeenStudy

        with suppress(HpoError):
            return _as_recorded(status, SeenStudy.at(folder))
    return status


def _as_recorded(status: Status, seen: "SeenStudy") -> Status:
    from hpo.engine.course.rules import is_counted

    trials, best = Counter[str](trial.state for trial in seen.trials), seen.best
    counted = {
        "done": sum(is_counted(trial, seen.counts) for trial in seen.history),
        "trials": {state: trials[state] for state in STATES},
        "best": best.number if best else None,
        "scores": {name: best.mean(name) for name in seen.goal.names} if best else {},
        "search_scores": {},
        "on_front": len(seen.history.front) if len(seen.goal.metrics) > 1 else None,
    }
    return status.model_copy(update=counted)
