"""Restores a study's folder from its report.json: enough to train the winner again and compare."""

import csv
from pathlib import Path
from typing import Any

from hpo.config.documents import read_json, yaml_text
from hpo.errors import StudyError
from hpo.study.files.folder import StudyFolder


def unpack_report(path: Path, into: Path) -> StudyFolder:
    """Write a report's configuration, winner (as trials.csv) and environment into a folder; StudyError without one."""
    report = read_json(path)
    winner = report.get("winner")
    if not isinstance(winner, dict) or "config" not in report or "values" not in winner:
        why = winner.get("missing") if isinstance(winner, dict) else None
        reason = why or "it is of an earlier version, or not a report"
        raise StudyError(f"{path}: holds no winner to train again: {reason}; give the study's folder instead")
    if not winner["values"]:
        raise StudyError(f"{path}: winner.values is empty, so there is no score to compare with; give another report")
    try:
        return _unpacked(report, winner, StudyFolder(into))
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise StudyError(
            f"{path}: is not a report of this toolkit ({type(error).__name__}: {error}); give another"
        ) from error


def _unpacked(report: dict[str, Any], winner: dict[str, Any], folder: StudyFolder) -> StudyFolder:
    folder.config_path.write_text(yaml_text(report["config"]), encoding="utf-8")
    # A value that was not known then counts as unchanged.
    environment = {k: None if isinstance(v, dict) and "missing" in v else v for k, v in report["environment"].items()}
    folder.write_json(folder.environment_path, environment)
    # The hashed files are not here.
    folder.write_json(folder.path / "report.json", report | {"files": {}})
    _write_row(folder.trials_path, winner, [dimension["key"] for dimension in report["space"]])
    return folder


def _write_row(path: Path, winner: dict[str, Any], keys: list[str]) -> None:
    point = {key: winner["point"].get(key, "") for key in keys}
    row = {"number": winner["number"], "state": "complete", "score": winner["score"], **point, **winner["values"]}
    row |= {} if winner["amount"] is None else {"amount": winner["amount"]}
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(row))
        writer.writeheader()
        writer.writerow(row)
