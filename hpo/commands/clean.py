"""`clean`: what nothing needs of studies is deleted."""

from collections.abc import Iterator, Sequence

from hpo.errors import HpoError
from hpo.study.files.folder import RUNS, StudyFolder, find_study, studies_in
from hpo.study.keeping.cleaning import Cleaned, clean, clean_runs


def clean_studies(names: Sequence[str], *, states: bool, logs: bool, dry_run: bool) -> Iterator[Cleaned]:
    """Clean these studies, or all under `runs/`, of which one that cannot be cleaned says why, and yield what it freed.

    StudyError where one that was named runs, or is none.
    """
    for folder in [find_study(name) for name in dict.fromkeys(names)]:
        yield clean(folder, states=states, logs=logs, dry_run=dry_run)
    if names:
        return
    for path in studies_in(RUNS):
        folder = StudyFolder(path)
        try:
            yield clean(folder, states=states, logs=logs, dry_run=dry_run)
        except HpoError as error:
            yield Cleaned(folder, {}, str(error).removeprefix(f"study: {folder} "))
    yield clean_runs(RUNS, dry_run=dry_run)
