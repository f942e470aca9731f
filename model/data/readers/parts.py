"""The parts of a user's data: where each one is, and what was read of it so far."""

from dataclasses import dataclass, field
from typing import Any

from model.config.data import FilesConfig
from model.data.examples import Examples, File
from model.data.readers.text_files import Table
from model.errors import DataError

PARTS = ("train", "validation", "test")
WHOLE = "path"  # the part of data in one piece, which the search splits
# From this share on, examples in two parts are a mistake. Fewer are not: short sentences recur in every corpus.
MOST_SHARED = 0.5


def given_places(config: FilesConfig) -> dict[str, str]:
    """Return, for each part (or WHOLE), where the user says it is, in the order in which examples are numbered."""
    if config.path is not None:
        return {WHOLE: config.path}
    return {part: getattr(config, part) for part in PARTS if getattr(config, part) is not None}


@dataclass
class Gathered:
    """What was read so far; parts are added in the order in which examples are numbered.

    `sizes` has how many examples each part (or WHOLE) has; `licence` is the first one that a part named; `notes` say
    what a person should know of how they were read.
    """

    files: list[File] = field(default_factory=list)
    items: list[dict[str, Any]] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    licence: str | None = None
    notes: list[str] = field(default_factory=list)

    def add(self, part: str, items: list[dict[str, Any]], *files: File, licence: str | None = None) -> None:
        """Add one part.

        Raises:
            DataError: at least half of its examples, or of an earlier part's, are in both.
        """
        self._refuse_overlap(part, items)
        self.files += files
        self.items += items
        self.sizes[part] = len(items)
        self.licence = self.licence or licence

    def add_table(self, part: str, table: Table) -> None:
        """Add one part that was read as a table; as `add`."""
        self.add(part, table.rows, table.file, licence=table.licence)
        self.notes += [table.note] if table.note else []

    def _refuse_overlap(self, part: str, items: list[dict[str, Any]]) -> None:
        ours, start = {repr(item) for item in items}, 0
        for other, size in self.sizes.items():
            theirs = {repr(item) for item in self.items[start : start + size]}
            start += size
            shared, smaller = len(ours & theirs), min(len(ours), len(theirs))
            if shared and shared >= MOST_SHARED * smaller:
                raise DataError(
                    f"data.{part}: {shared} of its {len(ours)} different examples are also in data.{other}; what is "
                    "scored must not be trained on: give other files"
                )

    def of_part(self, part: str) -> list[dict[str, Any]]:
        """Return the examples of one part."""
        start = sum(size for other, size in self.sizes.items() if PARTS.index(other) < PARTS.index(part))
        return self.items[start : start + self.sizes[part]]

    def examples(self, labels: list[str] | None = None) -> Examples:
        """Return everything that was read; `labels` as in Examples."""
        return Examples(
            source=", ".join(file.path for file in self.files),
            licence=self.licence,
            files=tuple(self.files),
            items=self.items,
            labels=labels,
            parts=None if WHOLE in self.sizes else self.sizes,
            notes=tuple(self.notes),
        )
