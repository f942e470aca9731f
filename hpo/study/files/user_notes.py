"""The notes and tags that users add to a study, even while the study runs; each note is a line of `notes.jsonl`."""

import datetime
import os
import re
from collections.abc import Mapping
from contextlib import suppress

from pydantic import BaseModel, ConfigDict, ValidationError

from hpo.errors import StudyError
from hpo.machine import user_name
from hpo.study.files.folder import StudyFolder

_NAME = "notes.jsonl"
_KEY = re.compile(r"[\w.-]{1,100}")
# The prefixes of MLflow's own tags, and of the toolkit's tags in MLflow.
_RESERVED = ("mlflow.", "hpo.")


class UserNote(BaseModel):
    """A note on a study; either its text or its tags may be empty.

    Attributes:
        time: when the note was written, in ISO 8601, UTC.
        user: the author.
        text: the note's text.
        tags: the values of the tags that the note sets, by name; an empty value removes a tag.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    time: str
    user: str
    text: str = ""
    tags: dict[str, str] = {}


def add_note(folder: StudyFolder, text: str, tags: Mapping[str, str]) -> None:
    """Add a note to a study.

    Raises:
        StudyError: the note is empty, a tag's name or value is invalid, or a symbolic link in the study's folder leads
            out of the folder.
    """
    for key, value in tags.items():
        if not _KEY.fullmatch(key) or key.startswith(_RESERVED):
            raise StudyError(
                f"tag: the name must have 1 to 100 letters, digits, '.', '_' or '-', and must not begin with "
                f"{' or '.join(_RESERVED)}, given {key!r}"
            )
        if not isinstance(value, str):
            raise StudyError(f"tag: the value of {key} must be a text, given {value!r}")
    if not text.strip() and not tags:
        raise StudyError("note: is empty; give a text, a tag, or both")
    folder.refuse_links()
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    note = UserNote(time=now, user=user_name(), text=text.strip(), tags=dict(tags))
    # Append in one write, so that several writers and the search need no lock.
    descriptor = os.open(folder.path / _NAME, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "ab", buffering=0) as file:
        file.write(f"{note.model_dump_json()}\n".encode())


def read_notes(folder: StudyFolder) -> list[UserNote]:
    """Return the notes of a study, the earliest first; skip invalid lines."""
    path = folder.path / _NAME
    notes = []
    # Do not use `splitlines`, which also splits at characters that JSON allows in a text.
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n") if path.is_file() else ():
        with suppress(ValidationError):
            notes.append(UserNote.model_validate_json(line))
    return notes


def tags(folder: StudyFolder, with_removed: bool = False) -> dict[str, str]:
    """Return the last value of each tag of a study, by name; `with_removed` adds removed tags, with empty values."""
    last = {key: value for note in read_notes(folder) for key, value in note.tags.items()}
    return {key: value for key, value in last.items() if value or with_removed}
