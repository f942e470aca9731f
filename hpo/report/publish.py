"""Publishes a study: only the files from which others read, reproduce and replay it."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from hpo.errors import StudyError
from hpo.study.files.folder import OPENINGS, StudyFolder, refuse_link
from hpo.study.study import Study

STUDIES = Path("studies")

# No database, no weights, no copy of the data: `hpo reproduce` and `hpo search --replay` need none of them.
_FILES = (
    *("config.yaml", "trials.csv", "imports.csv", "report.md", "report.json", "environment.json"),
    *("best.yaml", "test.json", OPENINGS),
)
# Without the page, which holds the library that draws it; `hpo compare` writes it again from the others.
_PUBLISHED = (
    *("comparison.md", "comparison.json", "comparison.csv", "comparison.yaml", "searches.csv", "environment.json"),
)


def publish(study: Study) -> list[Path]:
    """Copy the study's files into `studies/<name>/` and return their paths.

    An older publication of the same name is replaced.

    Raises:
        StudyError: the study's own folder is the published one, or a link is in its place.
    """
    return _copied(study.folder.path, study.config.study.name, _FILES)


def publish_comparison(folder: Path, name: str) -> list[Path]:
    """Copy a comparison into `studies/<name>/`, as `publish` does, without the page of 5 MB."""
    return _copied(folder, name, _PUBLISHED)


def _copied(folder: Path, name: str, files: Sequence[str]) -> list[Path]:
    target = STUDIES / name
    refuse_link(target)
    StudyFolder(folder).refuse_links()
    if target.resolve() == folder.resolve():
        raise StudyError(f"publish: {target} is the study's own folder; publish from runs/")
    target.mkdir(parents=True, exist_ok=True)
    # Published files are readable by others, unlike the state in runs/.
    for place in (STUDIES, target):
        place.chmod(0o755)
    published = []
    for file in files:
        # A link would redirect the copy to another place.
        (target / file).unlink(missing_ok=True)
        if (folder / file).exists():
            shutil.copyfile(folder / file, target / file)
            (target / file).chmod(0o644)
            published.append(target / file)
    return published
