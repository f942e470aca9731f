"""All studies in a folder: what each has come to, filtered and sorted; records are opened of killed searches alone."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpo.commands.where import Kind, condition, known_field
from hpo.study.files.folder import RUNS, listed_in
from hpo.study.view.from_status import size_of, view_in_list
from hpo.study.view.view import StudyView

if TYPE_CHECKING:
    import pandas as pd

FIELDS: dict[str, Kind] = {
    **dict.fromkeys(("name", "state"), "text"),
    "since": "time",
    "process": "number",
    "host": "text",
    **dict.fromkeys(("done", "budget"), "number"),
    "counts": "text",
    "following": "text",
    **dict.fromkeys(("score", "search_score", "best"), "number"),
    **dict.fromkeys(("metric", "direction", "strategy", "data", "tags"), "text"),
    **dict.fromkeys(("test", "on_front", "complete", "failed", "stopped", "running", "minutes", "size"), "number"),
    "date": "time",
    **dict.fromkeys(("ended_by", "error", "folder"), "text"),
}
"""What is known of each study: its field, and of which kind that is; see `studies`."""

_TIMES = ("since", "date")


def studies(in_: Path | str = RUNS, where: str | None = None, sort: str | None = None) -> "pd.DataFrame":
    """Return a row for each study in a folder, the one that began last first; nothing is opened, created or changed.

    Args:
        in_: the folder of the studies' folders, such as `runs` or, of published ones, `studies`.
        where: which ones, such as `"strategy=evolutionary and score>0.9"`: fields are compared by =, !=, <, <=, >, >=
            and ~ (contains), and joined by and, or, not.
        sort: by which field, with `-` before it from high to low.

    Returns:
        Columns: `name`; `state` (running, interrupted, open, ended, failed, imported, unreadable); `since`, `process`,
        `host` of the process that runs it; `done` of `budget`, which counts `counts` (trials, or configurations);
        `following`, what is trained after the search; `score`, that of trial `best` in `metric`, better by
        `direction`, and where fresh seeds chose it `search_score`; `strategy`, `data`; `tags`, as `key=value`;
        `test`, the metric on the test part, where that was opened; `on_front`, how many trials the front has, of
        several metrics; `complete`, `failed`, `stopped`, `running`, trials by state; `minutes` of search; `size` in
        bytes; `date` when it began; `ended_by`; `error`, why it failed or cannot be read; `folder`.

    Raises:
        hpo.HpoError: there is no such folder, or field, or the condition cannot be read.
    """
    import pandas as pd  # here: it takes half a second

    table = pd.DataFrame([*map(_row, list_studies(Path(in_), where, sort))], columns=[*FIELDS])
    return table.assign(**{field: pd.to_datetime(table[field], utc=True) for field in _TIMES})


def list_studies(folder: Path, where: str | None = None, sort: str | None = None) -> list[StudyView]:
    """Return the views of the studies in a folder; what a list does not tell is None in them."""
    fits = condition(where, FIELDS) if where is not None else lambda _: True
    by = None if sort is None else known_field(sort.removeprefix("-"), FIELDS, "sort")
    rows = sorted(_rows(folder), key=lambda row: str(row[0]["date"]), reverse=True)
    rows = [row for row in rows if fits(row[0])]
    if by is not None:
        known, missing = ([row for row in rows if (row[0][by] is None) == is_missing] for is_missing in (False, True))
        rows = [*sorted(known, key=lambda row: row[0][by], reverse=sort != by), *missing]
    return [view for _, view in rows]


def _rows(folder: Path) -> Iterator[tuple[dict[str, Any], StudyView]]:
    for path in listed_in(folder):
        # It may be removed meanwhile.
        with suppress(FileNotFoundError):
            view = replace(view_in_list(path), size=size_of(path))
            yield _row(view), view


def _row(view: StudyView) -> dict[str, Any]:
    process, metric, best = view.process, view.metric, view.best
    return {
        "name": view.study,
        "state": view.state,
        "since": _time(process.since) if process else None,
        "process": process.process if process else None,
        "host": process.host if process else None,
        "done": view.done if view.budget else None,
        "budget": view.budget,
        "counts": view.counts,
        "following": view.following,
        "score": best.score if best else None,
        "search_score": best.search_scores.get(metric or "") if best else None,
        "best": best.trial if best else None,
        "metric": metric,
        "direction": view.direction,
        "strategy": view.strategy,
        "data": view.data,
        "tags": ", ".join(f"{key}={value}" for key, value in view.tags.items()) or None,
        "test": view.test.get(metric or ""),
        "on_front": view.on_front,
        **{state: view.trials.get(state) for state in ("complete", "failed", "stopped", "running")},
        "minutes": view.minutes,
        "size": view.size,
        "date": None if view.begun is None else _time(view.begun),
        "ended_by": view.ended_by,
        "error": view.error,
        "folder": str(view.folder),
    }


def _time(seconds: float) -> str:
    """Return a time of this machine in ISO 8601, with its distance to UTC."""
    return datetime.fromtimestamp(seconds).astimezone().isoformat(timespec="seconds")
