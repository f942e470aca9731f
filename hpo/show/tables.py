"""A table for standard output: fitted to a terminal, or as aligned columns in a pipe."""

import sys
from collections.abc import Iterable, Sequence

from hpo.errors import printable

_GAP = 2


def table_text(header: Sequence[str], rows: Iterable[Sequence[str]], least: Sequence[str] = ()) -> str:
    """Return a table for standard output, without control characters, because another user may have written the cells.

    On a terminal, leave out empty columns. If the terminal is too narrow, also leave out the columns in `least`, one
    after another, until the table fits. In a pipe, keep all columns, and write `-` into empty cells.
    """
    header, *lines = [[printable(cell) for cell in row] for row in (header, *rows)]
    if sys.stdout.isatty():
        return _at_terminal(header, lines, least)
    lines = [header, *([cell or "-" for cell in line] for line in lines)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = ((cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
    return "\n".join((" " * _GAP).join(cells).rstrip() for cells in padded)


def _at_terminal(header: Sequence[str], lines: Sequence[Sequence[str]], least: Sequence[str]) -> str:
    # Lazy, because a pipe does not need rich.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=sys.stdout)
    columns = [column for column in zip(header, *lines, strict=True) if any(column[1:]) or not lines]
    for name in least:
        widths = [max(map(len, column)) for column in columns]
        if sum(widths) + _GAP * (len(widths) - 1) > console.width:
            columns = [column for column in columns if column[0] != name]
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False)
    for column in columns:
        table.add_column(Text(column[0]), overflow="fold")
    for row in [*zip(*columns, strict=True)][1:]:
        table.add_row(*map(Text, row))
    with console.capture() as captured:
        console.print(table)
    return captured.get().removesuffix("\n")
