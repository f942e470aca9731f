"""Creates, continues or reads a study's record, after the necessary checks."""

import datetime
import logging
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
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
from hpo.study.basis.changes import Basis, allowed_change, refuse_changes, refuse_decisive_changes, refuse_other_data
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
    """Create the study, or continue the existing study, and return its record; HpoError if a check fails."""
    frozen = _refuse_unready(study)
    remember(study.config, study.objective.pickled, reaches_of(study.config))
    record = _create(study) if frozen is None else _continue(study, frozen)
    _copy_data(study, Notes(record))
    freeze(study)
    return record


def freeze(study: PreparedStudy) -> None:
    """Write the study's configuration and the objective's description; readers of the record need both files."""
    study.described.write(study.folder.described_path)
    study.folder.freeze(study.config)


def read_study(study: PreparedStudy) -> Record:
    """Return the record of an existing study.

    Raises:
        StudyError: the record is damaged, or the data or configuration differ from the notes in the record.
    """
    from hpo.trials.record.storage import read_record

    try:
        record = read_record(_stored(study))
    except DamagedRecordError as error:
        raise DamagedRecordError(
            f"{error}; `hpo resume {study.reference}` restores the record from its backup, if the backup is intact"
        ) from error
    before, now = Notes(record).basis, Basis(study.config.to_dict(), _data(study), None)
    refuse_other_data(before, now, study.reference)
    changed = before.changed_config(now)
    if changed:
        raise StudyError(
            f"{short_path(study.folder.config_path)}: has changed since the start of the study "
            f"({'; '.join(changed.values())}); restore the file"
        )
    return record


@contextmanager
def opened_run(study: PreparedStudy) -> Iterator[StudyRun]:
    """Yield the run of an existing study, and close the record at the end; raise the errors of `read_study`."""
    with closing(read_study(study)) as record:
        yield StudyRun.of(study, record)


def change_choice(study: PreparedStudy) -> None:
    """Change how an existing study chooses its winner: write the new `study.choose`, and note the change.

    Raises:
        StudyError: a process runs the study, or the record cannot be opened.
    """
    from hpo.trials.record.storage import continue_record

    with study.folder.lock():
        # Read the file again, because another process may have raised the budget before this one had the lock.
        frozen = study.folder.config()
        study = replace(study, config=frozen.with_study(choose=study.config.study.choose))
        with closing(continue_record(_stored(study))) as record:
            _note_choice(study, frozen, record)
        study.folder.freeze(study.config)


def refuse_to_open(study: PreparedStudy) -> tuple[int, str | None]:
    """Run the checks of `open_study`, but create nothing; HpoError if a check fails.

    Returns:
        The number of trials and the id of an existing study; 0 and None for a new study.
    """
    frozen = _refuse_unready(study)
    if frozen is None:
        evaluations_of_sources(study)
        refuse_link(study.folder.path)
        study.folder.refuse_links()
        return 0, None
    refuse_other_config(frozen, study.config, study.reference)
    with closing(read_study(study)) as record:
        _refuse_other_basis(study, frozen, record)
        refuse_early_limits(study, frozen, record)
        return len(record.trials()), Notes(record).study_id


def _refuse_unready(study: PreparedStudy) -> StudyConfig | None:
    """Return the frozen configuration, or None for a new study; raise HpoError if a secret or a file is missing."""
    # Look up the secrets now; else a missing one would fail the first task.
    values_of(study.config.objective_config, study.config.secrets)
    if not study.folder.exists:
        return None
    frozen = study.folder.config()
    # The report needs this file; read it now, so that an incomplete one fails before any training.
    study.environment()
    return frozen


def _create(study: PreparedStudy) -> Record:
    # The steps that may fail come before the creation of the record. The caller writes config.yaml last, because that
    # file marks the study as existing.
    basis, environment = _basis(study), describe_environment(study.config.secrets)
    inherited = evaluations_of_sources(study)
    study.folder.make()
    study.folder.remove_unfinished()
    study.folder.write_function(study.objective.pickled)
    study.folder.write_rows(study.objective.pickled)
    if (extends := study.config.study.extends) is not None:
        copy_states(study, extends)
    begin_log(study.folder, inherited)
    # Import late: this loads Optuna, which takes a third of a second, and the steps above do not need it.
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
    """Return the record of an existing study; HpoError if a change of basis, budget or limits is not allowed."""
    # Before the record is opened: with another goal or space, it would seem damaged.
    if study.allow_changes:
        refuse_decisive_changes(frozen.to_dict(), study.config.to_dict(), study.reference)
    else:
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
        effect = "scores may differ in their last digits, and "
        if remark.startswith("toolkit"):
            effect = "the revisions are the same, so trials do not change, and " if has_revisions else ""
        _log.warning("%s; %sthe report will mention this", remark, effect)
    if changes:
        # The copy of the data and the training states are not valid for the new basis.
        study.remove_states(())
        shutil.rmtree(study.folder.data_dir, ignore_errors=True)
        # Freeze before noting the changes. If the driver dies in between, the next run refuses the study as changed,
        # instead of continuing it unnoticed.
        freeze(study)
    if changes or remarks:
        notes = Notes(record)
        notes.allowed_changes = [*notes.allowed_changes, allowed_change(before, now, record.trials())]
        notes.write_basis(now)
    if changes and (failed := failed_trials(record)):
        trials = format_count(len(failed), "trial*")
        message = "%s failed before the configuration, data or code changed; retry them with `hpo retry %s`"
        _log.warning(message, trials, study.reference)
    study.folder.write_function(study.objective.pickled)
    study.folder.write_rows(study.objective.pickled)
    _note_choice(study, frozen, record)
    if points := queued_points(study, record):
        place = len(record.trials())
        record.write_added(AddedPoint(add.point, place, retry_of=add.retry_of) for add in points)
    return record


