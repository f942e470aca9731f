"""What a study is judged by: its report, and its test."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from hpo.engine.record.record import Record
from hpo.report.write import WrittenReport, write_checklist, write_latex, write_report
from hpo.report.write import publish as publish_study
from hpo.session.mirroring import copy_opening
from hpo.study.files.made_here import remember
from hpo.study.ledger import openings
from hpo.study.notes import Notes
from hpo.study.opening import freeze, read_study
from hpo.study.preparing.preparation import known_study, load_study
from hpo.study.study import Study
from hpo.study.winner.scoring import open_test
from hpo.study.winner.verdict import Verdict, read_verdict


@contextmanager
def read_results(study: Study) -> Iterator[tuple[Record, Verdict]]:
    """Yield the record of a study, which is closed afterwards, and its verdict."""
    record = read_study(study)
    try:
        yield record, read_verdict(study, record)
    finally:
        record.close()


def write_reports(
    name: str, said: Mapping[str, str | None], *, publish: bool = False, checklist: bool = False, latex: bool = False
) -> list[Path]:
    """Write the report of a study, and what else is asked, and return the paths.

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
    return [*paths, *(publish_study(study) if publish else ())]


def score_on_test(
    name: str, again: bool, with_default: bool, elsewhere: Mapping[str, str] | None = None
) -> tuple[Study, Mapping[str, Any], WrittenReport]:
    """Open the test part of a study with its winner; return the study, what was found, and the report that has it.

    Where the data lie now (`elsewhere`, by key) is kept with the study.
    """
    study = load_study(name, elsewhere=elsewhere)
    with study.folder.lock():
        record = read_study(study)
        if elsewhere:
            freeze(study)
            remember(study.config, study.objective.kept)
        known = len(openings(study.folder.openings_path))
        try:
            verdict = read_verdict(study, record)
            result = open_test(study, record, verdict, again, with_default)
            report = write_report(study, record, verdict)
        finally:
            study_id = Notes(record).study_id or ""
            record.close()
            # An opening counts also where its scoring failed.
            if len(openings(study.folder.openings_path)) > known:
                copy_opening(study.config, study.folder, study_id)
    return study, result, report
