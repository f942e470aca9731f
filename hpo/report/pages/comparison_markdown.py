"""A comparison as a Markdown page, which code hosts render."""

from collections.abc import Iterator

from hpo.report.blocks import markdown_table
from hpo.report.comparison import ComparisonJson
from hpo.report.pages.comparison_cells import READING, answers, headline, standings, verdicts, winners


def render_comparison_markdown(result: ComparisonJson) -> str:
    """Return the page of the content of comparison.json: standings first, then every verdict."""
    return "\n".join(_lines(result))


def _lines(result: ComparisonJson) -> Iterator[str]:
    yield from (f"# {result['name']}", "")
    yield from (line for told in answers(result) for line in (f"**{told}**", ""))
    yield from (headline(result), "")
    yield from (f"- {note}" for note in result["notes"])
    tables = (
        ("Standings", standings(result)),
        ("Verdicts", verdicts(result, result["pairs"])),
        ("Winners, fold by fold", winners(result)),
    )
    for title, cells in tables:
        if cells.rows:
            yield from ("", f"## {title}", "", *markdown_table(*cells))
    yield from ("", READING, "") if result["pairs"] else ("",)
