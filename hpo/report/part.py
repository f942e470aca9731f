"""The building blocks of a report: blocks of text, reasons of missing values, and types of numbers in report.json."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict, TypeIs

from hpo.errors import HpoError, first_line

# Refuse keys that a schema does not describe. Pydantic also applies it to the TypedDicts inside.
EXACT = ConfigDict(extra="forbid", strict=True)

Value = TypeVar("Value")
Instead = TypeVar("Instead")


# A figure that cannot be drawn has the same kind of entry.
class Missing(TypedDict):
    """The entry of report.json in place of a missing value."""

    missing: Annotated[str, Field(min_length=1, description="why the value is missing, and how to provide it")]


Text = str | Missing
Point = dict[str, int | float | str | bool | list[Any] | dict[str, Any] | None]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(ge=0)]


class UnknownValueError(LookupError):
    """Raised when code requires a value that is missing; the error message says why the value is missing."""


def part(make: Callable[[], Value], instead: Callable[[str], Instead]) -> Value | Instead:
    """Return the result of `make`; if `make` fails, return `instead(reason)`.

    So a failing part of a report does not prevent the other parts. Only an HpoError is raised again, because the user
    can fix the error's cause, such as an unreadable file of the study.
    """
    try:
        return make()
    except HpoError:
        raise
    except Exception as error:  # noqa: BLE001  # The other figures must still be made.
        return instead(f"could not be made: {type(error).__name__}: {first_line(error)}")


def value_or_missing(make: Callable[[], Value]) -> Value | Missing:
    """Return the result of `make`; if `make` fails, the entry of report.json for a missing value, with the reason."""
    return part(make, missing)


def missing(reason: str) -> Missing:
    """Return the entry of report.json for a missing value, with this reason."""
    return {"missing": reason}


def is_missing(value: object) -> TypeIs[Missing]:
    """Return whether a value of report.json is missing."""
    # A hyperparameter may have the name `missing`.
    return isinstance(value, Mapping) and list(value) == ["missing"] and isinstance(value["missing"], str)


def reason_missing(value: object) -> str | None:
    """Return the reason why a value of report.json is missing; None if the value is present."""
    return value["missing"] if is_missing(value) else None


def require(value: Value | Missing) -> Value:
    """Return the value; raise UnknownValueError if the value is missing."""
    if is_missing(value):
        raise UnknownValueError(value["missing"])
    return value


class Paragraph(NamedTuple):
    """A paragraph of one or more sentences."""

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
    """Yield the Markdown lines of each block that is not empty, with a blank line after each block."""
    for block in blocks:
        if isinstance(block, Paragraph):
            yield from (block.text, "")
        elif isinstance(block, Items):
            yield from (*(f"- {text}" for text in block.texts), *([""] if block.texts else ()))
        elif block.rows:
            yield from (*markdown_table(block.head, block.rows), "")


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the Markdown lines of a table, with bars in cells escaped."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"
