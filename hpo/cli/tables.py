"""A table for people: with lines at a terminal, as aligned columns in a pipe."""

import sys
from collections.abc import Iterable, Sequence

from hpo.errors import printable


def show_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; what its cells tell may come from a stranger. In a pipe an empty cell is -."""
    lines = [[printable(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        # Here, since a pipe needs none of it.
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(*header, box=SIMPLE_HEAD, pad_edge=False)
        for line in lines:
            table.add_row(*map(Text, line))
        Console(file=sys.stdout).print(table)
        return
    lines = [[*header], *([cell or "-" for cell in line] for line in lines)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
