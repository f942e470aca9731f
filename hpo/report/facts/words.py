"""Names and numbers as text, for the figures and the pages of a report."""

import html


def shown(text: str) -> str:
    """Return a name or value for a figure, escaped because plotly reads some tags as style."""
    return html.escape(text, quote=False)


def counted(number: int, thing: str) -> str:
    """Return a number with its noun, in which a star marks the place of the plural's s."""
    return f"{number:,} {thing.replace('*', '' if number == 1 else 's')}"


def times(number: int) -> str:
    """Return how often something was done, in words."""
    return "once" if number == 1 else f"{number} times"
