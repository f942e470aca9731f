"""`hpo.compare_strategies` and `hpo.compare_studies`: comparisons from Python."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpo.compare.comparison import prepare_comparison
from hpo.compare.run import run_comparison, run_studies
from hpo.config.keys import replaced
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
def compare_strategies(
    config: Mapping[str, Any],
    strategies: Sequence[str] | Mapping[str, str | Mapping[str, Any]],
    *,
    repeats: int = 30,
    at: Sequence[int] = (),
    at_seconds: Sequence[float] = (),
    optimum: float | None = None,
    name: str | None = None,
    publish: bool = False,
) -> Comparison:
    """Repeat whole searches of each strategy with paired seeds and compare them, as `hpo compare --strategies` does.

    Args:
        config: what they search, from `hpo.compose`; its `study.trials` is the budget.
        strategies: names of conf/strategy; or by a label each, a name or a name with settings.
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
    if isinstance(strategies, str):
        raise ConfigError(f"strategies: must be a list of names, or a dict, given {strategies!r}")
    named = strategies if isinstance(strategies, Mapping) else {label: label for label in strategies}
    settings = {
        label: strategy_settings({"name": given} if isinstance(given, str) else given) for label, given in named.items()
    }
    comparison = prepare_comparison(replaced(config, {"track.name": "none"}), settings, repeats, name)
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
