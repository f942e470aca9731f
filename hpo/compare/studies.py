"""Compares existing studies: describes pairs of studies in sentences; computes the data of curves or Pareto fronts."""

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
from hpo.report.sections.winner import over_text
from hpo.report.subject import score_of
from hpo.study.basis.units import Units, varied_keys
from hpo.study.files.folder import StudyFolder, find_study, inner
from hpo.study.results.expected import expected_of, gain
from hpo.study.results.optimism import Worth
from hpo.study.results.run import StudyRun
from hpo.trials.goal import Goal
from hpo.trials.score_format import score_format
from hpo.trials.trial import Trial

# If there are more studies than this, each is compared only with the best study, to limit the number of sentences.
_MAX_FOR_ALL_PAIRS = 4
_REPEAT = "To compare strategies, repeat whole searches: `hpo compare --strategies A,B --repeats 30`."
_TOO_NARROW = "An interval over folds is too narrow, because folds share training examples."


@dataclass(frozen=True)
class FinishedStudy:
    """A study to compare.

    Attributes:
        run: the study with its record.
        search: the losses and seconds of the study's trials.
        data: what identifies the data; two studies with equal values used the same examples (key `examples`) and the
            same split (key `split`).
        units: the units of the study's metrics.
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
        """The study's frozen configuration."""
        return self.run.config

    @property
    def goal(self) -> Goal:
        """The study's metrics and limits."""
        return self.run.goal

    @cached_property
    def folds(self) -> dict[str, float]:
        """The winner's scores in the search, by fold: `fold_0`, or `fold_0_repeat_1` with repeats.

        The dict is empty if the study has no winner. With several metrics, each score is that of the leading metric.
        """
        outcomes = self.run.winner.outcomes if self.run.winner else {}
        return {self.run.layout.name(index): each.metrics[self.goal.metric] for index, each in sorted(outcomes.items())}

    @property
    def score(self) -> float:
        """The winner's mean score over folds and repeats; the study must have a winner."""
        return statistics.fmean(self.folds.values())

    @cached_property
    def worth(self) -> Worth | None:
        """The expectation of the winner's score in the leading metric, as a loss; None if it is not known."""
        expected = expected_of(self.run)
        return None if expected is None else expected.worths[self.goal.metric]

    @property
    def budget(self) -> int:
        """The number of trials that are not retries; if trials have amounts, the number of their different points.

        With amounts, a point may have several trials.
        """
        trials = [trial for trial in self.run.trials if trial.retry_of is None]
        is_by_amount = any(trial.amount is not None for trial in trials)
        return len({trial.key for trial in trials}) if is_by_amount else len(trials)

    @cached_property
    def space(self) -> dict[str, Any]:
        """For each key of the search space, the description of the hyperparameter without its default."""
        return {d["key"]: {k: v for k, v in d.items() if k != "default"} for d in self.run.space.to_dict()}


def read_studies(references: Sequence[str]) -> list[FinishedStudy]:
    """Read studies, given as names under runs/ or as folders; raise StudyError if the studies cannot be compared."""
    if len(references) < 2:
        given = ", ".join(references) or "none"
        raise StudyError(
            f"studies: must be two or more, given {given}; give another study, or compare strategies "
            f"(`hpo compare --strategies`)"
        )
    studies = [_read(find_study(reference)) for reference in references]
    first = studies[0]
    for place, study in enumerate(studies):
        if any(study.label == other.label for other in studies[:place]):
            raise StudyError(f"STUDY: the studies must have different names, given '{study.label}' twice")
        metrics = [list(one.goal.metrics.items()) for one in (first, study)]
        if metrics[0] != metrics[1] and max(map(len, metrics)) > 1:
            raise StudyError(
                f"study.metrics: must be the same in all studies, in the same order, given {_named(first)} in "
                f"{first.label} and {_named(study)} in {study.label}; compare only studies with the same metrics"
            )
        for key in ("metric", "direction"):
            one, other = getattr(first.config.study, key), getattr(study.config.study, key)
            if one != other:
                raise StudyError(
                    f"study.{key}: must be the same in all studies, given {one} in {first.label} and {other} in "
                    f"{study.label}; compare only studies with the same {key}"
                )
    _refuse_other_units(studies)
    return studies


def _named(study: FinishedStudy) -> str:
    return ", ".join(f"{name}: {direction}" for name, direction in study.goal.metrics.items())