def _note_choice(study: PreparedStudy, frozen: StudyConfig, record: Record) -> None:
    """Write a note to the record if the limits differ from the limits in `frozen`.

    With several metrics, also write a note if `study.choose` differs from `study.choose` in `frozen`.
    """
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
    """Queue points in a study that no process runs.

    Args:
        added: a function that takes the record, and returns the points to add or raises an error.
        by: the user who adds the points.

    Returns:
        Two values: the points that `added` returned, and the study's whole queue (all added points without a trial).

    Raises:
        StudyError: a process runs the study, or the record cannot be opened.
    """
    from hpo.trials.record.storage import continue_record

    with study.folder.lock(), closing(continue_record(_stored(study))) as record:
        adds, place, now = added(record), len(record.trials()), time.time()
        record.write_added(AddedPoint(add.point, place, now, by, add.retry_of) for add in adds)
        return adds, untried_points(record)


def _copy_data(study: PreparedStudy, notes: Notes) -> None:
    """Write the workers' copy of the development examples if the copy is missing, or differs from the noted hashes."""
    data_dir, noted = study.folder.data_dir, notes.data_hashes
    if study.plan is None:
        return
    if data_dir.exists():
        if noted is None or noted.items() <= _hashes(data_dir).items():
            return
        _log.warning("%s: the workers' copy of the data was changed; writing it again", data_dir)
        shutil.rmtree(data_dir)
    config, indices = study.config.objective_config, study.plan.development
    if study.objective.write_development_data(config, indices, data_dir):
        notes.data_hashes = _hashes(data_dir)


def _hashes(data_dir: Path) -> dict[str, str]:
    """Return the hash of every file directly in the folder, by name; skip subfolders, which workers create."""
    return {path.name: digest_of(path) for path in sorted(data_dir.iterdir()) if path.is_file()}


def code_of(study: PreparedStudy) -> Code:
    """Return the current code on which a study's results depend."""
    settings = study.config.strategy
    # A ladder searches its first scale with a second strategy.
    names = [settings["name"], *([settings["first"]["name"]] if settings["name"] == "ladder" else [])]
    strategies = {name: strategy_type(name)[1] for name in names}
    return describe_code(study.objective, strategies, study.config.objective_config)


def _basis(study: PreparedStudy) -> Basis:
    return Basis(study.config.to_dict(), _data(study), study.code or code_of(study))


def _stored(study: PreparedStudy) -> "Stored":
    return stored_record(study.config, study.folder, study.space, study.layout)


def _data(study: PreparedStudy) -> dict[str, Any] | None:
    """Return the description of the data for `Basis`; None if the study reads no files."""
    if study.plan and study.examples:
        files = {str(file.get("path")): {"fingerprint": file.get("sha256")} for file in study.examples.files}
        return {**study.plan.to_dict(), "files": files, "has_digests": study.examples.digests is not None}
    files = {file.path: {"fingerprint": file.sha256} for file in study.own.files}
    return {"parts": files} if files else None


def _refuse_other_basis(study: PreparedStudy, frozen: StudyConfig, record: Record) -> tuple[Basis, Basis]:
    """Return the recorded and the current basis; StudyError for a forbidden change or too small a budget."""
    trials = record.trials()
    num_used, given = study.num_counted(trials), study.config.study.trials
    if given < num_used:
        ended = study.num_counted(trial for trial in trials if trial.state != "running")
        running = "" if ended == num_used else f" ({ended} ended, {num_used - ended} unfinished)"
        raise StudyError(
            f"study.trials: must be at least {num_used}, given {given}; the study already has {num_used} "
            f"{study.counts}{running}"
        )
    spent, minutes = seconds_spent(record) / 60, study.config.study.minutes
    if minutes is not None and minutes != frozen.study.minutes and minutes < spent:
        raise StudyError(
            f"study.minutes: must be more than {spent:.3g}, given {minutes:g}; the study has already taken {spent:.3g} "
            f"minutes"
        )
    before, now = Notes(record).basis, _basis(study)
    refuse_changes(before, now, study.reference, study.allow_changes)
    return before, now


def stored_record(config: StudyConfig, folder: StudyFolder, space: Space, layout: TaskLayout) -> "Stored":
    """Return the storage of a study's record, with everything that is needed to read the record."""
    from hpo.trials.record.storage import Stored

    section, url = config.study, folder.storage_url(config)

    def check(number: Any) -> None:
        upgraded("record", {"format": number}, f"{folder}: record")

    return Stored(url, section.name, space, searched_goal(section), layout, check, section.storage is None)
