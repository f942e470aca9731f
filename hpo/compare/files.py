"""The files of a comparison: `comparison.html`, `comparison.md`, `comparison.json` and `comparison.csv`."""

import csv
import io
import json
from pathlib import Path

from hpo.files import write_atomically
from hpo.report.comparison import ComparisonJson
from hpo.report.pages.comparison import render_comparison_markdown, render_comparison_page

_PAIR_COLUMNS = (
    *("budget", "unit", "a", "b", "pairs", "mean_difference", "mean_difference_low", "mean_difference_high"),
    *("a_beats_b", "a_beats_b_low", "a_beats_b_high", "p", "p_holm", "better", "verdict"),
)
_FOLD_COLUMNS = ("a", "b", "fold", "difference")


def write_comparison(folder: Path, result: ComparisonJson) -> tuple[Path, ...]:
    """Write the four files into the folder and return their paths, the page first.

    comparison.csv has one row per budget and pair of strategies, with the fields of `pairs` in comparison.json; for
    studies, one row per pair and fold.
    """
    texts = {
        "comparison.html": render_comparison_page(result),
        "comparison.md": render_comparison_markdown(result),
        "comparison.json": json.dumps(result, indent=2, allow_nan=False) + "\n",
        "comparison.csv": _table(result),
    }
    for name, text in texts.items():
        write_atomically(folder / name, text)
    return tuple(folder / name for name in texts)


def _table(result: ComparisonJson) -> str:
    text = io.StringIO()
    is_repeated = result["kind"] == "strategies"
    writer = csv.DictWriter(text, _PAIR_COLUMNS if is_repeated else _FOLD_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for pair in result["pairs"]:
        ends = {"mean_difference": pair["interval"], "a_beats_b": pair["a_beats_b_interval"]}
        sides = {
            f"{name}_{side}": (end or (None, None))[k]
            for name, end in ends.items()
            for k, side in enumerate(("low", "high"))
        }
        writer.writerow({name: value for name, value in {**pair, **sides}.items() if name in _PAIR_COLUMNS})
    for of_folds in result.get("folds", ()):
        writer.writerows(
            {"a": of_folds["a"], "b": of_folds["b"], "fold": fold, "difference": value}
            for fold, value in of_folds["by_fold"].items()
        )
    return text.getvalue()
