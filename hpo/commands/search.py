"""`search`, in a shell and from Python; `hpo.load`, `hpo.unarchive` and `hpo.compose`."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
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

# The largest number of changes in the line about a new study.
_SAID = 3

_STUDY_ARGUMENTS = (
    "trials",
    "minutes",
    "seed",
    "direction",
    "name",
    "score",
    "metric",
    "limits",
    "choose",
    "scales",
    "measured",
)
# Keys that `search` has arguments for, which its users know by these names: `seed=` for `study.seed`.
_ARGUMENTS = {
    **{f"study.{name}": name for name in _STUDY_ARGUMENTS},
    **{"dispatch.workers": "workers", "strategy.name": "strategy", "study.metrics": "metric"},
    "split.folds": "folds",
}
# Not within backticks, which hold command lines.
_KEY = re.compile(rf"`[^`]*`|(?<![\w.])({'|'.join(map(re.escape, _ARGUMENTS))})(?!\w|\.\w)([=:]?)")
# What follows are names, of metrics.
_INNER = re.compile(r"(?<![\w.])study\.(metric|limit)s(?=\.\w)")


def _as_typed(text: str) -> str:
    """Return a text with the arguments in place of their keys."""
    text = _KEY.sub(lambda found: _ARGUMENTS[found[1]] + (found[2] or "=") if found[1] else found[0], text)
    return _INNER.sub(lambda found: _ARGUMENTS[f"study.{found[1]}s"], text)


@contextmanager
def refusing_as_typed() -> Iterator[None]:
    """Let every refusal name arguments in place of keys."""
    try:
        yield
    except HpoError as error:
        error.args = (_as_typed(str(error)),)
        raise


@dataclass(frozen=True)
class Checked(Fields):
    """What a search would begin with.

    Attributes:
        study: its name.
        folder: where it would be.
        exists: whether there is one already.
        trials: how many it has.
        notes: what is said before the search begins.
        budget: how many it may have.
        counts: what the budget counts.
        folds: trainings of a trial, each with another part left out.
        repeats: how often each of them is trained, with other seeds.
        workers: at once; `null` = as many as fit.
        package: the installed package that the code is in; `null` where it is in a folder.
        files: what would be sent to other machines: `name` and `bytes`.
        not_sent: what is there and would not.
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
    """Create the study, or continue it if it exists unchanged, and run it to its budget.

    Args:
        replay: run this study's whole search again and compare its trials.
        dry_run: check everything, print what would be trained where and which files would travel; create nothing.
        trust: with --replay: run the objective of a study that was not made here, and do not ask before.

    Raises:
        hpo.HpoError: something given cannot be; one line that says what is allowed. Nothing was created.

    Examples:
        hpo search                                        the default study: a Transformer on handwritten digits
        hpo search strategy=evolutionary study.name=evo study.trials=40
        hpo search data=text_classification data.train=train.tsv data.validation=dev.tsv data.test=test.tsv
        hpo search data=translation data.path=train data.source_ending=.de data.target_ending=.en   train.de, train.en
        hpo search 'space.training.lr={low: 1e-5, high: 1e-2, log: true}' space.model.num_heads=[2,4]
        hpo search 'study.metrics={accuracy: maximize, parameters: minimize}' study.limits={latency:5}
        hpo search strategy=asha study.trials=1000 study.minutes=90 study.stop_without_gain=100
        hpo search split.folds=5 dispatch.workers=4 dispatch.gpus_per_worker=0.5
        hpo search --config-dir my_conf study=forest      groups of your own, as `hpo new forest` writes them
        hpo search --replay studies/digits                a published search again, trial by trial
        hpo search dispatch.address=HEAD:6379 --dry-run   check it, and list the files that would travel
        hpo search --json > result.json                   its result, for programs; --progress json: as it goes on
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
    made = config_from_dict(tree)
    if cfg:
        return _checked_config(tree, made, replayed)
    prepared = prepare_replay(replayed) if replayed else prepare_study(with_its_tracker(made))
    if dry_run:
        return _checked(prepared)
    from hpo.session.running import run_shown

    if replayed:
        return run_replay(replayed, prepared, progress)
    return run_shown(prepared, progress)


def _checked_config(tree: Mapping[str, Any], config: StudyConfig, replayed: "Replay | None") -> Composed:
    """Return the configuration of a search that can begin."""
    pickled = replayed.files.folder.pickled_function(config) if replayed else None
    references = refuse_bad_search(config, pickled, is_again=replayed is not None).study.references
    run_preflight_checks(config)
    tree = without(tree, "study.references")
    return Composed(replaced(tree, {"study.references": references}) if references else tree)


def _checked(study: PreparedStudy) -> Checked:
    """Print what is searched, and return what a search would begin with, where, and which files would travel."""
    from hpo.show.terminal import Terminal

    config, dispatch, folder = study.config, study.config.dispatch, study.folder
    run_preflight_checks(config)
    num_there, study_id = refuse_to_open(study)
    refuse_bad_urls(config, folder, study_id)
    code = code_of(study.objective, str(Path.cwd()))
    state = f"exists, with {num_there} trials" if folder.exists else "new"
    workers = 1 if dispatch.type.is_one_at_a_time else dispatch.workers
    folds, repeats, fit = study.num_folds, config.study.repeats, "as many as fit"
    lines = [f"folder: {folder} ({state}); folds: {folds}; repeats: {repeats}; workers: {workers or fit}"]
    if code.package is not None:
        lines.append(f"your code: the installed package {code.package}, which every machine must have")
    if code.files:
        if dispatch.address is None:
            lines.append("no other machine is used (dispatch.address=null); if there were one:")
        lines.append(code.in_words())
        lines += [f"  {path.stat().st_size:>12,} bytes  {name}" for name, path in code.files.items()]
        lines += [f"  {'not sent':>18}  {name}" for name in (*code.others, *code.links)]
    lines.append("checked without starting workers, and nothing was created; without --dry-run this search runs")
    Terminal().announce(study)
    return Checked(
        study=config.study.name,
        folder=folder.path,
        exists=folder.exists,
        trials=num_there,
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
    settings: Mapping[str, Any] | None = None,
    progress: Literal["auto", "json", "none"] | bool = "auto",
) -> "Study":
    """Search for the best configuration, as `hpo search` does: a new study, or one that exists unchanged continued.

    Args:
        objective: `f(config) -> score`, or `f(config, trial)`, which may call `trial.report(epoch=..., loss=...)` and
            read `trial.seed`, `trial.fold`, `trial.checkpoint_dir` (see `hpo.RunningTrial`); it returns a number or a
            dict of numbers with the metric. One whose parameter is called `task` gets a training's whole task, as in a
            module of `hpo new`. Or the path of such a function, `"package.module:function"`; or a whole configuration,
            as `hpo.compose` returns it, and then space, config, strategy and metric must be left out.
        space: what is searched: `hpo.log(1e-5, 1e-2)`, `(0.0, 0.5)` for a range, `[1, 2, 3]` for ordered values,
            `["relu", "gelu"]` for choices, or a dict as in conf/space; nested dicts give a nested configuration. A
            function of a trial, such as Hugging Face's `hp_space(trial)`, is what it suggests; None = what an objective
            of Optuna's shape, `f(trial)`, suggests.
        config: constants of the configuration; values of what is searched are tried first. References of OmegaConf's
            DictConfig (`lr: ${base}`), also inside of a dict, follow what is searched.
        trials: how many points are evaluated; a study that has more already is returned with all of them.
        minutes: no trial begins after so many.
        strategy: one of conf/strategy (None = random, with scales ladder), or its name and settings, such as
            `{"name": "evolutionary", "population": 8}`.
        metric: the score's name (None = score), where the function returns or reports several numbers. With several
            metrics their directions by name, such as `{"accuracy": "maximize", "latency": "minimize"}`: the function
            returns a dict, or their values in this order; the first is the leading one.
        direction: whether a higher or a lower score is better; not with several metrics.
        limits: what the best must keep, by name of a metric or of another number that the function returns: the most
            that it may be (the least of a metric that is maximized), such as `{"memory": 8e9}`, or
            `{"latency": {"min": 1, "max": 5}}`.
        measured: other numbers that the function returns and that are kept and shown of every trial, by name, such as
            `["latency_ms"]`. A training that lacks one has failed, so limits on them may be given after the search.
        choose: with several metrics, which one of the front is the best: `"knee"` (the default),
            `"first_within_limits"` (the best of the first metric), weights such as `{"accuracy": 0.7, "latency": 0.3}`,
            or `{"best": "accuracy", "within": {"latency": "5 %"}}`.
        scales: trainings from the smallest to the one that is meant, each as changes of `config`, such as
            `[{"width": 64}, {"width": 256}]`: most points are tried where it is cheap (`strategy="ladder"`).
        score: which reported value counts where the function returns nothing (None = best).
        name: the study's, a folder under runs/; None = the function's, with a number where that is another study's: a
            line says what has changed.
        seed: decides every point and every training.
        workers: how many processes train at once; None = as many as fit.
        data: the examples to split: a DataFrame, an array, or a list, tuple or dict of arrays, with a row per example.
            `f(config, trial)` gets the rows outside of the test part alone, in the same form, as `trial.data`; the
            arrays `trial.train` and `trial.validation` index them. Or the number of examples: the function then gets
            these arrays and reads its data itself, and the test part is within its reach.
        folds: how many trainings a trial has, each with another part of the data as validation (`split.folds`); None =
            3, 1 = one hold-out. `settings` has the other keys of `split`.
        stratify_by: the column of the DataFrame, or the array of the dict, that has the classes; every part gets its
            share of each. None = the data are split at random.
        callbacks: functions `f(study, trial)`, called in this process when a trial ends on the study's clock: in the
            same order for any number of workers, and not again for trials that are in the record. Each may call
            `study.add(...)`, `study.retry(...)` and `study.stop()`, or raise `hpo.Stop`, which ends the search too; any
            other exception is reported once, and ends nothing. See `EndedTrial` for what `trial` has.
        settings: any other key of the configuration, such as `{"study.lanes": 8, "dispatch.gpus_per_worker": 0.5}`;
            `{"dispatch": "local"}` trains in this process, `{"track": "none"}` leaves MLflow out.
        progress: `"auto"` = lines, at a terminal with a panel below them, in a notebook an output that is updated;
            `"json"` = JSON lines on standard error; `"none"` = only how it begins and ends; `False` = nothing.

    Returns:
        The study, at the end of its budget.

    Raises:
        hpo.HpoError: something given cannot be; one line that says what is allowed. Nothing was created.
        KeyboardInterrupt: an interrupt; everything that was finished is saved, and the same call goes on.
    """
    from hpo.commands.study import SteeredStudy, run

    asked: dict[str, Any] = {"trials": trials, "minutes": minutes, "seed": seed, "direction": direction, "name": name}
    asked |= {"score": score, "limits": limits, "measured": measured, "choose": choose, "scales": scales}
    strategy = "ladder" if strategy is None and scales is not None else strategy
    settings = settings_of(settings, metric, workers, folds, **asked)
    if data is None:
        refuse_without_effect({"stratify_by": stratify_by}, "without data")
    rows = None if data is None else GivenData.of(data, stratify_by)
    made, given = given_study(objective, space, config, strategy, metric, settings, rows)
    if given and "study.name" not in settings:
        made = _with_free_name(made, given, bool(progress))
    prepared = prepare_study(with_its_trials(made), given.pickled if given else None)
    return run(replace(prepared, callbacks=given_callbacks(callbacks, SteeredStudy)), progress)


def given_study(
    objective: Callable[..., Any] | str | Mapping[str, Any],
    space: Mapping[str, Any] | Callable[..., Any] | None,
    config: Mapping[str, Any] | None,
    strategy: str | Mapping[str, Any] | None,
    metric: str | Mapping[str, Any] | None,
    settings: Mapping[str, Any],
    rows: GivenData | None = None,
) -> tuple[StudyConfig, GivenObjective | None]:
    """Return the configuration of a search and its objective, None for that of a whole configuration.

    `settings` are by dotted key, `rows` are the data that are given; the other arguments are as of `search`.
    """
    if isinstance(objective, Mapping):
        inside = {"space": space, "config": config, "strategy": strategy, "metric": metric}
        refuse_without_effect(inside, "beside a whole configuration, which has such keys")
        refuse_without_effect({"data": rows}, "beside a whole configuration, which names its data")
        return config_from_dict(tree_with_form(with_settings(objective, settings))), None
    function = given_function(objective)
    if space is None and form_of(function, searched=None) == "trial":
        space = suggested_space(function)
    written = space_of(space)
    config, references = plain_config(config)
    if written is None:
        raise ConfigError('space: is missing; give what is searched, such as {"lr": hpo.log(1e-5, 1e-1)}')
    objects = Objects()
    config = {} if config is None else config
    searched, constants = objects.space(written, config), objects.config(config)
    if default := getattr(function, "default_config", None):
        # One of a trainer, which has values of its own.
        constants = {**objects.config(default(written)), **constants}
    given = GivenObjective.of(objective, searched, objects, rows)
    called = given.text.partition(":")[2].partition("(")[0] or "study"
    return made_config(given.text, searched, constants, references, strategy, {"study.name": called, **settings}), given


def load(name: str | Path) -> "Study":
    """Return an existing study, by its name under runs/ or its folder; StudyError where there is none."""
    from hpo.commands.study import Study

    return Study(find_study(str(name)))


def unarchive(file: Path | str, directory: Path | str = RUNS, *, trust: bool = False) -> "Study":
    """Take a study out of an archive, as `hpo archive --restore` does, and return it; see `Study.archive`.

    Args:
        file: the archive.
        directory: where its folder is put.
        trust: whether a study that was not made on this machine may run its objective, unasked.

    Raises:
        hpo.HpoError: the file is no sound archive, or there is a study of that name. Or the study was not made here,
            and nobody could be asked, or the answer was no: then it is there, but was only copied.
    """
    from hpo.commands.study import Study

    return Study(StudyFolder(restore_archive(file, directory, trust).folder))


def compose(*overrides: str, config_dir: str | None = None) -> dict[str, Any]:
    """Return the whole configuration that `hpo search` would run with these overrides: `hpo.compose("data=digits")`.

    Args:
        overrides: as on the command line: `key=value`, `group=name`.
        config_dir: a folder with configuration groups of your own.
    """
    if others := [each for each in overrides if not isinstance(each, str)]:
        raise ConfigError(
            f"overrides: must be texts, each by itself, such as hpo.compose('data=digits', 'study.trials=3'), given "
            f"{others[0]!r}; of a list write hpo.compose(*overrides)"
        )
    return compose_search(overrides, config_dir)


def with_its_trials(config: StudyConfig) -> StudyConfig:
    """Return the configuration with as many trials as its study has been given already, where those are more."""
    config, folder = with_its_tracker(config), StudyFolder(RUNS / config.study.name)
    trials = max(config.study.trials, folder.config().study.trials if folder.exists else 0)
    return _with_study(config, trials=trials)


def _with_free_name(config: StudyConfig, given: GivenObjective, is_said: bool) -> StudyConfig:
    """Return the configuration under the first name that no other study has: its own, or that with a number.

    Where it is said, a line tells what is not as in the one of those that differs in the fewest.
    """
    others: list[list[str]] = []
    while True:
        name = f"{config.study.name}-{len(others) + 1}" if others else config.study.name
        named = _with_study(config, name=name)
        folder = StudyFolder(RUNS / name)
        if not folder.exists:
            break
        others.append(_changes(folder, named, given))
        if not others[-1]:
            return named
    if others and is_said:
        changes = min(reversed(others), key=len)
        more = f" and {len(changes) - _SAID} more" if len(changes) > _SAID else ""
        print(_as_typed(f"a new study, {name}: {', '.join(changes[:_SAID])}{more} changed"))
    return named


def _changes(folder: StudyFolder, config: StudyConfig, given: GivenObjective) -> list[str]:
    """Return in what an existing study is another one: the function, and keys."""
    frozen = folder.config().to_dict()
    # As an existing study has it: with what the objective itself says of the space.
    now = prepare_study(config, given.pickled).config.to_dict()
    pickled = folder.pickled_function(config)
    is_same = pickled.digest == given.pickled.digest if pickled and given.pickled else pickled is given.pickled
    code = [] if is_same else [f"the code of {ObjectivePath.of(config.objective).function}"]
    is_same_data = (pickled and pickled.rows) == (given.pickled and given.pickled.rows)
    code += [] if is_same_data else ["the data"]
    return [*code, *made_changes(frozen, now), *moved_sources(frozen, now)]


def _with_study(config: StudyConfig, **values: Any) -> StudyConfig:
    return config.model_copy(update={"study": config.study.model_copy(update=values)})
