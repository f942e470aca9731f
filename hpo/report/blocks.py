"""What a section of a report says, as a few kinds of blocks: a page shows these, and knows no section.

In a text, `this` is code and **this** is strong, as in Markdown.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple


class Paragraph(NamedTuple):
    """One or more sentences."""

    text: str


class Items(NamedTuple):
    """A list of texts."""

    texts: Sequence[str]


class Table(NamedTuple):
    """A table of texts."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


Block = Paragraph | Items | Table


def markdown_lines(blocks: Iterable[Block]) -> Iterator[str]:
    """Yield the lines of each block that has something, and a blank one after it."""
    for block in blocks:
        if isinstance(block, Paragraph):
            yield from (block.text, "")
        elif isinstance(block, Items):
            yield from (*(f"- {text}" for text in block.texts), *([""] if block.texts else ()))
        elif block.rows:
            yield from (*markdown_table(block.head, block.rows), "")


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table; a bar in a cell is escaped."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