def _refuse_other_units(studies: Sequence[FinishedStudy]) -> None:
    """Raise StudyError if the unit of a metric differs between two studies, or between trials of a study."""
    first = studies[0]
    for metric, study in itertools.product(first.goal.metrics, studies):
        unit, varied = study.units[metric], varied_keys(study.config)
        if changed := unit.changed_by(varied):
            raise StudyError(
                f"study.metric: scores of {metric} in {study.label} cannot be compared, because {study.label} searches "
                f"{', '.join(changed)}, on which the unit of {metric} ({unit.unit}) depends"
                f"{_comparable_metrics(study.units.unchanged_by(varied))}"
            )
        for key, (one, other) in first.units.differences(metric, study.units).items():
            raise StudyError(
                f"study.metric: scores of {metric} cannot be compared, because the unit of {metric} ({unit.unit}) "
                f"depends on {key}, which is {one!r} in {first.label} and {other!r} in {study.label}"
                f"{_comparable_metrics(first.units.same_as(study.units))}"
            )


def _comparable_metrics(metrics: Sequence[str]) -> str:
    return f"; scores of {', '.join(metrics)} can be compared" if metrics else ""


def _read(folder: StudyFolder) -> FinishedStudy:
    run, report = StudyRun.read(folder), folder.report()
    config, goal = run.config, run.goal
    # Trials that were trained fully only after the search come last.
    later = {str(number) for number in inner(report, "counts").get("further_trained") or ()}
    later |= {str(trial.number) for trial in run.further}
    trials = sorted(run.trials, key=lambda trial: str(trial.number) in later)
    complete = [trial for trial in trials if trial.state == "complete" and trial.scale == goal.target]
    # The winner has the largest amount among the trials within the limits; see `hpo.trials.ranking.front`.
    _, most = max(((trial.keeps_limits, trial.amount or 0) for trial in complete), default=(False, 0))

    def counts(trial: Trial) -> bool:
        # A partly trained trial, or one at a smaller scale, cannot be compared with a fully trained one.
        return trial.state == "complete" and (trial.amount or 0) == most and trial.scale == goal.target

    has_scales = config.study.scales is not None
    search = FinishedSearch.of(config.study.name, 0, config.study.seed, trials, goal, has_scales, counts)
    return FinishedStudy(run, search, _data(run, report), Units.at(folder, config))


def _data(run: StudyRun, report: Mapping[str, Any]) -> dict[str, Any]:
    """Return what identifies the examples and the split, under the keys `examples` and `split`.

    Fingerprints identify the examples. If the report has no fingerprints, the settings of the data identify the
    examples; in these settings, hashes of the files replace the path.
    """
    # A published study has only its report; a study that has not ended has no report.
    config, described = run.config, vars(run.described) if run.described else inner(report, "data")
    split = inner(described, "split")
    parts = {part: figures.get("fingerprint") for part, figures in split.get("parts", {}).items()}
    if parts:
        folds = {"folds": split.get("folds"), "kind": split.get("kind"), "seed": config.split.seed}
        return {"examples": parts, "split": folds}
    data, files = config.objective_config.get("data"), described.get("files")
    if isinstance(data, Mapping) and "path" in data and isinstance(files, list) and files:
        # Replace the path by hashes, because a moved file has the same data, and a changed file does not.
        data = {**data, "path": [file["sha256"] for file in files]}
    # A race stops trials, but does not change the splits.
    return {"examples": data, "split": config.split.model_dump(exclude={"race_after", "race_level"})}


