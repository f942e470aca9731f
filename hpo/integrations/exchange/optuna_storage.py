"""Exports studies of this toolkit to Optuna storages, and imports studies from Optuna storages."""

import copy
import math
from datetime import datetime
from pathlib import Path

import optuna
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

from hpo.config.secrets import hide_secrets
from hpo.errors import StudyError, first_line, nearest
from hpo.integrations.exchange.imported import Imported, attempt
from hpo.study.files.folder import StudyFolder, short_path
from hpo.study.files.imports import unnamed
from hpo.study.results.run import StudyRun
from hpo.study.study import full_amount_of
from hpo.trials.goal import Goal
from hpo.trials.places import place_of
from hpo.trials.record.record import AMOUNTS, LAST, NUMBER, OWN_ATTRIBUTES, ROUND, Record
from hpo.trials.record.rows import constraint_attributes, directions_of, name_metrics, trials_of_study
from hpo.trials.record.storage import Stored, open_storage, sqlite_path
from hpo.trials.reported_values import numbers
from hpo.trials.trial import Trial

_JOURNAL = "journal://"
_SQLITE = b"SQLite format 3"
# Do not read more trials, because they do not help a strategy, and need gigabytes of memory.
_MOST_TRIALS = 1_000_000


def export_study(source: Stored, run: StudyRun, target_url: str, target_name: str) -> tuple[int, int]:
    """Copy a study into another Optuna storage. The copy is complete, or it does not exist.

    A trial of the copy has the state, learning curve, times and attributes that Optuna's own programs would write:

    - A trial that was stopped early, or trained to less than `strategy.max_amount`, is PRUNED. It keeps its score; a
      stopped trial of a study with several metrics has no scores.
    - The intermediate values are the means over the tasks, at whole epochs or steps. A study with several metrics has
      none, because Optuna allows none.
    - The times are those of the training, without the time before it started.
    - The objective's notes are user attributes. The same is true for numbers that the objective returned in addition to
      the study's metrics.
    - Each limit is a constraint.

    Running and interrupted trials are left out, because nobody would finish these trials in the copy. Trials that
    another program wrote into the record are left out, too.

    Args:
        source: the study's record.
        run: the state of the record, with the results of the trainings that followed the search.
        target_url: the storage of the copy.
        target_name: the name of the copy.

    Returns:
        The number of copied trials, and the number of running and interrupted trials, which are left out.

    Raises:
        StudyError: a storage cannot be opened, or the target has a study `target_name`.
    """
    original = _load(source.url, source.name)
    storage = _open(target_url, is_new=True)
    try:
        target = optuna.create_study(storage=storage, study_name=target_name, directions=original.directions)
    except optuna.exceptions.DuplicatedStudyError as error:
        raise StudyError(
            f"export: {hide_secrets(target_url, {})} already has a study '{target_name}'; give another name"
        ) from error
    stored = trials_of_study(original.get_trials(deepcopy=False), original.user_attrs.get(LAST))
    done = [_exported(stored[trial.number], trial, run, source.goal) for trial in run.history]
    try:
        name_metrics(target, list(source.goal.metrics))
        for key, value in original.user_attrs.items():
            target.set_user_attr(key, value)
        target.add_trials(done)
    except BaseException:
        # Delete the incomplete copy after any exception, even after an interrupt.
        optuna.delete_study(study_name=target_name, storage=storage)
        raise
    finally:
        storage.remove_session()
    return len(done), len(stored) - len(done)


def refuse_record(url: str) -> None:
    """Raise StudyError if the URL is the record of a study of this toolkit, because such a study needs no import."""
    path = sqlite_path(url)
    if path is None or not (folder := StudyFolder(path.parent)).exists or path.name != folder.database_path.name:
        return
    raise StudyError(
        f"import: {short_path(path)} is the record of the study {folder}, but the argument `optuna` is for studies of "
        f"other programs. To continue the study, run `hpo resume {folder}`. To use its trials in a new search, set "
        f"study.imports={folder}. If a key has another name in the new search, run `hpo import --csv "
        f"{short_path(folder.trials_path)} --rename OLD=NEW` first."
    )


