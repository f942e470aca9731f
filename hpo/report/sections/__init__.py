"""The sections of a report: each defines what it holds, works it out, and says how it reads."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # How a section reads depends on the whole report, which is made of sections: they import its type alone, from here.
    from hpo.report.sections.report import ReportJson as ReportJson
else:
    ReportJson = dict
