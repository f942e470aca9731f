"""Studies that exist, one search each, read from their folders: one sentence per pair, and their curves or fronts."""

import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from hpo.compare.curves import FinishedSearch, all_searches
from hpo.compare.hypervolume import NAME
from hpo.compare.result import ONE_EACH, Budget, Measure, as_json, notes_on_measure
from hpo.config.study_config import StudyConfig
from hpo.errors import StudyError
from hpo.report.comparison import ComparisonJson, FoldPair, WinnerOf
from hpo.report.formatting import join_names
from hpo.report.subject import score_of
from hpo.study.basis.units import Units, varied_keys
from hpo.study.files.folder import StudyFolder, find_study, inner
from hpo.study.results.expected import expected_of, gain
from hpo.study.results.optimism import Worth
from hpo.study.results.run import StudyRun
from hpo.trials.goal import Goal
from hpo.trials.score_format import score_format
from hpo.trials.trial import Trial

# All pairs of more would be more sentences than anybody reads.
_MOST_FOR_ALL_PAIRS = 4
_REPEAT = "To compare strategies, repeat whole searches: hpo compare --strategies A,B --repeats 30."
_TOO_NARROW = "An interval over folds is too narrow, since they share training examples."


@dataclass(frozen=True)
class FinishedStudy:
    """A study whose search is compared.

    Attributes:
        run: the study with its record.
        search: losses and seconds of its trials.
        data: `examples` and `split`, each equal for two studies that were scored on the same ones.
        units: what its metrics are counted in.
    """

    run: StudyRun
    search: FinishedSearch
    data: Mapping[str, Any]
    units: Units

    @property
    def label(self) -> str:
        """The study's name."""
        return self.search.label

    @property
    def config(self) -> StudyConfig:
        """Its frozen configuration."""
        return self.run.config

    @property
    def goal(self) -> Goal:
        """Its metrics and limits."""
        return self.run.goal

    @cached_property
    def folds(self) -> dict[str, float]:
        """The winner's (leading) score per fold in the search, by the fold's name; empty without a winner."""
        outcomes = self.run.winner.outcomes if self.run.winner else {}
        return {self.run.layout.name(index): each.metrics[self.goal.metric] for index, each in sorted(outcomes.items())}

    @property
    def score(self) -> float:
        """The winner's; of a study that has one."""
        return statistics.fmean(self.folds.values())

    @cached_property
    def worth(self) -> Worth | None:
        """What its winner is expected to have of the (leading) metric; None where that is not known."""
        expected = expected_of(self.run)
        return None if expected is None else expected.worths[self.goal.metric]

    @property
    def budget(self) -> int:
        """The number of configurations that were tried, each once, however far it was trained."""
        trials = self.run.trials
        is_by_amount = any(trial.amount is not None for trial in trials)
        return len({trial.key for trial in trials}) if is_by_amount else len(trials)

    @cached_property
    def space(self) -> dict[str, Any]:
        """What was searched, each hyperparameter's values by its key; where a search starts is none of them."""
        return {d["key"]: {k: v for k, v in d.items() if k != "default"} for d in self.run.space.to_dict()}


def read_studies(references: Sequence[str]) -> list[FinishedStudy]:
    """Return the studies with these names under runs/, or in these folders; StudyError if they cannot be compared."""
    if len(references) < 2:
        given = ", ".join(references) or "none"
        raise StudyError(f"studies: must be two or more, given {given}; or give --strategies to compare strategies")
    studies = [_read(find_study(reference)) for reference in references]
    first = studies[0]
    for place, study in enumerate(studies):
        if any(study.label == other.label for other in studies[:place]):
            raise StudyError(f"STUDY: two studies are called '{study.label}'; give different ones")
        metrics = [list(one.goal.metrics.items()) for one in (first, study)]
        if metrics[0] != metrics[1] and max(map(len, metrics)) > 1:
            raise StudyError(
                f"study.metrics: must be the same in all studies, in the same order, given {_named(first)} in "
                f"{first.label} and {_named(study)} in {study.label}; their fronts cannot be compared"
            )
        for key in ("metric", "direction"):
            ours, its = getattr(first.config.study, key), getattr(study.config.study, key)
            if ours != its:
                raise StudyError(
                    f"study.{key}: must be the same in all studies, given {ours} in {first.label} and {its} in "
                    f"{study.label}; their scores cannot be compared"
                )
    _refuse_other_units(studies)
    return studies


