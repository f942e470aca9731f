"""Studies that exist, one search each: one sentence per pair, and their curves or fronts."""

import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from hpo.compare.curves import FinishedSearch
from hpo.compare.finished_study import FinishedStudy
from hpo.compare.hypervolume import NAME
from hpo.compare.result import Budget, Measure, as_json, notes_on_limits, with_fronts
from hpo.report.comparison import ComparisonJson, FoldPair, WinnerOf
from hpo.report.part import is_missing
from hpo.report.sections.scores import interval
from hpo.report.words import join_names
from hpo.trials.goal import Goal
from hpo.trials.score_format import score_format

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
    # With different limits each trial keeps those of its own study, and no one of them is said of all.
    goal, have_same = studies[0].goal, all(study.goal.limits == studies[0].goal.limits for study in studies)
    goal = goal if have_same else replace(goal, limits=())
    groups = _comparable(studies)
    apart = {study.label for group in groups[1:] for study in group}
    # Scores on other data have no place among these.
    searches = {study.label: [study.search] for study in studies if study.label not in apart}
    measure = Measure.of(goal, [search for those in searches.values() for search in those], None, optimum)
    measured = {label: [measure.measured(search) for search in those] for label, those in searches.items()}
    are_all = len(studies) <= _MOST_FOR_ALL_PAIRS
    if measure.yardstick is None:
        pairs = [_pair(*pair, measure) for group in groups for pair in _pairs(group, measure, are_all)]
        written = score_format(study.score for group in groups for study in group)
        says = [_sentence(pair, measured, budgets[0], written) for pair in pairs]
    else:
        pairs = [pair for group in groups for pair in _front_pairs(group, goal, budgets[0], are_all)]
        written = score_format(search.best_at(*budgets[0]) for (search,) in measured.values())
        says = [_front_sentence(pair, written, budgets[0]) for pair in pairs]
    settings = {study.label: study.config.strategy for study in studies}
    method = {"interval": "Student's, of the mean of the paired differences of the winners; each pair by itself"}
    if measure.yardstick is not None:
        method = {}
    notes = [_TOO_NARROW] if any(pair["interval"] for pair in pairs) else []
    notes += [
        _ONE_EACH,
        *_on_fresh_seeds(studies),
        *_on_scales(studies),
        *_differences(studies),
        *notes_on_limits(searches, measure),
    ]
    notes += measure.yardstick.notes() if measure.yardstick else []
    if all(study.config.track.name == "mlflow" for study in studies):
        notes.append(f"In MLflow, side by side: hpo ui {' '.join(study.label for study in studies)}")
    content = as_json("studies", name, measured, measure, budgets, settings, method, notes)
    return {
        **with_fronts(content, searches, measure),
        "winners": [_winner(study) for study in studies],
        "folds": pairs,
        "answers": [*says, *_not_compared(studies, groups)],
    }


def _winner(study: FinishedStudy) -> WinnerOf:
    winner: WinnerOf = {"label": study.label, "trial": study.winner, "folds": dict(study.folds)}
    if study.fresh is not None:
        winner["fresh"] = study.fresh
    return winner if study.goal.is_single else {**winner, "values": dict(study.values)}


def _on_fresh_seeds(studies: Sequence[FinishedStudy]) -> Iterator[str]:
    """Yield for each study whose winner fresh seeds chose its score there, which is not the one compared."""
    for study in studies:
        if study.fresh is not None:
            text = score_format([study.fresh, study.score])
            yield (
                f"{study.label}: fresh seeds chose trial {study.winner}, {study.goal.metric} {text(study.fresh)} on "
                f"them; compared is its {text(study.score)} in the search"
            )


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
) -> Iterable[tuple[FinishedStudy, FinishedStudy]]:
    """Return all pairs, or each study with the best."""
    if are_all:
        return itertools.combinations(group, 2)
    best = min(group, key=lambda study: measure.sign * study.score)
    return ((study, best) for study in group if study is not best)


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


def _front_pairs(group: Sequence[FinishedStudy], goal: Goal, budget: Budget, are_all: bool) -> Iterator[FoldPair]:
    """Yield by how much the fronts of a group's studies differ at a budget, in hypervolume regret."""
    measure = Measure.of(goal, [study.search for study in group])
    regrets = {study.label: measure.measured(study.search).best_at(*budget) for study in group}
    best = min(group, key=lambda study: regrets[study.label])
    pairs = itertools.combinations(group, 2) if are_all else ((study, best) for study in group if study is not best)
    for one, other in pairs:
        gain = regrets[one.label] - regrets[other.label]
        yield {"a": one.label, "b": other.label, "by_fold": {}, "mean_difference": gain, "interval": None}


