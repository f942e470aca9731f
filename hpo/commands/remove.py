"""`clean`, which deletes unneeded files of studies, and `remove`, which deletes studies, MLflow runs and mirrors."""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from hpo.commands.arguments import Fields, StudyRef, Word, Yes, is_yes
from hpo.config.secrets import hide_secrets
from hpo.config.study_config import StudyConfig
from hpo.errors import ConfigError, HpoError, StudyError, printable
from hpo.files import links_out, remove_tree
from hpo.formatting import format_count, format_size
from hpo.study.files.folder import RUNS, TEST_LOG, StudyFolder, find_study, short_path, studies_in
from hpo.study.storage import cleaning
from hpo.study.storage.mirror import Mirror
from hpo.study.storage.removal import Removal, find_removal
from hpo.study.test_log import share_evaluations
from hpo.track.make import tracking_uri
from hpo.track.store import delete_study, may_have_study
from hpo.workers.store.url import UrlStore


@dataclass(frozen=True)
class Freed(Fields):
    """The disk space that `clean` freed.

    Attributes:
        dry_run: whether this was a dry run, which deletes nothing.
        bytes: the freed bytes in total; with `--dry-run`, the bytes that would be freed.
        freed: the freed bytes by kind: `states`, `models`, `data`, `logs`, `files`, `leftovers`.
        leftovers: the freed bytes of temporary files next to the studies. A killed process leaves such files.
        studies: the freed bytes of each study.
    """

    dry_run: bool
    bytes: int
    freed: Mapping[str, int]
    leftovers: int
    studies: Sequence[cleaning.Cleaned]

    def __str__(self) -> str:
        places = [(short_path(each.folder.path), each.freed, each.kept) for each in self.studies]
        places += [(RUNS, {"leftovers": self.leftovers}, None)] if self.leftovers else []
        lines = []
        for place, sizes, kept in places:
            freed = ", ".join(f"{kind} {format_size(size)}" for kind, size in sizes.items())
            if text := "; ".join(filter(None, (freed, kept))):
                lines.append(f"{place}: {text}")
        return "\n".join([*lines, f"{format_size(self.bytes)} {'would be freed' if self.dry_run else 'freed'}"])


def clean(
    studies: Sequence[StudyRef] = (),
    *,
    dry_run: bool = False,
    states: bool = False,
    logs: bool = False,
    files: bool = False,
) -> Freed:
    """Delete files that no study needs: training states, copies of data, and models of trials that are not the best.

    An unfinished search keeps everything that `hpo resume` needs. A finished search keeps the models of the winner and
    of the best trials (study.checkpoints). If the strategy trains partially, as asha does, the search also keeps its
    training states, because a larger budget continues from these states. --states deletes these states; a larger
    budget then trains from the start, and may try other points. If the state of a trial was deleted, `hpo extend`
    trains this trial from the start.

    Args:
        studies: names under runs/, or folders (default: all).
        dry_run: print the sizes; delete nothing.
        states: for finished searches, also delete the states from which a larger budget would continue.
        logs: also delete the logs of complete trials.
        files: also delete the files that trainings wrote into their own folders (`trial.dir`).

    Raises:
        hpo.HpoError: a study given by name is running, or cannot be read.

    Examples:
        hpo clean --dry-run               the space that each study under runs/ would free
        hpo clean digits reviews
        hpo clean --logs                  all studies, with the logs of complete trials
    """
    folders = [*{folder.path: folder for folder in (find_study(str(study)) for study in studies)}.values()]
    for folder in folders:
        # Check all studies first: an error later would hide what was freed before it.
        folder.refuse_running()
    cleaned = []
    for folder in folders or map(StudyFolder, studies_in(RUNS)):
        try:
            cleaned.append(cleaning.clean(folder, states=states, logs=logs, files=files, dry_run=dry_run))
        except HpoError as error:
            if folders:
                raise
            cleaned.append(cleaning.Cleaned(folder, {}, str(error).removeprefix(f"study: {folder} ")))
    leftovers = 0 if folders else cleaning.clean_runs(RUNS, dry_run=dry_run).bytes
    freed = Counter({"leftovers": leftovers} if leftovers else {})
    for each in cleaned:
        freed.update(each.freed)
    return Freed(dry_run, freed.total(), dict(freed), leftovers, cleaned)


# The largest number of folders and files that the line about a study lists.
_NUM_NAMED = 4


@dataclass(frozen=True)
class RemovedStudy(Fields):
    """A removed study.

    Attributes:
        study: the study's name.
        folder: the folder that was removed.
        files: the number of removed files.
        bytes: the size of the removed files.
        runs: the number of removed runs in MLflow.
        mirror: the URL of the removed mirror; `null` = no mirror was removed.
    """

    study: str
    folder: Path
    files: int = 0
    bytes: int = 0
    runs: int = 0
    mirror: str | None = None

    def __str__(self) -> str:
        runs = f" and {format_count(self.runs, 'run*')} in MLflow" if self.runs else ""
        return printable(f"removed {short_path(self.folder)}{runs}")


@dataclass(frozen=True)
class Removed(Fields):
    """Removed studies.

    Attributes:
        removed: the removed studies, with the number and size of their removed files.
    """

    removed: Sequence[RemovedStudy]
    _lines: Sequence[str] = ()  # what was removed and what remains; empty if a question has printed it

    def __str__(self) -> str:
        return "\n".join([*self._lines, *map(str, self.removed)])


