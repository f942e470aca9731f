"""The sections of a report. Each module defines a section's schema, computes its values, and renders it as text."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # The report imports all sections, and their texts depend on the whole report. So sections import only its type,
    # from here.
    from hpo.report.sections.report import ReportJson as ReportJson
else:
    ReportJson = dict
