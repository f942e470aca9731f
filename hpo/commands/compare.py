"""`hpo.compare_strategies` and `hpo.compare_studies`: comparisons from Python."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hpo.commands.given.settings import settings_of
from hpo.commands.search import given_study, refusing_as_typed
from hpo.compare.comparison import prepare_comparison
from hpo.compare.run import run_comparison, run_studies
from hpo.config.shipped import strategy_settings
from hpo.errors import ConfigError
from hpo.report.write import publish_comparison
from hpo.session.program import interrupted_in_one_line

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Comparison:
    """A finished comparison.

    Attributes:
        folder: with comparison.html, curves and tables, and the same as numbers.
        pairs: one row per budget and pair: mean difference with its interval, how often the one beats the other, the
            corrected p-value, and the verdict.
    """

    folder: Path
    pairs: "pd.DataFrame"


@interrupted_in_one_line()
@refusing_as_typed()
def compare_strategies(
    objective: Callable[..., Any] | str | Mapping[str, Any],
    space: Mapping[str, Any] | None = None,
    *,
    strategies: Sequence[str] | Mapping[str, str | Mapping[str, Any]] | None = None,
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
) -> Comparison:
    """Repeat whole searches of each strategy with paired seeds and compare them, as `hpo compare --strategies` does.

    Args:
        objective: as of `hpo.search`: a function, its path, or a whole configuration of `hpo.compose`.
        space: what is searched, as of `hpo.search`.
        strategies: names of conf/strategy; or by a label each, a name or a name with settings.
        config: constants of the configuration, as of `hpo.search`; so are the following.
        trials: the budget of each search.
        minutes: no trial of a search begins after so many.
        metric: the score's name; with several metrics their directions by name.
        direction: whether a higher or a lower score is better.
        limits: what the best must keep.
        score: which reported value counts.
        seed: decides every point and every training of the first searches.
        workers: how many processes train at once.
        settings: any other key of the configuration.
        repeats: searches of each; repeat r has the seed `study.seed` + r for all.
        at: also after so many trials.
        at_seconds: and after so many seconds of training.
        optimum: the best score there is, for regret; a table's own is known. Of one metric only: several are compared
            by the hypervolume regret of their fronts, 0 to 1, lower is better.
        name: a folder under runs/.
        publish: whether to copy what others need into studies/<name>/.

    Raises:
        hpo.HpoError: something given cannot be, in one line.
        KeyboardInterrupt: an interrupt; finished searches are saved, and the same call goes on.
    """
    if strategies is None or isinstance(strategies, str):
        raise ConfigError(
            f"strategies: must be a list or a dict, such as strategies=['random', 'tpe'], given {strategies!r}"
        )
    named = strategies if isinstance(strategies, Mapping) else {label: label for label in strategies}
    by_label = {
        label: strategy_settings({"name": given} if isinstance(given, str) else given) for label, given in named.items()
    }
    asked: dict[str, Any] = {"trials": trials, "minutes": minutes, "seed": seed, "direction": direction}
    asked |= {"score": score, "limits": limits}
    # Not tracked: a tracker shows studies, and of these many searches only scores and seconds are kept.
    values = settings_of({**(settings or {}), "track": "none"}, metric, **asked)
    values |= {} if workers is None else {"dispatch.workers": workers}
    made, function = given_study(objective, space, config, None, metric, values)
    comparison = prepare_comparison(made, by_label, repeats, name, function.kept if function else None)
    run_comparison(comparison, at, at_seconds, optimum)
    return _comparison(comparison.path, publish)


def compare_studies(
    names: Sequence[str],
    *,
    at: Sequence[int] = (),
    optimum: float | None = None,
    name: str | None = None,
    publish: bool = False,
) -> Comparison:
    """Compare studies that exist, one sentence per pair; arguments as above.

    They are compared by their winners fold by fold, with several metrics by the hypervolume regret of their fronts.
    """
    if isinstance(names, str):
        raise ConfigError(f"names: must be a list of studies, given {names!r}")
    return _comparison(run_studies(names, at, optimum, name).folder, publish)


def _comparison(folder: Path, publish: bool) -> Comparison:
    import pandas as pd

    if publish:
        publish_comparison(folder, folder.name)
    return Comparison(folder, pd.read_csv(folder / "comparison.csv"))
