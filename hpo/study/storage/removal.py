"""Finds what the removal of a study deletes."""

import os
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from hpo.config.documents import read_yaml
from hpo.config.study_config import StudyConfig, config_from_dict
from hpo.errors import HpoError, StudyError
from hpo.files import entries
from hpo.study.files.folder import RUNS, StudyFolder, find_study
from hpo.study.storage.mirror import study_id_of
from hpo.trials.record.own_file import read_mark

# Every study has at least one of these files; another program's folder with a config.yaml has none.
_STUDY_FILES = ("study.db", "study.db.backup", "environment.json", "trials.csv")


@dataclass(frozen=True)
class Removal:
    """A study that can be removed.

    Attributes:
        folder: the study's folder.
        is_link: whether the path is a link. If so, only the link is deleted, and the fields below are empty.
        sizes: the size in bytes of each file and subfolder directly in the folder, by name.
        files: the total number of files.
        config: the study's configuration. None if the configuration cannot be read; then the removal deletes
            neither the mirror nor the MLflow runs.
        study_id: the study's id in MLflow and in its mirror; None if the id cannot be read.
    """

    folder: StudyFolder
    is_link: bool = False
    sizes: dict[str, int] = field(default_factory=dict)
    files: int = 0
    config: StudyConfig | None = None
    study_id: str | None = None

    @property
    def bytes(self) -> int:
        """The total size of the files."""
        return sum(self.sizes.values())

    @cached_property
    def same(self) -> StudyFolder | None:
        """Another folder with the same study id, such as a manual copy; None if there is no such folder.

        This property looks only in runs/ and in the folders next to the study. If there is such a folder, the removal
        deletes neither the mirror nor the MLflow runs, because the mirror and the runs belong to that folder too.

        The answer is cached, because a command may announce and then remove several copies. Without the cache, the
        removal of the first copy could change the answer for the second copy.
        """
        for runs in {self.folder.path.parent, RUNS.absolute()}:
            for path in sorted(runs.glob("[!.]*/study.db")):
                mark = read_mark(path)
                if self.study_id and mark and mark.study_id == self.study_id and path.parent != self.folder.path:
                    return StudyFolder(path.parent)
        return None


def find_removal(name: str) -> Removal:
    """Return what the removal of a study would delete; the study may be damaged.

    Args:
        name: the study's name under `runs/`, or the path of its folder.

    Raises:
        StudyError: the study does not exist, the study runs, or the working directory is inside its folder.
    """
    folder = _find_folder(name)
    if folder.path.is_symlink():
        return Removal(folder, is_link=True)
    if Path.cwd().resolve().is_relative_to(folder.path.resolve()):
        raise StudyError(f"study: the working directory is inside {folder.path}; change to another directory (cd)")
    folder.refuse_running()
    sizes, files = dict[str, int](), 0
    for entry in entries(folder.path):
        if entry.kind != "folder":
            top = entry.name.partition("/")[0]
            sizes[top] = sizes.get(top, 0) + entry.path.lstat().st_size
            files += 1
    config = None
    with suppress(HpoError):
        # Unlike `folder.config`, do not refuse links that lead out of the folder, because `remove` deletes them.
        folder.refuse_other_format()
        config = config_from_dict(read_yaml(folder.config_path))
    return Removal(folder, False, sizes, files, config, study_id_of(folder, config))


def _find_folder(name: str) -> StudyFolder:
    for path in (RUNS / name, Path(name)):
        folder = StudyFolder(Path(os.path.normpath(path.absolute())))
        in_runs = folder.path.parent == RUNS.absolute()
        if in_runs and folder.path.is_symlink():
            return folder
        has_study_files = any((folder.path / each).exists() for each in _STUDY_FILES)
        if has_study_files and (in_runs or folder.exists):
            return folder
    found = find_study(name)  # raises if there is no study
    raise StudyError(f"study: {found} has a config.yaml but no other file of a study; remove the folder yourself")
