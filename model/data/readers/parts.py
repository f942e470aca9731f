"""The splits of the user's data: where each split is, and the examples read so far."""

from dataclasses import dataclass, field
from typing import Any

from model.config.data import FilesConfig
from model.data.examples import Examples, File
from model.data.readers.text_files import Table
from model.errors import DataError

PARTS = ("train", "validation", "test")
WHOLE = "path"  # the name of data without predefined splits, which the search splits
# If two splits have at least this share of the smaller split's examples in common, it is a mistake. A smaller share is
# allowed, because short sentences recur.
MOST_SHARED = 0.5


def given_places(config: FilesConfig) -> dict[str, str]:
    """Return the location of each split: a path, or a name on the hub. With data.path, the only key is WHOLE."""
    if config.path is not None:
        return {WHOLE: config.path}
    return {part: getattr(config, part) for part in PARTS if getattr(config, part) is not None}


@dataclass
class Gathered:
    """The examples read so far; splits are added in the order train, validation, test.

    Attributes:
        files: the source files.
        items: the examples.
        sizes: the number of examples of each split; the key WHOLE stands for data without predefined splits.
        licence: the first known licence of a split; None = unknown.
        notes: lines that tell the user how the data was read.
    """

    files: list[File] = field(default_factory=list)
    items: list[dict[str, Any]] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    licence: str | None = None
    notes: list[str] = field(default_factory=list)

    def add(self, part: str, items: list[dict[str, Any]], *files: File, licence: str | None = None) -> None:
        """Add a split.

        Raises:
            DataError: at least half of the distinct examples of one split are also in another split.
        """
        self._refuse_overlap(part, items)
        self.files += files
        self.items += items
        self.sizes[part] = len(items)
        self.licence = self.licence or licence

    def add_table(self, part: str, table: Table) -> None:
        """Add a split from a table; see `add`."""
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
                    f"data.{part}: {shared} of {len(ours)} distinct examples are also in data.{other}, but splits "
                    "must not share so many examples; give other files"
                )

    def of_part(self, part: str) -> list[dict[str, Any]]:
        """Return the examples of a split."""
        start = sum(size for other, size in self.sizes.items() if PARTS.index(other) < PARTS.index(part))
        return self.items[start : start + self.sizes[part]]

    def examples(self, labels: list[str] | None = None) -> Examples:
        """Return the examples of all splits; for `labels`, see `Examples`."""
        return Examples(
            source=", ".join(file.path for file in self.files),
            licence=self.licence,
            files=tuple(self.files),
            items=self.items,
            labels=labels,
            parts=None if WHOLE in self.sizes else self.sizes,
            notes=tuple(self.notes),
        )
