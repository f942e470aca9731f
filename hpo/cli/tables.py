"""A table for people: at a terminal as wide as that, in a pipe as aligned columns."""

import sys
from collections.abc import Iterable, Sequence

from hpo.errors import printable

_GAP = 2


def show_table(header: Sequence[str], rows: Iterable[Sequence[str]], least: Sequence[str] = ()) -> None:
    """Print a table; what its cells tell may come from a stranger.

    At a terminal a column without content is left out, and where it is too narrow those of `least`, in that order, as
    far as needed. In a pipe all are there, and an empty cell is -.
    """
    lines = [[printable(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _show_at_terminal(header, lines, least)
        return
    lines = [[*header], *([cell or "-" for cell in line] for line in lines)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print((" " * _GAP).join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _show_at_terminal(header: Sequence[str], lines: Sequence[Sequence[str]], least: Sequence[str]) -> None:
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
    console.print(table)
