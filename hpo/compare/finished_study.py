"""Studies that exist, as their folders hold them: one search each, and its winner."""

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpo.compare.curves import FinishedSearch
from hpo.config.keys import flatten
from hpo.config.study_config import StudyConfig
from hpo.errors import StudyError
from hpo.study.basis.counted_in import Units, varied_keys
from hpo.study.basis.described import Described
from hpo.study.files.folder import StudyFolder, find_study, inner, short_path
from hpo.study.reproduce.recorded import is_at_target, recorded_winner
from hpo.trials.goal import Goal, goal_of
from hpo.trials.space.reader import space_from_dict
from hpo.trials.table import Row, metric_columns, read_rows
from hpo.trials.trial import loss_of


@dataclass(frozen=True)
class FinishedStudy:
    """A study's search, as its folder holds it.

    Attributes:
        label: the study's name.
        config: its frozen configuration.
        goal: its metrics and limits.
        space: what was searched, each hyperparameter's values by its key.
        search: losses and seconds of its trials.
        winner: number of the winning trial in its report; None where no trial is complete, and within the limits.
        folds: the winner's (leading) score per fold in the search, by the fold's name.
        fresh: the winner's mean score on the fresh seeds that chose it; None where the search's scores chose it.
        values: the winner's metrics, and what has a limit, by name; empty with one metric and no limits.
        data: `examples` and `split`, each equal for two studies that were scored on the same ones.
        budget: the number of configurations that were tried, each once, however far it was trained.
        units: what its metrics are counted in.
    """

    label: str
    config: StudyConfig
    goal: Goal
    space: Mapping[str, Any]
    search: FinishedSearch
    winner: int | None
    folds: Mapping[str, float]
    fresh: float | None
    values: Mapping[str, float]
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
    config = folder.config()
    if not folder.trials_path.exists():
        raise StudyError(
            f"study: {short_path(folder.trials_path)} is missing; write it with `hpo report {config.study.name}`"
        )
    goal = goal_of(config.study)
    rows = read_rows(short_path(folder.trials_path), ("number", "score", "state", "seconds"))
    report = folder.report()
    # Those that were trained to their end after the search come after it.
    later = {str(number) for number in inner(report, "counts").get("further_trained") or ()}
    rows = sorted(rows, key=lambda row: row["number"] in later)
    try:
        amounts = [int(row.get("amount") or 0) for row in rows]
        # A trial that was trained for less, or at a smaller scale, does not compare with one trained to the end.
        are_complete = [
            row["state"] == "complete" and amount == max(amounts) and is_at_target(row, config.study)
            for row, amount in zip(rows, amounts, strict=True)
        ]
        losses = [
            loss_of(float(row["score"]), config.study.direction) if is_complete else math.inf
            for row, is_complete in zip(rows, are_complete, strict=True)
        ]
        others, excess = _of_several(rows, are_complete, goal)
        seconds = [float(row["seconds"] or 0) for row in rows]
    except (KeyError, TypeError, ValueError) as error:
        raise StudyError(
            f"{short_path(folder.trials_path)}: is not a trials.csv ({error}); write it again with `hpo report "
            f"{config.study.name}`"
        ) from error
    winner = recorded_winner(rows, report, config.study) or {}
    values = _values(winner, goal) if winner and not goal.is_single else {}
    if values and goal.excess(values) > 0:
        winner, values = {}, {}
    folds = {name: float(value) for name, value in winner.items() if name.startswith("fold_") and value}
    number = int(winner["number"]) if winner else None
    search = FinishedSearch(
        config.study.name,
        repeat=0,
        seed=config.study.seed,
        losses=tuple(losses),
        seconds=tuple(seconds),
        is_partial=config.study.scales is not None,
        other_losses=others,
        excess=excess,
    )
    budget = inner(report, "counts").get("configurations", len(rows))
    units = Units.at(folder, config)
    data = _data(report, config)
    fresh = inner(inner(report, "winner"), "fresh").get("score")
    space = _space(folder, config)
    return FinishedStudy(
        config.study.name, config, goal, space, search, number, folds, fresh, values, data, budget, units
    )


def _space(folder: StudyFolder, config: StudyConfig) -> dict[str, Any]:
    described = Described.at(short_path(folder.described_path))
    space = space_from_dict(config.space, flatten(config.objective_config), described.points if described else None)
    # Where a search starts is none of its values.
    return {each["key"]: {k: v for k, v in each.items() if k != "default"} for each in space.to_dict()}


def _of_several(
    rows: Sequence[Row], are_complete: Sequence[bool], goal: Goal
) -> tuple[tuple[tuple[float, ...], ...], tuple[float, ...]]:
    """Return of each trial the losses of further metrics, infinite where incomplete, and how far it is over limits."""
    if goal.is_single:
        return (), ()
    others, excess = [], []
    for row, is_complete in zip(rows, are_complete, strict=True):
        values = _values(row, goal) if is_complete else None
        others.append(goal.losses(values)[1:] if values else (math.inf,) * (len(goal.metrics) - 1))
        excess.append(goal.excess(values) if values else 0.0)
    return tuple(others) if len(goal.metrics) > 1 else (), tuple(excess)


def _values(row: Row, goal: Goal) -> dict[str, float]:
    """Return what a trials.csv has of each metric, and of what has a limit; KeyError where a column is missing."""
    columns = metric_columns(row, goal)
    return {name: float(row[columns[name]]) for name in goal.names}


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
