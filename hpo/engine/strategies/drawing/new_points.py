"""New points for a first rung: children of those that went furthest, and random ones."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np

from hpo.engine.strategies.drawing.children import Breeding
from hpo.engine.strategies.drawing.draws import draw_untried
from hpo.engine.strategies.drawing.preselection import MEMORY, Preselection
from hpo.trials.history import History, Reader
from hpo.trials.ranking import Ranking
from hpo.trials.space.space import Point, Space
from hpo.trials.trial import Trial

# Once so many points are known, a share of the new ones are children of the best four, each the most promising of eight
# candidates. On learning curves of real trainings six parents were worse, and nine known points were worse at the cost
# of two trainings.
_KNOWN, _SHARE, _PARENTS, _CANDIDATES, _PATIENCE = 15, 0.75, 4, 8, 20
# What is promising is told by the highest rung that has so many points: a low one may mislead. From four to eight the
# regret differs by less than its noise; with the points of all rungs it is a third larger where low rungs mislead
# (benchmarks/search_quality/by_cost.md).
_ENOUGH = 6


@dataclass(frozen=True)
class NewPoints:
    """Draws new points where points are trained by amounts; if it is `learned`, most are children of the best so far.

    Better is what was trained further, then what has the lower loss there, with several metrics the earlier front. The
    other points are random: what leads on a low rung may not lead on a high one.

    Source: the model of BOHB, too, is that of the largest budget with enough points, and a share of its points is
    random (Falkner, Klein & Hutter 2018, "BOHB: Robust and Efficient Hyperparameter Optimization at Scale", section 4).
    We differ: children of an evolution and a kernel over ranks in place of density estimates.
    """

    space: Space
    is_learned: bool

    def draw(self, known: History, pending: Sequence[Trial], rng: np.random.Generator, count: int) -> list[Point]:
        """Return up to `count` points that were not tried; fewer only where the space has no more."""
        best = self._rungs
        best.read(known)
        if not self.is_learned or best.num_points < _KNOWN:
            return draw_untried(self.space, rng, known.tried(pending), count)
        parents, near = [trial.point for trial in islice(best.furthest(), _PARENTS)], best.latest_of_highest()

        def breed() -> Point:
            return self._breeding.child(parents, rng)

        # One that is trained further says where it is good to be, not where others are on their way.
        new, drawn = [trial for trial in pending if trial.continues is None], list[Trial]()
        while len(drawn) < count:
            tried = known.tried([*pending, *drawn])
            if rng.random() < _SHARE:
                points = draw_untried(self.space, rng, tried, _CANDIDATES, breed, _PATIENCE)
                if len(points) > 1:
                    points = self._preselection.most_promising(near, [*new, *drawn], points, 1)
            else:
                points = draw_untried(self.space, rng, tried, 1)
            if not points:
                break
            drawn += [Trial(len(known) + len(pending) + len(drawn), 0, point) for point in points]
        return [trial.point for trial in drawn]

    @cached_property
    def _rungs(self) -> "_Rungs":
        return _Rungs()

    @cached_property
    def _breeding(self) -> Breeding:
        return Breeding(self.space)

    @cached_property
    def _preselection(self) -> Preselection:
        return Preselection(self.space, penalizes_pending=True)


class _Rungs(Reader):
    """The complete trials of a history by rung, ranked, and those that failed."""

    def _forget(self) -> None:
        self._keys = set[str]()
        self._failed: list[Trial] = []
        self._complete: dict[float, list[Trial]] = {}
        self._rankings: dict[float, Ranking] = {}

    def _add(self, trial: Trial) -> None:
        if trial.state == "failed":
            self._failed.append(trial)
        elif trial.state == "complete":
            # Those of other studies may be trained to their end, without an amount.
            amount = math.inf if trial.amount is None else trial.amount
            self._keys.add(trial.key)
            self._complete.setdefault(amount, []).append(trial)
            self._rankings.setdefault(amount, Ranking()).add(trial)

    @property
    def num_points(self) -> int:
        """The number of points that are complete on a rung."""
        return len(self._keys)

    def furthest(self) -> Iterator[Trial]:
        """Yield each point's furthest trial, from the highest rung to the lowest, the best of each rung first."""
        seen = set[str]()
        for amount in sorted(self._complete, reverse=True):
            trials = self._complete[amount]
            for place in self._rankings[amount].first(_PARENTS + len(seen), len(trials)):
                if trials[place].key not in seen:
                    seen.add(trials[place].key)
                    yield trials[place]

    def latest_of_highest(self) -> list[Trial]:
        """Return failures, and the latest trials of the highest rung with enough of them; else of the fullest."""
        amounts = [amount for amount, trials in self._complete.items() if len(trials) >= _ENOUGH]
        amount = max(amounts) if amounts else max(self._complete, key=lambda each: len(self._complete[each]))
        return [*self._failed[-MEMORY:], *self._complete[amount][-MEMORY:]]