def compare_studies(
    name: str, studies: Sequence[FinishedStudy], budgets: Sequence[Budget], optimum: float | None
) -> ComparisonJson:
    """Return the content of comparison.json for existing studies."""
    # If the limits differ, each trial must keep the limits of its own study, and the result names no limits.
    goal, have_same = studies[0].goal, all(study.goal.limits == studies[0].goal.limits for study in studies)
    goal = goal if have_same else replace(goal, limits=())
    groups = _comparable(studies)
    apart = {study.label for group in groups[1:] for study in group}
    # Standings and curves leave out each study whose winner has other data or folds than the first study with a winner.
    searches = {study.label: [study.search] for study in studies if study.label not in apart}
    measure = Measure.of(goal, all_searches(searches), None, optimum)
    measured = {label: [measure.measured(search) for search in those] for label, those in searches.items()}
    are_all = len(studies) <= _MAX_FOR_ALL_PAIRS
    method = {}
    if measure.yardstick is None:
        interval = "the 95 % confidence interval of the difference between two winners' expected scores"
        method = {"interval": f"{interval}; the 95 % hold for each pair alone, not for all pairs together"}
        pairs = [pair for group in groups for pair in _fold_pairs(group, measure, are_all)]
        written = score_format(study.score for group in groups for study in group)
        by_label = {study.label: measure.measured(study.search) for study in studies}
        sentences = [_sentence(pair, by_label, budgets[0], written) for pair in pairs]
    else:
        pairs = [pair for group in groups for pair in _front_pairs(group, goal, budgets[0], are_all)]
        written = score_format(search.best_at(*budgets[0]) for (search,) in measured.values())
        sentences = [_front_sentence(pair, written, budgets[0]) for pair in pairs]
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
        labels = " ".join(study.label for study in studies)
        notes.append(f"To see the compared studies side by side in MLflow, run `hpo ui {labels}`.")
    return {
        **as_json("studies", name, searches, measured, measure, budgets, settings, method, notes),
        "winners": [_winner(study) for study in studies],
        "folds": pairs,
        "answers": [*sentences, *_not_compared(studies, groups)],
    }


def _winner(study: FinishedStudy) -> WinnerOf:
    winner = study.run.winner
    entry: WinnerOf = {"label": study.label, "trial": winner.number if winner else None, "folds": dict(study.folds)}
    if study.run.fresh_winner is not None:
        entry["fresh"] = score_of(study.run.fresh_winner)
    if not study.goal.is_single:
        entry["values"] = {name: winner.mean(name) for name in study.goal.names} if winner else {}
    return entry


def _on_fresh_seeds(studies: Sequence[FinishedStudy]) -> Iterator[str]:
    """Yield a note for each study whose winner was chosen on fresh seeds."""
    are_expected = all(study.worth for study in studies)
    for study in studies:
        if (fresh := study.run.fresh_winner) is not None:
            text = score_format([score_of(fresh), study.score])
            searched = f"; the comparison uses the trial's score in the search, {text(study.score)}"
            compared = "" if are_expected else searched
            yield (
                f"{study.label}: trial {fresh.number} is the winner on fresh seeds, with {study.goal.metric} "
                f"{text(score_of(fresh))}{compared}"
            )


def _comparable(studies: Sequence[FinishedStudy]) -> list[list[FinishedStudy]]:
    """Group the studies by their data and by the folds of their winners' scores; omit studies without a winner."""
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
    """Return all pairs of studies if `are_all`; otherwise, return (study, best study) for every other study."""
    if are_all:
        return itertools.combinations(group, 2)
    best = min(group, key=loss)
    return ((study, best) for study in group if study is not best)


def _fold_pairs(group: Sequence[FinishedStudy], measure: Measure, are_all: bool) -> Iterator[FoldPair]:
    """Yield how each pair of winners differs: on each fold, and in expected score (if unknown, in mean score)."""
    for one, other in _pairs(group, lambda study: measure.sign * study.score, are_all):
        by_fold = {fold: measure.sign * (score - other.folds[fold]) for fold, score in one.folds.items()}
        mean, ends = statistics.fmean(by_fold.values()), None
        if one.worth is not None and other.worth is not None:
            mean, *ends = gain(other.worth, one.worth)
        yield {"a": one.label, "b": other.label, "by_fold": by_fold, "mean_difference": mean, "interval": ends}


def _front_pairs(group: Sequence[FinishedStudy], goal: Goal, budget: Budget, are_all: bool) -> Iterator[FoldPair]:
    """Yield how the hypervolume regrets of each pair of studies in a group differ at a budget."""
    measure = Measure.of(goal, [study.search for study in group])
    regrets = {study.label: measure.measured(study.search).best_at(*budget) for study in group}
    for one, other in _pairs(group, lambda study: regrets[study.label], are_all):
        gain = regrets[one.label] - regrets[other.label]
        yield {"a": one.label, "b": other.label, "by_fold": {}, "mean_difference": gain, "interval": None}


