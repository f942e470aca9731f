"""The output of a comparison: its four files, and its tables on the terminal."""

import csv
import io
import itertools
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from hpo.errors import printable
from hpo.files import write_atomically
from hpo.report.comparison import ComparisonJson
from hpo.report.pages.comparison import (
    READING,
    answers,
    headline,
    render_comparison_markdown,
    render_comparison_page,
    tables,
)
from hpo.report.part import Table as CellTable

_FILE_WIDTH = 170
_NARROW = 130
_PAIR_COLUMNS = (
    *("budget", "unit", "a", "b", "pairs", "mean_difference", "mean_difference_low", "mean_difference_high"),
    *("a_beats_b", "a_beats_b_low", "a_beats_b_high", "p", "p_holm", "level", "better", "verdict"),
)
_FOLD_COLUMNS = ("a", "b", "fold", "difference")


def write_comparison(folder: Path, result: ComparisonJson) -> list[Path]:
    """Write comparison.html, .md, .json and .csv into the folder, and return their paths in this order.

    For strategies, comparison.csv has one row for each pair of strategies at each budget. The row has the fields of
    `pairs` in comparison.json. For studies with one metric, comparison.csv has one row for each fold of each compared
    pair of studies. For studies with several metrics, it has one row for each compared pair of studies.
    """
    texts = {
        "comparison.html": render_comparison_page(result),
        "comparison.md": render_comparison_markdown(result),
        "comparison.json": json.dumps(result, indent=2, allow_nan=False) + "\n",
        "comparison.csv": _csv(result),
    }
    for name, text in texts.items():
        write_atomically(folder / name, text)
    return [folder / name for name in texts]


def _csv(result: ComparisonJson) -> str:
    text = io.StringIO()
    columns = _PAIR_COLUMNS if result["kind"] == "strategies" else _FOLD_COLUMNS
    writer = csv.DictWriter(text, columns, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    for pair in result["pairs"]:
        ends = {"mean_difference": pair["interval"] or ("", ""), "a_beats_b": pair["a_beats_b_interval"]}
        lows = {f"{name}_low": low for name, (low, _) in ends.items()}
        writer.writerow({**pair, **lows, **{f"{name}_high": high for name, (_, high) in ends.items()}})
    for each in result.get("folds", ()):
        sides = {"a": each["a"], "b": each["b"]}
        by_fold = each["by_fold"] or {"": each["mean_difference"]}
        writer.writerows({**sides, "fold": fold, "difference": value} for fold, value in by_fold.items())
    return text.getvalue()


def show(result: ComparisonJson, paths: Sequence[Path]) -> None:
    """Print the tables, the notes and the paths of the files."""
    console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = _FILE_WIDTH
    console.print(f"\n{_printable(headline(result))}")
    for answer in answers(result):
        console.print(_printable(answer), style="bold", soft_wrap=True)
    for cells in tables(result).values():
        if cells.head[0] == "budget":
            _print_by_budget(console, _fitted(console, cells))
        elif cells.rows:
            console.print()
            console.print(_table(cells))
    if result["pairs"]:
        console.print(READING)
    for note in result["notes"]:
        console.print(f"note: {_printable(note)}", soft_wrap=True)
    console.print(f"files: {', '.join(map(str, paths))}", soft_wrap=True)


def _fitted(console: Console, cells: CellTable) -> CellTable:
    """Return the table. On a narrow terminal, merge the columns A and B into one, so that the verdict fits."""
    if console.width >= _NARROW or cells.head[1] != "A":
        return cells
    head, rows = [cells.head[0], "A\nB", *cells.head[3:]], cells.rows
    return CellTable(head, [[row[0], f"{row[1]}\n{row[2]}", *row[3:]] for row in rows])


def _print_by_budget(console: Console, cells: CellTable) -> None:
    """Print one table per budget; the first value of each row in `cells` is the row's budget."""
    for budget, of_budget in itertools.groupby(cells.rows, key=lambda row: row[0]):
        console.print(f"\nafter {budget}")
        console.print(_table(CellTable(cells.head[1:], [row[1:] for row in of_budget])))


def _table(cells: CellTable) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name, *column in zip(cells.head, *cells.rows, strict=True):
        # This width lets cells wrap between words on a narrow terminal, and never cuts a word.
        table.add_column(name, min_width=max(len(word) for cell in (name, *column) for word in cell.split()))
    for row in cells.rows:
        table.add_row(*map(_printable, row))
    return table


def _printable(text: str) -> str:
    """Remove control characters except line breaks from a text, because other users may have written parts of it."""
    return "\n".join(map(printable, text.split("\n")))
