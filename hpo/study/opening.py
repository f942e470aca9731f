"""Creates, continues and reads a study's record, with the checks before that."""

import datetime
import logging
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpo.config.secrets import values_of
from hpo.config.study_config import StudyConfig
from hpo.engine.loop import seconds_spent
from hpo.engine.strategies import strategy_type
from hpo.errors import StudyError
from hpo.formatting import format_count
from hpo.machine import user_name
from hpo.study.additions import failed_trials, queued_points, untried_points
from hpo.study.basis.changes import Basis, allowed_change, refuse_changes, refuse_other_data
from hpo.study.basis.configurations import refuse_other_config
from hpo.study.basis.environment import describe_environment
from hpo.study.basis.source_code import Code, describe_code
from hpo.study.extension import copy_states
from hpo.study.files.folder import StudyFolder, refuse_link, short_path
from hpo.study.files.made_here import reaches_of, remember
from hpo.study.later_limits import last_limits, refuse_early_limits
from hpo.study.notes import ChangedChoice, Notes
from hpo.study.results.run import StudyRun
from hpo.study.study import PreparedStudy
from hpo.study.test_log import begin_log, evaluations, evaluations_of_sources
from hpo.study.upgrade import FORMAT, upgraded
from hpo.trials.goal import searched_goal
from hpo.trials.record.own_file import DamagedRecordError
from hpo.trials.record.record import Record
from hpo.trials.record.user_actions import Add, AddedPoint
from hpo.trials.space.space import Space
from hpo.trials.trial import TaskLayout
from hpo.workers.store.packing import digest_of

if TYPE_CHECKING:
    from hpo.trials.record.storage import Stored

_log = logging.getLogger(__name__)


def open_study(study: PreparedStudy) -> Record:
    """Create the study's files, or continue the existing study, and return the record; HpoError where it must not."""
    frozen = _refuse_unready(study)
    remember(study.config, study.objective.pickled, reaches_of(study.config))
    record = _create(study) if frozen is None else _continue(study, frozen)
    _copy_data(study, Notes(record))
    freeze(study)
    return record


def freeze(study: PreparedStudy) -> None:
    """Write what a study is read from besides its record: its configuration, and what its objective says of it."""
    study.described.write(study.folder.described_path)
    study.folder.freeze(study.config)


def read_study(study: PreparedStudy) -> Record:
    """Return the record of an existing study; StudyError where it is damaged, or the data that were read differ."""
    from hpo.trials.record.storage import read_record

    try:
        record = read_record(_stored(study))
    except DamagedRecordError as error:
        raise DamagedRecordError(
            f"{error}; `hpo resume {study.reference}` replaces it by its backup, if that is sound"
        ) from error
    before, now = Notes(record).basis, Basis(study.config.to_dict(), _data(study), None)
    refuse_other_data(before, now, study.reference)
    changed = before.changed_config(now)
    if changed:
        raise StudyError(
            f"{short_path(study.folder.config_path)}: is not what the study was started with "
            f"({'; '.join(changed.values())}); restore it"
        )
    return record


@contextmanager
def opened_run(study: PreparedStudy) -> Iterator[StudyRun]:
    """Yield an existing study with its record, which is closed afterwards; errors as of `read_study`."""
    record = read_study(study)
    try:
        yield StudyRun.of(study, record)
    finally:
        record.close()


def change_choice(study: PreparedStudy) -> None:
    """Let an existing study choose its winner by another `study.choose`, as in this configuration, and note it."""
    from hpo.trials.record.storage import continue_record

    with study.folder.lock():
        record = continue_record(_stored(study))
        try:
            _note_choice(study, study.folder.config(), record)
        finally:
            record.close()
        study.folder.freeze(study.config)


def refuse_to_open(study: PreparedStudy) -> tuple[int, str | None]:
    """Raise what `open_study` would, and create nothing; return its number of trials and its id, None if it is new."""
    frozen = _refuse_unready(study)
    if frozen is None:
        refuse_link(study.folder.path)
        study.folder.refuse_links()
        return 0, None
    refuse_other_config(frozen, study.config, study.reference)
    record = read_study(study)
    try:
        _refuse_other_basis(study, frozen, record)
        return len(record.trials()), Notes(record).study_id
    finally:
        record.close()