def _front_sentence(pair: FoldPair, written: Callable[[float], str], budget: Budget) -> str:
    """Return which of two fronts is better, and by how much."""
    gain = pair["mean_difference"]
    better, other = (pair["b"], pair["a"]) if gain >= 0 else (pair["a"], pair["b"])
    if not gain:
        return f"{better} is as good as {other} in {NAME} (one search each, no interval)"
    return (
        f"{better} is {written(abs(gain))} better than {other} in {NAME} (after {budget}; one search each, no interval)"
    )


def _sentence(
    pair: FoldPair,
    searches: Mapping[str, Sequence[FinishedSearch]],
    budget: Budget,
    written: Callable[[float], str],
) -> str:
    """Return whose winner is better, and by how much in the metric's unit; of unequal budgets also at the shorter."""
    gain, ends = pair["mean_difference"], pair["interval"]
    better, other = (pair["b"], pair["a"]) if gain >= 0 else (pair["a"], pair["b"])
    says = f"{better} is {written(abs(gain))} better than {other}" if gain else f"{better} is as good as {other}"
    detail, chance = "one score each, no interval", ""
    if ends is not None:
        low, high = ends if gain >= 0 else (-ends[1], -ends[0])
        over = "folds and seeds" if any("repeat" in name for name in pair["by_fold"]) else "folds"
        chance = ": may be chance" if low <= 0 <= high and gain else ""
        detail = f"95 % {written(low)} to {written(high)}, {len(pair['by_fold'])} {over}"
    one, two = (searches[label][0] for label in (better, other))
    if len(one.losses) == len(two.losses):
        return f"{says} ({detail}){chance}"
    of = f"by their winners, of {len(one.losses)} and {len(two.losses)} trials"
    lead = two.best_at(*budget) - one.best_at(*budget)
    if not math.isfinite(lead):
        return f"{says} {of} ({detail}){chance}"
    first = better if lead >= 0 else other
    at_equal = f"{first} is {written(abs(lead))} better" if lead else "both are as good"
    return f"{says} {of} ({detail}){chance}; after {budget} each {at_equal}"


def _not_compared(studies: Sequence[FinishedStudy], groups: Sequence[Sequence[FinishedStudy]]) -> Iterator[str]:
    within = " within the limits" if studies[0].goal.limits else ""
    for study in studies:
        if not study.folds:
            at = " at its target" if study.config.study.scales is not None else within
            yield f"{study.label} has no complete trial{at}: not compared"
    for place, group in enumerate(groups[1:], start=1):
        first, earlier = groups[0][0].data, [study.label for others in groups[:place] for study in others]
        on = "folds" if first["examples"] == group[0].data["examples"] else "data"
        who = join_names([study.label for study in group])
        was = "was" if len(group) == 1 else "were"
        yield f"{who} {was} scored on other {on} than {join_names(earlier)}: not compared"


def _on_scales(studies: Sequence[FinishedStudy]) -> Iterator[str]:
    """Yield what counts of studies with scales."""
    for study in studies:
        if (scales := study.config.study.scales) is not None:
            done, total = study.search.keeps_limits.sum(), len(study.search.losses)
            yield (
                f"{study.label} has {len(scales)} scales: only the scores at the target count, of {done} of its "
                f"{total} trials, but the seconds of all of them."
            )


def _differences(studies: Sequence[FinishedStudy]) -> Iterator[str]:
    """Yield what makes the comparison unequal."""
    first = studies[0]
    for study in studies[1:]:
        both = f"{first.label} and {study.label}"
        if first.config.objective != study.config.objective:
            yield f"{both} have different objectives."
        if first.search.is_partial or study.search.is_partial:
            seconds = f"{first.search.total_seconds:,.3g} and {study.search.total_seconds:,.3g} seconds of training"
            yield f"{both} have different budgets: {seconds}."
        elif first.budget != study.budget:
            yield f"{both} have different budgets: {first.budget} and {study.budget} configurations."
        if (others := _other_space(first, study)) is not None:
            yield f"{both} search different spaces: {others}."
        if first.goal.limits != study.goal.limits:
            yield f"{both} have different limits: each trial has to keep those of its own study."


def _other_space(one: FinishedStudy, other: FinishedStudy) -> str | None:
    """Return which hyperparameters have other values in two studies, or are searched in one of them alone."""
    shared = one.space.keys() & other.space.keys()
    changed = [key for key in one.space if key in shared and one.space[key] != other.space[key]]
    says = [f"{join_names(changed)} {'has' if len(changed) == 1 else 'have'} other values"] if changed else []
    alone = {study.label: [key for key in study.space if key not in shared] for study in (one, other)}
    says += [f"{join_names(keys)} only in {label}" for label, keys in alone.items() if keys]
    return "; ".join(says) or None
