"""`clean` and `remove`: what nothing needs of studies goes, or whole studies, also from MLflow and mirrors."""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from hpo.commands.arguments import Fields, StudyRef, Word, Yes
from hpo.config.secrets import hide_secrets
from hpo.config.study_config import StudyConfig
from hpo.errors import ConfigError, HpoError, StudyError, printable
from hpo.files import links_out, remove_tree
from hpo.formatting import format_count
from hpo.study.files.folder import RUNS, TEST_LOG, StudyFolder, find_study, short_path, studies_in
from hpo.study.storage import cleaning
from hpo.study.storage.mirror import Mirror
from hpo.study.storage.removal import Removal, find_removal
from hpo.study.test_log import share_evaluations
from hpo.track.make import tracking_uri
from hpo.track.store import delete_study, may_have_study
from hpo.workers.store.packing import in_words
from hpo.workers.store.url import UrlStore


@dataclass(frozen=True)
class Freed(Fields):
    """What was freed of studies.

    Attributes:
        dry_run: whether nothing was deleted.
        bytes: freed, or with `--dry-run` to be freed; in all.
        freed: the same by kind: `states`, `models`, `data`, `logs`, `files`, `leftovers`.
        leftovers: of these the bytes that killed processes left next to all studies.
        studies: of each study the fields below.
    """

    dry_run: bool
    bytes: int
    freed: Mapping[str, int]
    leftovers: int
    studies: Sequence[cleaning.Cleaned]

    @property
    def kept(self) -> str | None:
        """Why something stays that the end of the search would free; None = nothing does."""
        return "; ".join(each.kept for each in self.studies if each.kept) or None

    def __str__(self) -> str:
        places = [(short_path(each.folder.path), each.freed, each.kept) for each in self.studies]
        places += [(RUNS, {"leftovers": self.leftovers}, None)] if self.leftovers else []
        lines = []
        for place, sizes, kept in places:
            freed = ", ".join(f"{kind} {in_words(size)}" for kind, size in sizes.items())
            if said := "; ".join(filter(None, (freed, kept))):
                lines.append(f"{place}: {said}")
        return "\n".join([*lines, f"{in_words(self.bytes)} {'would be freed' if self.dry_run else 'freed'}"])


def clean(
    studies: Sequence[StudyRef] = (),
    *,
    dry_run: bool = False,
    states: bool = False,
    logs: bool = False,
    files: bool = False,
) -> Freed:
    """Free what no study needs: states, models that are not among the best, copies of data, leftovers.

    Of a search that is not over nothing goes that `hpo resume` needs. Of one that is over, the model of the winner
    stays, and those of the best trials (study.checkpoints); and its states where a larger budget goes on from them:
    under asha, hyperband and successive_halving. Without states, `hpo extend` trains from the start; so does a larger
    budget after --states, which may then try other points.

    Args:
        studies: its name under runs/, or its folder (default: all).
        dry_run: say what would go, and delete nothing.
        states: delete states that a larger budget goes on from, too, of studies that are done.
        logs: delete the logs of complete trials, too.
        files: delete what trainings have written into their own folders (`trial.dir`), too.

    Raises:
        hpo.HpoError: a study that is named runs, or cannot be read.

    Examples:
        hpo clean --dry-run               what each study under runs/ would free
        hpo clean digits reviews
        hpo clean --logs                  of all studies, the logs of trials that went well, too
    """
    folders = [find_study(str(study)) for study in dict.fromkeys(studies)]
    for folder in folders:
        # All of them or none, so that what is freed is always said.
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


_SHOWN = 4


