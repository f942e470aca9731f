"""States and models at a URL, where workers keep them in place of the study's folder: none goes through the driver."""

import tarfile
from collections.abc import Collection
from pathlib import Path

from hpo.engine.dispatch.away.parcel import packed, unpack
from hpo.errors import StudyError
from hpo.place import Place


class Artifacts:
    """The states and models of one study, named as in its folder: `states/...`, `checkpoints/...`.

    Args:
        url: the study's own.
    """

    def __init__(self, url: str) -> None:
        self._place = Place(url, "study.artifacts")

    def store(self, name: str, folder: Path) -> None:
        """Keep a folder under a name, in place of what is there."""
        with packed(folder) as parcel:
            self._place.write(f"{name}.tar", parcel.pieces())

    def fetch(self, name: str, folder: Path) -> bool:
        """Write what is kept under a name as a folder; return whether it is there, and whole."""
        content = self._place.read(f"{name}.tar")
        if content is None:
            return False
        try:
            unpack([content], folder)
        except tarfile.TarError:
            return False
        return True

    def remove(self, name: str) -> None:
        """Delete what is kept under a name, if it is there."""
        self._place.remove(f"{name}.tar")

    def remove_states(self, keep: Collection[str]) -> None:
        """Delete the training states except those with these names."""
        for name in self._place.names("states"):
            if name.removesuffix(".tar") not in keep:
                self._place.remove(f"states/{name}")


def refuse_used(url: str) -> None:
    """Raise StudyError where a new study would find the states or models of another: it would go on from them."""
    place = Place(url, "study.artifacts")
    if place.names("states") or place.names("checkpoints"):
        raise StudyError(
            f"study.artifacts: {url} holds the states or models of another study of this name; delete them, or give "
            f"another study.name or URL"
        )


def name_of(place: str | Path) -> str:
    """Return the name of a folder among the artifacts: its path below the study's folder."""
    return "/".join(Path(place).parts[-2:])
