"""The winner of a study of which only trials.csv and report.json are at hand."""

from collections.abc import Iterable, Mapping
from typing import Any

from hpo.engine.trials.table import Row
from hpo.engine.trials.trial import Direction, loss_of, rank
from hpo.errors import StudyError


def recorded_winner(rows: Iterable[Row], report: Mapping[str, Any], direction: Direction) -> Row | None:
    """Return the winner's row of a trials.csv: the one named in `report` (report.json, may be empty), or the best."""
    complete = [row for row in rows if row["state"] == "complete"]
    named = report.get("winner")
    if isinstance(named, Mapping) and (same := [row for row in complete if row["number"] == str(named.get("number"))]):
        return same[0]
    try:
        ranks = {
            rank(int(row.get("amount") or 0), loss_of(float(row["score"]), direction), int(row["number"])): row
            for row in complete
        }
    except ValueError as error:
        raise StudyError(f"trials.csv: {error}; restore the file") from error
    return ranks[min(ranks)] if ranks else None
