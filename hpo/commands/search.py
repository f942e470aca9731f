"""`search`, in a shell and from Python; `hpo.load`, `hpo.unarchive` and `hpo.compose`."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from hpo.commands.archive import restore_archive
from hpo.commands.arguments import (
    ConfigFile,
    ConfigFolder,
    ConfigPrint,
    Fields,
    Overrides,
    Progress,
    Trust,
    Word,
    name_or_path,
    refuse_without_effect,
)
from hpo.commands.callbacks import Callback, given_callbacks
from hpo.commands.given.objective import GivenObjective, given_function, space_of, suggested_space
from hpo.commands.given.objects import Objects
from hpo.commands.given.settings import (
    Composed,
    compose_search,
    made_config,
    settings_of,
    tree_with_form,
    with_settings,
)
from hpo.config.composing.references import plain_config
from hpo.config.keys import replaced, without
from hpo.config.study_config import StudyConfig, config_from_dict
from hpo.errors import ConfigError, HpoError
from hpo.session.mirroring import refuse_bad_urls
from hpo.session.preflight import run_preflight_checks
from hpo.session.program import interrupted_in_one_line
from hpo.study.basis.configurations import made_changes, moved_sources
from hpo.study.files.folder import RUNS, StudyFolder, find_study
from hpo.study.opening import refuse_to_open
from hpo.study.preparing.preparation import prepare_study, refuse_bad_search, with_its_tracker
from hpo.study.study import PreparedStudy
from hpo.workers.dispatch.code import code_of
from hpo.workers.objective.given_data import GivenData
from hpo.workers.objective.path import ObjectivePath
from hpo.workers.objective.resolution import form_of

if TYPE_CHECKING:
    from hpo.commands.replay import Replayed
    from hpo.commands.study import Study
    from hpo.session.running import Searched
    from hpo.study.reproduce.replay import Replay

# The largest number of changes that the line about a new study lists.
_NUM_NAMED = 3

_STUDY_ARGUMENTS = (
    *("trials", "minutes", "seed", "direction", "name", "score", "metric", "limits", "choose"),
    *("scales", "measured"),
)
# The arguments of `search` by key. Messages for Python users name the argument: `seed=` for `study.seed`.
_ARGUMENTS = {
    **{f"study.{name}": name for name in _STUDY_ARGUMENTS},
    **{"dispatch.workers": "workers", "strategy.name": "strategy", "study.metrics": "metric"},
    "split.folds": "folds",
}
# Match keys only outside of backticks, because text in backticks is a command line.
_KEY = re.compile(rf"`[^`]*`|(?<![\w.])({'|'.join(map(re.escape, _ARGUMENTS))})(?!\w|\.\w)([=:]?)")
# A key below `study.metrics` or `study.limits` is the name of a metric, so only the first part is replaced.
_INNER = re.compile(r"(?<![\w.])study\.(metric|limit)s(?=\.\w)")


def _as_typed(text: str) -> str:
    """Return a message in which names of arguments of `search` replace keys of the configuration."""
    text = _KEY.sub(lambda found: _ARGUMENTS[found[1]] + (found[2] or "=") if found[1] else found[0], text)
    return _INNER.sub(lambda found: _ARGUMENTS[f"study.{found[1]}s"], text)


@contextmanager
def refusing_as_typed() -> Iterator[None]:
    """In HpoErrors that the `with` block raises, replace keys of the configuration by arguments of `search`."""
    try:
        yield
    except HpoError as error:
        error.args = (_as_typed(str(error)),)
        raise


@dataclass(frozen=True)
class Checked(Fields):
    """The result of `hpo search --dry-run`.

    Attributes:
        study: the study's name.
        folder: the study's folder.
        exists: whether the study exists already.
        trials: how many trials the study has now.
        notes: the remarks on the study that the search prints first, such as remarks on its data.
        budget: how many trials or configurations the study may have.
        counts: what the budget counts: `trials` or `configurations`.
        folds: the number of folds.
        repeats: the number of trainings per fold, each with another seed.
        workers: how many workers train at once; `null` = as many as CPUs and GPUs allow.
        package: the installed package with the objective's code; `null` = the code is in a folder.
        files: the files to send to other machines, each with `name` and `bytes`.
        not_sent: files and links that would not be sent, although the folder of the code contains them.
    """

    study: str
    folder: Path
    exists: bool
    trials: int
    notes: Sequence[str]
    budget: int
    counts: str
    folds: int
    repeats: int
    workers: int | None
    package: str | None
    files: Sequence[Mapping[str, Any]]
    not_sent: Sequence[str]
    _lines: Sequence[str] = ()

    def __str__(self) -> str:
        return "\n".join(self._lines)


def search_composed(
    overrides: Overrides = (),
    *,
    replay: Annotated[str | Path | None, Word("STUDY")] = None,
    dry_run: bool = False,
    trust: Trust = False,
    cfg: ConfigPrint | None = None,
    config_dir: ConfigFolder | None = None,
    config: ConfigFile | None = None,
    progress: Progress = "auto",
) -> "Searched | Replayed | Checked | Composed":
    """Create the study, or continue the study of this name, until the budget is used up.

    An existing study continues only if the changes of its configuration affect no trial, and its code and data are the
    same.

    Args:
        replay: run the whole search of this study again, and compare the new trials with the original trials.
        dry_run: check everything and print the plan and the files to send to other machines; create nothing.
        trust: with --replay, run the code of another machine's study without asking first.

    Raises:
        hpo.HpoError: an argument is not allowed; the message says what is allowed. Nothing was created.

    Examples:
        hpo search                                        the default study: a Transformer on handwritten digits
        hpo search strategy=evolutionary study.name=evo study.trials=40
        hpo search data=text_classification data.train=train.tsv data.validation=dev.tsv data.test=test.tsv
        hpo search data=translation data.path=train data.source_ending=.de data.target_ending=.en   files train.de, .en
        hpo search 'space.training.lr={low: 1e-5, high: 1e-2, log: true}' space.model.num_heads=[2,4]
        hpo search 'study.metrics={accuracy: maximize, parameters: minimize}' study.limits={latency:5}
        hpo search strategy=asha study.trials=1000 study.minutes=90 study.stop_without_gain=100
        hpo search split.folds=5 dispatch.workers=4 dispatch.gpus_per_worker=0.5
        hpo search --config-dir my_conf study=forest      groups of your own, as `hpo new forest` writes them
        hpo search --replay studies/digits                repeat a published search, trial by trial
        hpo search dispatch.address=HEAD:6379 --dry-run   check the search, and list the files to send
        hpo search --json > result.json                   the result for programs; --progress json adds the progress
        hpo search --cfg job                              print the configuration, run nothing
    """
    replayed = None
    if replay is None:
        refuse_without_effect({"--trust": trust}, "without --replay")
        tree = compose_search(overrides, config_dir, config)
    else:
        refuse_without_effect({"--config": config, "--config-dir": config_dir}, "with --replay")
        from hpo.commands.replay import prepare_replay, replay_of, run_replay

        replayed = replay_of(str(replay), overrides, trust)
        tree = dict(replayed.tree)
    study = config_from_dict(tree)
    if cfg:
        return _check_config(tree, study, replayed)
    prepared = prepare_replay(replayed) if replayed else prepare_study(with_its_tracker(study))
    if dry_run:
        return _check(prepared)
    from hpo.session.running import run_shown

    if replayed:
        return run_replay(replayed, prepared, progress)
    return run_shown(prepared, progress)


def _check_config(tree: Mapping[str, Any], config: StudyConfig, replayed: "Replay | None") -> Composed:
    """Return the configuration of a search; HpoError if the search could not start."""
    pickled = replayed.files.folder.pickled_function(config) if replayed else None
    references = refuse_bad_search(config, pickled, is_again=replayed is not None).study.references
    run_preflight_checks(config)
    tree = without(tree, "study.references")
    return Composed(replaced(tree, {"study.references": references}) if references else tree)


def _check(study: PreparedStudy) -> Checked:
    """Check a study, print its announcement, and return the result of the dry run."""
    from hpo.show.terminal import Terminal

    config, dispatch, folder = study.config, study.config.dispatch, study.folder
    run_preflight_checks(config)
    num_trials, study_id = refuse_to_open(study)
    refuse_bad_urls(config, folder, study_id)
    code = code_of(study.objective, str(Path.cwd()))
    state = f"exists, with {num_trials} trials" if folder.exists else "new"
    workers = 1 if dispatch.type.is_one_at_a_time else dispatch.workers
    folds, repeats, fit = study.num_folds, config.study.repeats, "as many as CPUs and GPUs allow"
    lines = [f"folder: {folder} ({state}); folds: {folds}; repeats: {repeats}; workers: {workers or fit}"]
    if code.package is not None:
        lines.append(f"your code: the installed package {code.package}, which every machine must have")
    if code.files:
        if dispatch.address is None:
            lines.append(
                "no other machine is used (dispatch.address=null); each machine of a cluster would get these files:"
            )
        lines.append(code.in_words())
        lines += [f"  {path.stat().st_size:>12,} bytes  {name}" for name, path in code.files.items()]
        lines += [f"  {'not sent':>18}  {name}" for name in (*code.others, *code.links)]
    lines.append("all checks passed; nothing was started or created; leave out --dry-run to run the search")
    Terminal().announce(study)
    return Checked(
        study=config.study.name,
        folder=folder.path,
        exists=folder.exists,
        trials=num_trials,
        notes=study.own.notes,
        budget=config.study.trials,
        counts=study.counts,
        folds=folds,
        repeats=repeats,
        workers=workers,
        package=code.package,
        files=[{"name": name, "bytes": path.stat().st_size} for name, path in code.files.items()],
        not_sent=[*code.others, *code.links],
        _lines=lines,
    )


@interrupted_in_one_line()
@refusing_as_typed()
def search(
    objective: Callable[..., Any] | str | Mapping[str, Any],
    space: Mapping[str, Any] | Callable[..., Any] | None = None,
    *,
    config: Mapping[str, Any] | None = None,
    trials: int | None = None,
    minutes: float | None = None,
    strategy: str | Mapping[str, Any] | None = None,
    metric: str | Mapping[str, Literal["maximize", "minimize"]] | None = None,
    direction: Literal["maximize", "minimize"] | None = None,
    limits: Mapping[str, Any] | None = None,
    measured: Sequence[str] | None = None,
    choose: str | Mapping[str, Any] | None = None,
    scales: Sequence[Mapping[str, Any]] | None = None,
    score: Literal["best", "last"] | None = None,
    name: str | None = None,
    seed: int | None = None,
    workers: int | None = None,
    data: Any = None,
    folds: int | None = None,
    stratify_by: str | None = None,
    callbacks: Sequence[Callback] = (),
    allow_changes: bool = False,
    settings: Mapping[str, Any] | None = None,
    progress: Literal["auto", "json", "none"] | bool = "auto",
) -> "Study":
    """Search for the best configuration, as `hpo search` does, in a new study or in the existing study `name`.

    An existing study continues if its code and data are the same, and if no change of its configuration affects a
    trial. With `allow_changes`, the study continues after other changes, too.

    Args:
        objective: the function to optimize: `f(config)`, or `f(config, trial)`, which may call
            `trial.report(epoch=..., loss=...)` and read `trial.seed`, `trial.fold` and `trial.checkpoint_dir` (see
            `hpo.RunningTrial`). The function returns the score, or a dict of numbers that includes the metric. A
            function whose parameter is called `task` gets the complete task of a training, as in a module of `hpo new`.
            May also be the path of a function, `"package.module:function"`, or a complete configuration of
            `hpo.compose`; with such a configuration, leave out space, config, strategy and metric.
        space: the search space: `hpo.log(1e-5, 1e-2)` for a logarithmic range, `(0.0, 0.5)` for a range, `[1, 2, 3]`
            for ordered values, `["relu", "gelu"]` for choices, or a dict as in conf/space; nested dicts give a nested
            configuration. May also be a function that suggests values, such as Hugging Face's `hp_space(trial)`. None =
            the values that an objective for Optuna, `f(trial)`, suggests.
        config: the values of the keys that are not searched. If `config` also has a value of every searched
            hyperparameter, these values are the first point. References in an OmegaConf DictConfig (`lr: ${base}`)
            follow the searched values, even if the DictConfig is inside a dict.
        trials: how many points to evaluate. If the study exists already and has more trials, the search returns the
            study with all its trials.
        minutes: the time limit of the search; no trial begins after it.
        strategy: a name of conf/strategy (None = random; with scales, ladder), or a name with settings, such as
            `{"name": "evolutionary", "population": 8}`.
        metric: the score's name, if the function returns or reports several numbers (None = score). For several
            metrics, their directions by name, such as `{"accuracy": "maximize", "latency": "minimize"}`. The
            function then returns a dict, or the values in this order. The score of a trial, the best epoch and early
            stopping use the first metric.
        direction: whether a higher or a lower score is better; not with several metrics. May be left out if `metric`
            is a known name, such as `loss` or `val_accuracy`.
        limits: the limits that the best trial must keep, by name of a metric or of another returned number. If higher
            is better (a maximized metric, or a known name such as accuracy), a single number is the minimum. Otherwise,
            it is the maximum, such as `{"memory": 8e9}`. A dict may set `min` and `max`: `{"latency": {"min": 1,
            "max": 5}}`.
        measured: names of other returned numbers to record and show, such as `["latency_ms"]`. A training that does not
            return all of these numbers fails. Limits on them may be set after the search.
        choose: with several metrics, the rule that chooses from the Pareto front: `"knee"` (the default),
            `"first_within_limits"` (the best of the first metric), weights such as `{"accuracy": 0.7, "latency":
            0.3}`, or `{"best": "accuracy", "within": {"latency": "5 %"}}`.
        scales: scales of the training, from the smallest to the target, each as changes of `config`, such as
            `[{"width": 64}, {"width": 256}]`. `strategy="ladder"` tries most points at the cheap scales.
        score: which reported value counts if the function returns nothing: `"best"` (the default) or `"last"`.
        name: the study's name, a folder under runs/. None = the function's name, so the same call continues the study.
            If a different study has that name, the new name gets a number, such as `train-2`, and a printed line says
            how the two studies differ.
        seed: decides every point and every training.
        workers: how many processes train at once; None = as many as CPUs and GPUs allow.
        data: the examples to split: a DataFrame, an array, or a list, tuple or dict of arrays, with one row per
            example. `trial.data` has the rows outside of the test split, in the same form; the arrays `trial.train` and
            `trial.validation` index these rows. Or the number of examples: then the function loads its data itself, and
            nothing keeps it from reading the test split.
        folds: trainings per trial, each with another fold of the data as validation split (`split.folds`); 1 means one
            hold-out split. None means 3 folds, or 1 if the data have a validation split of their own. `settings` takes
            the other keys of `split`.
        stratify_by: the name of the DataFrame's column, or of the dict's array, that holds the classes; every split
            gets the same share of each class. None = split at random.
        callbacks: functions `f(study, trial)`, called in this process when a trial ends on the study's clock, in
            the same order for any number of workers. They are not called again for trials in the record. A callback
            may call `study.add(...)`, `study.retry(...)` and `study.stop()`, or raise `hpo.Stop`, which also ends
            the search; any other exception is reported once, and the search continues. `trial` is an `EndedTrial`.
        allow_changes: whether to continue the study of this name although the function, its data or the configuration
            has changed. New trials use the changed version, and the report lists the changes.
        settings: any other key of the configuration, such as `{"study.lanes": 8, "dispatch.gpus_per_worker": 0.5}`.
            `{"dispatch": "local"}` trains in this process, `{"track": "none"}` turns MLflow off.
        progress: `"auto"` = lines, with a panel below them on a terminal, or an updated output in a notebook;
            `"json"` = JSON lines on standard error; `"none"` = only the first and the last lines; `False` =
            nothing.

    Returns:
        The study, at the end of its search.

    Raises:
        hpo.HpoError: an argument is not allowed; the message says what is allowed. Nothing was created.
        KeyboardInterrupt: after an interrupt. Finished trainings are saved; the same call continues the study.
    """
    from hpo.commands.study import SteeredStudy, run

    arguments: dict[str, Any] = {"trials": trials, "minutes": minutes, "seed": seed, "direction": direction}
    arguments |= {"name": name, "score": score, "limits": limits, "measured": measured}
    arguments |= {"choose": choose, "scales": scales}
    strategy = "ladder" if strategy is None and scales is not None else strategy
    settings = settings_of(settings, metric, workers, folds, **arguments)
    if data is None:
        refuse_without_effect({"stratify_by": stratify_by}, "without data")
    rows = None if data is None else GivenData.of(data, stratify_by)
    study, given = given_study(objective, space, config, strategy, metric, settings, rows)
    if given and "study.name" not in settings and not allow_changes:
        study = _with_free_name(study, given, bool(progress))
    prepared = prepare_study(with_its_trials(study), given.pickled if given else None)
    prepared = replace(prepared, callbacks=given_callbacks(callbacks, SteeredStudy), allow_changes=allow_changes)
    return run(prepared, progress)


def given_study(
    objective: Callable[..., Any] | str | Mapping[str, Any],
    space: Mapping[str, Any] | Callable[..., Any] | None,
    config: Mapping[str, Any] | None,
    strategy: str | Mapping[str, Any] | None,
    metric: str | Mapping[str, Any] | None,
    settings: Mapping[str, Any],
    rows: GivenData | None = None,
) -> tuple[StudyConfig, GivenObjective | None]:
    """Return the configuration of a search, and its objective (None if a complete configuration was given).

    `settings` has values by dotted key, `rows` has the given data; the other arguments are those of `search`.
    """
    if isinstance(objective, Mapping):
        inside = {"space": space, "config": config, "strategy": strategy, "metric": metric}
        why = "with a complete configuration, because the configuration already sets space, values, strategy and metric"
        refuse_without_effect(inside, why)
        refuse_without_effect({"data": rows}, "with a complete configuration, because the configuration names the data")
        return config_from_dict(tree_with_form(with_settings(objective, settings))), None
    function = given_function(objective)
    if space is None and form_of(function, searched=None) == "trial":
        space = suggested_space(function)
    written = space_of(space)
    config, references = plain_config(config)
    if written is None:
        raise ConfigError('space: is missing; give a search space, such as {"lr": hpo.log(1e-5, 1e-1)}')
    objects = Objects()
    config = {} if config is None else config
    searched, constants = objects.space(written, config), objects.config(config)
    if default := getattr(function, "default_config", None):
        # The objectives of `hpo.integrations` have default values.
        constants = {**objects.config(default(written)), **constants}
    given = GivenObjective.of(objective, searched, objects, rows)
    called = given.text.partition(":")[2].partition("(")[0] or "study"
    return made_config(given.text, searched, constants, references, strategy, {"study.name": called, **settings}), given


def load(name: str | PathLike[str]) -> "Study":
    """Return the study that has this name under runs/, or this path; StudyError if the study does not exist."""
    from hpo.commands.study import Study

    return Study(find_study(name_or_path(name)))


def unarchive(file: Path | str, directory: Path | str = RUNS, *, trust: bool = False) -> "Study":
    """Restore a study from an archive, as `hpo archive --restore` does, and return it; see `Study.archive`.

    Args:
        file: the archive.
        directory: the parent of the study's folder.
        trust: whether to trust the code of a study from another machine; otherwise hpo asks before the code may run.

    Raises:
        hpo.HpoError: the archive is damaged, `directory` already has a study with the archived study's name, or a study
            from another machine is not trusted. The files of an untrusted study are restored, but the study
            cannot be used yet.
    """
    from hpo.commands.study import Study

    return Study(StudyFolder(restore_archive(file, directory, trust).folder))


def compose(*overrides: str, config_dir: str | None = None) -> dict[str, Any]:
    """Return the complete configuration that `hpo search` runs with these overrides.

    Example: `hpo.compose("data=digits")`.

    Args:
        overrides: as on the command line: `key=value`, `group=name`.
        config_dir: a folder with configuration groups of your own.
    """
    if others := [each for each in overrides if not isinstance(each, str)]:
        raise ConfigError(
            f"overrides: must be separate strings, such as hpo.compose('data=digits', 'study.trials=3'), given "
            f"{others[0]!r}; unpack a list: hpo.compose(*overrides)"
        )
    return compose_search(overrides, config_dir)


def with_its_trials(config: StudyConfig) -> StudyConfig:
    """Return the configuration, adapted to the existing study of the same name.

    The budget of trials is the larger one of the configuration's budget and the study's budget. `with_its_tracker`
    adapts the MLflow settings. If no such study exists, return the configuration unchanged.
    """
    config, folder = with_its_tracker(config), StudyFolder(RUNS / config.study.name)
    trials = max(config.study.trials, folder.config().study.trials if folder.exists else 0)
    return config.with_study(trials=trials)


def _with_free_name(config: StudyConfig, given: GivenObjective, is_printed: bool) -> StudyConfig:
    """Return the configuration. If a different study has the same name already, add a number to the name."""
    others: list[list[str]] = []
    while True:
        name = f"{config.study.name}-{len(others) + 1}" if others else config.study.name
        named = config.with_study(name=name)
        folder = StudyFolder(RUNS / name)
        if not folder.exists:
            break
        others.append(_changes(folder, named, given))
        if not others[-1]:
            return named
    if others and is_printed:
        changes = min(reversed(others), key=len)
        more = f" and {len(changes) - _NUM_NAMED} more" if len(changes) > _NUM_NAMED else ""
        print(_as_typed(f"a new study, {name}: {', '.join(changes[:_NUM_NAMED])}{more} changed"))
    return named


def _changes(folder: StudyFolder, config: StudyConfig, given: GivenObjective) -> list[str]:
    """Return what differs between an existing study and the new one: function, data, keys of the configuration."""
    frozen = folder.config().to_dict()
    # Prepare the new configuration like the frozen one, because the objective may complete the space.
    now = prepare_study(config, given.pickled).config.to_dict()
    pickled = folder.pickled_function(config)
    is_same = pickled.digest == given.pickled.digest if pickled and given.pickled else pickled is given.pickled
    code = [] if is_same else [f"{ObjectivePath.of(config.objective).function} (its code, or a value that it uses)"]
    is_same_data = (pickled and pickled.rows) == (given.pickled and given.pickled.rows)
    code += [] if is_same_data else ["the data"]
    return [*code, *made_changes(frozen, now), *moved_sources(frozen, now)]