def read_optuna(url: str, name: str | None, most_trials: int = _MOST_TRIALS) -> Imported:
    """Return the complete and failed trials of a study in an Optuna storage.

    Pruned trials are left out, because their scores after less training are not comparable.

    Several objectives become several metrics. The metrics have the objectives' names in Optuna; without such names,
    they are called `value_0`, `value_1` and so on. User attributes that are numbers become further measured values, on
    which a later study can set limits. For constraints, only the names are read, not the values.

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
    done = [trial for trial in trials if trial.state in (TrialState.COMPLETE, TrialState.FAIL)]
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
            None if trial.state == TrialState.COMPLETE else str(trial.system_attrs.get("fail_reason", "failed")),
            _numbers(trial),
        )
        for place, trial in enumerate(done)
    ]
    source = f"study '{study.study_name}' in {hide_secrets(url, {})}"
    further = dict(zip(names[1:], directions[1:], strict=True))
    constraints = tuple(dict.fromkeys(name for trial in done for name in trial.constraints))
    pruned = sum(trial.state == TrialState.PRUNED for trial in trials)
    unfinished = len(trials) - len(done) - pruned
    return Imported(
        attempts,
        names[0],
        directions[0],
        source,
        unfinished,
        further=further,
        constraints=constraints,
        num_pruned=pruned,
    )


def _exported(stored: FrozenTrial, trial: Trial, run: StudyRun, goal: Goal) -> FrozenTrial:
    """Return a copy of the Optuna trial `stored` with the results of `trial`, the same trial in the study's history."""
    copied = copy.deepcopy(stored)
    amounts = {} if trial.amount is None else {key: getattr(trial, key) for key in AMOUNTS}
    tasks = {run.layout.name(index): outcome.to_dict() for index, outcome in trial.outcomes.items()}
    others = {name: value for name, value in trial.belonging("metrics").items() if name not in goal.metrics}
    copied.user_attrs = {**trial.belonging("notes"), **others, **stored.user_attrs, **amounts, **tasks}
    copied.system_attrs |= constraint_attributes(goal.beyond(trial))
    if trial.error is not None:
        # Where Optuna notes why a trial failed.
        copied.system_attrs["fail_reason"] = trial.error
    if trial.state == "complete":
        copied.values = [*goal.scores(trial.losses).values()]
        full = full_amount_of(run.config)
        if full is not None and trial.amount is not None and trial.amount < full:
            copied.state = TrialState.PRUNED
    elif trial.state == "stopped":
        copied.state = TrialState.PRUNED
        copied.values = [trial.score] if trial.score is not None and len(goal.metrics) == 1 else None
    if trial.started is not None and trial.ended is not None:
        copied.datetime_start, copied.datetime_complete = map(datetime.fromtimestamp, (trial.started, trial.ended))
    if len(goal.metrics) == 1:
        copied.intermediate_values = _mean_curve(trial, run.record, goal.metric)
    return copied


def _mean_curve(trial: Trial, record: Record, metric: str) -> dict[int, float]:
    """Return the mean of a metric over the tasks at each integer step that all tasks have reported."""
    tasks = [
        {place_of(point): point[metric] for point in [*record.earlier(trial, index), *outcome.curve] if metric in point}
        for index, outcome in trial.outcomes.items()
    ]
    shared = sorted(set(tasks[0]).intersection(*tasks)) if tasks else []
    return {int(at): math.fsum(task[at] for task in tasks) / len(tasks) for at in shared if at == int(at)}


def _numbers(trial: FrozenTrial) -> dict[str, float]:
    """Return the user attributes of an Optuna trial that are finite numbers, without those that this toolkit writes."""
    own = OWN_ATTRIBUTES if {NUMBER, ROUND} <= trial.user_attrs.keys() else ()
    return {name: float(value) for name, value in numbers(trial.user_attrs).items() if name not in own}


def _open(url: str, is_new: bool = False) -> optuna.storages.BaseStorage:
    """Open a storage. Raise StudyError if its file is missing, unless `is_new` allows to create the file."""
    shown = hide_secrets(url, {})
    if "://" not in url:
        raise StudyError(f"optuna: must be the address of a storage, given {shown}; write {_address_of(Path(url))}")
    journal = Path(url.removeprefix(_JOURNAL)).expanduser() if url.startswith(_JOURNAL) else None
    path = journal or sqlite_path(url)
    if not is_new and path is not None and not path.is_file():
        # Opening the storage would create the file.
        raise StudyError(f"{shown}: there is no file {path}; give an existing storage")
    return open_storage(url, "optuna") if journal is None else _open_journal(journal)


def _open_journal(path: Path) -> optuna.storages.JournalStorage:
    """Open the storage of an Optuna journal. Optuna ignores an incomplete last line of the file."""
    try:
        return optuna.storages.JournalStorage(JournalFileBackend(str(path)))
    except Exception as error:
        # A damaged line may raise any exception in Optuna.
        raise StudyError(
            f"optuna: {path} is not an Optuna journal, or one of its lines is damaged ({first_line(error)}); give a "
            "journal; if a line is damaged, remove it from a copy of the journal, and give the copy"
        ) from error


def _address_of(path: Path) -> str:
    """Return the storage address of a file, for a message.

    If the file is missing, return both its address as an SQLite file and its address as a journal.
    """
    sqlite, journal = f"sqlite:///{path}", f"{_JOURNAL}{path}"
    if not path.expanduser().is_file():
        return f"{sqlite}, or {journal} for a journal"
    with path.expanduser().open("rb") as file:
        return sqlite if file.read(len(_SQLITE)) == _SQLITE else journal


def _load(url: str, name: str | None, most_trials: int = _MOST_TRIALS) -> optuna.Study:
    storage, shown = _open(url), hide_secrets(url, {})
    names = optuna.get_all_study_names(storage)
    there_are = f"the studies are {', '.join(names)}" if names else "the storage has no study"
    if name is None and len(names) != 1:
        raise StudyError(f"study: must name one of the {len(names)} studies in {shown}; {there_are}")
    name = names[0] if name is None else name
    if name not in names:
        raise StudyError(f"{shown}: has no study '{name}'{nearest(name, names)}; {there_are}")
    number = storage.get_n_trials(storage.get_study_id_from_name(name))
    if number > most_trials:
        raise StudyError(
            f"{shown}: study '{name}' has {number:,} trials, but at most {most_trials:,} can be read; give a study "
            "with fewer trials"
        )
    return optuna.load_study(storage=storage, study_name=name)
