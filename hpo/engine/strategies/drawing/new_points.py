"""Draws new points for a first rung: children of the best points, and random points."""

import math
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from hpo.engine.strategies.drawing.children import Breeding
from hpo.engine.strategies.drawing.draws import draw_untried
from hpo.engine.strategies.drawing.preselection import MEMORY, Preselection
from hpo.trials.history import History, Reader
from hpo.trials.ranking import Ranking
from hpo.trials.space.space import Point, Space
from hpo.trials.trial import Trial

# When _KNOWN points have complete trials, a share _SHARE of new points are children of the best _PARENTS points. Each
# child is the most promising of _CANDIDATES candidates. On learning curves of real trainings, 6 parents were worse, and
# so was starting after 9 points with a budget of two full trainings.
_KNOWN, _SHARE, _PARENTS, _CANDIDATES, _PATIENCE = 15, 0.75, 4, 8, 20
# Candidates are rated by the trials of the highest rung that has at least this many, because a low rung may mislead.
# From 4 to 8, the regret differs by less than its noise. If the trials of all rungs are used, the regret is a third
# larger where low rungs mislead (benchmarks/search_quality/by_cost.md).
_ENOUGH = 6


class NewPoints:
    """Draws new points for strategies that first train points partly, and then continue the best of them.

    If `is_learned` is false, or if fewer than 15 points have complete trials, all new points are random. Otherwise,
    most new points are children of the best points so far. The other new points are still random, because the best
    points after a small amount of training may not be the best after a large amount.

    A point is better if it was trained further. Among points trained equally far, the point with the lower loss is
    better. With several metrics, the point on the earlier Pareto front is better.

    Source: BOHB (Falkner, Klein & Hutter 2018, "BOHB: Robust and Efficient Hyperparameter Optimization at Scale",
    section 4). Like BOHB, this class draws a share of its points at random. BOHB samples the other points from density
    estimates. This class breeds children of the best points instead, and chooses among the children by the ranks of
    nearby trials (see `Preselection`). For this choice, it uses the complete trials of a single amount: like BOHB, the
    largest amount with enough trials.
    """

    def __init__(self, space: Space, is_learned: bool) -> None:
        self._space, self._is_learned = space, is_learned
        self._rungs, self._breeding = _Rungs(), Breeding(space)
        self._preselection = Preselection(space, penalizes_pending=True)

    def draw(self, known: History, pending: Sequence[Trial], rng: np.random.Generator, count: int) -> list[Point]:
        """Return up to `count` untried points; fewer if `draw_untried` finds fewer."""
        best = self._rungs
        best.read(known)
        if not self._is_learned or best.num_points < _KNOWN:
            return draw_untried(self._space, rng, known.tried(pending), count)
        parents, near = [trial.point for trial in islice(best.furthest(), _PARENTS)], best.latest_of_highest()

        def breed() -> Point:
            return self._breeding.child(parents, rng)

        # Only pending new points repel candidates; a pending continuation is no reason to avoid its point.
        new, drawn = [trial for trial in pending if trial.continues is None], list[Trial]()
        while len(drawn) < count:
            tried = known.tried([*pending, *drawn])
            if rng.random() < _SHARE:
                points = draw_untried(self._space, rng, tried, _CANDIDATES, breed, _PATIENCE)
                if len(points) > 1:
                    points = self._preselection.most_promising(near, [*new, *drawn], points, 1)
            else:
                points = draw_untried(self._space, rng, tried, 1)
            if not points:
                break
            drawn += [Trial(len(known) + len(pending) + len(drawn), 0, point) for point in points]
        return [trial.point for trial in drawn]


class _Rungs(Reader):
    """The trials of a history: the complete ones, ranked on each rung, and the failed ones."""

    def _forget(self) -> None:
        self._keys = set[str]()
        self._failed: list[Trial] = []
        self._complete: dict[float, list[Trial]] = {}
        self._rankings: dict[float, Ranking] = {}

    def _add(self, trial: Trial) -> None:
        if trial.state == "failed":
            self._failed.append(trial)
        elif trial.state == "complete":
            # A trial without an amount is fully trained; imported trials may have none.
            amount = math.inf if trial.amount is None else trial.amount
            self._keys.add(trial.key)
            self._complete.setdefault(amount, []).append(trial)
            self._rankings.setdefault(amount, Ranking()).add(trial)

    @property
    def num_points(self) -> int:
        """The number of points that have a complete trial."""
        return len(self._keys)

    def furthest(self) -> Iterator[Trial]:
        """Yield one trial per point: the trial on the highest rung that the point has reached.

        Trials on higher rungs come first; on the same rung, better trials come first. The first `_PARENTS` trials are
        right. After them, some points may be missing.
        """
        keys = set[str]()
        for amount in sorted(self._complete, reverse=True):
            trials = self._complete[amount]
            # The points yielded from higher rungs may be among this rung's best, too. So look at as many more trials.
            for place in self._rankings[amount].first(_PARENTS + len(keys), len(trials)):
                if trials[place].key not in keys:
                    keys.add(trials[place].key)
                    yield trials[place]

    def latest_of_highest(self) -> list[Trial]:
        """Return the latest failed trials on all rungs, and the latest complete trials on one rung.

        Return at most `MEMORY` failed trials and at most `MEMORY` complete trials. The rung is the highest rung with at
        least `_ENOUGH` complete trials. If no rung has so many, the rung is the one with the most complete trials.
        """
        amounts = [amount for amount, trials in self._complete.items() if len(trials) >= _ENOUGH]
        amount = max(amounts) if amounts else max(self._complete, key=lambda each: len(self._complete[each]))
        return [*self._failed[-MEMORY:], *self._complete[amount][-MEMORY:]]
