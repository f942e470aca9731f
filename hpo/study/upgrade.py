"""The form of everything that the toolkit writes: its number, the check of it, and the steps from an older form.

This is the only place that knows an older form. A release that writes something in another form raises FORMAT, and adds
the step that rewrites it. No other file asks for a number, or for a key that older files lack.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from hpo.errors import StudyError

FORMAT = 1
"""The number of today's form, one for all kinds; docs/reference/files.md says where each is written."""

Kind = Literal["study", "record", "report", "comparison", "status", "archive", "mirror"]

Step = Callable[[dict[str, Any]], dict[str, Any]]

STEPS: Mapping[tuple[Kind, int], Step] = {}
"""By the kind and the number from which it leads: what rewrites a document of that form in the next."""


def upgraded(
    kind: Kind,
    document: Mapping[str, Any],
    where: str,
    steps: Mapping[tuple[Kind, int], Step] = STEPS,
    to: int = FORMAT,
) -> dict[str, Any]:
    """Return a document in the form of the number `to`, rewritten step by step; `where` names it for people.

    Raises:
        StudyError: its number is a later one, or none; one line names both numbers.
    """
    number = document.get("format")
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= to:
        is_later = isinstance(number, int) and number > to
        made = (
            "it was made by a later version, which reads it"
            if is_later
            else "it was made before the first release; finish it with the commit that made it, or start it again"
        )
        raise StudyError(f"{where}: its format is {'none' if number is None else repr(number)}, not {to}: {made}")
    current = dict(document)
    for before in range(number, to):
        step = steps.get((kind, before))
        current = {**(step(current) if step else current), "format": before + 1}
    return current
