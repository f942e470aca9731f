"""The list of what a mirror holds, written last of all: with it a copy is whole."""

import json
import os
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from hpo.config.documents import parse_json
from hpo.config.files import write_atomically
from hpo.config.study_config import study_name
from hpo.errors import StudyError
from hpo.place import Place
from hpo.study.files.folder import StudyFolder

_FILE = "manifest.json"


class NotOursError(StudyError):
    """A place holds what must not be written over: no study, another, or what another machine has made of this one."""


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be printable")
    return text


def _inside(name: str) -> str:
    """Return the one name of a place in the folder: `a/./b` would be `a/b` too."""
    if os.path.normpath(name) != name or PurePosixPath(name).parts[:1] in ((), ("..",), ("/",), ("//",)):
        raise ValueError("must be a name in the folder")
    return name


def _complete(files: dict[str, str]) -> dict[str, str]:
    if "config.yaml" not in files:
        raise ValueError("must hold config.yaml")
    return files


Printable = Annotated[str, AfterValidator(_printable)]
Name = Annotated[str, AfterValidator(_inside)]
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Manifest(BaseModel):
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

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")

    format: Literal[1] = 1
    name: Printable
    study_id: Printable
    files: Annotated[dict[Name, Digest], AfterValidator(_complete)]
    links: dict[Name, Annotated[str, Field(min_length=1)]] = {}
    folders: list[Name] = []
    id: Printable = ""
    generation: int = 0
    writer: Printable = ""
    written: Printable = ""

    @classmethod
    def at(cls, place: Place) -> "Manifest | None":
        """Return what lies at a place; None where nothing does; NotOursError where that is no mirror."""
        content = place.read(_FILE)
        if content is None:
            return None
        try:
            found = cls.model_validate(parse_json(content.decode(errors="replace"), f"{place.url}/{_FILE}"))
        except ValidationError as error:
            raise unreadable(place) from error
        study_name(found.name, f"{place.url}/{_FILE}: name")
        return found

    def write(self, place: Place) -> None:
        """Put it at a place, for `at`."""
        place.write(_FILE, [json.dumps(self.model_dump(), indent=1).encode()])


def unreadable(place: Place) -> NotOursError:
    """Return the error of what is no mirror."""
    return NotOursError(f"{place.url}: holds no copy of a study that this version can read")


def refuse_another(found: Manifest | None, study_id: str | None, folder: StudyFolder, place: Place) -> None:
    """Raise NotOursError where a place holds another study, or this one as another folder has gone on with it.

    Where the folder knows of no copy, or the copy has no id, an earlier version may have written it. A new
    study has no id yet.
    """
    if found is None:
        return
    if found.study_id != study_id:
        raise NotOursError(
            f"study.mirror: {place.url} holds another study, '{found.name}'; give another URL, or go on with that by "
            f"`hpo resume {place.url}`"
        )
    known = {line.split()[0] for line in _copies(folder)}
    if found.id and known and found.id not in known:
        raise NotOursError(
            f"study.mirror: {found.writer} has gone on with this study, and wrote copy {found.generation} to "
            f"{place.url} at {found.written}; go on from there by `hpo resume {place.url}` in another folder, or give "
            f"another study.mirror"
        )


def remember(folder: StudyFolder, url: str, ids: Sequence[str]) -> None:
    """Note in the study's folder that the copies with these ids at a URL are its own, in place of those before.

    The file, with a line `ID URL` each, is part of neither mirrors nor copies.
    """
    others = [line for line in _copies(folder) if line.partition(" ")[2] != url]
    lines = [*others, *(f"{copy} {url}" for copy in ids if copy)]
    write_atomically(folder.mirrored_path, "".join(f"{line}\n" for line in lines))


def _copies(folder: StudyFolder) -> list[str]:
    try:
        lines = folder.mirrored_path.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return []
    return [line for line in lines if line.strip()]
