"""`hpo.unarchive`: a study comes back from an archive."""

from pathlib import Path

from hpo.commands.archive import restore_archive
from hpo.commands.study import Study
from hpo.study.files.folder import RUNS, StudyFolder


def unarchive(file: Path | str, directory: Path | str = RUNS, *, trust: bool = False) -> Study:
    """Take a study out of an archive, as `hpo archive --restore` does, and return it; see `Study.archive`.

    Args:
        file: the archive.
        directory: where its folder is put.
        trust: whether a study that was not made on this machine may run its objective, unasked.

    Raises:
        hpo.HpoError: the file is no sound archive, or there is a study of that name. Or the study was not made here,
            and nobody could be asked, or the answer was no: then it is there, but was only copied.
    """
    return Study(StudyFolder(restore_archive(file, directory, trust).folder))
