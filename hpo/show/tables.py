"""A table for people: at a terminal as wide as that, in a pipe as aligned columns."""

import sys
from collections.abc import Iterable, Sequence

from hpo.errors import printable

_GAP = 2


def table_text(header: Sequence[str], rows: Iterable[Sequence[str]], least: Sequence[str] = ()) -> str:
    """Return a table for standard output; its cells may come from a stranger.

    At a terminal a column without content is left out, and where it is too narrow those of `least`, in that order, as
    far as needed. In a pipe all are there, and an empty cell is -.
    """
    lines = [[printable(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        return _at_terminal(header, lines, least)
    lines = [[*header], *([cell or "-" for cell in line] for line in lines)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = ((cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return "\n".join((" " * _GAP).join(cells).rstrip() for cells in padded)


def _at_terminal(header: Sequence[str], lines: Sequence[Sequence[str]], least: Sequence[str]) -> str:
    # Here, since a pipe needs none of it.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=sys.stdout)
    columns = dict(zip(header, zip(*lines, strict=True), strict=True))
    widths = {name: max(map(len, (name, *cells))) for name, cells in columns.items() if any(cells)}
    for name in least:
        if sum(widths.values()) + _GAP * (len(widths) - 1) > console.width:
            widths.pop(name, None)
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False)
    for name in widths:
        table.add_column(name, overflow="fold")
    for row in zip(*(columns[name] for name in widths), strict=True):
        table.add_row(*map(Text, row))
    with console.capture() as captured:
        console.print(table)
    return captured.get().removesuffix("\n")
