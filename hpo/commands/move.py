"""`move`: a study's folder goes into another directory."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from hpo.commands.arguments import StudyRef, Word
from hpo.study.files.folder import find_study, short_path


@dataclass(frozen=True)
class Moved:
    """A study that was moved.

    Attributes:
        study: its name.
        folder: where it is now.
        relative: the paths of its configuration that are relative to the working directory, by key, as they must be
            given from another one.
    """

    study: str
    folder: Path
    relative: Mapping[str, str]

    def __str__(self) -> str:
        line = f"moved to {short_path(self.folder)}"
        if not self.relative:
            return line
        words = " ".join(f"{key}={place}" for key, place in self.relative.items())
        return f"{line}\nfrom another working directory it needs: hpo resume {self.folder} {words}"

    def to_dict(self) -> dict[str, Any]:
        """Return its fields."""
        return vars(self)


def move(study: StudyRef, directory: Annotated[str | Path, Word("DIRECTORY")]) -> Moved:
    """Put a study's folder into another directory, also on another file system, where it goes on.

    To another file system it is copied, compared by checksums, and then removed here; after a crash the same command
    goes on. Relative paths in its configuration go on meaning places below the working directory.

    Args:
        directory: where its folder is put; it is made.

    Raises:
        hpo.HpoError: it runs just now, the directory has one of its name, or the copy is not the same.

    Examples:
        hpo move digits /scratch/studies        then `hpo report /scratch/studies/digits`
        hpo resume digits --as other            a study keeps its name; this copies it under another
    """
    from hpo.study.keeping.moving import move as move_folder
    from hpo.study.keeping.moving import relative_places

    folder = find_study(str(study))
    places = relative_places(folder.config())
    moved = move_folder(folder, Path(directory).expanduser()).path
    return Moved(moved.name, moved, places)
