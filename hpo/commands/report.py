"""`report`: what a study came to, as files."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from hpo.commands.resume import read_results
from hpo.report.write import WrittenReport, write_checklist, write_latex, write_report
from hpo.report.write import publish as publish_study
from hpo.study.preparing.preparation import known_study
from hpo.study.study import PreparedStudy


class Reported(NamedTuple):
    """A study, its report, and the paths of that and of what else was asked."""

    study: PreparedStudy
    report: WrittenReport
    paths: list[Path]


def write_reports(
    name: str, said: Mapping[str, str | None], *, publish: bool = False, checklist: bool = False, latex: bool = False
) -> Reported:
    """Write the report of a study, and what else is asked.

    `said` is what only a person knows, by the keys of conf/report; it is kept with the study.
    """
    study = known_study(name)
    if said:
        with study.folder.lock():
            study = replace(study, config=study.config.with_report(said))
            study.folder.freeze(study.config)
    with read_results(study) as (record, verdict):
        written = write_report(study, record, verdict)
    paths = [*written.paths]
    paths += [write_checklist(study, written.summary)] if checklist else []
    paths += [write_latex(study, written.summary)] if latex else []
    return Reported(study, written, [*paths, *(publish_study(study) if publish else ())])
