"""The expected mean score of new trainings of a study's winner, and the winner's gain over another trial."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from hpo.config.sections import StudySection
from hpo.study.basis.bounds import Bounds, bounds_of, is_share
from hpo.study.results.choosing import choose_row, compared_cost, standard_error
from hpo.study.results.noise import Noise, noise_of
from hpo.study.results.optimism import Candidates, Choose, Variance, Worth, near_best, true_values
from hpo.study.results.run import StudyRun
from hpo.trials.estimate import ExpectedScore
from hpo.trials.fronts import Array, is_on_front
from hpo.trials.goal import Goal
from hpo.trials.trial import TaskLayout, Trial, loss_sign

LEVEL = 0.95
# If fewer trials have the winner's amount, the noise is estimated from all complete trials.
FEWEST = 8
# The smallest degrees of freedom of an interval.
_LEAST_FREEDOM = 1.0


class Gain(NamedTuple):
    """How much lower the loss of one trial is than the loss of another, with a 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Expected:
    """The expected scores of the winner.

    Attributes:
        worths: the winner's expected values, by the names in `Goal.names`. Names whose noise is unknown are left out.
            Metrics to maximize are negated, so that lower is better.
        num_candidates: the number of trials from which the winner was chosen.
        of_all: whether the noise is estimated from all complete trials, because few have the winner's scale and amount.
    """

    worths: dict[str, Worth]
    num_candidates: int
    of_all: bool
    _run: StudyRun
    _search: "_Group | None"

    def score(self, name: str) -> ExpectedScore:
        """Return the winner's expected score for one name in `Goal.names`, and the 95 % interval of this score.

        The ends of the interval are within the bounds that the objective describes for this name.
        """
        worth, sign = self.worths[name], _signs(self._run.goal)[name]
        value, half = sign * worth.value, half_width(worth.own, worth.folds)
        low, high = bounded(value, half, bounds_of(_method(self._run), name))
        return ExpectedScore(value, low, high, self.num_candidates, self.of_all)

    def gain_over(self, other: Trial) -> Gain | None:
        """Return, for the leading metric, the gain of the winner's expected score over `other`'s recorded score.

        Both trials have scores on the same folds, so fold effects cancel.

        Returns:
            The gain. None if `other` has the winner's point, if its amount or scale differs from the winner's, or if
            the noise of the scores is unknown.
        """
        winner, metric = self._run.winner, self._run.goal.metric
        assert winner is not None
        if self._search is None or other.key == winner.key or other.rank[:2] != winner.rank[:2]:
            return None
        trials, candidates = self._search
        numbers, noise = [trial.number for trial in trials], candidates.noises[0]
        values = _values([other], self._run.goal, self._run.layout)[0, :, 0]
        if other.number in numbers:
            row = numbers.index(other.number)
            variance, freedom = float(noise.variances[row]), float(noise.freedom[row])
        elif len(values) == 1:
            return None
        else:
            # The trial is far worse than the rest, and so not a candidate: estimate its noise from its own values.
            variance, freedom = float((values - noise.effects).var(ddof=1)), len(values) - 1.0
        own = Variance(variance / len(values), freedom)
        return gain(self.worths[metric], Worth(float(values.mean()), own, Variance(0.0, math.inf), values))


def gain(ours: Worth, theirs: Worth) -> Gain:
    """Return how much lower the value of `ours` is than the value of `theirs`, with a 95 % interval.

    `ours` and `theirs` come from two trials with the same fold effects, so fold effects cancel.
    """
    value, own = theirs.value - ours.value, [ours.own, theirs.own]
    if ours.is_alone or theirs.is_alone:
        # With a single trial, fold effects cancel only in the differences fold by fold.
        differences = theirs.columns - ours.columns
        own = [Variance(float(differences.var(ddof=1)) / len(differences), len(differences) - 1.0)]
    half = half_width(*own)
    return Gain(value, value - half, value + half)


def half_width(*variances: Variance) -> float:
    """Return half the width of the 95 % interval for a sum of independent means that have these variances.

    Source: Satterthwaite 1946, "An approximate distribution of estimates of variance components".
    """
    from scipy.stats import t  # imported late, because it is slow to load

    total = math.fsum(each.size for each in variances)
    if not total:
        return 0.0
    denominator = math.fsum(each.size**2 / each.freedom for each in variances)
    freedom = max(total**2 / denominator, _LEAST_FREEDOM) if denominator else math.inf
    return float(t.ppf((1 + LEVEL) / 2, freedom) * math.sqrt(total))


