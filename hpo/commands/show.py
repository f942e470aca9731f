"""`list`, `show` and `logs`: print studies, a trial, and the output of trainings.

These commands change nothing. `list` opens a study's record only if the study's status may be older than the record.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from hpo.commands.arguments import Fields, StudyOrMirror, StudyRef, Word
from hpo.commands.where import Kind, condition, known_field
from hpo.errors import ConfigError, printable
from hpo.files import size_of
from hpo.show.lines import list_texts
from hpo.show.tables import table_text
from hpo.study.files.folder import RUNS, find_study, listed_in, short_path
from hpo.study.view.from_status import view_in_list
from hpo.study.view.view import StudyView

if TYPE_CHECKING:
    import pandas as pd

    from hpo.study.view.one_trial import TrialDetails

FIELDS: dict[str, tuple[Kind, Callable[[StudyView], Any]]] = {
    "name": ("text", lambda view: view.study),
    "state": ("state", lambda view: view.state),
    "user": ("text", lambda view: view.user),
    "since": ("time", lambda view: _time(view.process.since if view.process else None)),
    "process": ("number", lambda view: view.process and view.process.process),
    "host": ("text", lambda view: view.process and view.process.host),
    "done": ("number", lambda view: view.done if view.budget else None),
    "budget": ("number", lambda view: view.budget),
    "counts": ("text", lambda view: view.counts),
    "following": ("text", lambda view: view.following),
    "score": ("number", lambda view: view.best and view.best.score),
    "expected": ("number", lambda view: view.best and view.best.expected and view.best.expected.value),
    "search_score": ("number", lambda view: view.best and view.best.search_scores.get(view.metric or "")),
    "best": ("number", lambda view: view.best and view.best.trial),
    "metric": ("text", lambda view: view.metric),
    "direction": ("text", lambda view: view.direction),
    "strategy": ("text", lambda view: view.strategy),
    "data": ("text", lambda view: view.data),
    "tags": ("text", lambda view: ", ".join(f"{key}={value}" for key, value in view.tags.items()) or None),
    "test": ("number", lambda view: view.test.get(view.metric or "")),
    "on_front": ("number", lambda view: view.on_front),
    "complete": ("number", lambda view: view.trials.get("complete")),
    "failed": ("number", lambda view: view.trials.get("failed")),
    "stopped": ("number", lambda view: view.trials.get("stopped")),
    "running": ("number", lambda view: view.trials.get("running")),
    "minutes": ("number", lambda view: view.minutes),
    "size": ("number", lambda view: view.size),
    "date": ("time", lambda view: _time(view.begun)),
    "ended_by": ("text", lambda view: view.ended_by),
    "error": ("text", lambda view: view.error),
    "folder": ("text", lambda view: str(view.folder)),
}
"""By field of `hpo list`: the kind of the field, and a function that returns the field's value from a study's view.

docs/reference/json.md describes the fields.
"""

_KINDS = {name: kind for name, (kind, _) in FIELDS.items()}

_COLUMNS = ("study", "state", "done", "best", "expected", "metric", "strategy", "data", "test", "size", "user", "date")
# The columns that a narrow terminal drops, in this order.
_OPTIONAL_COLUMNS = ("size", "expected", "data", "user", "strategy", "test", "date")
# The number of characters that are printed of a log's last line.
_MAX_LINE_LENGTH = 100


@dataclass(frozen=True)
class Studies:
    """The studies in a folder.

    Attributes:
        in: the folder of the studies. In Python, this attribute is named `folder`.
        studies: [each study](json.md#a-study), the newest first. Fields that need the record (`objective`, `limits`,
            `points`, `front`, `running`, `failures`, `cautions`, ...) are `null` or empty.
    """

    folder: Path
    studies: Sequence[StudyView]
    _is_filtered: bool = field(default=False, repr=False)

    @property
    def table(self) -> "pd.DataFrame":
        """One row per study, with a column for each field of `--where`; `since` and `date` are times in UTC."""
        import pandas as pd

        table = pd.DataFrame([*map(_row, self.studies)], columns=[*FIELDS])
        return table.assign(
            **{field: pd.to_datetime(table[field], utc=True) for field, kind in _KINDS.items() if kind == "time"}
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the folder and the studies."""
        return {"in": self.folder.absolute(), "studies": [view.to_dict() for view in self.studies]}

    def __str__(self) -> str:
        if not self.studies:
            hint = " fits the condition" if self._is_filtered else "; start one with `hpo search`"
            return f"no study in {self.folder}{hint}"
        table = table_text(_COLUMNS, ([*list_texts(view).values()] for view in self.studies), least=_OPTIONAL_COLUMNS)
        errors = (f"{each.study}: {each.error}" for each in self.studies if each.state in ("failed", "unreadable"))
        return "\n".join([table, *map(printable, errors)])

    def _repr_html_(self) -> str:
        return str(self.table.to_html())


