"""`test`: the winner, or the whole front, on the test part."""

import logging
from collections.abc import Mapping
from typing import Any

from hpo.errors import HpoError
from hpo.report.write import WrittenReport, write_report
from hpo.session.mirroring import copy_opening
from hpo.study.files.made_here import remember
from hpo.study.ledger import openings
from hpo.study.notes import Notes
from hpo.study.opening import freeze, read_study
from hpo.study.preparing.preparation import load_study
from hpo.study.study import PreparedStudy
from hpo.study.winner.scoring import open_test
from hpo.study.winner.verdict import Verdict, read_verdict
from hpo.trials.record.record import Record

# Without progress, before MLflow is left to `hpo sync`.
_PATIENCE_SECONDS = 60.0

_log = logging.getLogger(__name__)


def score_on_test(
    name: str, again: bool, with_default: bool, elsewhere: Mapping[str, str] | None = None, with_front: bool = False
) -> tuple[PreparedStudy, Mapping[str, Any], WrittenReport]:
    """Open the test part of a study with its winner; return the study, what was found, and the report that has it.

    The study's run in MLflow gets it, too, where there is one; a warning says where that cannot be reached.
    `with_front` scores all of the front in the same opening. Where the data lie now (`elsewhere`, by key) is kept with
    the study.
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
            result = open_test(study, record, verdict, again, with_default, with_front)
            report = write_report(study, record, verdict)
            _send_score(study, record, verdict, report)
        finally:
            study_id = Notes(record).study_id or ""
            record.close()
            # An opening counts also where its scoring failed.
            if len(openings(study.folder.openings_path)) > known:
                copy_opening(study.config, study.folder, study_id)
    return study, result, report


def _send_score(study: PreparedStudy, record: Record, verdict: Verdict, report: WrittenReport) -> None:
    from hpo.track.make import tracking_uri
    from hpo.track.projection import send_study
    from hpo.track.store import is_missing

    why = ""
    try:
        if study.config.track.name != "mlflow" or is_missing(tracking_uri(study.config)):
            return
        is_sent = send_study(study, record, verdict, report, _PATIENCE_SECONDS)
    except HpoError as error:
        is_sent, why = False, f" ({error})"
    if not is_sent:
        _log.warning("MLflow does not have the test score%s: send it later with `hpo sync %s`", why, study.reference)
