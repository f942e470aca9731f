"""Reads and writes test logs, which have the evaluations on test splits.

A study's folder has the study's own log. The parent folder has the shared log of all studies in it.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from hpo.config.documents import parse_json
from hpo.errors import StudyError
from hpo.files import write_atomically
from hpo.study.files.folder import TEST_LOG, StudyFolder, find_study, short_path
from hpo.study.files.imports import table_path
from hpo.study.study import PreparedStudy

TestEvaluation = Mapping[str, Any]
# `scored`: the numbers of the scored trials, if the evaluation scored a whole Pareto front.
_NAMES = ("time", "study", "study_id", "trial", "scored", "fingerprint")


def evaluations(log_path: Path) -> list[TestEvaluation]:
    """Return the evaluations in a test log; [] if the file is missing, HpoError if a line is not an evaluation."""
    if not log_path.is_file():
        return []
    texts = enumerate(log_path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1)
    lines = [(number, parse_json(text, f"{short_path(log_path)}:{number}")) for number, text in texts if text.strip()]
    for number, line in lines:
        if not isinstance(line, dict) or not {"fingerprint", "study", "time"} <= line.keys():
            # Refuse rather than skip: the unreadable line may be an evaluation on this study's test split.
            raise StudyError(
                f"{short_path(log_path)}:{number}: must be a JSON object with the keys fingerprint, study and time; "
                f"restore the file"
            )
    return [line for _, line in lines]


def all_evaluations(folder: StudyFolder, fingerprint: str) -> list[TestEvaluation]:
    """Return the evaluations on the test split with this fingerprint, by all studies in the parent folder of `folder`.

    The earliest evaluation is first. Read the shared log and the own logs of these studies, because the shared log
    lacks the evaluations of studies that were moved or copied into the parent folder.
    """
    parent = folder.path.parent
    neighbours = {path.parent for path in parent.glob(f"*/{TEST_LOG}")}
    # Another program's folder may have a file test.json, too.
    neighbours |= {path.parent for path in parent.glob("*/test.json") if StudyFolder(path.parent).exists}
    studies = [folder, *map(StudyFolder, sorted(neighbours - {folder.path}))]
    lines = _merge(evaluations(_shared_log(folder)), *(log for study in studies for log in _own_logs(study)))
    return [line for line in lines if line["fingerprint"] == fingerprint]


def test_command(folder: StudyFolder, parts: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the command that evaluates a study on its test split, and the command's effect; None without a test split.

    `parts` describes the train, validation and test splits, by name; see `PartFigures`.
    """
    if "test" not in parts:
        return None
    # The command itself reports an unreadable log.
    with suppress(StudyError):
        if all_evaluations(folder, parts["test"]["fingerprint"]):
            effect = "scores the winner on the test split again; the report counts all test evaluations"
            return f"hpo test {folder.reference} --again", effect
    return f"hpo test {folder.reference}", "scores the winner on the test split, once"


def num_scored(evaluations: Iterable[TestEvaluation]) -> int:
    """Return the total number of configurations that the test evaluations in `evaluations` scored."""
    return sum(len(scored) if isinstance(scored := line.get("scored"), list) else 1 for line in evaluations)


def write_evaluation(folder: StudyFolder, evaluation: TestEvaluation) -> None:
    """Add an evaluation to the log of a study and to the shared log."""
    # A copy of the study's folder takes its own log along, but not the shared one.
    for path in (folder.test_log_path, _shared_log(folder)):
        with path.open("a", encoding="utf-8") as log:
            log.write(json.dumps(evaluation) + "\n")


def share_evaluations(folder: StudyFolder) -> None:
    """Copy evaluations from this study's log to the shared log, except those that the shared log already has."""
    shared, own = evaluations(_shared_log(folder)), _merge(*_own_logs(folder))
    missing = Counter(map(_key, _merge(shared, own))) - Counter(map(_key, shared))
    lines = {_key(line): line for line in own}
    if missing:
        with _shared_log(folder).open("a", encoding="utf-8") as log:
            log.writelines(json.dumps(lines[key]) + "\n" for key in missing.elements())


def evaluations_of_sources(study: PreparedStudy) -> list[TestEvaluation]:
    """Return the evaluations of the studies that a new study replays, extends or imports (its source studies)."""
    return _merge(*(log for folder in _source_folders(study) for log in _own_logs(folder)))


def begin_log(folder: StudyFolder, inherited: Iterable[TestEvaluation]) -> None:
    """Begin a new study's log with the evaluations of its source studies; write no file if there are no evaluations."""
    if lines := "".join(json.dumps(evaluation) + "\n" for evaluation in inherited):
        write_atomically(folder.test_log_path, lines)


def _source_folders(study: PreparedStudy) -> Iterator[StudyFolder]:
    section = study.config.study
    if study.replays is not None:
        yield study.replays
    yield from (StudyFolder(table_path(name).parent) for name in section.imported)
    if section.extends is not None:
        try:
            yield find_study(section.extends.study)
        except StudyError:
            return


def _shared_log(folder: StudyFolder) -> Path:
    """Return the path of the shared log, in the parent folder of a study's folder.

    The studies in the parent folder share the log, because they may have the same test split.
    """
    return folder.path.parent / TEST_LOG


def _own_logs(folder: StudyFolder) -> Iterator[list[TestEvaluation]]:
    yield evaluations(folder.test_log_path)
    # If the log was deleted, test.json still has the last evaluation.
    result = folder.test_result() or {}
    if {"fingerprint", "study", "time"} <= result.keys():
        yield [{name: result[name] for name in _NAMES if name in result}]


def _key(line: TestEvaluation) -> tuple[str, ...]:
    return tuple(str(line.get(name)) for name in ("time", "study", "trial"))


def _merge(*logs: Iterable[TestEvaluation]) -> list[TestEvaluation]:
    counts: Counter[tuple[str, ...]] = Counter()
    lines: dict[tuple[str, ...], TestEvaluation] = {}
    for log in logs:
        keyed = [(_key(line), line) for line in log]
        lines |= dict(keyed)
        # A key may occur twice in one log: its time is in whole seconds.
        counts |= Counter(key for key, _ in keyed)
    return [lines[key] for key in sorted(counts.elements())]