@dataclass(frozen=True)
class Details:
    """A study, or one of its trials, at one moment.

    Attributes:
        of: the view of the study or trial.
    """

    of: "StudyView | TrialDetails"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields of the view."""
        return self.of.to_dict()

    def __str__(self) -> str:
        from hpo.show.details import details_text

        return details_text(self.of)


@dataclass(frozen=True)
class Log(Fields):
    """The output of one training.

    Attributes:
        trial: the number of its trial.
        task: the name of the training, such as `fold_0` or `fold_0_repeat_1`; `final` = the training of the winner's
            model on all folds.
        path: the log file.
        lines: the number of lines.
        last: the last line that is not blank; empty if there is none.
        text: the output, or its last lines; `null` in the list of all trials.
    """

    trial: int
    task: str
    path: Path
    lines: int
    last: str
    text: str | None


@dataclass(frozen=True)
class Logs(Fields):
    """The output of the trainings of a study.

    Attributes:
        study: the study's name.
        folder: the study's folder.
        logs: an entry for each training with output.
    """

    study: str
    folder: Path
    logs: Sequence[Log]

    @property
    def text(self) -> str:
        """The texts of all logs, one after another."""
        return "".join(f"{log.text}\n" for log in self.logs if log.text)

    def __str__(self) -> str:
        return "\n".join(
            f"{short_path(log.path)}  {log.lines} lines  {log.last[:_MAX_LINE_LENGTH]}"
            if log.text is None
            else f"== {short_path(log.path)}\n{log.text}"
            for log in self.logs
        )


def studies(
    in_: Annotated[Path | str, Word("DIR", option="--in")] = RUNS,
    where: Annotated[str | None, Word("CONDITION", option="--where")] = None,
    sort: Annotated[str | None, Word("FIELD", option="--sort", is_dashed=True)] = None,
) -> Studies:
    """List the studies under runs/ with state, trials, best score, strategy, data, size, user and date.

    Args:
        in_: list the studies in this folder instead (default: runs).
        where: list only the studies that fit this condition; see Fields and Operators.
        sort: the field to sort by; -FIELD sorts from high to low (default: -date).

    Raises:
        hpo.HpoError: the folder or a field does not exist, or the condition cannot be read.

    Examples:
        hpo list                                                    all studies under runs/, the newest first
        hpo list --where 'state=running or state=interrupted'
        hpo list --where 'strategy=evolutionary and score>0.9' --sort -score
        hpo list --where 'state=running and user=ada'                running studies of a colleague
        hpo list --where 'data~digits and date>=2026-11 and test!=none'
        hpo list --in studies                                       published studies
        hpo list --json                                             for programs

    Fields:
        name, state, user, since, process, host, done, budget, counts, following, score, expected, search_score, best,
        metric, direction, strategy, data, tags, test, on_front, complete, failed, stopped, running, minutes, size,
        date, ended_by, error, folder

    Operators:
        =, !=, <, <=, >, >=, ~ (contains), and, or, not
        To test for a missing value, write none, as in test=none. Write size in bytes.
    """
    folder = Path(in_)
    fits = condition(where, _KINDS) if where is not None else lambda _: True
    by = None if sort is None else known_field(sort.removeprefix("-"), _KINDS, "sort")
    rows: list[tuple[dict[str, Any], StudyView]] = []
    for path in listed_in(folder):
        # Another process may remove the study meanwhile.
        with suppress(FileNotFoundError):
            view = replace(view_in_list(path), size=size_of(path))
            rows.append((_row(view), view))
    # Sort by the numbers: the texts of an hour that the clock repeats do not sort by time.
    rows.sort(key=lambda row: row[1].begun or math.inf, reverse=True)
    rows = [row for row in rows if fits(row[0])]
    if by is not None:
        known, missing = ([row for row in rows if (row[0][by] is None) == is_missing] for is_missing in (False, True))
        value_of: Callable[[Any], Any] = datetime.fromisoformat if _KINDS[by] == "time" else lambda value: value
        rows = [*sorted(known, key=lambda row: value_of(row[0][by]), reverse=sort != by), *missing]
    return Studies(folder, [view for _, view in rows], where is not None)


def show(study: StudyOrMirror, trial: Annotated[int | None, Word("NUMBER", option="--trial")] = None) -> Details:
    """Show the state, best trial, running trials, failures and cautions of a study, or show one of its trials.

    Args:
        trial: show this trial.

    Raises:
        hpo.HpoError: the study or the trial does not exist.

    Examples:
        hpo show digits                   also while the study is running; read-only
        hpo show studies/digits_grid      a published study
        hpo show digits --trial 7         the trial's configuration, scores, curves, logs and seeds
        hpo show s3://bucket/digits       on any machine: the last copy in the study's mirror (study.mirror)
        hpo show digits --json            for programs
    """
    from hpo.study.view.one_trial import read_trial
    from hpo.study.view.reader import open_reader

    with open_reader(str(study)) as reader:
        return Details(reader.view() if trial is None else read_trial(reader, trial))


def logs(
    study: StudyRef,
    trial: Annotated[int | None, Word("TRIAL")] = None,
    *,
    tail: Annotated[int | None, Word("N")] = None,
) -> Logs:
    """Show the output of a study's trainings; with dispatch=local, only the output of Python code is recorded.

    Args:
        trial: the trial's number (default: list all trainings with output).
        tail: the last N lines of each training (default: all).

    Raises:
        hpo.HpoError: the trial does not exist, or its trainings printed nothing.

    Examples:
        hpo logs digits                   the trainings with output, and their last lines
        hpo logs digits 3                 the whole output of trial 3
        hpo logs digits 3 --tail 50       the last 50 lines of each of its trainings
        hpo logs digits 3 --json          for programs
    """
    from hpo.study.view.logs import logs_of

    if tail is not None and tail < 1:
        raise ConfigError(f"tail: must be 1 or more, given {tail}")
    if tail is not None and trial is None:
        raise ConfigError("tail: has no effect without the number of a trial; give the number after the study")
    folder = find_study(str(study))
    return Logs(folder.path.name, folder.path, [_log(path, trial is None, tail) for path in logs_of(folder, trial)])


def _log(path: Path, is_listed: bool, tail: int | None) -> Log:
    from hpo.study.view.logs import read_log

    _, trial, task = path.stem.split("_", 2)
    lines = read_log(path).splitlines()
    last = next((line for line in reversed(lines) if line.strip()), "")
    text = None if is_listed else "\n".join(lines if tail is None else lines[-tail:])
    return Log(int(trial), task, path, len(lines), last, text)


def _row(view: StudyView) -> dict[str, Any]:
    return {name: value(view) for name, (_, value) in FIELDS.items()}


def _time(seconds: float | None) -> str | None:
    """Return a time in ISO 8601, in this machine's time zone with its UTC offset."""
    return None if seconds is None else datetime.fromtimestamp(seconds).astimezone().isoformat(timespec="seconds")
