"""Studies that exist, one search each: what their folders hold, one sentence per pair, and their curves."""

import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpo.compare.curves import FinishedSearch
from hpo.compare.result import Budget, Measure, as_json
from hpo.config.study_config import StudyConfig
from hpo.engine.trials.digits import score_format
from hpo.engine.trials.table import read_rows
from hpo.engine.trials.trial import loss_of
from hpo.errors import StudyError
from hpo.report.comparison import ComparisonJson, FoldPair
from hpo.report.part import is_missing
from hpo.report.sections.winner import interval
from hpo.report.words import join_names
from hpo.study.basis.counted_in import Units, varied_keys
from hpo.study.files.folder import StudyFolder, find_study, inner, short_path
from hpo.study.reproduce.recorded import recorded_winner

# All pairs of more would be more sentences than anybody reads.
_MOST_FOR_ALL_PAIRS = 4
_ONE_EACH = (
    "One search each does not compare strategies: the next seed may reverse the order. To compare strategies, "
    "repeat whole searches: hpo compare --strategies A,B --repeats 30."
)
_TOO_NARROW = "An interval over folds is too narrow: they share training examples, and the winners were chosen on them."


@dataclass(frozen=True)
class FinishedStudy:
    """A study's search, as its folder holds it.

    Attributes:
        label: the study's name.
        config: its frozen configuration.
        search: losses and seconds of its trials.
        winner: number of the winning trial in its report; None where no trial is complete.
        folds: the winner's score per fold, by the fold's name.
        data: `examples` and `split`, each equal for two studies that were scored on the same ones.
        budget: the number of configurations that were tried, each once, however far it was trained.
        units: what its metrics are counted in.
    """

    label: str
    config: StudyConfig
    search: FinishedSearch
    winner: int | None
    folds: Mapping[str, float]
    data: Mapping[str, Any]
    budget: int
    units: Units

    @property
    def score(self) -> float:
        """The winner's; of a study that has one."""
        return statistics.fmean(self.folds.values())


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
        for key in ("metric", "direction"):
            ours, its = getattr(first.config.study, key), getattr(study.config.study, key)
            if ours != its:
                raise StudyError(
                    f"study.{key}: must be the same in all studies, given {ours} in {first.label} and {its} in "
                    f"{study.label}; their scores cannot be compared"
                )
    _refuse_other_units(studies)
    return studies


def _refuse_other_units(studies: Sequence[FinishedStudy]) -> None:
    """Raise StudyError where the metric is counted in something else in two studies, or in two trials of one."""
    first, metric = studies[0], studies[0].config.study.metric
    for study in studies:
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


def compare_studies(
    name: str, studies: Sequence[FinishedStudy], budgets: Sequence[Budget], optimum: float | None
) -> ComparisonJson:
    """Return the content of comparison.json for studies that exist."""
    first = studies[0].config.study
    measure = Measure(first.metric, first.direction, optimum)
    groups = _comparable(studies)
    apart = {study.label for group in groups[1:] for study in group}
    # Scores on other data have no place among these.
    searches = {study.label: [study.search] for study in studies if study.label not in apart}
    are_all = len(studies) <= _MOST_FOR_ALL_PAIRS
    pairs = [_pair(*pair, measure) for group in groups for pair in _pairs(group, measure, are_all)]
    written = score_format(study.score for group in groups for study in group)
    settings = {study.label: study.config.strategy for study in studies}
    method = {"interval": "Student's, of the mean of the paired differences of the winners; each pair by itself"}
    notes = [_TOO_NARROW] if any(pair["interval"] for pair in pairs) else []
    notes += [_ONE_EACH, *_differences(studies)]
    return {
        **as_json("studies", name, searches, measure, budgets, settings, method, notes),
        "winners": [{"label": s.label, "trial": s.winner, "folds": dict(s.folds)} for s in studies],
        "folds": pairs,
        "answers": [*(_sentence(pair, written) for pair in pairs), *_not_compared(studies, groups)],
    }


def _read(folder: StudyFolder) -> FinishedStudy:
    config = folder.config()
    if not folder.trials_path.exists():
        raise StudyError(
            f"study: {short_path(folder.trials_path)} is missing; write it with `hpo report {config.study.name}`"
        )
    rows = read_rows(short_path(folder.trials_path), ("number", "score", "state", "seconds"))
    report = folder.report()
    # Those that were trained to their end after the search come after it.
    later = {str(number) for number in inner(report, "counts").get("further_trained") or ()}
    rows = sorted(rows, key=lambda row: row["number"] in later)
    try:
        amounts = [int(row.get("amount") or 0) for row in rows]
        # A trial that was trained for less does not compare with one trained to the end.
        losses = [
            loss_of(float(row["score"]), config.study.direction)
            if row["state"] == "complete" and amount == max(amounts)
            else math.inf
            for row, amount in zip(rows, amounts, strict=True)
        ]
        seconds = [float(row["seconds"] or 0) for row in rows]
    except (TypeError, ValueError) as error:
        raise StudyError(
            f"{short_path(folder.trials_path)}: is not a trials.csv ({error}); write it again with `hpo report "
            f"{config.study.name}`"
        ) from error
    winner = recorded_winner(rows, report, config.study.direction) or {}
    folds = {name: float(value) for name, value in winner.items() if name.startswith("fold_") and value}
    number = int(winner["number"]) if winner else None
    search = FinishedSearch(config.study.name, 0, config.study.seed, tuple(losses), tuple(seconds))
    budget = inner(report, "counts").get("configurations", len(rows))
    units = Units.at(folder, config)
    return FinishedStudy(config.study.name, config, search, number, folds, _data(report, config), budget, units)


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


def _differences(studies: Sequence[FinishedStudy]) -> Iterator[str]:
    """Yield what makes the comparison unequal."""
    first = studies[0]
    for study in studies[1:]:
        both = f"{first.label} and {study.label}"
        if first.config.objective != study.config.objective:
            yield f"{both} have different objectives."
        if first.budget != study.budget:
            yield f"{both} have different budgets: {first.budget} and {study.budget} configurations."
