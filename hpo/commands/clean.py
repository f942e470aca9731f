"""`clean`: what nothing needs of studies is deleted."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hpo.commands.arguments import StudyRef
from hpo.errors import HpoError
from hpo.study.files.folder import RUNS, StudyFolder, find_study, short_path, studies_in

if TYPE_CHECKING:
    from hpo.study.keeping.cleaning import Cleaned


@dataclass(frozen=True)
class Freed:
    """What was freed of studies.

    Attributes:
        dry_run: whether nothing was deleted.
        bytes: freed, or with `--dry-run` to be freed; in all.
        freed: the same by kind: `states`, `models`, `data`, `logs`, `leftovers`.
        leftovers: of these the bytes that killed processes left next to all studies.
        studies: of each study the fields below.
    """

    dry_run: bool
    studies: Sequence["Cleaned"]
    leftovers: int = 0

    @property
    def bytes(self) -> int:
        """How much it frees, in all."""
        return sum(self.freed.values())

    @property
    def freed(self) -> Mapping[str, int]:
        """The bytes by kind."""
        freed = Counter({"leftovers": self.leftovers} if self.leftovers else {})
        for each in self.studies:
            freed.update(each.freed)
        return dict(freed)

    @property
    def kept(self) -> str | None:
        """Why something stays that the end of the search would free; None = nothing does."""
        return "; ".join(each.kept for each in self.studies if each.kept) or None

    def __str__(self) -> str:
        from hpo.workers.store.packing import in_words

        places = [(short_path(each.folder.path), each.freed, each.kept) for each in self.studies]
        places += [(RUNS, {"leftovers": self.leftovers}, None)] if self.leftovers else []
        lines = []
        for place, sizes, kept in places:
            freed = ", ".join(f"{kind} {in_words(size)}" for kind, size in sizes.items())
            if said := "; ".join(filter(None, (freed, kept))):
                lines.append(f"{place}: {said}")
        return "\n".join([*lines, f"{in_words(self.bytes)} {'would be freed' if self.dry_run else 'freed'}"])

    def to_dict(self) -> dict[str, Any]:
        """Return its fields."""
        studies = [each.to_dict() for each in self.studies]
        return {**vars(self), "bytes": self.bytes, "freed": self.freed, "studies": studies}


def clean(
    studies: Sequence[StudyRef] = (), *, dry_run: bool = False, states: bool = False, logs: bool = False
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

    Raises:
        hpo.HpoError: a study that is named runs, or cannot be read.

    Examples:
        hpo clean --dry-run               what each study under runs/ would free
        hpo clean digits reviews
        hpo clean --logs                  of all studies, the logs of trials that went well, too
    """
    # Here, since it loads the record and the clock.
    from hpo.study.keeping import cleaning

    folders = [find_study(str(study)) for study in dict.fromkeys(studies)]
    for folder in folders:
        # All of them or none, so that what is freed is always said.
        folder.refuse_running()
    cleaned = []
    for folder in folders or map(StudyFolder, studies_in(RUNS)):
        try:
            cleaned.append(cleaning.clean(folder, states=states, logs=logs, dry_run=dry_run))
        except HpoError as error:
            if folders:
                raise
            cleaned.append(cleaning.Cleaned(folder, {}, str(error).removeprefix(f"study: {folder} ")))
    return Freed(dry_run, cleaned, 0 if folders else cleaning.clean_runs(RUNS, dry_run=dry_run).bytes)
