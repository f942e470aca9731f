"""What is done with a study that exists: it goes on, its best trials are trained further, its report, its test."""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from hpo.commands.given.settings import overrides_with_form, with_settings
from hpo.commands.trust import ask_for_trust
from hpo.config.composing.references import with_changes
from hpo.config.keys import refuse_unknown
from hpo.config.study_config import StudyConfig, config_from_dict
from hpo.errors import ConfigError, HpoError
from hpo.report.write import WrittenReport, write_checklist, write_latex, write_report
from hpo.report.write import publish as publish_study
from hpo.session.mirroring import copy_opening
from hpo.study.basis.configurations import moved_sources
from hpo.study.climbing import climbing_from
from hpo.study.extension import choose_trials, extension_of
from hpo.study.files.folder import StudyFolder, short_path
from hpo.study.files.made_here import ENVIRONMENT, is_reached_here, reaches_of, remember
from hpo.study.ledger import openings
from hpo.study.notes import Notes
from hpo.study.opening import freeze, read_study
from hpo.study.preparing.preparation import at_places, known_study, load_study, prepare_study
from hpo.study.study import PreparedStudy
from hpo.study.winner.scoring import open_test
from hpo.study.winner.verdict import Verdict, read_verdict
from hpo.trials.record.record import Record

Changes = Sequence[str] | Mapping[str, Any]
"""Of a study's configuration: overrides as on the command line, or values by dotted key."""

# How many trials are trained further where nothing else is said.
_BEST = 5
# Without progress, before MLflow is left to `hpo sync`.
_PATIENCE_SECONDS = 60.0

_log = logging.getLogger(__name__)


def changed_config(folder: StudyFolder, changes: Changes, data: Mapping[str, str] | None = None) -> StudyConfig:
    """Return a study's configuration with what is changed, and with its data at these places, by key."""
    if isinstance(changes, Mapping):
        return config_from_dict(with_settings(at_places(folder.config(), data or {}).to_dict(), changes))
    folder.refuse_other_format()
    # Here, since a mapping needs no Hydra.
    from hpo.config.composing.compose import compose_config

    return config_from_dict(compose_config("search", overrides_with_form(changes), config_file=str(folder.config_path)))


def prepare_to_resume(folder: StudyFolder, config: StudyConfig, name: str | None, allow_changes: bool) -> PreparedStudy:
    """Return the study as it goes on with this configuration, or where a name is given its copy of this name."""
    if name is not None:
        # Here, since most studies are not copied, and SQLAlchemy takes a second.
        from hpo.study.keeping.copy import continue_as

        return continue_as(folder, name, config, allow_changes)
    return load_study(str(folder), config, allow_changes)


def prepare_to_extend(
    folder: StudyFolder,
    changes: Changes,
    best: int | None,
    trials: Sequence[int],
    data: Mapping[str, str] | None = None,
    climb: bool = False,
) -> PreparedStudy:
    """Return the study of a study's best trials (None = 5), or of these, that trains them with what is changed.

    To `climb` is to search there instead, with what is changed as one scale more.
    """
    if climb and (trials or best is not None):
        raise ConfigError(
            f"{'trial' if trials else 'best'}: has no effect where --climb searches around the best; remove one of them"
        )
    frozen = folder.config()
    keys = list(changes) if isinstance(changes, Mapping) else [one.partition("=")[0].lstrip("+") for one in changes]
    if climb and frozen.study.scales is not None:
        # What is given changes the largest scale.
        largest = frozen.study.scales[-1]
        if isinstance(changes, Mapping):
            changes = {**largest, **changes}
        else:
            changes = [*(f"{key}={json.dumps(value)}" for key, value in largest.items()), *changes]
    if isinstance(changes, Mapping):
        tree = at_places(frozen, data or {}).to_dict()
        if climb:
            tree["strategy"].setdefault("costs", None)
        refuse_unknown(changes, tree, "changes")
        config = config_from_dict(with_changes(tree, changes))
    else:
        config = changed_config(folder, changes)
    moved = moved_sources(frozen.to_dict(), config.to_dict())
    study = load_study(str(folder), elsewhere={key: place for key, (_, place) in moved.items()})
    if climb:
        return prepare_study(climbing_from(study, config, keys), study.objective.kept)
    with read_results(study) as (_, verdict):
        picked = choose_trials(study, verdict.history, _BEST if best is None else best, trials)
    return prepare_study(extension_of(study, picked, config), study.objective.kept)


def ask_for_copied(folder: StudyFolder, changed: StudyConfig, url: str, is_trusted: bool) -> None:
    """Ask before anything of a study that came from a URL, and was not made here, is imported or run."""
    config, now = folder.config(), reaches_of(changed)
    # Those that the user gives now, or has used before, are his own.
    theirs = [line for line in reaches_of(config) if line in now and not is_reached_here(line)]
    packages = [line for line in theirs if line.startswith(ENVIRONMENT)]
    places = [line for line in theirs if line not in packages and line.partition("=")[2] != url]
    kept = folder.kept_function(config)
    try:
        ask_for_trust(config, (), is_trusted, kept, places=places, packages=packages)
    except ConfigError as error:
        # To read a function is to run its maker's code, which `go_on` refuses until it is trusted.
        trusted = f"`hpo reproduce {short_path(folder.path)} --trust`, after which " if kept else ""
        read = f"read {short_path(folder.config_path)}, and {trusted}`{folder.go_on}` goes on with it"
        raise ConfigError(f"{error}; it was only copied: {read}") from error


@contextmanager
def read_results(study: PreparedStudy) -> Iterator[tuple[Record, Verdict]]:
    """Yield the record of a study, which is closed afterwards, and its verdict."""
    record = read_study(study)
    try:
        yield record, read_verdict(study, record)
    finally:
        record.close()


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
