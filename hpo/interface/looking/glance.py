"""One study at a glance: its state, the best so far, what runs now, what failed, cautions, and what to do next.

Nothing of the study is imported or run, and nothing is created or changed; it may be running, killed, published, or
damaged.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from hpo.config.goals import SCALE
from hpo.errors import HpoError, first_line
from hpo.formatting import format_count
from hpo.report.subject import Subject
from hpo.study.additions import untried_points, what_tries
from hpo.study.basis.default import default_of
from hpo.study.basis.described import Described
from hpo.study.files.folder import StudyFolder, inner, short_path
from hpo.study.files.running import RunningTask
from hpo.study.files.status import Status
from hpo.study.files.user_notes import tags
from hpo.study.ledger import what_opens
from hpo.study.view.cautions import cautions_so_far
from hpo.study.view.read_only import ReadOnlyStudy
from hpo.study.view.reader import StudyReader
from hpo.study.winner.choosing import why_none
from hpo.trials.space.space import point_key
from hpo.trials.trial import Trial
from hpo.workers.training.task_builder import FINAL_FOLD

_FAILURES = 3


@dataclass(frozen=True)
class Glance:
    """What is seen of a study at one moment.

    Attributes:
        reference: what commands call it: its name, its folder, or the URL of its mirror.
        tasks: what runs now.
        copied: of a mirror, when that was written; else empty.
        seen: its configuration and trials; None where they cannot be read.
        fault: why not, in a line.
    """

    reference: str
    folder: StudyFolder
    status: Status
    tasks: Sequence[RunningTask]
    copied: str
    seen: ReadOnlyStudy | None
    fault: str | None

    @classmethod
    def of(cls, view: StudyReader) -> Self:
        """Look at a study; StudyError where a mirror cannot be reached, or a link leads out of the folder."""
        look, folder = view.look(), view.folder
        folder.refuse_links()
        seen, fault = None, look.fault
        try:
            seen = view.study()
        except HpoError as error:
            # One that is just starting cannot be read yet.
            fault = "" if look.status.phase == "starting" else first_line(error)
        return cls(view.reference, folder, look.status, look.tasks, look.copied, seen, fault or None)

    @property
    def _is_mirror(self) -> bool:
        return "://" in self.reference

    @cached_property
    def best(self) -> Trial | None:
        """The winner of one that has ended, if it has one, or the best so far."""
        if self.seen is None:
            return None
        named = [trial for trial in self.seen.trials if trial.number == self.status.best]
        so_far = None if self.status.state == "ended" else self.seen.best
        return named[0] if named else so_far

    def to_dict(self) -> dict[str, Any]:
        """Return all of it, JSON-able, times in seconds since the epoch; its fields are in docs/reference/json.md."""
        status, seen, holder = self.status, self.seen, self.status.holder
        metric = next(iter(status.metrics), None)
        return {
            "study": status.name if self._is_mirror else self.folder.path.name,
            "folder": None if self._is_mirror else self.folder.path,
            "copied": self.copied or None,
            "state": status.state,
            "says": status.words,
            "phase": status.phase,
            "following": status.following,
            "process": vars(holder) if holder else None,
            "metric": metric,
            "direction": status.metrics.get(metric or ""),
            "metrics": status.metrics,
            "limits": [str(limit) for limit in seen.goal.limits] if seen else [],
            "strategy": status.strategy,
            "data": status.data,
            "objective": seen.config.objective if seen else None,
            "hyperparameters": len(set(seen.space.keys) - {SCALE}) if seen else None,
            "scales": seen.goal.target or None if seen else None,
            "points": seen.space.size if seen else None,
            "done": status.done,
            "budget": status.budget,
            "counts": status.counts,
            "trials": status.trials,
            "minutes": status.minutes,
            "ended_by": status.ended_by,
            "best": self._best(),
            "why_none": None if seen is None or self.best else why_none(seen.history, seen.goal),
            "on_front": status.on_front,
            "test": status.test or None,
            "untried": self._untried,
            "running": [*self._running()],
            "failures": [*self._failures()],
            "cautions": self._cautions(),
            "tags": tags(self.folder),
            "fault": self.fault,
            "next": [{"command": command, "does": does} for command, does in self._next()],
        }

    def _best(self) -> dict[str, Any] | None:
        best, status = self.best, self.status
        if best is None or self.seen is None:
            of_status = {name: getattr(status, name) for name in ("score", "scores", "search_scores")}
            return {"trial": status.best, **of_status} if status.scores else None
        # The winner among finalists has its scores on fresh seeds.
        named = status.scores if best.number == status.best else {}
        scores = named or {name: best.mean(name) for name in self.seen.goal.names}
        score = scores.get(self.seen.goal.metric)
        default = default_of(self.seen.space, self.seen.config)
        return {
            "trial": best.number,
            "score": score,
            "scores": scores,
            "search_scores": status.search_scores if named else {},
            "point": dict(best.point),
            "default": None if default is None else dict(default),
            "amount": best.amount,
            "reached": best.reached,
        }

    def _running(self) -> Iterator[dict[str, Any]]:
        now = time.time()
        for task in sorted(self.tasks, key=lambda task: task.worker):
            layout = self.seen.layout if self.seen else None
            name = "final" if task.task == FINAL_FOLD else layout.name(task.task) if layout else str(task.task)
            yield {
                "trial": task.trial,
                "task": name,
                "worker": task.worker,
                "host": task.host,
                "process": task.process,
                "gpus": task.gpus,
                "started": task.started,
                "seconds": now - task.started,
                "seconds_silent": now - (task.reported or task.started),
                "point": task.point,
            }

    @cached_property
    def _untried(self) -> int:
        """How many of the points that were added were not tried."""
        return len(untried_points(self.seen.record)) if self.seen else 0

    def _failures(self) -> Iterator[dict[str, Any]]:
        failed = [trial for trial in self.seen.trials if trial.state == "failed"] if self.seen else []
        for trial in failed[-_FAILURES:]:
            logs = sorted(self.folder.logs_dir.glob(self.folder.log_path(trial.number, "*").name))
            yield {"trial": trial.number, "error": trial.error, "logs": logs}

    def _cautions(self) -> list[str]:
        if (report := self._report()) is not None:
            there = report.get("cautions")
            return [text for text in (there if isinstance(there, list) else ()) if isinstance(text, str)]
        seen = self.seen
        if seen is None:
            return []
        strategy = seen.config.strategy["name"]
        is_over = self.status.state == "ended"
        subject = Subject(seen.space, seen.goal, seen.layout, strategy, seen.trials, self.best, is_over=is_over)
        return cautions_so_far(subject)

    def _report(self) -> dict[str, Any] | None:
        """Return report.json where it tells of the study as it is: no process has it, and no trial came since."""
        if self.status.holder is not None or self.status.state == "unreadable":
            return None
        try:
            report = self.folder.report()
        except HpoError:
            return None
        proposed = inner(report, "counts").get("proposed")
        return report if proposed == sum(self.status.trials.values()) else None

    def _next(self) -> Iterator[tuple[str, str]]:
        """Yield the commands that fit now, and what each does."""
        name, status, folder = self.reference, self.status, self.folder
        if self._is_mirror:
            if status.state == "running":
                yield f"hpo watch {name}", "follows it"
            yield f"hpo resume {name}", "fetches it into runs/, and goes on with it"
            return
        if status.phase in ("starting", "asked and told"):
            yield f"hpo watch {name}", "follows it"
            return
        if status.state == "open":
            yield f"hpo ask {name}", "asks for its next trial"
            yield f"hpo ask {name} --open", "lists what was asked for and not told"
        if status.state == "running":
            yield f"hpo watch {name}", "follows it"
            if status.phase == "after the search":
                yield f"hpo stop {name} --now", "ends it; what is missing then is trained by `hpo resume`"
            else:
                yield f"hpo stop {name}", "ends it once its running trials have ended"
            return
        if not folder.database_path.exists() and self.seen is not None and self.seen.config.study.storage is None:
            yield f"hpo reproduce {name}", "trains its winner again, as it was published"
            return
        if self.fault is not None:
            # Without its configuration nothing goes on.
            with suppress(HpoError):
                folder.config()
                yield f"hpo resume {name}", "replaces a damaged record by its backup, if that is sound"
            return
        if status.state in ("interrupted", "failed"):
            fault = ", once the fault is mended" if status.state == "failed" else ""
            yield folder.go_on, f"goes on with it{fault}"
        if status.state == "ended":
            if self._untried and self.seen is not None:
                budget = self.seen.config.study
                command = what_tries(name, self._untried, status.done, budget, status.ended_by)
                yield command, f"tries the {format_count(self._untried, 'added point*')}"
            if self.best is not None and not status.test and (opens := what_opens(folder, self._parts)) is not None:
                yield opens
            if not self._has_tried_all:
                yield f"hpo resume {name} study.trials={2 * status.budget}", "goes on with a larger budget"
        page = folder.path / "report.html"
        if page.exists():
            yield f"hpo report {name}", f"writes {short_path(page)} again"
        else:
            yield f"hpo report {name}", "writes its report, as of now"

    @property
    def _has_tried_all(self) -> bool:
        """Whether a larger budget would find nothing to try."""
        if self.status.ended_by == "space" or self.seen is None or self.seen.space.size is None:
            return self.status.ended_by == "space"
        return len({point_key(trial.point) for trial in self.seen.trials}) >= self.seen.space.size

    @property
    def _parts(self) -> Mapping[str, Any]:
        described = Described.at(short_path(self.folder.described_path))
        return described.split["parts"] if described and described.split else {}
