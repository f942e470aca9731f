"""`archive`: writes a study into an archive file, or restores a study from an archive."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from hpo.commands.arguments import Fields, StudyRef, Trust, Word, refuse_without_effect
from hpo.errors import ConfigError
from hpo.formatting import format_size
from hpo.study.files.folder import RUNS, StudyFolder, find_study, short_path


@dataclass(frozen=True)
class Archived(Fields):
    """An archive and the study in it; `os.fspath` returns the path of the archive.

    Attributes:
        study: the study's name.
        folder: the study's folder.
        file: the archive.
        bytes: the archive's size.
    """

    study: str
    folder: Path
    file: Path
    bytes: int

    def __fspath__(self) -> str:
        return str(self.file)

    def __str__(self) -> str:
        return f"{short_path(self.folder)} is in {short_path(self.file)}, {format_size(self.bytes)}"


@dataclass(frozen=True)
class Restored(Archived):
    """An archive and the study that was restored from it."""

    def __str__(self) -> str:
        return f"restored {short_path(self.folder)}; continue with `{StudyFolder(self.folder).go_on}`"


def archive(study: StudyRef, file: str | Path) -> Archived:
    """Write a study into one archive, `NAME.tar.gz`, with the SHA-256 of each file; see `hpo.unarchive`.

    Args:
        file: the archive, which must not exist yet.

    Raises:
        hpo.HpoError: the study is running, its record is damaged, the file exists already, or the file's name does not
            end in .tar.gz or .tgz.
    """
    from hpo.study.storage.archive import archive as write_archive

    folder, path = find_study(str(study)), Path(file).expanduser().absolute()
    write_archive(folder, path)
    return Archived(folder.path.name, folder.path, path, path.stat().st_size)


def restore_archive(file: str | Path, directory: str | Path, trust: bool) -> Restored:
    """Restore a study from an archive, as `hpo.unarchive` does."""
    from hpo.commands.resume import ask_for_copied
    from hpo.study.storage.archive import unarchive

    path = Path(file).expanduser()
    folder = unarchive(path, Path(directory).expanduser())
    ask_for_copied(folder, folder.config(), "", trust)
    return Restored(folder.path.name, folder.path, path.absolute(), path.stat().st_size)


def archive_or_restore(
    study: StudyRef | None = None,
    file: Annotated[str | None, Word("FILE.tar.gz")] = None,
    *,
    restore: Annotated[str | None, Word("FILE.tar.gz")] = None,
    directory: Annotated[str | None, Word("DIR", option="--in")] = None,
    trust: Trust = False,
) -> Archived:
    """Write a study into one archive, with the SHA-256 of each file; or restore a study from an archive.

    Args:
        file: the archive, which must not exist yet.
        restore: restore the study of this archive.
        directory: with --restore: the parent of the study's folder (default: runs).
        trust: with --restore: allow the code of a study from another machine to run; otherwise hpo asks.

    Raises:
        hpo.HpoError: as `Study.archive` and `hpo.unarchive`.

    Examples:
        hpo archive digits digits.tar.gz
        hpo archive --restore digits.tar.gz              into runs/digits; checks the checksums
        hpo archive --restore digits.tar.gz --in /data   into /data/digits
    """
    if restore is not None and study is None:
        return restore_archive(restore, directory or RUNS, trust)
    if restore is not None or study is None or file is None:
        raise ConfigError("command line: must be STUDY FILE.tar.gz, or --restore FILE.tar.gz; see `hpo archive --help`")
    refuse_without_effect({"--in": directory, "--trust": trust}, "without --restore")
    return archive(study, file)
