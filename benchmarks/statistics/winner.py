"""How often does the interval of what the winner is expected to score hold its true score?

    python -m benchmarks.statistics.winner [--searches 1000] [--only WORDS]

Made-up searches whose true scores are known go the whole way, from the outcomes of tasks to `Expected.score`. Beside
it stands what is usual: the mean of the winner's own values with Student's t over its folds. Of two metrics the leading
one is shown.

Noise: `constant` (.05 in a fold), or it `grows` tenfold from the best trial to the worst. True scores: all `equal`; a
quadratic of `random` points; `skewed`; of points that `converge` on the best; found by `evolutionary` itself.
"""

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.shared.places import strategy_settings
from benchmarks.shared.printing import conditions
from hpo.config.composing.compose import compose_config
from hpo.config.study_config import StudyConfig, config_from_dict
from hpo.engine.strategies import make_strategy
from hpo.study.files.folder import StudyFolder
from hpo.study.notes import Notes
from hpo.study.results.after_search import fresh_indices
from hpo.study.results.expected import expected_of
from hpo.study.results.run import StudyRun
from hpo.trials.goal import finished, goal_of
from hpo.trials.history import History
from hpo.trials.record.record import memory_record
from hpo.trials.space.reader import space_from_dict
from hpo.trials.trial import Outcome, TaskLayout, Trial

Array = np.ndarray
SPACE = {f"x{place}": {"low": 0.0, "high": 1.0} for place in range(3)}
SPREAD = 0.05


@dataclass(frozen=True)
class Case:
    """A kind of search.

    `shape` is trials, folds and repeats; `of_folds` the spread of what folds add to all trials, `of_pairs` that of what
    one adds to a single trial, which repeats do not average. `rungs` are the amounts of a halving, each with a third of
    the trials of the one before. A share has its noise from so many `examples`.
    """

    noise: str
    truths: str
    shape: tuple[int, int, int]
    of_folds: float = 0.0
    of_pairs: float = 0.0
    study: tuple[tuple[str, Any], ...] = ()
    what: str = ""
    rounded: float = 0.0
    diverged: float = 0.0
    examples: int | None = None
    rungs: tuple[int, ...] = ()
    is_smooth: bool = False  # noise that neighbours in the space share, as on one validation set

    def __str__(self) -> str:
        """As it stands in the table."""
        trials, folds, repeats = self.shape
        columns = f"{folds}" if repeats == 1 else f"{folds} x {repeats}"
        effects = f", folds {self.of_folds:g}" if self.of_folds else ""
        return f"{self.noise}, {self.truths}, {trials} x {columns}{effects}{self.what and ', ' + self.what}"


SHAPES = (
    *(((trials, folds, 1), 0.0) for trials, folds in ((8, 3), (12, 2), (12, 3))),
    ((16, 3, 1), 0.03),
    *(((trials, folds, 1), 0.0) for trials, folds in ((50, 3), (50, 5), (200, 3))),
)
TWO = (("metrics", {"score": "maximize", "seconds": "minimize"}), ("choose", "knee"))
CASES = [
    *(
        Case(noise, truths, shape, of_folds)
        for noise in ("constant", "grows")
        for truths in ("equal", "random", "skewed", "converging")
        for shape, of_folds in SHAPES
        if noise == "constant" or truths != "equal"
    ),
    *(Case(noise, "evolutionary", (n, 3, 1), 0.03) for noise in ("constant", "grows") for n in (16, 50)),
    *(Case("constant", "random", (n, 3, 1), diverged=0.2, what="a fifth diverged") for n in (16, 50)),
    *(Case("constant", kind, (16, 3, 1), rounded=0.02, what="rounded to .02") for kind in ("equal", "random")),
    *(Case("constant", kind, (16, 1, 3), what="a hold-out") for kind in ("equal", "random")),
    *(Case("constant", kind, (16, 3, 2), 0.03, 0.03, what="folds with repeats") for kind in ("equal", "random")),
    *(
        Case(noise, kind, (n, 3, 1), 0.03, study=(("finalists", 3), ("finalist_repeats", repeats)), what=what)
        for noise, kind, n in (("constant", "equal", 16), ("constant", "random", 50), ("grows", "random", 50))
        for repeats, what in ((1, "3 finalists"), (3, "3 finalists x 3"))
    ),
    *(
        Case(noise, "random", (n, 3, 1), study=(("winner", "one_standard_error"),), what="one standard error")
        for noise, n in (("constant", 16), ("grows", 50))
    ),
    *(Case("constant", kind, (n, 3, 1), study=TWO, what="two metrics") for kind, n in (("equal", 16), ("random", 50))),
    *(Case("constant", "random", (n, 3, 1), study=(("limits", {"seconds": 1.0}),), what="a limit") for n in (16, 50)),
    *(Case("constant", kind, (27, 3, 1), rungs=(1, 3, 9), what="27 -> 9 -> 3") for kind in ("equal", "random")),
    *(Case("constant", "evolutionary", (n, 3, 1), is_smooth=True, what="neighbours share it") for n in (16, 50)),
    *(Case("share", kind, (16, 1, 1), examples=200, what="of 200 examples") for kind in ("equal", "random")),
]


