"""A study's folder as a whole: what people write beside it, and how it is cleaned, moved, archived and removed."""

from collections.abc import Mapping
from pathlib import Path

from hpo.study.files.folder import StudyFolder
from hpo.study.files.user_notes import UserNote, add_note, read_notes, tags


class KeptStudy:
    """A study as it is kept on disk; `hpo.Study` has all of this, too."""

    def __init__(self, folder: StudyFolder) -> None:
        self._folder = folder

    @property
    def folder(self) -> Path:
        """Where it is kept."""
        return self._folder.path

    @property
    def notes(self) -> list[UserNote]:
        """What was written beside it, the earliest first: each with `time`, `user`, `text` and `tags`."""
        return read_notes(self._folder)

    @property
    def tags(self) -> dict[str, str]:
        """Its tags, each with its last value."""
        return tags(self._folder)

    def note(self, text: str = "", tags: Mapping[str, str] | None = None) -> None:
        """Write a note beside it, as `hpo note` does; also while it runs.

        Args:
            text: what it says.
            tags: values by name; an empty one removes the tag.

        Raises:
            hpo.HpoError: it says nothing, or a tag's name is none.
        """
        add_note(self._folder, text, tags or {})
