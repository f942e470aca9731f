"""The list of what a mirror holds, written last of all: with it a copy is whole."""

import json
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from hpo.config.documents import parse_json
from hpo.config.study_config import study_name
from hpo.errors import StudyError
from hpo.place import Place

_FILE = "manifest.json"
_FORMAT = 1
_DIGEST = re.compile("[0-9a-f]{64}")
# In bytes. Linux allows 4,096 for a whole path, to which the folder's own belongs, and 255 for each name in it.
_LONGEST, _LONGEST_NAME = 3000, 255


class NotOursError(StudyError):
    """A place holds what must not be written over: no study, another, or what another machine has made of this one."""


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
        """Return what lies at a place; None where nothing does; NotOursError where that is no mirror."""
        content = place.read(_FILE)
        if content is None:
            return None
        found = parse_json(content.decode(errors="replace"), f"{place.url}/{_FILE}")
        if not isinstance(found, dict) or found.get("format") != _FORMAT or not _is_sound(found):
            raise NotOursError(f"{place.url}: holds no copy of a study that this version can read")
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
    """Return whether what is there is of the right type, what is shown can be, and no name leads out of the folder."""
    files, links, folders = found.get("files"), found.get("links", {}), found.get("folders", [])
    if not isinstance(files, dict) or not isinstance(links, dict) or not isinstance(folders, list):
        return False
    texts = (found.get("name"), found.get("study_id"), *(found.get(name, "") for name in ("id", "writer", "written")))
    return (
        all(isinstance(text, str) and text.isprintable() for text in texts)
        and isinstance(found.get("generation", 0), int)
        and all(_is_name(name) for name in (*files, *links, *folders))
        and all(isinstance(digest, str) and _DIGEST.fullmatch(digest) for digest in files.values())
        and "config.yaml" in files
        and not {*files, *links} & _folders((*files, *links), folders)
        and all(isinstance(target, str) and target for target in links.values())
        and all(_is_inside(str(PurePosixPath(name).parent / target)) for name, target in links.items())
    )


def _is_name(name: Any) -> bool:
    """Return whether it is the one name of a place in the folder: `a/./b` would be `a/b` too."""
    return isinstance(name, str) and _is_inside(name) and os.path.normpath(name) == name != "."


def _folders(names: Iterable[str], folders: Iterable[str]) -> set[str]:
    """Return the folders that are named, and those in which something lies."""
    inside = (str(parent) for name in (*names, *folders) for parent in PurePosixPath(name).parents)
    return {*folders, *inside} - {"."}


def _is_inside(place: str) -> bool:
    """Return whether a place, relative to the folder, is in it by its text, and can be one."""
    try:
        encoded = os.fsencode(place)
    except UnicodeEncodeError:
        return False
    if b"\0" in encoded or len(encoded) > _LONGEST or any(len(part) > _LONGEST_NAME for part in encoded.split(b"/")):
        return False
    return os.path.normpath(place).partition("/")[0] not in ("", "..")
