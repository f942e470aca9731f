"""The list of what a mirror holds, written last of all: with it a copy is whole."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from hpo.config.documents import parse_json
from hpo.config.study_config import study_name
from hpo.errors import StudyError
from hpo.place import Place

_FILE = "manifest.json"
_FORMAT = 1


@dataclass(frozen=True)
class Manifest:
    """What a mirror holds: the study's name and identity, and the SHA-256 of each file by its path."""

    name: str
    study_id: str
    files: Mapping[str, str]

    @classmethod
    def at(cls, place: Place) -> "Manifest | None":
        """Return what lies at a place; None where nothing does; StudyError where that is no mirror."""
        content = place.read(_FILE)
        if content is None:
            return None
        found = parse_json(content.decode(errors="replace"), f"{place.url}/{_FILE}")
        fields = {"name": str, "study_id": str, "files": dict}
        is_ours = isinstance(found, dict) and found.get("format") == _FORMAT
        if not is_ours or not all(isinstance(found.get(name), kind) for name, kind in fields.items()):
            raise StudyError(f"{place.url}: holds no copy of a study that this version can read")
        return cls(study_name(found["name"], f"{place.url}/{_FILE}: name"), found["study_id"], found["files"])

    def write(self, place: Place) -> None:
        """Put it at a place, for `at`."""
        place.write(_FILE, [json.dumps({"format": _FORMAT, **vars(self)}, indent=1).encode()])


def refuse_another(found: Manifest | None, study_id: str | None, place: Place) -> None:
    """Raise StudyError where a place holds a study, and not this one."""
    if found is not None and found.study_id != study_id:
        raise StudyError(
            f"study.mirror: {place.url} holds another study, '{found.name}'; give another URL, or go on with that by "
            f"`hpo resume {place.url}`"
        )
