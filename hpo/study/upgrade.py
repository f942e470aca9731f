"""Checks the format number of the toolkit's files, and converts files of older formats.

Only this module knows older formats. A release that changes a file's format increases FORMAT and adds a step to STEPS.
No other module compares format numbers or handles keys that older files lack.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from hpo.errors import StudyError

FORMAT = 1
"""The current format number of the toolkit's files; docs/reference/files.md says where each file stores the number."""

Kind = Literal["study", "record", "report", "comparison", "status", "archive", "mirror"]

Step = Callable[[dict[str, Any]], dict[str, Any]]

STEPS: Mapping[tuple[Kind, int], Step] = {}
"""The functions that convert a document to the next format, by the document's kind and format number."""


def upgraded(
    kind: Kind,
    document: Mapping[str, Any],
    where: str,
    steps: Mapping[tuple[Kind, int], Step] = STEPS,
    to: int = FORMAT,
) -> dict[str, Any]:
    """Convert a document to format `to`, step by step, and return it; messages call the document `where`.

    Raises:
        StudyError: the document's format number is missing, invalid, or above `to`.
    """
    number = document.get("format")
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= to:
        is_later = isinstance(number, int) and number > to
        advice = (
            "a later version of hpo wrote this format; use that version"
            if is_later
            else "before the first release, hpo used this format; finish the study with a version from that time, or "
            "start the study again"
        )
        given = "none" if number is None else repr(number)
        raise StudyError(f"{where}: the format number must be {to}, given {given}; {advice}")
    current = dict(document)
    for before in range(number, to):
        step = steps.get((kind, before))
        current = {**(step(current) if step else current), "format": before + 1}
    return current
