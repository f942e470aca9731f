"""What users did to a search (points given, trials stopped, budgets raised), and the notes and tags they wrote."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, with_config
from typing_extensions import TypedDict

from hpo.report.part import EXACT, Block, Count, Items, Missing, Paragraph, Point, require
from hpo.report.sections import ReportJson
from hpo.report.words import point_text
from hpo.study.files.user_notes import read_notes, tags
from hpo.study.study import PreparedStudy
from hpo.trials.record.record import Record


@with_config(EXACT)
class GivenPoint(TypedDict):
    """A point that a hand gave after so many trials were opened."""

    point: Point
    after: Count
    time: NotRequired[Annotated[float, Field(description="absent where another program queued the point")]]
    by: NotRequired[Annotated[str, Field(description="a user's name; absent where another program queued the point")]]
    retry_of: NotRequired[
        Annotated[int, Field(description="the failed trial that it tries again; absent for a new point")]
    ]


@with_config(EXACT)
class OtherAct(TypedDict):
    """What a hand did besides, after so many trials were opened; `time` is in seconds since the epoch."""

    do: Literal["stop_trial", "stop_search", "end_search", "raise_budget"]
    after: Count
    time: float
    by: str | None
    trial: int | None
    points: Annotated[
        dict[str, int | None], Field(description="of a trial that was stopped: after which points of each task's curve")
    ]
    trials: int | None
    minutes: float | None


class ActsPart(TypedDict):
    """Neither key is there where no hand did anything of its kind."""

    given: NotRequired[
        Annotated[
            list[GivenPoint] | Missing, Field(description="points that a hand gave to the search; absent with none")
        ]
    ]
    acts: NotRequired[
        Annotated[list[OtherAct] | Missing, Field(description="what hands did besides, in order; absent with none")]
    ]


def describe_acts(record: Record) -> dict[str, Any]:
    """Return the part of a report."""
    given, acts = [each.to_dict() for each in record.given], [act.to_dict() for act in record.acts]
    return ({"given": given} if given else {}) | ({"acts": acts} if acts else {})


def read_acts(report: ReportJson) -> Iterator[str]:
    """Yield a line for each, in the order of time."""
    given = [(each.get("time", 0.0), each, _given_text(each)) for each in require(report.get("given", []))]
    acts = [(each["time"], each, _text(each)) for each in require(report.get("acts", []))]
    for time, each, text in sorted([*given, *acts], key=lambda entry: entry[0]):
        when = f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M} UTC, " if time else ""
        yield f"by hand: {each.get('by') or 'a hand'} {text} ({when}after {each['after']} trials)"


def _given_text(given: GivenPoint) -> str:
    if (failed := given.get("retry_of")) is not None:
        return f"retried trial {failed}"
    return f"gave {point_text(given['point'])}"


def _text(act: OtherAct) -> str:
    if act["do"] == "stop_search":
        return "stopped the search once its running trials had ended"
    if act["do"] == "end_search":
        return "ended the search by a callback"
    if act["do"] == "stop_trial":
        return f"stopped trial {act['trial']}"
    budgets = {"trials": act["trials"], "minutes": act["minutes"]}
    return f"raised the budget to {' and '.join(f'{value:g} {name}' for name, value in budgets.items() if value)}"


@with_config(EXACT)
class NotePart(TypedDict):
    """A note."""

    time: Annotated[str, Field(description="ISO 8601, UTC")]
    user: str
    text: str
    tags: Annotated[dict[str, str], Field(description="those that it set; an empty value removed one")]


@with_config(EXACT)
class NotesPart(TypedDict):
    """All notes of the study, the earliest first, and its tags as they are now."""

    notes: list[NotePart]
    tags: dict[str, str]


class NotesSection(TypedDict, total=False):
    """Has `notes` where there are some."""

    notes: Annotated[NotesPart, Field(description="what was written by `hpo note`; absent with none")]


def describe_notes(study: PreparedStudy) -> NotesSection:
    """Return the study's notes; empty where there are none."""
    notes: list[NotePart] = [
        {"time": note.time, "user": note.user, "text": note.text, "tags": note.tags}
        for note in read_notes(study.folder)
    ]
    return {"notes": {"notes": notes, "tags": tags(study.folder)}} if notes else {}


def read_user_notes(report: ReportJson) -> Iterator[Block]:
    """List the tags and the texts."""
    part = report.get("notes")
    if part is None:
        return
    if part["tags"]:
        yield Paragraph(f"Tags: {', '.join(f'`{key}={value}`' for key, value in part['tags'].items())}.")
    written = [note for note in part["notes"] if note["text"]]
    yield Items([f"{note['time'][:10]} {note['user']}: {' '.join(note['text'].split())}" for note in written])
