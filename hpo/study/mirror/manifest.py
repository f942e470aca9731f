"""The list of what a mirror holds, written last of all: with it a copy is whole."""

import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from hpo.config.documents import parse_json
from hpo.config.study_config import study_name
from hpo.errors import StudyError
from hpo.place import Place

_FILE = "manifest.json"
_FORMAT = 1


class NotOursError(StudyError):
    """A place holds what must not be written over: another study, or what another machine has made of this one."""


@dataclass(frozen=True)
class Manifest:
    """What a mirror holds.

    Attributes:
        name, study_id: the study's.
        files: the SHA-256 of each file by its path.
        links: where links lead by their paths, relative to where they lie; earlier versions know none, and find the
            file that one leads to among the files.
        folders: their paths.
        id: of this copy alone; empty in those of earlier versions, as all that follows.
        generation: the number of the copy, from 1; it rises with each.
        writer, written: the machine and folder that it came from, and when.
    """

    name: str
    study_id: str
    files: Mapping[str, str]
    links: Mapping[str, str] = field(default_factory=dict)
    folders: Sequence[str] = ()
    id: str = ""
    generation: int = 0
    writer: str = ""
    written: str = ""

    @classmethod
    def at(cls, place: Place) -> "Manifest | None":
        """Return what lies at a place; None where nothing does; StudyError where that is no mirror."""
        content = place.read(_FILE)
        if content is None:
            return None
        found = parse_json(content.decode(errors="replace"), f"{place.url}/{_FILE}")
        if not isinstance(found, dict) or found.get("format") != _FORMAT or not _is_sound(found):
            raise StudyError(f"{place.url}: holds no copy of a study that this version can read")
        known = {name: found[name] for name in cls.__dataclass_fields__ if name in found}
        return cls(**known | {"name": study_name(found["name"], f"{place.url}/{_FILE}: name")})

    def write(self, place: Place) -> None:
        """Put it at a place, for `at`."""
        place.write(_FILE, [json.dumps({"format": _FORMAT, **vars(self)}, indent=1).encode()])


def refuse_another(found: Manifest | None, study_id: str | None, known: Collection[str], place: Place) -> None:
    """Raise NotOursError where a place holds another study, or this one as another folder has gone on with it.

    Args:
        found: what lies at the place.
        study_id: the study's; None = it is new.
        known: the ids of the copies that the folder has written or was restored from; where it knows of none, or the
            copy has no id, an earlier version may have written it.
        place: where.
    """
    if found is None:
        return
    if found.study_id != study_id:
        raise NotOursError(
            f"study.mirror: {place.url} holds another study, '{found.name}'; give another URL, or go on with that by "
            f"`hpo resume {place.url}`"
        )
    if found.id and known and found.id not in known:
        raise NotOursError(
            f"study.mirror: {found.writer} has gone on with this study, and wrote copy {found.generation} to "
            f"{place.url} at {found.written}; go on from there by `hpo resume {place.url}` in another folder, or give "
            f"another study.mirror"
        )


def _is_sound(found: Mapping[str, Any]) -> bool:
    """Return whether what is there is of the right type, and a link leads to a place within the folder by its text."""
    links, folders = found.get("links", {}), found.get("folders", [])
    return (
        all(isinstance(found.get(name), str) for name in ("name", "study_id"))
        # They are shown.
        and all(str(found.get(name, "")).isprintable() for name in ("id", "writer", "written"))
        and isinstance(found.get("generation", 0), int)
        and isinstance(found.get("files"), dict)
        and isinstance(folders, list)
        and isinstance(links, dict)
        and all(isinstance(target, str) and _is_inside(name, target) for name, target in links.items())
    )


def _is_inside(name: str, target: str) -> bool:
    led = os.path.normpath(PurePosixPath(name).parent / target)
    return bool(target) and "\0" not in target and not led.startswith(("/", ".."))
