"""The page of all studies, with one row per study.

Running studies come first, then all other studies. Each of these two groups begins with the study that changed last.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from hpo.errors import StudyError
from hpo.report.pages.html import render, render_macro
from hpo.show.lines import list_texts
from hpo.study.files.folder import IMPORT, StudyFolder, listed_in, short_path
from hpo.study.view.from_status import view_in_list
from hpo.study.view.view import StudyView


class StudiesContent:
    """The page of all studies under a folder. The table of studies is the page's only part.

    `is_over` is always False, because the studies may change at any time.
    """

    def __init__(self, where: Path) -> None:
        self._where = where
        # By folder of a study: the stamps of the study's files at the last reading, and the study's view.
        self._known: dict[Path, tuple[Any, StudyView]] = {}
        self.is_over = False

    def refresh(self, wanted: Collection[str] | None = None) -> Iterator[tuple[str, Mapping[str, Any]]]:  # noqa: ARG002
        """Yield the table of studies; if the folder cannot be read, the table says why."""
        known, fault = dict[Path, tuple[Any, StudyView]](), ""
        try:
            for path in listed_in(self._where):
                # The folder may have been removed meanwhile.
                with suppress(FileNotFoundError):
                    known[path] = self._view(path)
        except StudyError as error:
            fault = str(error)
        self._known = known
        rows = [(view, list_texts(view), StudyFolder(path).exists) for path, (_, view) in known.items()]
        rows.sort(key=lambda row: (row[0].state != "running", -(row[0].updated or row[0].begun or 0.0), row[0].study))
        html = render_macro("live_parts.html", "studies", rows=rows, where=short_path(self._where), fault=fault)
        yield "studies", {"html": html}

    def page(self, version: int, html: Mapping[str, Any]) -> str:
        """Return the whole page."""
        parts = {"studies": html.get("studies", "")}
        return render("studies.html", version=version, html=parts, where=short_path(self._where))

    def _view(self, path: Path) -> tuple[Any, StudyView]:
        """Return the stamps of a study's files, and the study's view.

        The stamps are the lock's holder, and the name and modification time of each file. If the stamps are the same as
        in the last call, return the view from the last call.
        """
        folder = StudyFolder(path)
        files = (folder.status_path, folder.config_path, folder.test_path, path / "report.json", path / IMPORT)
        stamps: list[Any] = [folder.holder()]
        for file in files:
            with suppress(OSError):
                stamps.append((file.name, file.stat().st_mtime_ns))
        known = self._known.get(path)
        return known if known is not None and known[0] == stamps else (stamps, view_in_list(path))
