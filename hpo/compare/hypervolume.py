"""Searches by several metrics as one number each: the hypervolume that a search's front lacks, and where fronts lie."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hpo.compare.curves import FinishedSearch
from hpo.report.comparison import FrontsJson
from hpo.trials.fronts import REFERENCE, Array, growing, hypervolume, scale_of, scaled
from hpo.trials.goal import Goal
from hpo.trials.trial import Trial

NAME = "hypervolume regret"
# Half of the searches, as a line, and the quarters around it, as a band.
_LEVELS = (25, 50, 75)
_DRAWN = 2  # metrics: an attainment surface of more is no line


@dataclass(frozen=True)
class Yardstick:
    """What fronts are measured by, the same for all searches that are compared.

    Attributes:
        goal: the metrics, and the limits that are kept.
        scale: the best and the worst loss of each metric, shape (2, metrics), among all trials within the limits.
        whole: the hypervolume of the front of all these trials, in losses of this scale; 0 where there are none.
        is_table: whether these are all of a table that is known as a whole, not those that the searches tried.
    """

    goal: Goal
    scale: Array
    whole: float
    is_table: bool

    @classmethod
    def of(cls, goal: Goal, searches: Iterable[FinishedSearch], table: Sequence[Trial] | None = None) -> "Yardstick":
        """Return the yardstick of these searches, or of a whole table where all of its trials are known."""
        if table is None:
            kept = np.concatenate([search.kept for search in searches])
        else:
            rows = [trial.losses for trial in table if trial.keeps_limits]
            kept = np.array(rows, dtype=np.float64).reshape(-1, len(goal.metrics))
        scale = scale_of(kept) if len(kept) else np.stack((np.zeros(kept.shape[1]), np.ones(kept.shape[1])))
        return cls(goal, scale, hypervolume(scaled(kept, scale)), table is not None)

    def measured(self, search: FinishedSearch) -> FinishedSearch:
        """Return the search with its hypervolume regret after each trial as the losses.

        The regret is 1 - hypervolume of the trials within the limits so far / `whole`: from 1, no such trial, to 0, as
        good as the best front; it never rises. For its sources see `hpo.trials.fronts`.
        """
        volumes = np.concatenate(([0.0], growing(scaled(search.kept, self.scale))))
        regrets = np.maximum(0.0, 1 - volumes / (self.whole or 1.0))
        return replace(search, losses=tuple(regrets[search.keeps_limits.cumsum()].tolist()), nothing=1.0)

    def method(self) -> dict[str, str]:
        """Return how the figures are made, in one sentence each."""
        whose = "the whole table" if self.is_table else "all searches together"
        ends = "".join(f", {name} from {best:.6g} to {worst:.6g}" for name, (best, worst) in self._values().items())
        regret = (
            f"1 - hypervolume of a search's front / that of the front of {whose}: 0 to 1, lower is better. Each metric "
            f"is scaled from its best value to its worst{ends}; the reference point is {REFERENCE:g} in each"
        )
        attained = f"what {_LEVELS[1]} % of the searches attain, and what {_LEVELS[0]} and {_LEVELS[2]} % do"
        return {NAME: regret} | ({"attainment": attained} if len(self.goal.metrics) == _DRAWN else {})

    def _values(self) -> dict[str, list[float]]:
        """Return the best and the worst value of each metric; empty where no trial keeps the limits."""
        if not self.whole:
            return {}
        best, worst = (self.goal.scores(row.tolist()) for row in self.scale)
        return {name: [best[name], worst[name]] for name in self.goal.metrics}

    def notes(self) -> list[str]:
        """Return what a reader of the regrets must know."""
        notes = []
        if not self.whole:
            within = " within the limits" if self.goal.limits else ""
            notes.append(f"No search has a complete trial{within}, so every hypervolume regret is 1.")
        elif self.is_table:
            notes.append("Hypervolume regret is to the front of the whole table, which is at 0.")
        else:
            notes.append("Hypervolume regret is to the joint front of these searches: others have another scale.")
        if len(self.goal.metrics) != _DRAWN:
            notes.append(f"Attainment is drawn for two metrics only; these are {len(self.goal.metrics)}.")
        return notes

    def as_json(self, searches: Mapping[str, Sequence[FinishedSearch]]) -> FrontsJson:
        """Return what comparison.json holds of the fronts."""
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
    """Return where 25, 50 and 75 % of the searches arrive or come further, of one search its front as `50`.

    By level the corners of a staircase: pairs of values of the two metrics, the best of the first metric first. A point
    is attained by a search where one of its trials within the limits is as good in both.

    Source: the empirical attainment function, by Fonseca, Guerreiro, Lopez-Ibanez & Paquete 2011, "On the computation
    of the empirical attainment function".
    """
    import moocore

    # A search without a trial within the limits attains nothing: its only point is beyond all others.
    beyond = np.full((1, len(goal.metrics)), np.inf)
    points = [search.kept if len(search.kept) else beyond for search in searches]
    sets = np.repeat(np.arange(len(points)), [len(of_search) for of_search in points])
    levels = _LEVELS if len(points) > 1 else (50,)
    corners = moocore.eaf(np.concatenate(points), sets, percentiles=list(levels))
    corners = corners[np.isfinite(corners).all(axis=1)]
    return {str(level): _scores(corners[corners[:, -1] == level, :-1], goal) for level in levels}


def _scores(losses: Array, goal: Goal) -> list[list[float]]:
    ordered: list[list[float]] = sorted(losses.tolist())
    return [[*goal.scores(row).values()] for row in ordered]