def remove(
    studies: Sequence[StudyRef],
    *,
    yes: Yes = False,
    mirror: bool = False,
    runs: Annotated[bool, Word(option="--keep-runs")] = True,
) -> Removed:
    """Delete studies and their runs in MLflow.

    The command first lists what it will delete, and asks.

    Args:
        mirror: also remove the copy at study.mirror.
        runs: also remove the runs in MLflow; --keep-runs keeps them.

    Raises:
        hpo.HpoError: a study is running, MLflow or the mirror cannot be reached, or (only on the command line) the user
            answered no.

    Examples:
        hpo remove digits
        hpo remove first second --yes     without a question, for scripts
        hpo remove digits --mirror        also the copy at study.mirror
        hpo remove digits --keep-runs     the runs in MLflow stay
    """
    # Find all studies before removing the first.
    found = [find_removal(str(study)) for study in studies]
    removals = [*{removal.folder.path: removal for removal in found}.values()]
    lines = [printable(line) for removal in removals for line in removal_lines(removal, mirror, runs)]
    if not yes:
        print("\n".join(lines))
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise ConfigError("remove: cannot ask for confirmation without a terminal; give --yes to remove anyway")
        if not is_yes("remove it?"):
            raise ConfigError("remove: nothing was removed, because the answer was no")
        lines = []
    removed: list[RemovedStudy] = []
    for removal in removals:
        try:
            removed.append(remove_study(removal, mirror=mirror, runs=runs))
        except HpoError as error:
            if not removed:
                raise
            raise type(error)(f"{error}; already removed before the error: {'; '.join(map(str, removed))}") from error
    return Removed(removed, lines)


def removal_lines(removal: Removal, mirror: bool, runs: bool) -> Iterator[str]:
    """Yield lines that say what `remove` deletes and what remains."""
    if removal.is_link:
        yield f"{removal.folder}: a link to {removal.folder.path.readlink()}, which stays"
        return
    largest = sorted(removal.sizes.items(), key=lambda item: -item[1])[:_NUM_NAMED]
    inner = ", ".join(f"{name} {format_size(size)}" for name, size in largest)
    yield f"{removal.folder}: {format_count(removal.files, 'file*')}, {format_size(removal.bytes)} ({inner})"
    for link in links_out(removal.folder.path):
        yield f"  {link.name}: a link to {link.path.readlink()}, which stays"
    yield from (f"  {line}" for line in _elsewhere(removal, mirror, runs))
    if removal.folder.test_log_path.exists() or removal.folder.test_path.exists():
        yield f"  {short_path(removal.folder.path.parent / TEST_LOG)} keeps the record of the study's test evaluations"


def _elsewhere(removal: Removal, mirror: bool, runs: bool) -> Iterator[str]:
    config = removal.config
    if removal.folder.is_import:
        return
    if config is None or removal.study_id is None:
        yield "the study's mirror and MLflow runs stay, because the study's configuration or record cannot be read"
        return
    if removal.same is not None:
        yield (
            f"the study's mirror and MLflow runs stay, because {removal.same} is a copy of this study, and uses the "
            f"same mirror and runs"
        )
        return
    if may_have_study(config.track.uri, removal.study_id):
        yield f"the study's runs in MLflow ({hide_secrets(config.track.uri, {})}){'' if runs else ' stay'}"
    section = config.study
    for key, url, remark in (
        ("study.mirror", section.mirror, "" if mirror else " stays; --mirror removes it, too"),
        ("study.artifacts", config.artifacts, ""),
        ("study.storage", section.storage, " stays, with the study's record"),
    ):
        if url is not None:
            yield f"{key}: {hide_secrets(url, {})}{remark}"


def remove_study(removal: Removal, *, mirror: bool = False, runs: bool = True) -> RemovedStudy:
    """Remove a study, its folder last, so that the same command can continue after an error.

    A record in `study.storage` stays. If the study's folder is a link, remove only the link. Raise StudyError if the
    study is running.
    """
    folder, config, study_id = removal.folder, removal.config, removal.study_id
    if removal.is_link:
        folder.path.unlink()
        return RemovedStudy(folder.path.name, folder.path)
    if not folder.path.is_dir():
        raise StudyError(f"study: another process has removed {folder}")
    folder.refuse_running()
    for link in links_out(folder.path):
        # Remove the link only, never the files that it leads to.
        link.path.unlink(missing_ok=True)
    num_runs, removed_mirror = 0, None
    with folder.lock():
        if config is not None and study_id is not None and removal.same is None:
            if mirror and config.study.mirror is not None:
                existed = Mirror(config.study.mirror, folder, config.study.name, study_id).remove()
                removed_mirror = config.study.mirror if existed else None
            if runs:
                num_runs = _delete_runs(config, study_id)
            if config.artifacts is not None:
                _empty(UrlStore(config.artifacts, "study.artifacts"))
        share_evaluations(folder)
        remove_tree(folder.path)
    return RemovedStudy(folder.path.name, folder.path, removal.files, removal.bytes, num_runs, removed_mirror)


def _delete_runs(config: StudyConfig, study_id: str) -> int:
    try:
        return delete_study(tracking_uri(config), study_id)
    except HpoError as error:
        raise type(error)(
            f"{error}; the study's folder is unchanged; to remove only the folder, run `hpo remove --keep-runs`"
        ) from error


def _empty(store: UrlStore) -> None:
    for below in ("states", "checkpoints"):
        for name in store.folders(below):
            store.remove_folder(f"{below}/{name}")
