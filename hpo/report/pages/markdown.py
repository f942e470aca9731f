"""The report as a Markdown page, which code hosts render."""

from hpo.report.blocks import markdown_lines
from hpo.report.sections.report import SECTIONS, ReportJson, read_section
from hpo.report.sections.study import heading


def render_report_markdown(report: ReportJson) -> str:
    """Return the page of the content of report.json."""
    title, name = heading(report["study"])
    lines = [f"# {title}", "", *([name, ""] if name else ())]
    for section, read in SECTIONS:
        lines += [*([f"## {section}", ""] if section else ()), *markdown_lines(read_section(read, report))]
    return "\n".join(lines)
