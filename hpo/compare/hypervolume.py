"""Compares searches with several metrics, by the hypervolume regret of their Pareto fronts and by attainment curves."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hpo.compare.curves import FinishedSearch
from hpo.report.comparison import FrontsJson
from hpo.trials.fronts import REFERENCE, Array, growing, hypervolume, scale_of, scaled
from hpo.trials.goal import Goal
from hpo.trials.trial import Trial

NAME = "hypervolume regret"
# The percentages of searches whose attainment is drawn: the median as a line, and the quartiles as a band.
_LEVELS = (25, 50, 75)
# The number of metrics for which attainment is drawn, because only with two metrics it is a line.
_DRAWN = 2


@dataclass(frozen=True)
class Yardstick:
    """Computes the hypervolume regret of each search, relative to the Pareto front of the reference trials.

    The reference trials are the trials of all searches or, if a table of all scores is known, the rows of the table.
    Trials beyond the limits are left out.

    Attributes:
        goal: the metrics and limits.
        scale: the best and the worst loss of each metric among the reference trials, shape (2, metrics).
        whole: the hypervolume of the reference trials' Pareto front, in scaled losses; 0 = no reference trials.
        is_table: whether the reference trials are the rows of a table.
    """

    goal: Goal
    scale: Array
    whole: float
    is_table: bool

    @classmethod
    def of(cls, goal: Goal, searches: Iterable[FinishedSearch], table: Sequence[Trial] | None = None) -> "Yardstick":
        """Return a `Yardstick`, computed from the trials of `table`, or of `searches` if `table` is None."""
        if table is None:
            losses = np.concatenate([search.losses_within_limits.reshape(-1, len(goal.metrics)) for search in searches])
        else:
            rows = [trial.losses for trial in table if trial.keeps_limits]
            losses = np.array(rows, dtype=np.float64).reshape(-1, len(goal.metrics))
        scale = scale_of(losses) if len(losses) else np.stack((np.zeros(losses.shape[1]), np.ones(losses.shape[1])))
        return cls(goal, scale, hypervolume(scaled(losses, scale)), table is not None)

    def measured(self, search: FinishedSearch) -> FinishedSearch:
        """Return a copy of the search in which each trial's loss is the search's hypervolume regret after the trial.

        Only trials within the limits count. The regret is 1 - (hypervolume of the search's trials so far) / `whole`. It
        is 1 before the first trial within the limits, 0 if the hypervolume reaches `whole`, and never rises. See
        `hpo.trials.fronts` for the sources.
        """
        volumes = np.concatenate(([0.0], growing(scaled(search.losses_within_limits, self.scale))))
        regrets = np.maximum(0.0, 1 - volumes / (self.whole or 1.0))
        return replace(search, losses=tuple(regrets[search.keeps_limits.cumsum()].tolist()), nothing=1.0)

    def method(self) -> dict[str, str]:
        """Return, by name, how the hypervolume regret and, with two metrics, the attainment curves are computed."""
        whose = "the whole table" if self.is_table else "all searches together"
        ends = "".join(f", {name} from {best:.6g} to {worst:.6g}" for name, (best, worst) in self._values().items())
        regret = (
            f"1 - hypervolume of a search's front / hypervolume of the front of {whose}: 0 to 1, lower is better. Each "
            f"metric is scaled from its best value (0) to its worst (1){ends}; "
            f"the reference point is {REFERENCE:g} in each metric"
        )
        low, middle, high = _LEVELS
        attained = (
            f"the line shows the best values that at least {middle} % of the searches attain; the band is between the "
            f"same lines for {low} % and {high} %"
        )
        return {NAME: regret} | ({"attainment": attained} if len(self.goal.metrics) == _DRAWN else {})

    def _values(self) -> dict[str, list[float]]:
        """Return the best and the worst value of each metric; empty if no trial keeps the limits."""
        if not self.whole:
            return {}
        best, worst = (self.goal.scores(row.tolist()) for row in self.scale)
        return {name: [best[name], worst[name]] for name in self.goal.metrics}

    def notes(self) -> list[str]:
        """Return notes that explain the hypervolume regrets."""
        notes = []
        if not self.whole:
            within = " within the limits" if self.goal.limits else ""
            notes.append(f"No search has a complete trial{within}, so every hypervolume regret is 1.")
        elif self.is_table:
            notes.append("Hypervolume regret is relative to the front of the whole table, whose regret is 0.")
        else:
            notes.append(
                "Hypervolume regret is relative to the joint front of these searches; do not compare it with the "
                "hypervolume regret in other comparisons."
            )
        if len(self.goal.metrics) != _DRAWN:
            notes.append(f"Attainment is drawn only for two metrics; here there are {len(self.goal.metrics)}.")
        return notes

    def as_json(self, searches: Mapping[str, Sequence[FinishedSearch]]) -> FrontsJson:
        """Return the section `fronts` of comparison.json."""
        drawn: FrontsJson = {
            "metrics": dict(self.goal.metrics),
            "scale": self._values(),
            "reference": REFERENCE,
            "hypervolume": self.whole,
            "is_table": self.is_table,
        }
        if len(self.goal.metrics) == _DRAWN:
            drawn["attainment"] = {label: attainment(those, self.goal) for label, those in searches.items()}
        return drawn


def attainment(searches: Sequence[FinishedSearch], goal: Goal) -> dict[str, list[list[float]]]:
    """Return the attainment curves of searches with two metrics, for 25 %, 50 % and 75 % of the searches.

    A search attains a pair of values if one of its trials within the limits is at least as good in both metrics. The
    result maps each percentage (`"25"`, `"50"`, `"75"`) to the best pairs that at least this percentage of the searches
    attain. The pairs are the corners of a staircase, and those with better values of the first metric come first. For
    a single search, the result has only the key `"50"`, with the search's Pareto front.

    Source: the empirical attainment function, by Fonseca, Guerreiro, Lopez-Ibanez & Paquete 2011, "On the computation
    of the empirical attainment function".
    """
    import moocore

    # A search with no trial within the limits attains nothing, so it gets a single infinite point.
    beyond = np.full((1, len(goal.metrics)), np.inf)
    points = [losses if len(losses := search.losses_within_limits) else beyond for search in searches]
    sets = np.repeat(np.arange(len(points)), [len(of_search) for of_search in points])
    levels = _LEVELS if len(points) > 1 else (50,)
    corners = moocore.eaf(np.concatenate(points), sets, percentiles=list(levels))
    corners = corners[np.isfinite(corners).all(axis=1)]
    return {str(level): _scores(corners[corners[:, -1] == level, :-1], goal) for level in levels}


def _scores(losses: Array, goal: Goal) -> list[list[float]]:
    ordered: list[list[float]] = sorted(losses.tolist())
    return [[*goal.scores(row).values()] for row in ordered]