@dataclass(frozen=True)
class RemovedStudy(Fields):
    """A study that is gone.

    Attributes:
        study: its name.
        folder: where it was.
        files: how many there were.
        bytes: their size.
        runs: how many MLflow had of it, and lost.
        mirror: the URL of its mirror, where that was removed, too; else `null`.
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
    """Studies that are gone.

    Attributes:
        removed: of each study the fields below.
    """

    removed: Sequence[RemovedStudy]
    _lines: Sequence[str] = ()  # on what went and what stays, where that was not said before

    def __str__(self) -> str:
        return "\n".join([*self._lines, *map(str, self.removed)])


def remove(
    studies: Sequence[StudyRef],
    *,
    yes: Yes = False,
    mirror: bool = False,
    runs: Annotated[bool, Word(option="--keep-runs")] = True,
) -> Removed:
    """Delete studies, with their runs in MLflow; a shell says first what goes, and asks.

    Args:
        mirror: remove its copy at study.mirror, too.
        runs: its runs in MLflow go, too, unless they are kept.

    Raises:
        hpo.HpoError: one runs just now, MLflow or the mirror cannot be reached, or the answer was no.

    Examples:
        hpo remove digits
        hpo remove first second --yes     unasked, for scripts
        hpo remove digits --mirror        its copy at study.mirror, too
        hpo remove digits --keep-runs     MLflow keeps its runs
    """
    # All are found before any goes.
    found = [find_removal(str(study)) for study in studies]
    removals = [*{removal.folder.path: removal for removal in found}.values()]
    lines = [printable(line) for removal in removals for line in removal_lines(removal, mirror, runs)]
    if not yes:
        print("\n".join(lines))
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise ConfigError("remove: asks before it removes, and nobody can be asked here; give --yes")
        if input("remove it? (yes/no) ").strip().lower() not in ("y", "yes"):
            raise ConfigError("remove: the answer was no: nothing was removed")
        lines = []
    removed: list[RemovedStudy] = []
    for removal in removals:
        try:
            removed.append(remove_study(removal, mirror=mirror, runs=runs))
        except HpoError as error:
            if not removed:
                raise
            # What is gone is said, also where the rest stays.
            raise type(error)(f"{error}; before that: {'; '.join(map(str, removed))}") from error
    return Removed(removed, lines)


def removal_lines(removal: Removal, mirror: bool, runs: bool) -> Iterator[str]:
    """Yield lines on what `remove` takes along, and on what stays."""
    if removal.is_link:
        yield f"{removal.folder}: a link to {removal.folder.path.readlink()}, which stays"
        return
    largest = sorted(removal.sizes.items(), key=lambda item: -item[1])[:_SHOWN]
    inner = ", ".join(f"{name} {in_words(size)}" for name, size in largest)
    yield f"{removal.folder}: {format_count(removal.files, 'file*')}, {in_words(removal.bytes)} ({inner})"
    for link in links_out(removal.folder.path):
        yield f"  {link.name}: a link to {link.path.readlink()}, which stays"
    yield from (f"  {line}" for line in _elsewhere(removal, mirror, runs))
    if removal.folder.test_log_path.exists() or removal.folder.test_path.exists():
        yield f"  {short_path(removal.folder.path.parent / TEST_LOG)} keeps how often it opened a test part"


def _elsewhere(removal: Removal, mirror: bool, runs: bool) -> Iterator[str]:
    config = removal.config
    if removal.folder.is_import:
        return
    if config is None or removal.study_id is None:
        yield "what MLflow and a mirror have of it stays: its configuration or its record cannot be read"
        return
    if removal.same is not None:
        yield f"what MLflow and a mirror have of it stays: {removal.same} is the same study, copied by hand"
        return
    if may_have_study(config.track.uri, removal.study_id):
        yield f"its runs in MLflow, {hide_secrets(config.track.uri, {})}{'' if runs else ', stay'}"
    section = config.study
    for key, url, stays in (
        ("study.mirror", section.mirror, "" if mirror else " stays; --mirror removes it, too"),
        ("study.artifacts", config.artifacts, ""),
        ("study.storage", section.storage, " stays, with its record"),
    ):
        if url is not None:
            yield f"{key}: {hide_secrets(url, {})}{stays}"


def remove_study(removal: Removal, *, mirror: bool = False, runs: bool = True) -> RemovedStudy:
    """Remove a study that is not running; the folder last, so that after a fault the same command goes on.

    Args:
        removal: the study.
        mirror: whether its copy at `study.mirror` is removed, too.
        runs: whether MLflow's runs are.

    Raises:
        StudyError: it runs, or one of the places cannot be reached.
        TrackError: MLflow cannot be.
    """
    folder, config, study_id = removal.folder, removal.config, removal.study_id
    if removal.is_link:
        folder.path.unlink()
        return RemovedStudy(folder.path.name, folder.path)
    if not folder.path.is_dir():
        raise StudyError(f"study: {folder} has been removed meanwhile")
    folder.refuse_running()
    for link in links_out(folder.path):
        # What leads out of the folder is taken away alone: nothing is read or removed by way of it.
        link.path.unlink(missing_ok=True)
    deleted, gone = 0, None
    with folder.lock():
        if not removal.sizes.keys() & {path.name for path in folder.path.iterdir()}:
            raise StudyError(f"study: {folder} has been removed meanwhile")
        if config is not None and study_id is not None and removal.same is None:
            if mirror and config.study.mirror is not None:
                is_there = Mirror(config.study.mirror, folder, config.study.name, study_id).remove()
                gone = config.study.mirror if is_there else None
            if runs:
                deleted = _delete_runs(config, study_id)
            if config.artifacts is not None:
                _empty(UrlStore(config.artifacts, "study.artifacts"))
        share_evaluations(folder)
        remove_tree(folder.path)
    return RemovedStudy(folder.path.name, folder.path, removal.files, removal.bytes, deleted, gone)


def _delete_runs(config: StudyConfig, study_id: str) -> int:
    try:
        return delete_study(tracking_uri(config), study_id)
    except HpoError as error:
        raise type(error)(f"{error}; nothing was removed of the folder; --keep-runs leaves MLflow alone") from error


def _empty(store: UrlStore) -> None:
    for below in ("states", "checkpoints"):
        for name in store.folders(below):
            store.remove_folder(f"{below}/{name}")
