"""The format number of all files that the toolkit writes: its check, and the steps from older formats.

Only this file knows older formats. A release that changes a file's format raises FORMAT and adds a step to STEPS.
No other file compares format numbers or handles keys that older files lack.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from hpo.errors import StudyError

FORMAT = 1
"""The current format number, the same for all kinds; docs/reference/files.md says which file holds it."""

Kind = Literal["study", "record", "report", "comparison", "status", "archive", "mirror"]

Step = Callable[[dict[str, Any]], dict[str, Any]]

STEPS: Mapping[tuple[Kind, int], Step] = {}
"""The steps, by kind and old number: each rewrites a document of that format into the next one."""


def upgraded(
    kind: Kind,
    document: Mapping[str, Any],
    where: str,
    steps: Mapping[tuple[Kind, int], Step] = STEPS,
    to: int = FORMAT,
) -> dict[str, Any]:
    """Return a document rewritten step by step into format `to`; `where` names the document in messages.

    Raises:
        StudyError: its format number is missing, invalid, or above `to`; the message has both numbers.
    """
    number = document.get("format")
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= to:
        is_later = isinstance(number, int) and number > to
        advice = (
            "it was made by a later version; read it with that version"
            if is_later
            else "it was made before the first release; finish it with the commit that made it, or start it again"
        )
        raise StudyError(f"{where}: its format is {'none' if number is None else repr(number)}, not {to}: {advice}")
    current = dict(document)
    for before in range(number, to):
        step = steps.get((kind, before))
        current = {**(step(current) if step else current), "format": before + 1}
    return current
