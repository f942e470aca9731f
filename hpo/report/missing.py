"""Values of a report that could not be filled, and why; and the kinds of numbers that it holds."""

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict, TypeIs

Value = TypeVar("Value")


# No key that is not described, or also those that earlier versions did not write.
EXACT = ConfigDict(extra="forbid", strict=True)


OPEN = ConfigDict(extra="allow", strict=True)


@with_config(EXACT)
class Missing(TypedDict):
    """Stands for a value that could not be filled."""

    missing: Annotated[str, Field(min_length=1, description="why, and what would fill it")]


Text = str | Missing


def is_missing(value: object) -> TypeIs[Missing]:
    """Return whether a value of report.json could not be filled."""
    return isinstance(value, Mapping) and list(value) == ["missing"]


def missing(reason: str) -> Missing:
    """Return the entry of report.json for a value that cannot be filled."""
    return {"missing": reason}


def reason_missing(value: object) -> str | None:
    """Return why a value of report.json is missing; None if it is present."""
    return value["missing"] if is_missing(value) else None


class UnknownValueError(LookupError):
    """A missing value was requested; the text is the reason."""


def require(value: Value | Missing) -> Value:
    """Return a value that is present; raises UnknownValueError if it is missing."""
    if is_missing(value):
        raise UnknownValueError(value["missing"])
    return value


Point = dict[str, int | float | str | bool | list[Any] | dict[str, Any] | None]


Share = Annotated[float, Field(ge=0, le=1)]


Count = Annotated[int, Field(ge=0)]


Positive = Annotated[int, Field(ge=1)]


Seconds = Annotated[float, Field(ge=0)]
