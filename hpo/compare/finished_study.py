"""Studies that exist, as their folders hold them: one search each, and its winner."""

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hpo.compare.curves import FinishedSearch
from hpo.config.study_config import StudyConfig
from hpo.errors import StudyError
from hpo.study.basis.counted_in import Units, varied_keys
from hpo.study.files.folder import StudyFolder, find_study, inner
from hpo.study.results.run import StudyRun
from hpo.trials.goal import Goal
from hpo.trials.trial import Trial


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

    @property
    def winner(self) -> int | None:
        """The number of the winner; None where no trial is complete at the target, and within the limits."""
        return None if self.run.winner is None else self.run.winner.number

    @cached_property
    def folds(self) -> dict[str, float]:
        """The winner's (leading) score per fold in the search, by the fold's name; empty without a winner."""
        outcomes = self.run.winner.outcomes if self.run.winner else {}
        return {self.run.layout.name(index): each.metrics[self.goal.metric] for index, each in sorted(outcomes.items())}

    @property
    def score(self) -> float:
        """The winner's; of a study that has one."""
        return statistics.fmean(self.folds.values())

    @property
    def fresh(self) -> float | None:
        """The winner's mean score on the fresh seeds that chose it; None where the search's scores chose it."""
        return None if self.run.fresh_winner is None else self.run.fresh_winner.score

    @property
    def values(self) -> dict[str, float]:
        """The winner's metrics, and what has a limit, by name; empty with one metric and no limits."""
        winner = None if self.goal.is_single else self.run.winner
        return {name: winner.mean(name) for name in self.goal.names} if winner else {}

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

    none = (math.inf,) * len(goal.metrics)
    losses = [trial.losses if counts(trial) else none for trial in trials]
    search = FinishedSearch(
        config.study.name,
        repeat=0,
        seed=config.study.seed,
        losses=tuple(leading for leading, *_ in losses),
        seconds=tuple(trial.seconds for trial in trials),
        is_partial=config.study.scales is not None,
        other_losses=tuple(tuple(others) for _, *others in losses) if len(goal.metrics) > 1 else (),
        excess=() if goal.is_single else tuple(trial.excess if counts(trial) else 0.0 for trial in trials),
    )
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
