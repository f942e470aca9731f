"""All studies in a folder: what each has come to, filtered and sorted; records are opened of killed searches alone."""

import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpo.errors import HpoError, StudyError, first_line
from hpo.interface.looking.where import Kind, condition, known_field
from hpo.study.files.folder import RUNS, StudyFolder, is_training, refuse_link
from hpo.study.files.status import Status
from hpo.study.files.user_notes import tags
from hpo.study.view.latest import latest_status

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

    table = pd.DataFrame(list_studies(Path(in_), where, sort), columns=[*FIELDS])
    return table.assign(**{field: pd.to_datetime(table[field], utc=True) for field in _TIMES})


def list_studies(folder: Path, where: str | None = None, sort: str | None = None) -> list[dict[str, Any]]:
    """Return the same as a list of mappings; times are texts in ISO 8601, sizes in bytes."""
    fits = condition(where, FIELDS) if where is not None else lambda _: True
    by = None if sort is None else known_field(sort.removeprefix("-"), FIELDS, "sort")
    rows = sorted(_rows(folder), key=lambda row: str(row["date"]), reverse=True)
    rows = [row for row in rows if fits(row)]
    if by is None:
        return rows
    known, missing = ([row for row in rows if (row[by] is None) == is_missing] for is_missing in (False, True))
    return [*sorted(known, key=lambda row: row[by], reverse=sort != by), *missing]


def _folders(folder: Path) -> Iterator[Path]:
    """Yield the folders of studies, and those that cannot be entered."""
    try:
        # What is hidden is being copied or removed.
        paths = sorted(path for path in folder.iterdir() if not (path.name.startswith(".") or is_training(path)))
    except FileNotFoundError as error:
        if folder == RUNS:
            return
        raise StudyError(f"in: there is no folder {folder}; give the folder in which studies are") from error
    except OSError as error:
        raise StudyError(
            f"in: {folder} cannot be read: {error.strerror}; give the folder in which studies are"
        ) from error
    for path in paths:
        try:
            (path / "config.yaml").stat()
        except PermissionError:
            yield path
        except OSError:
            if StudyFolder(path).is_starting or StudyFolder(path).is_import:
                yield path
        else:
            yield path


def _rows(folder: Path) -> Iterator[dict[str, Any]]:
    for path in _folders(folder):
        # It may be removed meanwhile.
        with suppress(FileNotFoundError):
            yield _row(path)


def _row(path: Path) -> dict[str, Any]:
    folder = StudyFolder(path)
    try:
        refuse_link(path)
        status = latest_status(folder)
    except HpoError as error:
        status = Status(name=path.name, state="unreadable", error=first_line(error))
    holder, trials = status.holder, status.trials
    metric = next(iter(status.metrics), None)
    return {
        "name": path.name,
        "state": status.state,
        "since": _time(holder.since) if holder else None,
        "process": holder.process if holder else None,
        "host": holder.host if holder else None,
        "done": status.done if status.budget else None,
        "budget": status.budget or None,
        "counts": status.counts,
        "following": status.following,
        "score": status.score,
        "search_score": status.search_scores.get(metric or ""),
        "best": status.best,
        "metric": metric,
        "direction": status.metrics.get(metric or ""),
        "strategy": status.strategy or None,
        "data": status.data or None,
        "tags": ", ".join(f"{key}={value}" for key, value in _tags(folder).items()) or None,
        "test": status.test.get(metric or ""),
        "on_front": status.on_front,
        **{state: trials.get(state) for state in ("complete", "failed", "stopped", "running")},
        "minutes": status.minutes,
        "size": _size(path),
        "date": _time(status.begun if status.begun is not None else path.lstat().st_mtime),
        "ended_by": status.ended_by,
        "error": status.error,
        "folder": str(folder.path),
    }


def _tags(folder: StudyFolder) -> dict[str, str]:
    # Where they cannot be read, that is told as the study's error.
    with suppress(OSError):
        return tags(folder)
    return {}


def _size(folder: Path | str) -> int:
    """Return how many bytes lie below a folder; links are not followed, and what cannot be entered is left out."""
    size = 0
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                is_folder = entry.is_dir(follow_symlinks=False)
                size += _size(entry.path) if is_folder else entry.stat(follow_symlinks=False).st_size
    except OSError:
        # It was removed meanwhile, or is another's.
        return size
    return size


def _time(seconds: float) -> str:
    """Return a time of this machine in ISO 8601, with its distance to UTC."""
    return datetime.fromtimestamp(seconds).astimezone().isoformat(timespec="seconds")
