"""What people wrote beside the study, by `hpo note`."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field, with_config
from typing_extensions import TypedDict

from hpo.report.blocks import Block, Items, Paragraph
from hpo.report.part import EXACT
from hpo.report.sections import ReportJson
from hpo.study.files.user_notes import read_notes, tags
from hpo.study.study import PreparedStudy


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