def _named(study: FinishedStudy) -> str:
    return ", ".join(f"{name}: {direction}" for name, direction in study.goal.metrics.items())


def _refuse_other_units(studies: Sequence[FinishedStudy]) -> None:
    """Raise StudyError where the metric is counted in something else in two studies, or in two trials of one."""
    first = studies[0]
    for metric, study in itertools.product(first.goal.metrics, studies):
        unit, varied = study.units[metric], varied_keys(study.config)
        if changed := unit.changed_by(varied):
            raise StudyError(
                f"study.metric: {metric} is counted in {unit.unit}, and {', '.join(changed)}, which is searched in "
                f"{study.label}, changes those: its scores do not compare{_would(study.units.unchanged_by(varied))}"
            )
        for key, (ours, its) in first.units.differences(metric, study.units).items():
            raise StudyError(
                f"study.metric: {metric} is counted in {unit.unit}, and {key}, which is {ours!r} in {first.label} and "
                f"{its!r} in {study.label}, changes those: their scores do not compare"
                f"{_would(first.units.same_as(study.units))}"
            )


def _would(metrics: Sequence[str]) -> str:
    return f"; those of {', '.join(metrics)} would" if metrics else ""


def _read(folder: StudyFolder) -> FinishedStudy:
    run, report = StudyRun.read(folder), folder.report()
    config, goal = run.config, run.goal
    # Those that were trained to their end after the search come after it.
    later = {str(number) for number in inner(report, "counts").get("further_trained") or ()}
    later |= {str(trial.number) for trial in run.further}
    trials = sorted(run.trials, key=lambda trial: str(trial.number) in later)
    most = max((trial.amount or 0 for trial in trials), default=0)

    def counts(trial: Trial) -> bool:
        # A trial that was trained for less, or at a smaller scale, does not compare with one trained to the end.
        return trial.state == "complete" and (trial.amount or 0) == most and trial.scale == goal.target

    has_scales = config.study.scales is not None
    search = FinishedSearch.of(config.study.name, 0, config.study.seed, trials, goal, has_scales, counts)
    return FinishedStudy(run, search, _data(report, config), Units.at(folder, config))


def _data(report: Mapping[str, Any], config: StudyConfig) -> dict[str, Any]:
    """Return the fingerprints of the split's parts; without a split, the objective's settings and files of its data."""
    described = inner(report, "data")
    split = inner(described, "split")
    parts = {part: figures.get("fingerprint") for part, figures in split.get("parts", {}).items()}
    if parts:
        folds = {"folds": split.get("folds"), "kind": split.get("kind"), "seed": config.split.seed}
        return {"examples": parts, "split": folds}
    data, files = config.objective_config.get("data"), described.get("files")
    if isinstance(data, Mapping) and "path" in data and isinstance(files, list):
        # A file that was moved holds the same data, one that was written anew does not.
        data = {**data, "path": [file["sha256"] for file in files]}
    return {"examples": data, "split": config.split.model_dump()}


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
    measure = Measure.of(goal, all_searches(searches), None, optimum)
    measured = {label: [measure.measured(search) for search in those] for label, those in searches.items()}
    are_all = len(studies) <= _MOST_FOR_ALL_PAIRS
    method = {}
    if measure.yardstick is None:
        method = {"interval": "of the difference of what the winners are expected to score; each pair by itself"}
        pairs = [pair for group in groups for pair in _fold_pairs(group, measure, are_all)]
        written = score_format(study.score for group in groups for study in group)
        says = [_sentence(pair, measured, budgets[0], written) for pair in pairs]
    else:
        pairs = [pair for group in groups for pair in _front_pairs(group, goal, budgets[0], are_all)]
        written = score_format(search.best_at(*budgets[0]) for (search,) in measured.values())
        says = [_front_sentence(pair, written, budgets[0]) for pair in pairs]
    settings = {study.label: study.config.strategy for study in studies}
    notes = [_TOO_NARROW] if any(pair["interval"] for pair in pairs) else []
    notes += [
        f"{ONE_EACH} {_REPEAT}",
        *_on_fresh_seeds(studies),
        *_on_scales(studies),
        *_differences(studies),
        *notes_on_measure(searches, measure),
    ]
    if all(study.config.track.name == "mlflow" for study in studies):
        notes.append(f"In MLflow, side by side: hpo ui {' '.join(study.label for study in studies)}")
    return {
        **as_json("studies", name, searches, measured, measure, budgets, settings, method, notes),
        "winners": [_winner(study) for study in studies],
        "folds": pairs,
        "answers": [*says, *_not_compared(studies, groups)],
    }


