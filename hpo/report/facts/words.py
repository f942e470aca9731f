"""How names and numbers are put for a report, in its figures and its texts."""

import html


def shown(text: str) -> str:
    """Return a name or value as a figure takes it: plotly reads some tags as style."""
    return html.escape(text, quote=False)


def counted(number: int, thing: str) -> str:
    """Return how many there are of a thing; a star stands where its plural has an s."""
    return f"{number:,} {thing.replace('*', '' if number == 1 else 's')}"


def times(number: int) -> str:
    """Return how often something was done."""
    return "once" if number == 1 else f"{number} times"