def _refuse_unready(study: PreparedStudy) -> StudyConfig | None:
    """Raise HpoError for a search that cannot run now; return its frozen configuration, None for a new one."""
    # Otherwise a missing value would be noticed only when the first task is built.
    values_of(study.config.objective_config, study.config.secrets)
    if not study.folder.exists:
        return None
    frozen = study.folder.config()
    # The report needs it: what is lacking must be noticed before anything is trained.
    study.environment()
    return frozen


def _create(study: PreparedStudy) -> Record:
    # What may fail comes before the record, and the record before the configuration, which marks an existing study.
    basis, environment, taken = _basis(study), describe_environment(study.config.secrets), evaluations_of_sources(study)
    study.folder.make()
    study.folder.remove_unfinished()
    study.folder.write_function(study.objective.pickled)
    study.folder.write_rows(study.objective.pickled)
    if (extends := study.config.study.extends) is not None:
        copy_states(study, extends)
    begin_log(study.folder, taken)
    # Imported here: Optuna's tables take a third of a second, which no refusal should wait for.
    from hpo.trials.record.storage import create_record

    record = create_record(_stored(study))
    notes = Notes(record)
    notes.imports = study.imports.trials
    if study.imports.trials:
        notes.imported = study.imports.counts()
    notes.format = FORMAT
    if study.added:
        record.write_added(study.added)
    if study.actions:
        record.actions = [*study.actions]
    notes.write_basis(basis)
    notes.user = user_name() or None
    study.folder.write_json(study.folder.environment_path, environment)
    notes.study_id = uuid.uuid4().hex
    return record


def _continue(study: PreparedStudy, frozen: StudyConfig) -> Record:
    """Return the record of an existing study, on its original or an allowed basis."""
    if not study.allow_changes:
        refuse_other_config(frozen, study.config, study.reference)
    from hpo.trials.record.storage import continue_record

    record = continue_record(_stored(study))
    before, now = _refuse_other_basis(study, frozen, record)
    refuse_early_limits(study, frozen, record)
    changes, remarks = before.changes_to(now), before.remarks_on(now)
    if not changes and before.code is not None and now.code is not None:
        now = replace(now, code=now.code.without_written(before.code))
    has_revisions = not any(change.startswith("code: revision") for change in changes)
    for remark in remarks:
        may = "scores may differ in their last digits, and "
        if remark.startswith("toolkit"):
            may = "by their revisions trials are the same, and " if has_revisions else ""
        _log.warning("%s; %sthe report says so", remark, may)
    if changes:
        # Not valid for the new basis: the copy of the data, and unfinished trainings.
        study.remove_states(())
        shutil.rmtree(study.folder.data_dir, ignore_errors=True)
        # Before the note: if killed in between, the study looks as if edited, and is refused.
        freeze(study)
    if changes or remarks:
        notes = Notes(record)
        notes.allowed_changes = [*notes.allowed_changes, allowed_change(before, now, record.trials())]
        notes.write_basis(now)
    if changes and (failed := failed_trials(record)):
        tries = format_count(len(failed), "trial*")
        _log.warning("%s failed before this change; `hpo retry %s` tries what failed again", tries, study.reference)
    study.folder.write_function(study.objective.pickled)
    study.folder.write_rows(study.objective.pickled)
    _note_choice(study, frozen, record)
    if points := queued_points(study, record):
        place = len(record.trials())
        record.write_added(AddedPoint(add.point, place, retry_of=add.retry_of) for add in points)
    return record


def _note_choice(study: PreparedStudy, frozen: StudyConfig, record: Record) -> None:
    """Note a change of the limits, and of how one of the front is chosen; with one metric nothing is chosen so."""
    before, after, notes = frozen.study, study.config.study, Notes(record)
    changes: dict[str, tuple[Any, Any]] = {"study.limits": (last_limits(before), last_limits(after))}
    if len(study.goal.metrics) > 1:
        changes["study.choose"] = (before.choose, after.choose)
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    for key, (old, new) in changes.items():
        if old != new:
            is_open = bool(evaluations(study.folder.test_log_path))
            change = ChangedChoice(key, now, old, new, len(record.history()), is_open)
            notes.changed_choices = [*notes.changed_choices, change]


