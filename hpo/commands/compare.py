"""The command `compare`, and its Python functions `hpo.compare_strategies` and `hpo.compare_studies`."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from hpo.commands.arguments import (
    ConfigFile,
    ConfigFolder,
    Progress,
    Word,
    list_of,
    name_or_path,
    refuse_without_effect,
)
from hpo.commands.given.objects import named
from hpo.commands.given.settings import compose_given, compose_search, settings_of
from hpo.commands.search import given_study, refusing_as_typed
from hpo.compare.comparison import ANY_STRATEGY, prepare_comparison
from hpo.config.shipped import named_settings, names_of, strategy_settings
from hpo.config.study_config import config_from_dict
from hpo.errors import ConfigError, nearest
from hpo.session.program import interrupted_in_one_line
from hpo.show.display import How
from hpo.study.files.folder import RUNS

if TYPE_CHECKING:
    import pandas as pd

    from hpo.compare.run import Compared
    from hpo.report.comparison import ComparisonJson

_REPEATS = 30


@dataclass(frozen=True)
class Comparison:
    """A finished comparison.

    Attributes:
        folder: the folder of the comparison, with its page (comparison.html), tables and numbers.
        files: the paths of all written files.
        result: the content of comparison.json.
        has_result: whether any trial has a score.
    """

    folder: Path
    files: Sequence[Path]
    result: "ComparisonJson"
    has_result: bool

    @property
    def sentence(self) -> str:
        """The answer as text, with one sentence per line.

        For strategies, one sentence says which strategy is better at the first budget of the comparison. For studies,
        one sentence per compared pair says which study is better; more sentences name the studies that are not
        compared.
        """
        from hpo.report.pages.comparison import answers

        return "\n".join(answers(self.result))

    @property
    def standings(self) -> "pd.DataFrame":
        """A table with one row for each strategy at each budget.

        In a comparison of studies, the table has one row for each study at each budget. It leaves out studies whose
        data differ from the data of the first study.

        The columns have the mean score, the mean regret and the mean seconds of training. Score and regret also have
        columns for the ends of the 95 % interval, such as `mean_score_low`. NaN = not known. With limits, the table
        also has the share of trials over the limits.
        """
        return _frame(self.result["standings"], {"mean_score": "interval", "mean_regret": "regret_interval"})

    @property
    def intervals(self) -> "pd.DataFrame":
        """The mean differences, with one row per pair of strategies at each budget, or per compared pair of studies.

        The columns `a` and `b` name the pair. If `mean_difference` is above 0, `b` is better; below 0, `a` is better.
        The difference has the unit of the metric; with several metrics, it is a difference of hypervolume regret.

        `mean_difference_low` and `mean_difference_high` are the ends of the confidence interval of `mean_difference`.
        For studies, the confidence level is 95 %. For strategies, the confidence level is 1 - `level`, where `level` is
        a column of `pairs`. NaN = not known.
        """
        result, keys = self.result, ("budget", "unit", "a", "b", "mean_difference", "interval")
        pairs = result["pairs"] if result["kind"] == "strategies" else result.get("folds", ())
        rows = [{key: pair[key] for key in keys if key in pair} for pair in map(dict, pairs)]
        return _frame(rows, {"mean_difference": "interval"})

    @property
    def pairs(self) -> "pd.DataFrame":
        """The table in comparison.csv.

        For strategies, the table has one row for each pair of strategies at each budget. The row has the mean
        difference and its interval, the share of the searches in which `a` is better, the corrected p-value and the
        verdict.

        For studies with one metric, the table has one row for each fold of each compared pair. The row has the
        difference between the scores of the two winners. With several metrics, the table has one row per pair, with
        the difference of hypervolume regret.
        """
        import pandas as pd

        # A label such as 007 or NA is a text.
        return pd.read_csv(
            self.folder / "comparison.csv",
            dtype=dict.fromkeys(("a", "b", "better"), str),
            keep_default_na=False,
            na_values=[""],
        )

    @property
    def exit_code(self) -> int:
        """The exit code: 0 if `has_result`, else 1."""
        return 0 if self.has_result else 1

    def show(self) -> None:
        """Print the tables, the notes and the paths of the files, at the width of the terminal."""
        from hpo.compare.output import show

        show(self.result, self.files)

    def to_dict(self) -> dict[str, Any]:
        """Return the content of comparison.json, with the folder and the files as absolute paths."""
        return {"folder": self.folder.absolute(), "files": [path.absolute() for path in self.files], **self.result}


def _frame(rows: Sequence[Mapping[str, Any]], intervals: Mapping[str, str]) -> "pd.DataFrame":
    """Return the rows as a table. The two ends of an interval are columns after the value's column."""
    import pandas as pd

    flat: list[dict[str, Any]] = []
    for row in rows:
        flat.append({})
        for name, value in row.items():
            if name in intervals:
                low, high = row[intervals[name]] or (None, None)
                flat[-1] |= {name: value, f"{name}_low": low, f"{name}_high": high}
            elif name not in intervals.values():
                flat[-1][name] = value
    table = pd.DataFrame(flat)
    ends = [f"{name}{end}" for name in intervals for end in ("", "_low", "_high")]
    # Make a column numeric even if it has only None.
    return table.astype({name: float for name in ends if name in table})


