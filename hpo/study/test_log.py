"""The ledger of evaluations of test parts: of a study in its folder, and of all studies beside them."""

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
# `scored` has the numbers of all trials that were scored, where these were several: those of a front.
_NAMES = ("time", "study", "study_id", "trial", "scored", "fingerprint")


def evaluations(ledger: Path) -> list[TestEvaluation]:
    """Return what a ledger holds; StudyError where a line is no opening."""
    if not ledger.is_file():
        return []
    texts = enumerate(ledger.read_text(encoding="utf-8", errors="replace").splitlines(), start=1)
    lines = [(number, parse_json(text, f"{short_path(ledger)}:{number}")) for number, text in texts if text.strip()]
    for number, line in lines:
        if not isinstance(line, dict) or not {"fingerprint", "study", "time"} <= line.keys():
            # An unreadable opening may be one of these data.
            raise StudyError(f"{short_path(ledger)}:{number}: is not an opening of a test part; restore the file")
    return [line for _, line in lines]


def all_evaluations(folder: StudyFolder, fingerprint: str) -> list[TestEvaluation]:
    """Return every known opening of this test part by any study, the earliest first, whichever ledgers have it.

    The studies beside this one are asked, too: of one that was moved or copied there, its own ledger alone knows.
    """
    beside = {path.parent for name in (TEST_LOG, "test.json") for path in folder.path.parent.glob(f"*/{name}")}
    studies = [folder, *(StudyFolder(path) for path in sorted(beside - {folder.path}))]
    known = _merged(evaluations(_common(folder)), *(ledger for study in studies for ledger in _own(study)))
    return [line for line in known if line["fingerprint"] == fingerprint]


def test_command(folder: StudyFolder, parts: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the command that opens a study's test part, and what that does; None where its data have no such part.

    `parts` are those of its split.
    """
    if "test" not in parts:
        return None
    # Where the ledger cannot be read, the command says so.
    with suppress(StudyError):
        if all_evaluations(folder, parts["test"]["fingerprint"]):
            return f"hpo test {folder.reference} --again", "opens the test part once more, which the report mentions"
    return f"hpo test {folder.reference}", "opens the test part, once"


def num_scored(evaluations: Iterable[TestEvaluation]) -> int:
    """Return how many configurations of searches these evaluations have scored, each opening's own ones."""
    return sum(len(scored) if isinstance(scored := line.get("scored"), list) else 1 for line in evaluations)


def write_evaluation(folder: StudyFolder, opening: TestEvaluation) -> None:
    """Add an opening by a study to both ledgers."""
    # In the study's folder too: where that is copied, the other ledger is not.
    for path in (folder.test_log_path, _common(folder)):
        with path.open("a", encoding="utf-8") as ledger:
            ledger.write(json.dumps(opening) + "\n")


def hand_over(folder: StudyFolder) -> None:
    """Add the evaluations that only this study knows to the log of all studies in its folder."""
    known, own = evaluations(_common(folder)), _merged(*_own(folder))
    missing = Counter(map(_key, _merged(known, own))) - Counter(map(_key, known))
    lines = {_key(line): line for line in own}
    if missing:
        with _common(folder).open("a", encoding="utf-8") as ledger:
            ledger.writelines(json.dumps(lines[key]) + "\n" for key in missing.elements())


def evaluations_of_sources(study: PreparedStudy) -> list[TestEvaluation]:
    """Return the evaluations by those that a new study replays, extends or learns from: it may have their test part."""
    return _merged(*(ledger for folder in _sources(study) for ledger in _own(folder)))


def begin_log(folder: StudyFolder, taken: Iterable[TestEvaluation]) -> None:
    """Write the evaluations that a new study takes along."""
    if lines := "".join(json.dumps(opening) + "\n" for opening in taken):
        write_atomically(folder.test_log_path, lines)


def _sources(study: PreparedStudy) -> Iterator[StudyFolder]:
    section = study.config.study
    if study.replays is not None:
        yield study.replays
    yield from (StudyFolder(table_path(name).parent) for name in section.imported)
    if section.extends is not None:
        try:
            yield find_study(section.extends.study)
        except StudyError:
            return


def _common(folder: StudyFolder) -> Path:
    """Return the ledger of all studies beside this one, since those of the same data share the test part."""
    return folder.path.parent / TEST_LOG


def _own(folder: StudyFolder) -> Iterator[list[TestEvaluation]]:
    yield evaluations(folder.test_log_path)
    # Its last opening is known even without a ledger.
    known = folder.test_result() or {}
    if {"fingerprint", "study", "time"} <= known.keys():
        yield [{name: known[name] for name in _NAMES if name in known}]


def _key(line: TestEvaluation) -> tuple[str, ...]:
    return tuple(str(line.get(name)) for name in ("time", "study", "trial"))


def _merged(*ledgers: Iterable[TestEvaluation]) -> list[TestEvaluation]:
    counts: Counter[tuple[str, ...]] = Counter()
    lines: dict[tuple[str, ...], TestEvaluation] = {}
    for ledger in ledgers:
        keyed = [(_key(line), line) for line in ledger]
        lines |= dict(keyed)
        # One study may open a part twice in a second.
        counts |= Counter(key for key, _ in keyed)
    return [lines[key] for key in sorted(counts.elements())]