def _better(pair: FoldPair, written: Callable[[float], str]) -> tuple[str, str, str]:
    """Return the labels of the better and the worse study, and a clause that says by how much the better one leads."""
    gain = pair["mean_difference"]
    better, other = (pair["b"], pair["a"]) if gain >= 0 else (pair["a"], pair["b"])
    by_how_much = f"{written(abs(gain))} better than" if gain else "as good as"
    return better, other, f"{better} is {by_how_much} {other}"


def _front_sentence(pair: FoldPair, written: Callable[[float], str], budget: Budget) -> str:
    """Return a sentence that says which of two Pareto fronts is better, and by how much."""
    when = f"after {budget}; " if pair["mean_difference"] else ""
    return f"{_better(pair, written)[2]} in {NAME} ({when}each has one search, so there is no interval)"


def _sentence(
    pair: FoldPair,
    searches: Mapping[str, FinishedSearch],
    budget: Budget,
    written: Callable[[float], str],
) -> str:
    """Return which winner is better, and by how much. If the numbers of trials differ, also compare at `budget`."""
    gain, ends = pair["mean_difference"], pair["interval"]
    better, other, clause = _better(pair, written)
    detail, chance = "one score each, no interval", ""
    if ends is not None:
        low, high = ends if gain >= 0 else (-ends[1], -ends[0])
        over = over_text(pair["by_fold"])
        chance = ": may be chance" if low <= 0 <= high and gain else ""
        detail = f"95 % {written(low)} to {written(high)}, {len(pair['by_fold'])} {over}"
    one, two = (searches[label] for label in (better, other))
    if len(one.losses) == len(two.losses):
        return f"{clause} ({detail}){chance}"
    of = f"the winner of {len(one.losses)} trials against the winner of {len(two.losses)} trials"
    lead = two.best_at(*budget) - one.best_at(*budget)
    if not math.isfinite(lead):
        return f"{clause}, {of} ({detail}){chance}"
    first = better if lead >= 0 else other
    at_equal = f"{first} is {written(abs(lead))} better" if lead else "both are as good"
    return f"{clause}, {of} ({detail}){chance}; after {budget} each, {at_equal}"


def _not_compared(studies: Sequence[FinishedStudy], groups: Sequence[Sequence[FinishedStudy]]) -> Iterator[str]:
    within = " within the limits" if studies[0].goal.limits else ""
    for study in studies:
        if not study.folds:
            at = " at its target" if study.config.study.scales is not None else within
            yield f"{study.label} has no complete trial{at}: not compared"
    for place, group in enumerate(groups[1:], start=1):
        first, earlier = groups[0][0].data, [study.label for others in groups[:place] for study in others]
        on = "on other folds" if first["examples"] == group[0].data["examples"] else "on other data"
        on = "with another study.repeats" if first == group[0].data else on
        who = join_names([study.label for study in group])
        was = "was" if len(group) == 1 else "were"
        yield f"{who} {was} scored {on} than {join_names(earlier)}: not compared"


def _on_scales(studies: Sequence[FinishedStudy]) -> Iterator[str]:
    """Yield a note for each study with scales; the note says which scores the comparison uses."""
    for study in studies:
        if (scales := study.config.study.scales) is not None:
            done, total = study.search.keeps_limits.sum(), len(study.search.losses)
            within = " and within the limits" if study.goal.limits else ""
            yield (
                f"{study.label} has {len(scales)} scales: {done} of {total} trials are complete at the target{within}. "
                f"The comparison uses the scores of these {done} trials only, but the training time of all {total}."
            )


def _differences(studies: Sequence[FinishedStudy]) -> Iterator[str]:
    """Yield a sentence for each difference that makes a comparison with the first study unfair.

    The differences are those in the objective, the budget, the search space and the limits.
    """
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
            yield f"{both} have different limits: each trial must keep the limits of its own study."


def _other_space(one: FinishedStudy, other: FinishedStudy) -> str | None:
    """Return, as a text, the hyperparameters in which two spaces differ; None if the spaces are equal."""
    shared = one.space.keys() & other.space.keys()
    changed = [key for key in one.space if key in shared and one.space[key] != other.space[key]]
    clauses = [f"{join_names(changed)} {'has' if len(changed) == 1 else 'have'} other values"] if changed else []
    alone = {study.label: [key for key in study.space if key not in shared] for study in (one, other)}
    clauses += [f"{join_names(keys)} only in {label}" for label, keys in alone.items() if keys]
    return "; ".join(clauses) or None
