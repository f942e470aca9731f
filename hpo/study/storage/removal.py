"""What goes when a study is removed."""

import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from hpo.config.study_config import StudyConfig
from hpo.errors import HpoError, StudyError
from hpo.files import entries
from hpo.study.files.folder import RUNS, StudyFolder, find_study
from hpo.study.storage.mirror import study_id_of
from hpo.trials.record.own_file import read_mark

# One of them lies beside the configuration of every study, so that another program's config.yaml is none.
_BESIDE = ("study.db", "study.db.backup", "environment.json", "trials.csv")


@dataclass(frozen=True)
class Removal:
    """A study that can be removed.

    Attributes:
        is_link: whether there is a link in the folder's place; then that alone goes, and nothing else is known.
        sizes: the bytes of each file and folder directly in it, by name.
        files: how many files there are, in all.
        config: its configuration; None where that cannot be read: then nothing outside of the folder is found.
        study_id: under which MLflow and its mirror have it; None where it cannot be read.
    """

    folder: StudyFolder
    is_link: bool = False
    sizes: dict[str, int] = field(default_factory=dict)
    files: int = 0
    config: StudyConfig | None = None
    study_id: str | None = None

    @property
    def bytes(self) -> int:
        """The size of its files."""
        return sum(self.sizes.values())

    @property
    def same(self) -> StudyFolder | None:
        """Another folder with the same study, such as one that was copied by hand; it keeps what is elsewhere."""
        for runs in {self.folder.path.parent, RUNS.absolute()}:
            for path in sorted(runs.glob("[!.]*/study.db")):
                mark = read_mark(path)
                if self.study_id and mark and mark.study_id == self.study_id and path.parent != self.folder.path:
                    return StudyFolder(path.parent)
        return None


def find_removal(name: str) -> Removal:
    """Return what would go of a study, given by its name under `runs/` or by a path; also of a damaged one.

    StudyError where there is none, it runs, or the working directory is inside of it.
    """
    folder = _find(name)
    if folder.path.is_symlink():
        return Removal(folder, is_link=True)
    if Path.cwd().resolve().is_relative_to(folder.path.resolve()):
        raise StudyError(f"study: {folder.path} has the working directory inside of it; go to another (cd)")
    folder.refuse_running()
    sizes, files = dict[str, int](), 0
    for entry in entries(folder.path):
        if entry.kind != "folder":
            top = entry.name.partition("/")[0]
            sizes[top] = sizes.get(top, 0) + entry.path.lstat().st_size
            files += 1
    config = None
    with suppress(HpoError):
        config = folder.config()
    return Removal(folder, False, sizes, files, config, study_id_of(folder, config))


def _find(name: str) -> StudyFolder:
    for path in (RUNS / name, Path(name)):
        folder = StudyFolder(Path(os.path.normpath(path.absolute())))
        in_runs = folder.path.parent == RUNS.absolute()
        if in_runs and folder.path.is_symlink():
            return folder
        is_beside = any((folder.path / each).exists() for each in _BESIDE)
        if is_beside and (in_runs or folder.exists):
            return folder
    raise StudyError(_why_none(name))


def _why_none(name: str) -> str:
    try:
        folder = find_study(name)
    except StudyError as error:
        return str(error)
    return f"study: {folder} has a config.yaml, but nothing else of a study; remove it by hand"
