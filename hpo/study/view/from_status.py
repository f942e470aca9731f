"""Makes the view of a study from its status file alone; this is fast enough for lists of many studies."""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from hpo.errors import HpoError, first_line
from hpo.study.files.folder import StudyFolder, refuse_link
from hpo.study.files.status import Status
from hpo.study.files.user_notes import tags
from hpo.study.view.latest import latest_status
from hpo.study.view.view import StudyView, TrialView
from hpo.trials.score_format import score_format

_FILES = (
    *("report.html", "report.md", "report.json", "trials.csv", "imports.csv", "config.yaml", "environment.json"),
    *("best.yaml", "test.json", "checklist.md", "tables.tex", "reproduction.json"),
)


def view_in_list(path: Path) -> StudyView:
    """Return the view of the study in a folder, for a list of studies; the state is `unreadable` if reading fails."""
    folder = StudyFolder(path)
    try:
        refuse_link(path)
        status = latest_status(folder)
    except HpoError as error:
        status = Status(name=path.name, state="unreadable", error=first_line(error))
    begun = path.lstat().st_mtime if status.begun is None else status.begun
    return replace(view_of_status(folder, status), begun=begun)


def view_of_status(
    folder: StudyFolder,
    status: Status,
    *,
    reference: str | None = None,
    copied: str | None = None,
    fault: str | None = None,
) -> StudyView:
    """Return the view of a study from its status alone; this takes a millisecond.

    Args:
        folder: the study's folder; for a mirror, the folder of its temporary copy.
        reference: the study's name, or its mirror's URL, for commands; None = the name or path of the study's folder.
        copied: when the mirror was written; None = the study is read from its folder.
        fault: why the configuration, the record or the mirror cannot be read; None = they can be read.
    """
    best, texts, in_search = None, status.texts or _texts(status.scores), status.search_texts
    if status.best is not None and status.scores:
        in_search = in_search or _texts(status.search_scores)
        expected = status.expected
        expected_texts = status.expected_texts or (expected.texts(score_format([expected.value])) if expected else {})
        best = TrialView(
            trial=status.best,
            score=status.score,
            scores=status.scores,
            search_scores=status.search_scores,
            texts=texts,
            search_texts=in_search,
            expected=expected,
            expected_texts=expected_texts,
        )
    return StudyView(
        study=folder.path.name if reference is None or "://" not in reference else status.name,
        reference=reference or folder.reference,
        state=status.state,
        says=status.words,
        folder=None if reference is not None and "://" in reference else folder.path,
        copied=copied,
        study_id=status.study_id or None,
        user=status.user or None,
        phase=status.phase,
        following=status.following,
        process=status.holder,
        begun=status.begun,
        updated=status.updated,
        error=status.error,
        fault=fault,
        data=status.data or None,
        strategy=status.strategy or None,
        metrics=status.metrics,
        done=status.done,
        budget=status.budget or None,
        counts=status.counts,
        trials=status.trials,
        minutes=status.minutes,
        ended_by=status.ended_by,
        best=best,
        on_front=status.on_front,
        test=status.test,
        test_texts=_texts(status.test),
        num_failed=status.trials.get("failed", 0),
        tags=_tags(folder),
        # `Path.is_file` raises if the folder cannot be read.
        files={name: folder.path / name for name in _FILES if os.path.isfile(folder.path / name)},  # noqa: PTH113
    )


def _texts(scores: Mapping[str, float]) -> dict[str, str]:
    return {name: score_format([score])(score) for name, score in scores.items()}


def _tags(folder: StudyFolder) -> dict[str, str]:
    # If the folder cannot be read, the study's error says so already.
    with suppress(OSError):
        return tags(folder)
    return {}