def _winner(study: FinishedStudy) -> WinnerOf:
    winner = study.run.winner
    told: WinnerOf = {"label": study.label, "trial": winner.number if winner else None, "folds": dict(study.folds)}
    if study.run.fresh_winner is not None:
        told["fresh"] = score_of(study.run.fresh_winner)
    if not study.goal.is_single:
        told["values"] = {name: winner.mean(name) for name in study.goal.names} if winner else {}
    return told


def _on_fresh_seeds(studies: Sequence[FinishedStudy]) -> Iterator[str]:
    """Yield for each study whose winner fresh seeds chose its score there, and which one is compared."""
    are_expected = all(study.worth for study in studies)
    for study in studies:
        if (fresh := study.run.fresh_winner) is not None:
            text = score_format([score_of(fresh), study.score])
            compared = "" if are_expected else f"; compared is its {text(study.score)} in the search"
            yield (
                f"{study.label}: fresh seeds chose trial {fresh.number}, {study.goal.metric} {text(score_of(fresh))} "
                f"on them{compared}"
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
    group: Sequence[FinishedStudy], loss: Callable[[FinishedStudy], float], are_all: bool
) -> Iterable[tuple[FinishedStudy, FinishedStudy]]:
    """Return all pairs, or each study with the best."""
    if are_all:
        return itertools.combinations(group, 2)
    best = min(group, key=loss)
    return ((study, best) for study in group if study is not best)


def _fold_pairs(group: Sequence[FinishedStudy], measure: Measure, are_all: bool) -> Iterator[FoldPair]:
    """Yield by how much the winners of a group's studies differ on each fold, and in what is expected of them."""
    for one, other in _pairs(group, lambda study: measure.sign * study.score, are_all):
        by_fold = {fold: measure.sign * (score - other.folds[fold]) for fold, score in one.folds.items()}
        mean, ends = statistics.fmean(by_fold.values()), None
        if one.worth is not None and other.worth is not None:
            mean, *ends = gain(other.worth, one.worth)
        yield {"a": one.label, "b": other.label, "by_fold": by_fold, "mean_difference": mean, "interval": ends}


def _front_pairs(group: Sequence[FinishedStudy], goal: Goal, budget: Budget, are_all: bool) -> Iterator[FoldPair]:
    """Yield by how much the fronts of a group's studies differ at a budget, in hypervolume regret."""
    measure = Measure.of(goal, [study.search for study in group])
    regrets = {study.label: measure.measured(study.search).best_at(*budget) for study in group}
    for one, other in _pairs(group, lambda study: regrets[study.label], are_all):
        gain = regrets[one.label] - regrets[other.label]
        yield {"a": one.label, "b": other.label, "by_fold": {}, "mean_difference": gain, "interval": None}


def _better(pair: FoldPair, written: Callable[[float], str]) -> tuple[str, str, str]:
    """Return the better of two studies, the other, and this in words."""
    gain = pair["mean_difference"]
    better, other = (pair["b"], pair["a"]) if gain >= 0 else (pair["a"], pair["b"])
    by_how_much = f"{written(abs(gain))} better than" if gain else "as good as"
    return better, other, f"{better} is {by_how_much} {other}"


def _front_sentence(pair: FoldPair, written: Callable[[float], str], budget: Budget) -> str:
    """Return which of two fronts is better, and by how much."""
    when = f"after {budget}; " if pair["mean_difference"] else ""
    return f"{_better(pair, written)[2]} in {NAME} ({when}one search each, no interval)"


def _sentence(
    pair: FoldPair,
    searches: Mapping[str, Sequence[FinishedSearch]],
    budget: Budget,
    written: Callable[[float], str],
) -> str:
    """Return whose winner is better, and by how much in the metric's unit; of unequal budgets also at the shorter."""
    gain, ends = pair["mean_difference"], pair["interval"]
    better, other, says = _better(pair, written)
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
