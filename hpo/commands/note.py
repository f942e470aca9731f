"""`note`: what people write beside a study, and its tags."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from hpo.commands.arguments import StudyRef, Tags, Word
from hpo.errors import printable
from hpo.study.files.folder import find_study
from hpo.study.files.user_notes import UserNote, add_note, read_notes, tags


@dataclass(frozen=True)
class Noted:
    """What was written beside a study, this note included.

    Attributes:
        study: its name.
        folder: where it is.
        tags: the last value of each.
        notes: all of them, each with `time` (UTC), `user`, `text` and the `tags` that it set.
    """

    study: str
    folder: Path
    tags: Mapping[str, str]
    notes: Sequence[UserNote]

    def __str__(self) -> str:
        return "\n".join(map(_line, self.notes))

    def to_dict(self) -> dict[str, Any]:
        """Return its fields."""
        return {**vars(self), "notes": [note.model_dump() for note in self.notes]}


def note(
    study: StudyRef, text: Annotated[str, Word("TEXT", collect=" ".join)] = "", *, tag: Tags | None = None
) -> Noted:
    """Write beside a study what only a person knows, or tag it; without either: what was written.

    Args:
        text: what it says; it is shown in the report and in MLflow.
        tag: a tag; without =VALUE its value is true. An empty value removes it.

    Raises:
        hpo.HpoError: a tag's name is none.

    Examples:
        hpo note digits "the learning rates above 0.01 were a mistake"
        hpo note digits --tag phase=final --tag paper      also while it runs; `--tag phase=` removes the tag
        hpo note digits                                    what was written
    """
    folder = find_study(str(study))
    if text or tag:
        folder.refuse_other_format()
        add_note(folder, text, tag or {})
    return Noted(folder.path.name, folder.path, tags(folder), read_notes(folder))


def _line(said: UserNote) -> str:
    parts = [said.text] if said.text else []
    parts += [f"{key}={value}" for key, value in said.tags.items()]
    return printable(f"{said.time}  {said.user}  {', '.join(parts)}")