def _number_of(option: str, what: str, read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Return a function that reads the value of an option: a finite number, or a word that `read` accepts."""

    def number(text: str) -> Any:
        with suppress(ValueError):
            if isinstance(value := read(text), str) or math.isfinite(value):
                return value
        raise ConfigError(f"{option}: must be {what}, given '{text}'")

    return number


def _label_of(name: str) -> str:
    """Return the label of a strategy: its name, or the class's name if `name` is a path `package.module:Class`."""
    return name.rpartition(":")[2]


def _labels(given: str) -> dict[str, str]:
    """Return the names of strategies by label, from `LABEL=NAME,...`."""
    names: dict[str, str] = {}
    for text in list_of(str)(given):
        label, _, name = text.partition("=")
        if ":" in label:
            label, name = _label_of(label), label
        if label in names:
            raise ConfigError(f"--strategies: '{label}' is listed twice; give one of the two a new label: LABEL=NAME")
        names[label] = name or label
    return names


_trials = list_of(_number_of("--at", "whole numbers", int))
# `shortest` is the length of the shortest search, known once all are finished.
_second = _number_of("--at-seconds", "numbers or shortest", lambda text: text if text == "shortest" else float(text))


def compare(
    what: Annotated[Sequence[str], Word("STUDY|OVERRIDE", collect=list)] = (),
    *,
    strategies: Annotated[Mapping[str, str] | None, Word("A,B", read=_labels)] = None,
    repeats: Annotated[int | None, Word("N")] = None,
    set_: Annotated[Sequence[str], Word("LABEL.KEY=VALUE")] = (),
    at: Annotated[Sequence[int], Word("N,N", read=_trials)] = (),
    at_seconds: Annotated[Sequence[float | str], Word("S,S", read=list_of(_second))] = (),
    optimum: Annotated[float | None, Word("SCORE", read=_number_of("--optimum", "a finite number", float))] = None,
    name: str | None = None,
    publish: bool = False,
    config_dir: ConfigFolder | None = None,
    config: ConfigFile | None = None,
    progress: Progress = "auto",
) -> Comparison:
    """Compare strategies by repeated searches at equal budgets (with --strategies), or compare existing studies.

    Args:
        what: the studies (names under runs/, or folders); with --strategies, overrides (key=value, group=name) instead.
        strategies: the strategies to compare; LABEL=NAME gives a strategy another label.
        repeats: the number of searches per strategy; repeat r = 0, 1, ... has the seed study.seed + r (default: 30).
        set_: a setting of one strategy; the option may be repeated.
        at: numbers of trials after which to compare, in addition to the full budget.
        at_seconds: also compare after these seconds of training; shortest = the training time of the shortest search.
        optimum: the best possible score, which regret needs; not allowed with several metrics (default: the best score
            in the table if the objective is a table of scores; else none, and no regret).
        name: the folder under runs/ (default: `compare-` and the study's name, or the names of the studies).
        publish: copy the tables, scores and settings of the comparison into studies/<name>/.
        progress: with --strategies: auto = progress bars, or a line per search without a terminal; json = a JSON line
            per search, on standard error; none = only the result.

    Raises:
        hpo.HpoError: an argument is not allowed; the message says what is allowed.

    Examples:
        hpo compare --strategies grid,random,shifting_window,evolutionary,tpe --repeats 30 \\
            data=table data.path=measured.csv data.metric=dev_bleu study.trials=100 dispatch=local
        hpo compare --strategies random,evolutionary --repeats 10 study.trials=20     real trainings, on Ray workers
        hpo compare --strategies evolutionary,large=evolutionary --set large.population=20 data=table ...
        hpo compare --strategies random,evolutionary 'study.metrics={accuracy: maximize, parameters: minimize}' ...
        hpo compare digits windows                                                    existing studies
    """
    if strategies is None:
        only = {"--repeats": repeats, "--set": set_, "--at-seconds": at_seconds}
        only |= {"--config-dir": config_dir, "--config": config, "--progress": progress != "auto"}
        refuse_without_effect(only, "on existing studies, without --strategies")
        for word in what:
            if "=" in word:
                raise ConfigError(
                    f"STUDY: must be a name under {RUNS}/ or a folder, given '{word}'; to compare strategies with the "
                    f"override '{word}', add --strategies"
                )
        return compare_studies(what, at=at, optimum=optimum, name=name, publish=publish, progress=False)
    tree, settings = _compose(what, strategies, set_, config_dir, config)
    shared = config_from_dict({**tree, "strategy": ANY_STRATEGY})
    comparison = prepare_comparison(shared, settings, _REPEATS if repeats is None else repeats, name)
    from hpo.compare.run import run_comparison

    return _finished(run_comparison(comparison, at, at_seconds, optimum, progress), publish)


def _compose(
    given: Sequence[str], names: Mapping[str, str], set_: Sequence[str], config_dir: str | None, config: str | None
) -> tuple[dict[str, Any], dict[str, Mapping[str, Any]]]:
    """Return the shared configuration of the searches, and the settings of each strategy by label."""
    for override in given:
        key = override.lstrip("+~").partition("=")[0]
        if key == "strategy" or key.startswith("strategy."):
            raise ConfigError(
                f"{key}: cannot be an override in a comparison, given '{override}'; choose strategies by "
                f"--strategies, and their settings by --set LABEL.KEY=VALUE"
            )
        if "=" not in override and not override.startswith("~"):
            raise ConfigError(
                f"STUDY: '{override}' cannot be given with --strategies; give key=value, or leave --strategies out"
            )
    shipped = names_of("strategy")
    settings = {
        label: [f"strategy={name}"] if name in shipped else ["strategy=own", f"strategy.name={name}"]
        for label, name in names.items()
    }
    for text in set_:
        label, _, setting = text.partition(".")
        if label not in settings or "=" not in setting:
            raise ConfigError(
                f"--set: must be LABEL.KEY=VALUE with a label of --strategies ({', '.join(settings)}), given "
                f"'{text}'{nearest(label, settings)}"
            )
        # The keys of a user's strategy are not in conf/, so they must be added.
        settings[label].append(f"{'' if names[label] in shipped else '++'}strategy.{setting}")
    # Not tracked: the searches of a comparison are no studies, only their scores and seconds are saved.
    untracked = [] if any(text.startswith(("track=", "track.")) for text in given) else ["track.name=none"]
    overrides = [*untracked, *given]
    tree = compose_search(overrides, config_dir, config)
    # A strategy's settings may refer to other keys: with --config, to keys of the file.
    if config:
        from hpo.config.composing.compose import compose_strategy

        return tree, {label: compose_strategy(own, config_dir, tree) for label, own in settings.items()}
    of_label = {label: compose_given("search", [*overrides, *own], config_dir) for label, own in settings.items()}
    return tree, {label: own["strategy"] for label, own in of_label.items()}


@interrupted_in_one_line()
@refusing_as_typed()
def compare_strategies(
    objective: Callable[..., Any] | str | Mapping[str, Any],
    space: Mapping[str, Any] | None = None,
    *,
    strategies: Sequence[str | Mapping[str, Any]] | Mapping[str, str | Mapping[str, Any]] | None = None,
    config: Mapping[str, Any] | None = None,
    trials: int | None = None,
    minutes: float | None = None,
    metric: str | Mapping[str, Literal["maximize", "minimize"]] | None = None,
    direction: Literal["maximize", "minimize"] | None = None,
    limits: Mapping[str, Any] | None = None,
    score: Literal["best", "last"] | None = None,
    seed: int | None = None,
    workers: int | None = None,
    settings: Mapping[str, Any] | None = None,
    repeats: int = 30,
    at: Sequence[int] = (),
    at_seconds: Sequence[float] = (),
    optimum: float | None = None,
    name: str | None = None,
    publish: bool = False,
    progress: Literal["auto", "json", "none"] | bool = "auto",
) -> Comparison:
    """Repeat whole searches of each strategy with paired seeds and compare them, as `hpo compare --strategies` does.

    `hpo.search` describes the arguments of a search in more detail.

    Args:
        objective: a function, its path, or a whole configuration of `hpo.compose`.
        space: the search space.
        strategies: a list of strategies, each as in `hpo.search`; or a dict from label to strategy.
        config: the values of the keys that are not searched.
        trials: the budget of each search.
        minutes: the time limit of each search; no trial begins after it.
        metric: the score's name; for several metrics, a dict from name to direction.
        direction: whether a higher or a lower score is better; may be left out as in `hpo.search`.
        limits: the limits that the best trial must keep.
        score: which reported value counts, `"best"` or `"last"`.
        seed: the seed of the first repeat.
        workers: how many processes train at once.
        settings: any other key of the configuration.
        repeats: the number of searches per strategy; repeat r = 0, 1, ... has the seed `study.seed` + r for all
            strategies.
        at: numbers of trials after which to compare, in addition to the full budget.
        at_seconds: also compare after these seconds of training.
        optimum: the best possible score, which regret needs. None = the best score in the table if the objective is a
            table of scores; else the comparison has no regret. With several metrics, the comparison uses the
            hypervolume regret of Pareto fronts, from 0 to 1 (lower is better), and `optimum` is not allowed.
        name: the folder under runs/; None = `compare-` and the study's name.
        publish: whether to copy the tables, scores and settings of the comparison into studies/<name>/.
        progress: `"auto"` = bars or one line per search, and at the end the result; `"json"` = JSON lines on standard
            error, then the result; `"none"` = only the result; `False` = nothing.

    Raises:
        hpo.HpoError: an argument is not allowed.
        KeyboardInterrupt: after an interrupt. Finished searches are saved; the same call continues the comparison.
    """
    if not isinstance(strategies, Iterable) or isinstance(strategies, str):
        raise ConfigError(
            f"strategies: must be a list or a dict, such as strategies=['random', 'tpe'], given {strategies!r}"
        )
    given = [named_settings(each) for each in (strategies.values() if isinstance(strategies, Mapping) else strategies)]
    labels = list(strategies) if isinstance(strategies, Mapping) else [_label_of(each["name"]) for each in given]
    if twice := [label for label in labels if labels.count(label) > 1]:
        raise ConfigError(f"strategies: '{twice[0]}' is listed twice; give a dict with a label for each strategy")
    by_label = dict(zip(labels, map(strategy_settings, given), strict=True))
    arguments: dict[str, Any] = {"trials": trials, "minutes": minutes, "seed": seed, "direction": direction}
    arguments |= {"score": score, "limits": limits}
    # Not tracked: the searches of a comparison are no studies, only their scores and seconds are saved.
    values = settings_of({"track": "none", **named("settings", settings or {})}, metric, workers, **arguments)
    shared, function = given_study(objective, space, config, None, metric, values)
    comparison = prepare_comparison(shared, by_label, repeats, name, function.pickled if function else None)
    from hpo.compare.run import run_comparison

    return _finished(run_comparison(comparison, at, at_seconds, optimum, progress), publish, progress)


def compare_studies(
    names: Sequence[str | PathLike[str]],
    *,
    at: Sequence[int] = (),
    optimum: float | None = None,
    name: str | None = None,
    publish: bool = False,
    progress: Literal["auto", "json", "none"] | bool = "auto",
) -> Comparison:
    """Compare existing studies; the result has one sentence per compared pair.

    With one metric, compare the scores of the winners on each fold, and their expected scores. With several metrics,
    compare the hypervolume regret of the Pareto fronts. Studies with different data are not compared. With more than
    four studies, compare each study only with the best study.

    Args:
        names: the studies, each as a `Study`, a name under runs/, or a folder.
        at: also compare after these numbers of trials; every study must have that many trials.
        optimum: the best possible score, which regret needs; not allowed with several metrics.
        name: the folder under runs/; None = `compare-` and the names of the studies.
        publish: whether to copy the tables, scores and settings of the comparison into studies/<name>/.
        progress: `False` = print nothing; any other value = print the result.

    Raises:
        hpo.HpoError: the studies cannot be compared, or an argument is not allowed.
    """
    if isinstance(names, str | PathLike) or not isinstance(names, Iterable):
        raise ConfigError(f"names: must be a list of studies, given {names!r}")
    from hpo.compare.run import run_studies

    return _finished(run_studies([*map(name_or_path, names)], at, optimum, name), publish, progress)


def _finished(compared: "Compared", publish: bool, progress: How = False) -> Comparison:
    """Publish the comparison if `publish` is set, print it unless `progress` is False, and return it."""
    from hpo.report.write import publish_comparison

    folder, files, result, has_result = compared
    published = publish_comparison(folder, folder.name) if publish else []
    comparison = Comparison(folder, [*files, *published], result, has_result)
    if progress:
        comparison.show()
    return comparison