def bounded(value: float, half: float, bounds: Bounds) -> tuple[float, float]:
    """Return the ends of the interval `value` ± `half`, adapted to the bounds of the value.

    There are two candidates: `value` ± `half`, cut at the bounds, and an interval on the logit scale (delta method).
    Return the lower of their two lower ends, and the higher of their two upper ends. The logit interval alone is too
    short near a bound: in simulations it covered .91 of the true scores, and the combination covered .945.
    """
    least, most = (-math.inf if bounds[0] is None else bounds[0]), (math.inf if bounds[1] is None else bounds[1])
    low, high, size = max(value - half, least), min(value + half, most), most - least
    if half and least < low and high < most and math.isfinite(size):
        share = (value - least) / size
        logit, half_logit = math.log(share / (1 - share)), half / size / (share * (1 - share))
        of_logit = [least + size / (1 + math.exp(side * half_logit - logit)) for side in (1, -1)]
        low, high = min(low, of_logit[0]), max(high, of_logit[1])
    return low, high


def expected_of(run: StudyRun) -> Expected | None:
    """Return the scores to expect from new trainings of the winner.

    The winner's recorded scores are too good on average, because the winner was chosen by noisy scores. The expected
    scores are corrected for this choice.

    The candidates for the winner are the finalists or, without finalists, the complete trials with the winner's scale
    and amount. The noise of the finalists' scores is estimated from fresh seeds and from the search.

    With a single fold and seed, the noise is known only if three conditions hold: there are no finalists, the study has
    one metric and no limits, and the objective describes the metric as a share of independent examples.

    Returns:
        The expected scores. None if there is no winner, or if the noise of the scores is unknown. Also None if
        `hpo extend` made the study and no finalist has scores on fresh seeds. In such a study, the trials were selected
        from another study by scores on the same seeds, and this function cannot correct for the selection.
    """
    winner, goal = run.winner, run.goal
    if winner is None or (run.config.study.extends is not None and not run.fresh):
        return None
    complete = [trial for trial in run.history if trial.state == "complete"]
    equal = [trial for trial in complete if trial.rank[:2] == winner.rank[:2]]
    of_all = len(equal) < FEWEST and len(complete) > len(equal)
    search = _search_candidates(run, equal, complete if of_all else equal)
    group = _finalist_candidates(run, search) if run.fresh else search
    if group is None:
        return None
    trials, candidates = group
    row = next(row for row, trial in enumerate(trials) if trial.number == winner.number)
    searched = {trial.number: trial for trial in run.history}
    costs = [compared_cost(searched[trial.number]) for trial in trials]
    worths = candidates.worth(row, _chooser(trials, np.array(costs), run.config.study, goal))
    num_candidates = len(trials) if run.fresh else len(equal)
    return Expected(dict(zip(goal.names, worths, strict=False)), num_candidates, of_all, run, search)


_Group = tuple[Sequence[Trial], Candidates]


def _search_candidates(run: StudyRun, equal: Sequence[Trial], noisy: Sequence[Trial]) -> _Group | None:
    """Return the trials that could have become the winner, and their `Candidates`; None if the noise is unknown.

    Take these trials from `equal`, the complete trials with the winner's scale and amount. With several folds or seeds,
    estimate the noise from the trials in `noisy`. With one fold and one seed, the noise is known only for a metric that
    is a share of examples. Compute this noise from the number of examples.
    """
    values = _values(equal, run.goal, run.layout)
    keep_limits = np.array([trial.excess == 0 for trial in equal])
    rows = near_best(values.mean(axis=1), keep_limits, len(run.goal.metrics))
    assert run.winner is not None
    # The winner may be far worse than the best, for example if it is the cheapest within one standard error.
    rows = np.union1d(rows, [row for row, trial in enumerate(equal) if trial.number == run.winner.number])
    near, values = [equal[row] for row in rows], values[rows]
    if values.shape[1] == 1:
        examples = run.parts["validation"]["size"] if "validation" in run.parts else 0
        if not (examples and run.goal.is_single and is_share(_method(run), run.goal.metric)):
            return None
        # The noise of measured numbers is unknown.
        return near, Candidates(values[:, :, :1], [_noise_of_share(values[:, :, 0], examples)])
    if noisy is equal:
        return near, Candidates(values, _noises(values, run.layout))
    places = {trial.number: place for place, trial in enumerate(noisy)}
    noises = _noises(_values(noisy, run.goal, run.layout), run.layout)
    return near, Candidates(values, [noise.of([places[trial.number] for trial in near]) for noise in noises])


