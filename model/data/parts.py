"""The parts of a user's data: where each is to be found, and what was read of it so far."""

from dataclasses import dataclass, field
from typing import Any

from model.data.config import FilesConfig
from model.data.examples import Examples, File

PARTS = ("train", "validation", "test")
WHOLE = "path"  # the part of data that come in one piece, which the search splits


def given_places(config: FilesConfig) -> dict[str, str]:
    """The part (or WHOLE) -> where the user says it is, in the order in which examples are numbered."""
    if config.path is not None:
        return {WHOLE: config.path}
    return {part: getattr(config, part) for part in PARTS if getattr(config, part) is not None}


@dataclass
class Gathered:
    """What was read so far; parts are added in the order in which examples are numbered.

    Attributes:
        files: what the examples came from.
        items: the examples.
        sizes: the part (or WHOLE) -> how many examples it has.
        licence: the first one that a part named, or None.
    """

    files: list[File] = field(default_factory=list)
    items: list[dict[str, Any]] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    licence: str | None = None

    def add(self, part: str, items: list[dict[str, Any]], *files: File, licence: str | None = None) -> None:
        """Takes in one part."""
        self.files += files
        self.items += items
        self.sizes[part] = len(items)
        self.licence = self.licence or licence

    def examples(self, labels: list[str] | None = None) -> Examples:
        """All of it; `labels` as in Examples."""
        return Examples(
            source=", ".join(file.path for file in self.files),
            licence=self.licence,
            files=tuple(self.files),
            items=self.items,
            labels=labels,
            parts=None if WHOLE in self.sizes else self.sizes,
        )