def add_while_idle(
    study: PreparedStudy, added: Callable[[Record], Sequence[Add]], by: str
) -> tuple[Sequence[Add], Sequence[AddedPoint]]:
    """Let a study that no process runs try points next; return them, and all that wait. Raises what `added` does."""
    from hpo.trials.record.storage import continue_record

    with study.folder.lock():
        record = continue_record(_stored(study))
        try:
            adds, place, now = added(record), len(record.trials()), time.time()
            record.write_added(AddedPoint(add.point, place, now, by, add.retry_of) for add in adds)
            return adds, untried_points(record)
        finally:
            record.close()


def _copy_data(study: PreparedStudy, notes: Notes) -> None:
    """Write the workers' copy of the development examples, where it is missing or was changed."""
    data_dir, known = study.folder.data_dir, notes.data_hashes
    if study.plan is None:
        return
    if data_dir.exists():
        if known is None or known.items() <= _hashes(data_dir).items():
            return
        _log.warning("%s: the workers' copy of the data was changed; it is written again", data_dir)
        shutil.rmtree(data_dir)
    config, indices = study.config.objective_config, study.plan.development
    if study.objective.write_development_data(config, indices, data_dir):
        notes.data_hashes = _hashes(data_dir)


def _hashes(data_dir: Path) -> dict[str, str]:
    """Return the hash of every file in the folder, without the workers' own subfolders."""
    return {path.name: digest_of(path) for path in sorted(data_dir.iterdir()) if path.is_file()}


def code_of(study: PreparedStudy) -> Code:
    """Return the code that a study depends on, as it is now."""
    settings = study.config.strategy
    # A ladder has a second strategy, which searches its first scale.
    names = [settings["name"], *([settings["first"]["name"]] if settings["name"] == "ladder" else [])]
    strategies = {name: strategy_type(name)[1] for name in names}
    return describe_code(study.objective, strategies, study.config.objective_config)


def _basis(study: PreparedStudy) -> Basis:
    return Basis(study.config.to_dict(), _data(study), study.code or code_of(study))


def _stored(study: PreparedStudy) -> "Stored":
    return stored_record(study.config, study.folder, study.space, study.layout)


def _data(study: PreparedStudy) -> dict[str, Any] | None:
    """Return what `Basis` has of the data."""
    if study.plan and study.examples:
        files = {str(file.get("path")): {"fingerprint": file.get("sha256")} for file in study.examples.files}
        return {**study.plan.to_dict(), "files": files, "has_digests": study.examples.digests is not None}
    files = {file.path: {"fingerprint": file.sha256} for file in study.own.files}
    return {"parts": files} if files else None


def _refuse_other_basis(study: PreparedStudy, frozen: StudyConfig, record: Record) -> tuple[Basis, Basis]:
    """Return what the study rested on and rests on now; StudyError where they differ, or the budget is used up."""
    trials = record.trials()
    there, asked = study.num_counted(trials), study.config.study.trials
    if asked < there:
        ended = study.num_counted(trial for trial in trials if trial.state != "running")
        begun = "" if ended == there else f", of which {ended} have ended and {there - ended} have begun"
        raise StudyError(
            f"study.trials: the study already has {there} {study.counts}{begun}, given {asked}; give {there} or more"
        )
    spent, minutes = seconds_spent(record) / 60, study.config.study.minutes
    if minutes is not None and minutes != frozen.study.minutes and minutes < spent:
        raise StudyError(
            f"study.minutes: the study has already taken {spent:.3g} minutes, given {minutes:g}; give more"
        )
    before, now = Notes(record).basis, _basis(study)
    refuse_changes(before, now, study.reference, study.allow_changes)
    return before, now


def stored_record(config: StudyConfig, folder: StudyFolder, space: Space, layout: TaskLayout) -> "Stored":
    """Return where the record of a study is, and what must be known to read it."""
    from hpo.trials.record.storage import Stored

    section, url = config.study, folder.storage_url(config)

    def check(number: Any) -> None:
        upgraded("record", {"format": number}, f"{folder}: record")

    return Stored(url, section.name, space, searched_goal(section), layout, check, section.storage is None)
