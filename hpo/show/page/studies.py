"""What the page of all studies shows: a row for each, the last changed first."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from hpo.report.pages.html import render, render_macro
from hpo.show.page.texts import best_text, done_text, time_text
from hpo.study.files.folder import StudyFolder, short_path, studies_in
from hpo.study.files.status import Status
from hpo.study.view.latest import latest_status


class StudiesContent:
    """The one part of the page of all studies under a folder; more may always come."""

    def __init__(self, where: Path) -> None:
        self._where = where
        # By study: what its files looked like when its status was read, and that.
        self._known: dict[str, tuple[Any, Status]] = {}
        self.is_over = False

    def look(self, wanted: Collection[str] | None = None) -> Iterator[tuple[str, Mapping[str, Any]]]:  # noqa: ARG002
        """Yield the table."""
        folders = [StudyFolder(path) for path in studies_in(self._where) if not path.is_symlink()]
        self._known = {folder.path.name: self._status(folder) for folder in folders}
        rows = [
            (status.model_copy(update={"name": name}), best_text(status), done_text(status), time_text(status))
            for name, (_, status) in self._known.items()
        ]
        rows.sort(key=lambda row: (row[0].state != "running", -(row[0].updated or 0.0), row[0].name))
        yield "studies", {"html": render_macro("live_parts.html", "studies", rows=rows, where=short_path(self._where))}

    def page(self, version: int, html: Mapping[str, Any]) -> str:
        """Return the whole page."""
        parts = {"studies": html.get("studies", "")}
        return render("studies.html", version=version, html=parts, where=short_path(self._where))

    def _status(self, folder: StudyFolder) -> tuple[Any, Status]:
        """Return what a study's files look like, and its status, which is read only where they look otherwise."""
        files = (folder.status_path, folder.config_path, folder.test_path, folder.path / "report.json")
        stamps: list[Any] = [folder.holder()]
        for path in files:
            with suppress(OSError):
                stamps.append((path.name, path.stat().st_mtime_ns))
        known = self._known.get(folder.path.name)
        return known if known is not None and known[0] == stamps else (stamps, latest_status(folder))
