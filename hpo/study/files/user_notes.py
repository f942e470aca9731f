"""What people write beside a study, and its tags: `notes.jsonl` in its folder, a line each, also while it runs."""

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
# The names of a tracker's own tags, and of ours there.
_TAKEN = ("mlflow.", "hpo.")


class UserNote(BaseModel):
    """A note: its time (ISO 8601, UTC), who wrote it, its text, and the tags that it sets; an empty value removes one.

    Either text or tags may be empty.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    time: str
    user: str
    text: str = ""
    tags: dict[str, str] = {}


def add_note(folder: StudyFolder, text: str, tags: Mapping[str, str]) -> None:
    """Write a note beside a study; StudyError where it says nothing, or a tag's name cannot be one."""
    for key, value in tags.items():
        if not _KEY.fullmatch(key) or key.startswith(_TAKEN):
            raise StudyError(
                f"tag: its name must be 1 to 100 letters, digits, '.', '_' or '-', and not begin with "
                f"{' or '.join(_TAKEN)}, given {key!r}"
            )
        if not isinstance(value, str):
            raise StudyError(f"tag: the value of {key} must be a text, given {value!r}")
    if not text.strip() and not tags:
        raise StudyError("note: is empty; give a text, a tag, or both")
    folder.refuse_links()
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    note = UserNote(time=now, user=user_name(), text=text.strip(), tags=dict(tags))
    # In one write to the end, so that several hands, and a search that runs, need no lock.
    place = os.open(folder.path / _NAME, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    with os.fdopen(place, "ab", buffering=0) as file:
        file.write(f"{note.model_dump_json()}\n".encode())


def read_notes(folder: StudyFolder) -> list[UserNote]:
    """Return the notes beside a study, the earliest first; a line that is no note is passed over."""
    path = folder.path / _NAME
    notes = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else ():
        with suppress(ValidationError):
            notes.append(UserNote.model_validate_json(line))
    return notes


def tags(folder: StudyFolder, with_removed: bool = False) -> dict[str, str]:
    """Return the tags of a study, each with its last value; those that were removed are empty."""
    last = {key: value for note in read_notes(folder) for key, value in note.tags.items()}
    return {key: value for key, value in last.items() if value or with_removed}
