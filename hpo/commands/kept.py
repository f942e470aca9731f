"""A study's folder as a whole: what lies and is written there, and how it is sent, cleaned, moved and removed."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from hpo.commands.remove import remove
from hpo.errors import HpoError, TrackError
from hpo.study.files.folder import RUNS, StudyFolder, find_study, studies_in
from hpo.study.files.user_notes import UserNote, add_note, read_notes, tags
from hpo.study.keeping.archive import archive
from hpo.study.keeping.cleaning import Cleaned, clean, clean_runs
from hpo.study.keeping.moving import move
from hpo.study.keeping.removal import find_removal
from hpo.study.view.logs import logs_of, read_log


class KeptStudy:
    """A study as it is kept on disk; `hpo.Study` has all of this, too."""

    def __init__(self, folder: StudyFolder) -> None:
        self._folder = folder

    @property
    def name(self) -> str:
        """Its name."""
        return self._folder.config().study.name

    @property
    def folder(self) -> Path:
        """Where it is kept."""
        return self._folder.path

    @property
    def notes(self) -> list[UserNote]:
        """What was written beside it, the earliest first: each with `time`, `user`, `text` and `tags`."""
        return read_notes(self._folder)

    @property
    def tags(self) -> dict[str, str]:
        """Its tags, each with its last value."""
        return tags(self._folder)

    def note(self, text: str = "", tags: Mapping[str, str] | None = None) -> None:
        """Write a note beside it, as `hpo note` does; also while it runs.

        Args:
            text: what it says.
            tags: values by name; an empty one removes the tag.

        Raises:
            hpo.HpoError: it says nothing, or a tag's name is none.
        """
        self._folder.refuse_other_format()
        add_note(self._folder, text, tags or {})

    def clean(self, *, states: bool = False, logs: bool = False, dry_run: bool = False) -> Cleaned:
        """Delete what nothing needs of it, as `hpo clean` does, and return what it freed: `freed`, bytes by kind.

        Args:
            states: whether states from which a larger budget would go on go, too; it may then try other points.
            logs: whether the logs of complete trials go, too.
            dry_run: whether it is only found out.

        Raises:
            hpo.HpoError: it runs just now.
        """
        return clean(self._folder, states=states, logs=logs, dry_run=dry_run)

    def move(self, directory: Path | str) -> Self:
        """Move its folder into a directory, as `hpo move` does, and return the study there.

        Relative paths of its configuration go on meaning places below the working directory.

        Raises:
            hpo.HpoError: it runs just now, the directory has one of its name, or the copy is not the same.
        """
        return type(self)(move(self._folder, Path(directory).expanduser()))

    def archive(self, file: Path | str) -> Path:
        """Write it into one file, `NAME.tar.gz`, as `hpo archive` does, and return its path; see `hpo.unarchive`.

        Raises:
            hpo.HpoError: it runs just now, its record is damaged, or the file is there already.
        """
        path = Path(file).expanduser()
        archive(self._folder, path)
        return path

    def remove(self, *, mirror: bool = False, runs: bool = True) -> None:
        """Delete it, as `hpo remove` does, unasked. That it opened a test part stays known.

        Args:
            mirror: whether its copy at `study.mirror` goes, too.
            runs: whether its runs in MLflow do.

        Raises:
            hpo.HpoError: it runs just now, or MLflow or the mirror cannot be reached.
        """
        remove(find_removal(str(self._folder.path)), mirror=mirror, runs=runs)

    def export(self, url: str, name: str | None = None) -> int:
        """Copy it into another Optuna storage, under its name or another; return how many trials were copied."""
        from hpo.commands.exchange import export_study

        return export_study(str(self.folder), url, name)[1]

    def logs(self, trial: int) -> str:
        """Return what the trainings of a trial printed; StudyError where nothing was, or there is no such trial."""
        return "".join(map(read_log, logs_of(self._folder, trial)))

    def sync(self, uri: str | None = None) -> None:
        """Send what MLflow does not have of it; TrackError where that cannot be reached."""
        from hpo.commands.exchange import send

        sent = send(str(self.folder), [] if uri is None else [f"track.uri={uri}"])
        if not sent.is_all:
            raise TrackError(f"study '{self.name}': not everything could be sent to {sent.study.config.track.uri}")

    @property
    def config(self) -> dict[str, Any]:
        """Its whole configuration."""
        return self._folder.config().to_dict()

    @property
    def scales(self) -> list[dict[str, Any]] | None:
        """What each of its scales changes of the configuration, by dotted key; None where it has none.

        The smallest is first, the target last: a trial whose column `study.scale` has n was trained at `scales[n - 1]`.
        """
        return self._folder.config().study.scales


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
