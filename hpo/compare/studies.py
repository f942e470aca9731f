"""Studies that exist, as their folders hold them: the trials of each, its winner, and what it was scored on."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hpo.compare.curves import FinishedSearch
from hpo.config.study_config import StudyConfig
from hpo.engine.trials.table import read_rows
from hpo.engine.trials.trial import loss_of
from hpo.errors import StudyError
from hpo.study.files.folder import StudyFolder, find_study, inner, short_path
from hpo.study.reproduce.recorded import recorded_winner


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
    """

    label: str
    config: StudyConfig
    search: FinishedSearch
    winner: int | None
    folds: Mapping[str, float]
    data: Mapping[str, Any]
    budget: int


def read_studies(references: Sequence[str]) -> list[FinishedStudy]:
    """Return the studies with these names under runs/, or in these folders.

    Raises:
        StudyError: one is missing or has no trials.csv, two have one name, or their metrics cannot be compared.
    """
    if len(references) < 2:
        given = ", ".join(references) or "none"
        raise StudyError(f"studies: must be two or more, given {given}; or give --strategies to compare strategies")
    studies = [_read(find_study(reference)) for reference in references]
    first = studies[0]
    for place, study in enumerate(studies):
        if study.label in [other.label for other in studies[:place]]:
            raise StudyError(f"STUDY: two studies are called '{study.label}'; give different ones")
        for key in ("metric", "direction"):
            ours, its = getattr(first.config.study, key), getattr(study.config.study, key)
            if ours != its:
                raise StudyError(
                    f"study.{key}: must be the same in all studies, given {ours} in {first.label} and {its} in "
                    f"{study.label}; their scores cannot be compared"
                )
    return studies


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
    winner = recorded_winner(rows, report, config.study.direction)
    number, folds = (None, {}) if winner is None else (int(winner["number"]), _folds(winner))
    search = FinishedSearch(config.study.name, 0, config.study.seed, tuple(losses), tuple(seconds))
    budget = inner(report, "counts").get("configurations", len(rows))
    return FinishedStudy(config.study.name, config, search, number, folds, _data(report, config), budget)


def _folds(row: Mapping[str, str]) -> dict[str, float]:
    return {name: float(value) for name, value in row.items() if name.startswith("fold_") and value}


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
