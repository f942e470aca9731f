"""Publishes a study: the files from which others read, reproduce and replay it, and nothing else."""

import shutil
from pathlib import Path

from hpo.errors import StudyError
from hpo.study.folder import refuse_link
from hpo.study.study import Study

STUDIES = Path("studies")

# No database, no weights, no copy of the data: `hpo reproduce` and `hpo search --replay` need none of them.
_FILES = (
    *("config.yaml", "trials.csv", "imports.csv", "report.md", "report.json", "environment.json"),
    *("best.yaml", "test.json"),
)
# No page: it holds the library that draws it. `hpo compare` writes it again from the others.
_PUBLISHED = (
    *("comparison.md", "comparison.json", "comparison.csv", "comparison.yaml", "searches.csv", "environment.json"),
)


def publish(study: Study) -> list[Path]:
    """Copy the study's files into `studies/<name>/` and return where they lie.

    An older publication of the same name is replaced.

    Raises:
        StudyError: when the study's own folder is the published one, or a link lies in its place.
    """
    target = STUDIES / study.config.study.name
    refuse_link(target)
    if target.resolve() == study.folder.path.resolve():
        raise StudyError(f"--publish: {target} is the study's own folder; publish from runs/")
    target.mkdir(parents=True, exist_ok=True)
    # What is published is for others, unlike the state in runs/.
    for folder in (STUDIES, target):
        folder.chmod(0o755)
    published = []
    for name in _FILES:
        (target / name).unlink(missing_ok=True)
        if (study.folder.path / name).exists():
            shutil.copyfile(study.folder.path / name, target / name)
            (target / name).chmod(0o644)
            published.append(target / name)
    return published


def publish_comparison(folder: Path, name: str) -> tuple[Path, ...]:
    """Copy what others need into `studies/<name>/` and return where it lies: all but the page of 5 MB.

    An older publication of the same name is replaced.
    """
    target = Path("studies") / name
    target.mkdir(parents=True, exist_ok=True)
    found = [folder / file for file in _PUBLISHED if (folder / file).exists()]
    for file in _PUBLISHED:
        (target / file).unlink(missing_ok=True)
    return tuple(Path(shutil.copyfile(path, target / path.name)) for path in found)
