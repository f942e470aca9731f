"""The latest status of a study: from the status file or, if the driver was killed, from the record."""

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

from hpo.errors import HpoError, first_line
from hpo.study.files.folder import IMPORT, StudyFolder, inner, short_path
from hpo.study.files.status import NOT_OURS, STATES, State, Status, read_status

if TYPE_CHECKING:
    from hpo.study.results.run import StudyRun


def latest_status(folder: StudyFolder) -> Status:
    """Return a study's status; if the record may have newer trials, try to update the status from the record."""
    if folder.is_import:
        return _imported_status(folder)
    status = read_status(folder)
    if status.lags and status.state in ("interrupted", "open"):
        # Import late, because few studies need it, and it loads numpy.
        from hpo.study.results.run import StudyRun

        with suppress(HpoError):
            return _update_from_record(status, StudyRun.read(folder))
    return status


def _imported_status(folder: StudyFolder) -> Status:
    """Return the status of a folder of imported trials, including the best trial."""
    # Import late, as above.
    from hpo.trials.table import read_rows
    from hpo.trials.trial import loss_of

    try:
        about, rows = folder.read_json(IMPORT), read_rows(short_path(folder.trials_path), ("number", "state", "score"))
        metrics = about.get("metrics") or {about["metric"]: about["direction"]}
        metric, direction = next(iter(metrics.items()))
        complete = [row for row in rows if row["state"] == "complete"]
        best = min(complete, key=lambda row: loss_of(float(row["score"]), direction), default=None)
        return Status(
            name=folder.path.name,
            state="imported",
            data=str(about["source"]),
            metrics=metrics,
            best=int(best["number"]) if best else None,
            scores={metric: float(best["score"])} if best else {},
            done=len(rows),
            budget=len(rows),
            trials={state: sum(row["state"] == state for row in rows) for state in STATES},
        )
    except HpoError as error:
        why = first_line(error)
    except NOT_OURS:
        why = f"{short_path(folder.path / IMPORT)}: is not a file that `hpo import` writes; import the trials again"
    return Status(name=folder.path.name, state="unreadable", error=why)


def status_of_record(run: "StudyRun", state: State) -> Status:
    """Return a study's status with the given state; the other fields come from the record and the study's files.

    Fields that only the driver knows, such as `holder` and `updated`, have their defaults.
    """
    from hpo.engine.loop import seconds_spent

    config, described, ended = run.config, run.described, run.record.ended
    status = Status(
        name=config.study.name,
        state=state,
        study_id=run.notes.study_id or "",
        strategy=config.strategy["name"],
        data=described.name or "" if described else "",
        metrics=dict(run.goal.metrics),
        budget=config.study.trials,
        counts=run.counts,
        minutes=seconds_spent(run.record) / 60,
        ended_by=ended.by if ended and state != "running" else None,
        test=dict(inner(run.folder.read_json("test.json"), "metrics")),
    )
    return _update_from_record(status, run)


def _update_from_record(status: Status, run: "StudyRun") -> Status:
    from hpo.engine.schedule.rules import is_counted

    trials = Counter[str](trial.state for trial in run.trials)
    best = run.winner if status.state == "ended" else run.best
    fresh, names = run.fresh.get(best.number) if best else None, run.goal.names
    deciding = fresh or best
    counted = {
        # Count only the trials of the search, because trainings after the search use no budget.
        "done": sum(is_counted(trial, run.counts) for trial in run.record.history()),
        "trials": {state: trials[state] for state in STATES},
        "best": best.number if best else None,
        "scores": {name: deciding.mean(name) for name in names} if deciding else {},
        "search_scores": {name: best.mean(name) for name in names} if best and fresh else {},
        # The texts are outdated: other trials need other digits.
        "expected": None,
        "expected_texts": {},
        "texts": {},
        "search_texts": {},
        "on_front": len(run.history.front) if len(run.goal.metrics) > 1 else None,
    }
    return status.model_copy(update=counted)
