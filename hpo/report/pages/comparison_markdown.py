"""A comparison as a Markdown page, which code hosts render."""

from collections.abc import Iterator

from hpo.report.facts.schema.comparison import ComparisonJson
from hpo.report.pages.comparison_cells import (
    FOLD_HEAD,
    PAIR_HEAD,
    READING,
    fold_rows,
    headline,
    pair_rows,
    standing_head,
    standing_rows,
)
from hpo.report.pages.tables import markdown_table


def render_comparison_markdown(result: ComparisonJson) -> str:
    """Return the page of the content of comparison.json: standings first, then every verdict."""
    return "\n".join(_lines(result))


def _lines(result: ComparisonJson) -> Iterator[str]:
    yield from (f"# {result['name']}", "", headline(result), "")
    yield from (f"- {note}" for note in result["notes"])
    tables = (
        ("Standings", standing_head(result), standing_rows(result)),
        ("Verdicts", PAIR_HEAD, pair_rows(result["pairs"])),
        ("Winners, fold by fold", FOLD_HEAD, fold_rows(result)),
    )
    for title, head, rows in tables:
        if rows:
            yield from ("", f"## {title}", "", *markdown_table(head, rows))
    yield from ("", READING, "")
