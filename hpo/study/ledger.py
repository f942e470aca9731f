"""The ledger of openings of test parts: of a study in its folder, and of all studies beside them."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from hpo.config.documents import parse_json
from hpo.errors import StudyError
from hpo.files import write_atomically
from hpo.study.files.folder import OPENINGS, StudyFolder, find_study, short_path
from hpo.study.files.imports import table_path
from hpo.study.study import PreparedStudy

Opening = Mapping[str, Any]
# `scored` has the numbers of all trials that were scored, where these were several: those of a front.
_NAMES = ("time", "study", "study_id", "trial", "scored", "fingerprint")


def openings(ledger: Path) -> list[Opening]:
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


def all_openings(folder: StudyFolder, fingerprint: str) -> list[Opening]:
    """Return every known opening of this test part by any study, the earliest first, whichever ledgers have it.

    The studies beside this one are asked, too: of one that was moved or copied there, its own ledger alone knows.
    """
    beside = {path.parent for name in (OPENINGS, "test.json") for path in folder.path.parent.glob(f"*/{name}")}
    studies = [folder, *(StudyFolder(path) for path in sorted(beside - {folder.path}))]
    known = _merged(openings(_common(folder)), *(ledger for study in studies for ledger in _own(study)))
    return [line for line in known if line["fingerprint"] == fingerprint]


def what_opens(folder: StudyFolder, parts: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the command that opens a study's test part, and what that does; None where its data have no such part.

    `parts` are those of its split.
    """
    if "test" not in parts:
        return None
    # Where the ledger cannot be read, the command says so.
    with suppress(StudyError):
        if all_openings(folder, parts["test"]["fingerprint"]):
            return f"hpo test {folder.reference} --again", "opens the test part once more, which the report mentions"
    return f"hpo test {folder.reference}", "opens the test part, once"


def num_scored(openings: Iterable[Opening]) -> int:
    """Return how many configurations of searches these openings have scored, each opening's own ones."""
    return sum(len(scored) if isinstance(scored := line.get("scored"), list) else 1 for line in openings)


def write_opening(folder: StudyFolder, opening: Opening) -> None:
    """Add an opening by a study to both ledgers."""
    # In the study's folder too: where that is copied, the other ledger is not.
    for path in (folder.openings_path, _common(folder)):
        with path.open("a", encoding="utf-8") as ledger:
            ledger.write(json.dumps(opening) + "\n")


def hand_over(folder: StudyFolder) -> None:
    """Add what only this study knows of openings to the ledger of all studies beside it, before or where it is gone."""
    known, own = openings(_common(folder)), _merged(*_own(folder))
    missing = Counter(map(_key, _merged(known, own))) - Counter(map(_key, known))
    lines = {_key(line): line for line in own}
    if missing:
        with _common(folder).open("a", encoding="utf-8") as ledger:
            ledger.writelines(json.dumps(lines[key]) + "\n" for key in missing.elements())


def openings_to_take(study: PreparedStudy) -> list[Opening]:
    """Return the openings by those that a new study replays, extends or learns from: it may have their test part."""
    return _merged(*(ledger for folder in _sources(study) for ledger in _own(folder)))


def begin_ledger(folder: StudyFolder, taken: Iterable[Opening]) -> None:
    """Write the openings that a new study takes along."""
    if lines := "".join(json.dumps(opening) + "\n" for opening in taken):
        write_atomically(folder.openings_path, lines)


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
    return folder.path.parent / OPENINGS


def _own(folder: StudyFolder) -> Iterator[list[Opening]]:
    yield openings(folder.openings_path)
    # Its last opening is known even without a ledger.
    known = folder.test_result() or {}
    if {"fingerprint", "study", "time"} <= known.keys():
        yield [{name: known[name] for name in _NAMES if name in known}]


def _key(line: Opening) -> tuple[str, ...]:
    return tuple(str(line.get(name)) for name in ("time", "study", "trial"))


def _merged(*ledgers: Iterable[Opening]) -> list[Opening]:
    counts: Counter[tuple[str, ...]] = Counter()
    lines: dict[tuple[str, ...], Opening] = {}
    for ledger in ledgers:
        keyed = [(_key(line), line) for line in ledger]
        lines |= dict(keyed)
        # One study may open a part twice in a second.
        counts |= Counter(key for key, _ in keyed)
    return [lines[key] for key in sorted(counts.elements())]
