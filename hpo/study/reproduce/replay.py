"""Runs a whole search again, and compares the new trials with the original trials."""

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
from hpo.trials.table import FOLD, TIMES, Row, deciding_columns, metric_columns, read_rows

# The columns, in addition to scores, that change when a trial is trained further.
_AMOUNT_COLUMNS = ("amount", "cost")
# The columns that are computed from the scores of all trials and the limits.
_DERIVED = ("is_on_front", "excess")


@dataclass(frozen=True)
class Replay:
    """A replay: a recorded search that is run again under another name.

    Attributes:
        files: the original study's files.
        tree: the replay's configuration.
        rows: the rows of the original trials.csv.
    """

    files: StudyFiles
    tree: Mapping[str, Any]
    rows: Sequence[Row]

    def study_of(self, prepared: PreparedStudy) -> PreparedStudy:
        """Return the replay's prepared study.

        In the replay, the search repeats two user actions: it adds the points that users added to the original study,
        and stops the trials that they stopped. If `study.order` is `free`, also set the field `script`: the outcomes
        that were known at each original proposal.

        Raises:
            HpoError: `added_points` or `user_actions` in the report cannot be read.
        """
        added = read_added(self.files.report.get("added_points", ()), prepared.space)
        actions = read_actions(self.files.report.get("user_actions", ()))
        # In free order, a proposal depends on the outcomes that were known at its time.
        rows = self.rows if self.files.config.study.order != "clock" else ()
        script = tuple(tuple(map(int, (row.get("learned") or "").split())) for row in rows)
        return replace(prepared, script=script, added=added, actions=actions, replays=self.files.folder)


def refuse_changed_config(files: StudyFiles) -> None:
    """Raise StudyError if the search has had several configurations, because a replay can have only one."""
    for change in files.allowed:
        if any(line.startswith("config:") for line in change.changes):
            raise StudyError(
                f"{files.folder}: its configuration changed after {change.trials or 'some'} trials, so its search "
                f"cannot be replayed; `hpo reproduce {files.folder} --trial all` trains its trials again"
            )


def read_added(reported: Any, space: Space) -> tuple[AddedPoint, ...]:
    """Return the points that users added to a search; raise HpoError if the points cannot be read.

    `reported` is the value of `added_points` in report.json: a list of points, or a mapping with the reason why the
    points are missing. For a mapping, return an empty tuple.
    """
    where = "report.json: added_points"
    if isinstance(reported, Mapping):
        # Instead of these points, the report has the reason why they are missing.
        return ()
    try:
        return tuple(_added_point(each, read_point(where, each["point"], space, {})) for each in reported)
    except (KeyError, TypeError, ValueError) as error:
        raise StudyError(
            f"{where}: must be a list of points (mappings with the keys `point` and `after`), given {reported!r:.80}; "
            f"restore report.json"
        ) from error


def _added_point(reported: Mapping[str, Any], point: Point) -> AddedPoint:
    after, retry_of = int(reported["after"]), reported.get("retry_of")
    if retry_of is not None and int(retry_of) not in range(after):
        raise ValueError(f"retry_of: must be the number of one of the {after} earlier trials, given {retry_of}")
    return AddedPoint(point, after, retry_of=retry_of)


def read_actions(reported: Any) -> tuple[RecordedAction, ...]:
    """Return the user actions that stopped trials; StudyError if the actions cannot be read.

    `reported` is `user_actions` of the report: a list of actions, or a mapping that says why the actions are missing.
    For a mapping, return ().
    """
    if isinstance(reported, Mapping):
        return ()
    try:
        actions = map(RecordedAction.from_dict, reported)
        return tuple(action for action in actions if action.do == "stop_trial")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise StudyError(
            f"report.json: user_actions: must be a list of user actions, given {reported!r:.80}; restore the file"
        ) from error


def compare_trials(replay: Replay, replayed: Path) -> tuple[int, dict[int, list[str]]]:
    """Compare the trials of a replay with the original trials.

    If only one of the two studies trained a trial further after the search, skip that trial's scores, amount and cost.

    Args:
        replay: the replay, with the rows of the original trials.
        replayed: the path of the replay's trials.csv.

    Returns:
        The number of compared trials, and the names of the differing columns by trial number.
    """
    now = read_rows(replayed, ["number"])
    nothing: Row = {}
    pairs = enumerate(zip_longest(replay.rows, now, fillvalue=nothing))
    reports = (replay.files.report, StudyFolder(replayed.absolute().parent).report())
    further = {str(number) for report in reports for number in inner(report, "counts").get("further_trained") or ()}
    config, tolerance = replay.files.config, replay.files.tolerance
    goal, keys = goal_of(config.study), space_from_dict(config.space, flatten(config.objective_config)).keys
    differing = {
        place: columns
        for place, (old, new) in pairs
        if (columns := _differing_columns(old, new, goal, keys, tolerance, old.get("number") in further))
    }
    return max(len(replay.rows), len(now)), differing


def _differing_columns(
    old: Row, new: Row, goal: Goal, keys: Collection[str], tolerance: float, is_further: bool
) -> list[str]:
    # With slightly different scores, a training may stop at another epoch, with another cost.
    ignored = {*TIMES, *(("cost", "learned") if tolerance else ()), *(() if goal.is_single else _DERIVED)}
    has_other_amount = is_further and old.get("amount") != new.get("amount")
    columns = {**old, **new}
    scores = {key for key in columns if FOLD.fullmatch(key)} | {*metric_columns(columns, goal).values()}
    return sorted(
        key
        for key in deciding_columns(columns, keys, goal)
        if key not in ignored
        and not (has_other_amount and (key in _AMOUNT_COLUMNS or key in scores))
        and not _are_equal(old.get(key), new.get(key), tolerance if key in scores else None)
    )


def _are_equal(old: str | None, new: str | None, tolerance: float | None) -> bool:
    if old == new or tolerance is None or not old or not new:
        return old == new
    return math.isclose(float(old), float(new), rel_tol=tolerance, abs_tol=0.0)
