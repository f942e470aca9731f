"""Exports studies of this toolkit to Optuna storages, and imports studies from Optuna storages."""

import copy
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import optuna
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

from hpo.config.secrets import hide_secrets
from hpo.errors import StudyError, first_line, nearest
from hpo.integrations.exchange.imported import Imported, attempt
from hpo.study.files.folder import StudyFolder, short_path
from hpo.study.files.imports import unnamed
from hpo.trials.record.record import LAST
from hpo.trials.record.rows import constraint_attributes, directions_of, name_metrics, trials_of_study
from hpo.trials.record.storage import open_storage, sqlite_path
from hpo.trials.trial import TaskLayout, Trial

_JOURNAL = "journal://"
_SQLITE = b"SQLite format 3"
# Do not read more trials, because they do not help a strategy, and need gigabytes of memory.
_MOST_TRIALS = 1_000_000
_ERRORS = {TrialState.PRUNED: "pruned at step {}", TrialState.FAIL: "failed"}


def export_study(
    source_url: str,
    name: str,
    target_url: str,
    target_name: str,
    further: Iterable[Trial] = (),
    layout: TaskLayout = TaskLayout(),  # noqa: B008 -- it is frozen
    constraints: Mapping[int, Mapping[str, float]] | None = None,
) -> tuple[int, int]:
    """Copy a study into another Optuna storage. The copy is complete, or it does not exist.

    Running and interrupted trials are left out, because nobody would finish these trials in the copy. Trials that
    another program wrote into the record are left out, too.

    Args:
        source_url: the storage of the study.
        name: the study's name in this storage.
        target_url: the storage of the copy.
        target_name: the name of the copy.
        further: the trials that were trained further after the search, with their results after that training.
        layout: the folds and repeats of each trial.
        constraints: by trial number and then by limit, how far the trial is beyond the limit. A negative number means
            that the trial is within the limit.

    Returns:
        The number of copied trials, and the number of running and interrupted trials, which are left out.

    Raises:
        StudyError: a storage cannot be opened, the source has no study `name`, or the target has a study `target_name`.
    """
    source = _load(source_url, name)
    storage = open_storage(target_url, "optuna")
    try:
        target = optuna.create_study(storage=storage, study_name=target_name, directions=source.directions)
    except optuna.exceptions.DuplicatedStudyError as error:
        raise StudyError(
            f"export: {hide_secrets(target_url, {})} already has a study '{target_name}'; give another name"
        ) from error
    trials = trials_of_study(source.get_trials(deepcopy=False), source.user_attrs.get(LAST))
    metrics = source.metric_names
    trials |= {trial.number: _trained_further(trials[trial.number], trial, layout, metrics) for trial in further}
    for number, given in (constraints or {}).items():
        trials[number] = copy.deepcopy(trials[number])
        trials[number].system_attrs |= constraint_attributes(given)
    done = [trial for trial in trials.values() if trial.state.is_finished()]
    try:
        if metrics:
            name_metrics(target, metrics)
        for key, value in source.user_attrs.items():
            target.set_user_attr(key, value)
        target.add_trials(done)
    except BaseException:
        # Delete the incomplete copy after any exception, even after an interrupt.
        optuna.delete_study(study_name=target_name, storage=storage)
        raise
    finally:
        storage.remove_session()
    return len(done), len(trials) - len(done)


def refuse_record(url: str) -> None:
    """Raise StudyError if the URL is the record of a study of this toolkit, because such a study needs no import."""
    path = sqlite_path(url)
    if path is None or not (folder := StudyFolder(path.parent)).exists or path.name != folder.database_path.name:
        return
    raise StudyError(
        f"import: {short_path(path)} is the record of the study {folder}, which needs no import: continue it by `hpo "
        f"resume {folder}`, or learn from its trials in a new search by study.imports={folder}; if the keys of the new "
        f"search have other names, run `hpo import --csv {short_path(folder.trials_path)} --rename OLD=NEW`"
    )