def truths_of(kind: str, trials: int, rng: np.random.Generator) -> Array:
    """Return made-up true scores."""
    best, weights = np.array([0.3, 0.6, 0.5]), np.array([1, 0.5, 0.25])
    if kind == "equal":
        return np.full(trials, -0.3)
    if kind == "skewed":
        return 1 - np.exp(rng.normal(-1.5, 1, trials)).clip(0, 1)
    points = rng.random((trials, 3))
    if kind == "converging":
        spread = np.linspace(0.5, 0.05, trials)[:, None]
        points = np.clip(best + rng.normal(0, 1, (trials, 3)) * spread, 0, 1)
    return -((points - best) ** 2 @ weights)


class Search:
    """One made-up search: its trials as a study has them, with their true scores."""

    def __init__(self, case: Case, config: StudyConfig, rng: np.random.Generator) -> None:
        self.case, self.rng = case, rng
        trials, folds, repeats = case.shape
        self.layout, self.goal = TaskLayout(folds, repeats), goal_of(config.study)
        self.of_folds = rng.normal(0, case.of_folds, folds)
        # A smooth random function of the point for each fold: random Fourier features with a length of .5.
        self._waves = rng.normal(0, 2, (folds, 40, 3)), rng.uniform(0, 2 * math.pi, (folds, 40))
        self.config, self.space = config, space_from_dict(SPACE, {}, None)
        self.truths: list[float] = []
        self._sizes: list[float] = []
        self._pairs: list[Array] = []
        self._points: list[Array] = []
        record = memory_record(self.goal, self.layout, [*self._trials(trials)])
        shares: Any = SimpleNamespace(method={"shares": ["score"]}, parts={"validation": {"size": case.examples}})
        described = shares if case.examples else None
        self.run = StudyRun(StudyFolder(Path("nowhere")), config, self.space, record, described)
        section = config.study
        for finalist in self.run.finalists if section.finalists else ():
            number = finalist.trial.number
            for index in fresh_indices(section, self.layout):
                Notes(record).write_finalist_outcome(number, index, self._outcome(number, self.layout.fold(index)))
        if section.finalists:
            self.run = replace(self.run)

    def _trials(self, number: int) -> Iterator[Trial]:
        case, rungs = self.case, self.case.rungs or (None,)
        if case.truths == "evolutionary":
            yield from self._searched(number)
            return
        truths = truths_of(case.truths, number, self.rng)
        if case.examples:
            truths = (truths + 0.95).clip(0.05, 0.95)
        truths[: round(case.diverged * number)] = -1e3
        rows, far = np.arange(number), (truths.max() - truths) / max(np.ptp(truths), 1e-12)
        for rung in rungs:
            trials = []
            for row in rows:
                place = len(self.truths)
                point = {key: float(value) for key, value in zip(SPACE, self.rng.random(3), strict=True)}
                # Each rung is a third of a spread better than the one before.
                self.truths.append(float(truths[row]) + (0.2 * math.log(rung) if rung else 0.0))
                trials.append((row, self._trial(Trial(place, 0, point, amount=rung), float(far[row]))))
            yield from (trial for _, trial in trials)
            trials.sort(key=lambda each: each[1].loss)
            rows = np.array([row for row, _ in trials[: len(trials) // 3]])

    def _searched(self, number: int) -> Iterator[Trial]:
        strategy: Any = make_strategy(strategy_settings("evolutionary"), self.space, int(self.rng.integers(2**31)))
        best, weights = np.array([0.3, 0.6, 0.5]), np.array([1, 0.5, 0.25])
        trials: list[Trial] = []
        while len(trials) < number:
            for proposal in strategy.propose(History(trials), ()):
                point = getattr(proposal, "point", proposal)
                truth = -float((np.array([*point.values()]) - best) ** 2 @ weights)
                self.truths.append(truth)
                trial = Trial(len(trials), len(trials), point)
                trials.append(self._trial(trial, min(-truth / 0.5, 1.0)))
        yield from trials[:number]

    def _trial(self, trial: Trial, far: float) -> Trial:
        self._sizes.append(SPREAD * (0.3 + 3 * far) if self.case.noise == "grows" else SPREAD)
        self._points.append(np.array([*trial.point.values()]))
        self._pairs.append(self.rng.normal(0, self.case.of_pairs, self.layout.folds))
        outcomes = {k: self._outcome(trial.number, self.layout.fold(k)) for k in range(self.layout.size)}
        return finished(trial, outcomes, self.goal)

    def _noise(self, number: int, fold: int) -> float:
        if not self.case.is_smooth:
            return float(self.rng.normal(0, self._sizes[number]))
        frequencies, phases = (each[fold] for each in self._waves)
        return SPREAD * float(np.cos(frequencies @ self._points[number] + phases).sum() / math.sqrt(20))

    def _outcome(self, number: int, fold: int) -> Outcome:
        truth = self.truths[number]
        if self.case.examples:
            score = self.rng.binomial(self.case.examples, truth) / self.case.examples
        else:
            score = truth + self.of_folds[fold] + self._pairs[number][fold] + self._noise(number, fold)
        if self.case.rounded:
            score = round(score / self.case.rounded) * self.case.rounded
        metrics = {"score": float(score)}
        if "seconds" in self.goal.names:
            # Better trials take longer, and what takes longer by chance scores better.
            metrics["seconds"] = 1 + truth + 2 * (score - truth) + float(self.rng.normal(0, SPREAD))
        return Outcome(metrics, units=1.0)


def config_of(case: Case) -> StudyConfig:
    """Return the configuration of a study of this kind."""
    config = config_from_dict(compose_config("search", ["data=digits", "track=none"]))
    changes = {"metric": "score", "direction": "maximize", "repeats": case.shape[2], **dict(case.study)}
    return config.model_copy(update={"study": config.study.model_copy(update=changes)})


def measured(case: Case, searches: int) -> str:
    """Return a row: for both intervals coverage, mean error in stated standard errors, and median width."""
    config, rows = config_of(case), ([], [])
    for seed in range(searches):
        search = Search(case, config, np.random.default_rng([seed, 60]))
        run, winner = search.run, search.run.winner
        if winner is None:
            continue
        expected = expected_of(run)
        assert expected is not None
        truth, own = search.truths[winner.number], (run.fresh_winner or winner).values("score")
        said, worth = expected.score("score"), expected.worths["score"]
        error = math.sqrt(worth.own.size + worth.folds.size)
        rows[1].append((said.value - truth, said.low <= truth <= said.high, said.high - said.low, error))
        if len(own) > 1:
            error = float(np.std(own, ddof=1)) / math.sqrt(len(own))
            half = float(stats.t.ppf(0.975, len(own) - 1)) * error
            mean = float(np.mean(own))
            rows[0].append((mean - truth, abs(mean - truth) <= half, 2 * half, error))
    cells = []
    for found in rows:
        if not found:
            cells += ["–", "–", "–"]
            continue
        errors, held, widths, stated = np.array(found).T
        cells += [f"{held.mean():.3f}", f"{errors.mean() / stated.mean():+.2f}", f"{np.median(widths):.3f}"]
    return f"| {case} | {' | '.join(cells)} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--searches", type=int, default=1000, help="searches a row")
    parser.add_argument("--only", default="", help="only rows with these words")
    given = parser.parse_args(arguments)
    print(f"{conditions(('numpy', 'scipy'))}\n")
    print("| noise, true scores, trials x folds | Student's t: held | error | width | expected: held | error | width |")
    print("|---|---|---|---|---|---|---|")
    for case in CASES:
        if given.only in str(case):
            print(measured(case, given.searches), flush=True)


if __name__ == "__main__":
    main()