def _finalist_candidates(run: StudyRun, search: _Group | None) -> _Group | None:
    """Return the finalists with their scores on fresh seeds, and the noise of these scores.

    The noise is estimated from these scores and from the finalists' scores in the search. Return None if the noise is
    unknown.
    """
    again, layout = [*run.fresh.values()], run.layout
    values = _values(again, run.goal, layout)
    if values.shape[1] == 1:
        return None
    noises = _noises(values, layout)
    rows = {} if search is None else {trial.number: row for row, trial in enumerate(search[0])}
    if search is not None and rows.keys() >= run.fresh.keys():
        trials, candidates = search
        own_rows, repeats = [rows[trial.number] for trial in again], run.config.study.finalist_repeats
        in_search = [noise.of(own_rows) for noise in candidates.noises]
        if layout.folds > 1 and repeats != layout.repeats:
            # More repeats reduce the seeds' part of the noise, but not the interaction of trial and fold.
            seeds = _variance_of_seeds(again if repeats > 1 else [trials[row] for row in own_rows], run.goal, layout)
            for place, noise in enumerate(in_search):
                other = noise.variances - seeds[place] * (1 / layout.repeats - 1 / repeats)
                in_search[place] = replace(noise, variances=np.maximum(other, seeds[place] / repeats))
        # The noise of a share in the search is that of its examples, which all fresh seeds have in common: it is known
        # (infinite degrees of freedom), and says nothing about the noise between seeds.
        for place, earlier in enumerate(in_search):
            if not np.isinf(earlier.freedom).any():
                noises[place] = noises[place].pooled_with(earlier)
    return again, Candidates(values, noises)


def _variance_of_seeds(trials: Sequence[Trial], goal: Goal, layout: TaskLayout) -> Array:
    """Return, for each name in `Goal.names`, the variance of the value over the repeats of one fold (divisor n - 1).

    The variances are averaged over the folds and the trials.
    """
    tasks = np.array([[[o.metrics[name] for name in goal.names] for o in t.outcomes.values()] for t in trials])
    by_repeat = tasks.reshape(len(trials), -1, layout.folds, len(goal.names))
    variances: Array = by_repeat.var(axis=1, ddof=1).mean(axis=(0, 1))
    return variances


def _method(run: StudyRun) -> Mapping[str, Any]:
    return run.described.method if run.described else {}


def _values(trials: Sequence[Trial], goal: Goal, layout: TaskLayout) -> Array:
    """Return the values of trials as an array with shape (trials, columns, names).

    With folds, a column has the means over the repeats of one fold. With a hold-out split, a column has the values of
    one seed. The last axis has one value for each name in `Goal.names`, in the same order. Metrics to maximize are
    negated, so that lower is better.
    """
    columns = layout.fold if layout.folds > 1 else layout.repeat
    signs = _signs(goal)

    def of(trial: Trial) -> list[list[float]]:
        tasks: dict[int, list[list[float]]] = {}
        for index, outcome in sorted(trial.outcomes.items()):
            tasks.setdefault(columns(index), []).append([sign * outcome.metrics[n] for n, sign in signs.items()])
        return [[float(value) for value in np.mean(each, axis=0)] for _, each in sorted(tasks.items())]

    return np.array([of(trial) for trial in trials])


def _signs(goal: Goal) -> dict[str, float]:
    """Return a sign for each name in `Goal.names`: -1 for a metric to maximize, and 1 for all other names."""
    return {name: loss_sign(goal.metrics[name]) if name in goal.metrics else 1.0 for name in goal.names}


def _noises(values: Array, layout: TaskLayout) -> list[Noise]:
    return [noise_of(values[:, :, place], layout.folds > 1) for place in range(values.shape[2])]


def _noise_of_share(losses: Array, examples: int) -> Noise:
    """Return the noise of a metric that is a share of examples, such as accuracy; `losses` has the shape (trials, 1).

    The noise is binomial, as for independent examples. Laplace's rule of succession adds one success and one
    failure, so that a share of 1 has noise, too. The noise is computed from estimates of the true shares, because the
    observed shares of the best trials are too good, and would give too little noise.
    """
    shares = (np.abs(losses[:, 0]) * examples + 1) / (examples + 2)
    shares = true_values(shares, np.sqrt(shares * (1 - shares) / examples))
    return Noise(shares * (1 - shares) / examples, np.full(len(losses), math.inf), np.zeros(1))


def _chooser(trials: Sequence[Trial], costs: Array, section: StudySection, goal: Goal) -> Choose:
    """Return a function that chooses the winner of `trials` from their mean values, as `choose_best` does.

    `costs` has the cost of each trial in the search (see `compared_cost`); a finalist's fresh seeds do not count.
    """
    signs, names = _signs(goal), list(goal.metrics)
    errors = [standard_error(trial, goal.metric) or 0.0 for trial in trials]

    def choose(means: Array) -> int | None:
        excess = np.zeros(len(means))
        for limit in goal.limits:
            beyond = signs[limit.metric] * means[:, goal.names.index(limit.metric)] - limit.bound
            excess += np.maximum(-beyond if limit.is_least else beyond, 0.0)
        rows = np.flatnonzero(excess == 0)
        if not len(rows):
            return None
        losses = means[rows, : len(names)]
        if len(names) > 1:
            members = np.flatnonzero(is_on_front(losses))
            return int(rows[members[choose_row(losses[members], names, section.choose)]])
        best = int(losses[:, 0].argmin())
        if section.winner == "best":
            return int(rows[best])
        good = rows[losses[:, 0] - losses[best, 0] <= errors[rows[best]]]
        return int(good[np.lexsort((means[good, 0], costs[good]))[0]])

    return choose
