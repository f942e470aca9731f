"""User actions of a search (added points, stopped trials, raised budgets), and the users' notes and tags."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from hpo.formatting import format_count
from hpo.report.formatting import point_text
from hpo.report.part import Block, Count, Items, Missing, Paragraph, Point, require
from hpo.report.sections import ReportJson
from hpo.study.files.user_notes import read_notes, tags
from hpo.study.study import PreparedStudy
from hpo.trials.record.record import Record


class AddedPointPart(TypedDict):
    """A point that a user added; `after` is the number of trials that existed at the time of the action."""

    point: Point
    after: Count
    time: Annotated[
        NotRequired[float], Field(description="seconds since the epoch; absent if another program queued the point")
    ]
    by: Annotated[NotRequired[str], Field(description="the user's name; absent if another program queued the point")]
    retry_of: Annotated[
        NotRequired[int], Field(description="number of the failed trial that the user retried; absent for a new point")
    ]


class OtherAction(TypedDict):
    """A user action that adds no point; `after` is the number of trials that existed at the time of the action."""

    do: Literal["stop_trial", "stop_search", "end_search", "raise_budget"]
    after: Count
    time: Annotated[float, Field(description="seconds since the epoch")]
    by: str | None
    trial: int | None
    points: Annotated[
        dict[str, int | None],
        Field(description="for `stop_trial`, each task's number of reports before the stop; null = the task had ended"),
    ]
    trials: int | None
    minutes: float | None


class ActionsPart(TypedDict):
    """The user actions; a key is absent if there are no actions of its kind."""

    added_points: Annotated[
        NotRequired[list[AddedPointPart] | Missing], Field(description="points added by users; absent if none")
    ]
    user_actions: Annotated[
        NotRequired[list[OtherAction] | Missing],
        Field(description="user actions that add no point, in the order of recording; absent if none"),
    ]


def describe_actions(record: Record) -> dict[str, Any]:
    """Return the user actions for a report."""
    described = {
        "added_points": [point.to_dict() for point in record.added],
        "user_actions": [action.to_dict() for action in record.actions],
    }
    return {name: each for name, each in described.items() if each}


def read_actions(report: ReportJson) -> Iterator[str]:
    """Yield a line for each user action, in the order of time; actions at an unknown time come first."""
    added = [(each.get("time", 0.0), each, _added_text(each)) for each in require(report.get("added_points", []))]
    others = [(each["time"], each, _text(each)) for each in require(report.get("user_actions", []))]
    for time, each, text in sorted([*added, *others], key=lambda entry: entry[0]):
        when = f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M} UTC, " if time else ""
        after = format_count(each["after"], "trial*")
        yield f"user action: {each.get('by') or 'another program'} {text} ({when}after {after})"


def _added_text(added: AddedPointPart) -> str:
    if (failed := added.get("retry_of")) is not None:
        return f"retried trial {failed}"
    return f"added {point_text(added['point'])}"


def _text(action: OtherAction) -> str:
    if action["do"] == "stop_search":
        return "stopped the search after its running trials"
    if action["do"] == "end_search":
        return "ended the search with a callback"
    if action["do"] == "stop_trial":
        return f"stopped trial {action['trial']}"
    budgets = {"trials": action["trials"], "minutes": action["minutes"]}
    return f"raised the budget to {' and '.join(f'{value:g} {name}' for name, value in budgets.items() if value)}"


class NotePart(TypedDict):
    """A note that a user wrote with `hpo note`."""

    time: Annotated[str, Field(description="ISO 8601, UTC")]
    user: str
    text: str
    tags: Annotated[
        dict[str, str], Field(description="value of each tag that the note sets; an empty value removes the tag")
    ]


class NotesPart(TypedDict):
    """All notes of the study, the earliest first, and its current tags."""

    notes: list[NotePart]
    tags: dict[str, str]


class NotesSection(TypedDict, total=False):
    """The key `notes` of report.json, if there are notes."""

    notes: Annotated[NotesPart, Field(description="notes written with `hpo note`; absent if none")]


def describe_notes(study: PreparedStudy) -> NotesSection:
    """Return the report's section on the study's notes; empty without notes."""
    notes: list[NotePart] = [
        {"time": note.time, "user": note.user, "text": note.text, "tags": note.tags}
        for note in read_notes(study.folder)
    ]
    return {"notes": {"notes": notes, "tags": tags(study.folder)}} if notes else {}


def read_user_notes(report: ReportJson) -> Iterator[Block]:
    """Yield the study's tags, then the texts of its notes.

    If the study has no notes, yield nothing. It then has no tags either, because only notes set tags.
    """
    part = report.get("notes")
    if part is None:
        return
    if part["tags"]:
        yield Paragraph(f"Tags: {', '.join(f'`{key}={value}`' for key, value in part['tags'].items())}.")
    written = [note for note in part["notes"] if note["text"]]
    yield Items([f"{note['time'][:10]} {note['user']}: {' '.join(note['text'].split())}" for note in written])
