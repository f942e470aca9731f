"""The result of a comparison of studies that exist, one search each: one sentence per pair, and their curves."""

import itertools
import statistics
from collections.abc import Callable, Iterator, Sequence

from hpo.compare.result import Budget, Measure, as_json
from hpo.compare.studies import FinishedStudy
from hpo.engine.trials.digits import score_format
from hpo.report.analysis.interval import interval
from hpo.report.comparison import ComparisonJson, FoldPair
from hpo.report.part import is_missing
from hpo.report.words import join_names

# All pairs of more would be more sentences than anybody reads.
_MOST_FOR_ALL_PAIRS = 4
_ONE_EACH = (
    "One search each does not compare strategies: the next seed may reverse the order. To compare strategies, "
    "repeat whole searches: hpo compare --strategies A,B --repeats 30."
)
_TOO_NARROW = "An interval over folds is too narrow: they share training examples, and the winners were chosen on them."


def compare_studies(
    name: str, studies: Sequence[FinishedStudy], budgets: Sequence[Budget], optimum: float | None
) -> ComparisonJson:
    """Return the content of comparison.json for studies that exist."""
    study = studies[0].config.study
    measure = Measure(study.metric, study.direction, optimum)
    groups = _comparable(studies)
    apart = {study.label for group in groups[1:] for study in group}
    # Scores on other data have no place among these.
    searches = {study.label: [study.search] for study in studies if study.label not in apart}
    pairs = [
        _pair(one, other, measure)
        for group in groups
        for one, other in _pairs(group, measure, are_all=len(studies) <= _MOST_FOR_ALL_PAIRS)
    ]
    written = score_format(_score(study) for group in groups for study in group)
    too_narrow = [_TOO_NARROW] if any(pair["interval"] for pair in pairs) else []
    settings = {study.label: study.config.strategy for study in studies}
    method = {"interval": "Student's, of the mean of the paired differences of the winners; each pair by itself"}
    notes = [*too_narrow, _ONE_EACH, *_differences(studies)]
    return {
        **as_json("studies", name, searches, measure, budgets, settings, method, notes),
        "winners": [{"label": s.label, "trial": s.winner, "folds": dict(s.folds)} for s in studies],
        "folds": pairs,
        "answers": [*(_sentence(pair, written) for pair in pairs), *_not_compared(studies, groups)],
    }


def _comparable(studies: Sequence[FinishedStudy]) -> list[list[FinishedStudy]]:
    """Return the studies in groups whose winners were scored on the same folds of the same data."""
    groups: list[list[FinishedStudy]] = []
    for study in (study for study in studies if study.folds):
        same = (g for g in groups if g[0].data == study.data and g[0].folds.keys() == study.folds.keys())
        if (group := next(same, None)) is None:
            groups.append(group := [])
        group.append(study)
    return groups


def _pairs(
    group: Sequence[FinishedStudy], measure: Measure, are_all: bool
) -> Iterator[tuple[FinishedStudy, FinishedStudy]]:
    if are_all:
        yield from itertools.combinations(group, 2)
        return
    best = min(group, key=lambda study: measure.sign * _score(study))
    yield from ((study, best) for study in group if study is not best)


def _pair(one: FinishedStudy, other: FinishedStudy, measure: Measure) -> FoldPair:
    by_fold = {fold: measure.sign * (score - other.folds[fold]) for fold, score in one.folds.items()}
    ends = interval(list(by_fold.values()))
    return {
        "a": one.label,
        "b": other.label,
        "by_fold": by_fold,
        "mean_difference": statistics.fmean(by_fold.values()),
        "interval": None if is_missing(ends) else ends,
    }


def _sentence(pair: FoldPair, written: Callable[[float], str]) -> str:
    """Return which of the two is better, and by how much in the metric's unit."""
    gain, ends = pair["mean_difference"], pair["interval"]
    better, other = (pair["b"], pair["a"]) if gain >= 0 else (pair["a"], pair["b"])
    says = f"{better} is {written(abs(gain))} better than {other}" if gain else f"{better} is as good as {other}"
    if ends is None:
        return f"{says} (one score each, no interval)"
    low, high = ends if gain >= 0 else (-ends[1], -ends[0])
    over = "folds and seeds" if any("repeat" in name for name in pair["by_fold"]) else "folds"
    chance = ": may be chance" if low <= 0 <= high and gain else ""
    return f"{says} (95 % {written(low)} to {written(high)}, {len(pair['by_fold'])} {over}){chance}"


def _not_compared(studies: Sequence[FinishedStudy], groups: Sequence[Sequence[FinishedStudy]]) -> Iterator[str]:
    yield from (f"{study.label} has no complete trial: not compared" for study in studies if not study.folds)
    for place, group in enumerate(groups[1:], start=1):
        first, earlier = groups[0][0].data, [study.label for others in groups[:place] for study in others]
        on = "folds" if first["examples"] == group[0].data["examples"] else "data"
        who = join_names([study.label for study in group])
        was = "was" if len(group) == 1 else "were"
        yield f"{who} {was} scored on other {on} than {join_names(earlier)}: not compared"


def _score(study: FinishedStudy) -> float:
    """Return the score of the study's winner."""
    return statistics.fmean(study.folds.values())


def _differences(studies: Sequence[FinishedStudy]) -> list[str]:
    """Return one warning per difference that makes the comparison unequal."""
    first, warnings = studies[0], []
    for study in studies[1:]:
        both = f"{first.label} and {study.label}"
        if first.config.objective != study.config.objective:
            warnings.append(f"{both} have different objectives.")
        if first.budget != study.budget:
            warnings.append(f"{both} have different budgets: {first.budget} and {study.budget} configurations.")
    return warnings
