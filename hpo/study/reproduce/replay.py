"""A search that is run again as a whole, and the trials that differ."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from hpo.config.keys import flatten
from hpo.errors import StudyError
from hpo.study.files.folder import StudyFolder, inner
from hpo.study.reproduce.recorded import StudyFiles
from hpo.study.study import PreparedStudy
from hpo.trials.goal import Goal, goal_of
from hpo.trials.record.user_actions import AddedPoint, RecordedAction
from hpo.trials.space.first_points import read_point
from hpo.trials.space.reader import space_from_dict
from hpo.trials.space.space import Point, Space
from hpo.trials.table import TIMES, Row, deciding_columns, metric_columns, read_rows

# Besides scores, what differs where a trial was trained further.
_OF_AMOUNTS = ("amount", "cost")
# What follows from the scores of all trials, and from the limits.
_DERIVED = ("is_on_front", "excess")


@dataclass(frozen=True)
class Replay:
    """A search that is run again by `tree`, under another name, and the rows of trials.csv that are compared."""

    files: StudyFiles
    tree: Mapping[str, Any]
    rows: Sequence[Row]

    def study_of(self, prepared: PreparedStudy) -> PreparedStudy:
        """Return a prepared study of the configuration with what else decides its trials, and where it comes from."""
        added = read_added(self.files.report.get("added_points", ()), prepared.space)
        actions = read_actions(self.files.report.get("user_actions", ()))
        # In free order, what each trial learned decides what is proposed.
        rows = self.rows if self.files.config.study.order != "clock" else ()
        script = tuple(tuple(map(int, (row.get("learned") or "").split())) for row in rows)
        return replace(prepared, script=script, added=added, actions=actions, replays=self.files.folder)


def refuse_two_parts(files: StudyFiles) -> None:
    """Raise StudyError where a search was continued with another configuration: it cannot be run again as one."""
    for change in files.allowed:
        if any(line.startswith("config:") for line in change.changes):
            raise StudyError(
                f"{files.folder}: its configuration was changed after {change.trials or 'some'} trials, so the search "
                f"cannot be run again as one; `hpo reproduce {files.folder} --trial all` trains its trials again"
            )


def read_added(reported: Any, space: Space) -> tuple[AddedPoint, ...]:
    """Return the points that users added to a search, from a report; StudyError where they cannot be read."""
    where = "report.json: added_points"
    if isinstance(reported, Mapping):
        # A report that could not be filled says why.
        return ()
    try:
        return tuple(_added(each, read_point(where, each["point"], space, {})) for each in reported)
    except (KeyError, TypeError, ValueError) as error:
        raise StudyError(
            f"{where}: must be points with their place, given {reported!r:.80}; restore the file"
        ) from error


def _added(reported: Mapping[str, Any], point: Point) -> AddedPoint:
    after, retry_of = int(reported["after"]), reported.get("retry_of")
    if retry_of is not None and int(retry_of) not in range(after):
        raise ValueError(f"retry_of: must be one of the {after} trials before it, given {retry_of}")
    return AddedPoint(point, after, retry_of=retry_of)


def read_actions(reported: Any) -> tuple[RecordedAction, ...]:
    """Return the stops of trials by users, from a report; StudyError where they cannot be read."""
    if isinstance(reported, Mapping):
        return ()
    try:
        actions = map(RecordedAction.from_dict, reported)
        return tuple(action for action in actions if action.do == "stop_trial")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise StudyError(
            f"report.json: user_actions: must be actions, given {reported!r:.80}; restore the file"
        ) from error


def compare_trials(replay: Replay, replayed: Path) -> tuple[int, dict[int, list[str]]]:
    """Return the number of trials compared, and the differing columns by the numbers of the trials that differ.

    Of a trial that was trained on after only one of the searches, which may have had another budget, the points count.
    """
    now = read_rows(replayed, ["number"])
    nothing: Row = {}
    pairs = enumerate(zip_longest(replay.rows, now, fillvalue=nothing))
    reports = (replay.files.report, StudyFolder(replayed.absolute().parent).report())
    later = {str(number) for report in reports for number in inner(report, "counts").get("further_trained") or ()}
    config, tolerance = replay.files.config, replay.files.tolerance
    goal, keys = goal_of(config.study), space_from_dict(config.space, flatten(config.objective_config)).keys
    differing = {
        place: found
        for place, (old, new) in pairs
        if (found := _differing(old, new, goal, keys, tolerance, old.get("number") in later))
    }
    return max(len(replay.rows), len(now)), differing


def _differing(old: Row, new: Row, goal: Goal, keys: Collection[str], tolerance: float, is_later: bool) -> list[str]:
    # With other scores a training may stop an epoch sooner, and so cost less and be known sooner.
    free = {*TIMES, *(("cost", "learned") if tolerance else ()), *(() if goal.is_single else _DERIVED)}
    is_otherwise = is_later and old.get("amount") != new.get("amount")
    columns = {**old, **new}
    scores = {key for key in columns if key.startswith("fold_")} | {*metric_columns(columns, goal).values()}
    return sorted(
        key
        for key in deciding_columns(columns, keys, goal)
        if key not in free
        and not (is_otherwise and (key in _OF_AMOUNTS or key in scores))
        and not _agree(old.get(key), new.get(key), tolerance if key in scores else None)
    )


def _agree(old: str | None, new: str | None, tolerance: float | None) -> bool:
    if old == new or tolerance is None or not old or not new:
        return old == new
    return math.isclose(float(old), float(new), rel_tol=tolerance, abs_tol=0.0)