def read_optuna(url: str, name: str | None, most_trials: int = _MOST_TRIALS) -> Imported:
    """Return the finished trials of a study in an Optuna storage. Pruned trials count as failed.

    Several objectives become several metrics. The metrics have the objectives' names in Optuna; without such names,
    they are called `value_0`, `value_1` and so on. For constraints, only the names are read, not the values.

    Args:
        url: the address of the storage, such as `sqlite:///file.db` or `journal://file.log`.
        name: the study's name; None = the only study in the storage.
        most_trials: the largest allowed number of trials.

    Raises:
        StudyError: the storage cannot be opened, the study does not exist, the study has more than `most_trials`
            trials, or `name` is None and the storage does not have exactly one study.
    """
    study = _load(url, name, most_trials)
    trials = study.get_trials(deepcopy=False)
    done = [trial for trial in trials if trial.state.is_finished()]
    directions = directions_of(study)
    names = study.metric_names or unnamed(len(directions))
    metrics = dict(zip(names, directions, strict=True))
    attempts = [
        attempt(
            place,
            trial.params,
            metrics,
            trial.values or [None] * len(metrics),
            trial.duration.total_seconds() if trial.duration else 0.0,
            _ERRORS.get(trial.state, "").format(trial.last_step) or None,
        )
        for place, trial in enumerate(done)
    ]
    source = f"study '{study.study_name}' in {hide_secrets(url, {})}"
    further = dict(zip(names[1:], directions[1:], strict=True))
    constraints = tuple(dict.fromkeys(name for trial in done for name in trial.constraints))
    left_out = len(trials) - len(done)
    return Imported(attempts, names[0], directions[0], source, left_out, further=further, constraints=constraints)


def _trained_further(
    before: FrozenTrial, after: Trial, layout: TaskLayout, metrics: Sequence[str] | None
) -> FrozenTrial:
    """Return the Optuna trial `before` with the results of `after`, the same trial after further training."""
    trial = copy.deepcopy(before)
    trial.values = [after.mean(metric) for metric in metrics] if metrics else [after.score]
    amounts = {"amount": after.amount, "continues": after.continues, "trained": after.trained}
    tasks = {layout.name(index): outcome.to_dict() for index, outcome in after.outcomes.items()}
    trial.user_attrs = {**before.user_attrs, **amounts, **tasks}
    return trial


def _open_journal(path: Path) -> optuna.storages.JournalStorage:
    """Open the storage of an Optuna journal. Optuna ignores an incomplete last line of the file."""
    try:
        return optuna.storages.JournalStorage(JournalFileBackend(str(path)))
    except Exception as error:
        # A damaged line may raise any exception in Optuna.
        raise StudyError(
            f"optuna: {path} is not an Optuna journal, or is a journal with a damaged line ({first_line(error)}); give "
            "the path of a journal, or of a copy of this journal without the damaged line"
        ) from error


def _address_of(path: Path) -> str:
    """Return the storage address of a file, for the message to a user who typed only the path.

    If the file does not exist, return both possible addresses: as a database and as a journal.
    """
    sqlite, journal = f"sqlite:///{path}", f"{_JOURNAL}{path}"
    if not path.expanduser().is_file():
        return f"{sqlite}, or {journal} for a journal"
    with path.expanduser().open("rb") as file:
        return sqlite if file.read(len(_SQLITE)) == _SQLITE else journal


def _load(url: str, name: str | None, most_trials: int = _MOST_TRIALS) -> optuna.Study:
    shown = hide_secrets(url, {})
    journal = Path(url.removeprefix(_JOURNAL)).expanduser() if url.startswith(_JOURNAL) else None
    if "://" not in url:
        raise StudyError(f"optuna: must be the address of a storage, given {shown}; write {_address_of(Path(url))}")
    path = journal or sqlite_path(url)
    if path is not None and not path.is_file():
        # Opening the storage would create the file.
        raise StudyError(f"{shown}: there is no file {path}")
    storage = open_storage(url, "optuna") if journal is None else _open_journal(journal)
    names = optuna.get_all_study_names(storage)
    there_are = f"the studies are {', '.join(names)}" if names else "the storage has no study"
    if name is None and len(names) != 1:
        raise StudyError(f"study: must name one of the {len(names)} studies in {shown}; {there_are}")
    name = names[0] if name is None else name
    if name not in names:
        raise StudyError(f"{shown}: has no study '{name}'{nearest(name, names)}; {there_are}")
    number = storage.get_n_trials(storage.get_study_id_from_name(name))
    if number > most_trials:
        raise StudyError(f"{shown}: study '{name}' has {number:,} trials, but at most {most_trials:,} can be read")
    return optuna.load_study(storage=storage, study_name=name)
