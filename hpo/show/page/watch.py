"""Keeps pages up to date while they have viewers, with one thread per page."""

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hpo.show.page.content import StudyContent
from hpo.show.page.studies import StudiesContent

_log = logging.getLogger(__name__)

_SECONDS_BETWEEN_REFRESHES = 2.0


@dataclass(frozen=True)
class _Part:
    """A part of a page.

    Attributes:
        content: the part's content; see `hpo.show.page.content.Content`.
        text: the content as JSON.
        version: the page's version number after the part's last change.
    """

    content: Mapping[str, Any]
    text: str
    version: int


class Watch:
    """Keeps a page up to date. A thread of this object refreshes the content; no other thread does.

    Each change of a part increases the page's version number by 1.
    """

    def __init__(self, content: StudyContent | StudiesContent) -> None:
        self._content = content
        self._parts: dict[str, _Part] = {}
        self._version = 0
        # The visible parts of each viewer; None = the whole page.
        self._viewers: list[Collection[str] | None] = []
        self._changing, self._closing = threading.Lock(), threading.Event()
        self._wake, self._is_refreshed, self._has_figure = (threading.Event() for _ in range(3))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def page(self, seconds: float) -> str:
        """Return the page when its first figure is ready, or after `seconds`; later events send the missing parts."""
        self._wake.set()
        self._has_figure.wait(seconds)
        with self._changing:
            version, parts = self._version, dict(self._parts)
        return self._content.page(version, {name: part.content.get("html") for name, part in parts.items()})

    def since(self, version: int) -> tuple[int, bool, str]:
        """Return the page's version, whether the page is final, and the parts changed since `version`, as JSON text."""
        with self._changing:
            is_over = self._content.is_over and self._is_refreshed.is_set()
            changed = [f"{json.dumps(n)}:{part.text}" for n, part in self._parts.items() if part.version > version]
            text = f'{{"over":{json.dumps(is_over)},"changed":{{{",".join(changed)}}}}}'
            return self._version, is_over, text

    @contextmanager
    def viewed(self, parts: Collection[str] | None = None) -> Iterator[None]:
        """Refresh the page's parts in `parts` while the `with` block runs; None = all parts."""
        with self._changing:
            self._viewers.append(parts)
            if self._content.is_over:
                # Refresh the page before it counts as final again, because someone may have resumed the study.
                self._is_refreshed.clear()
        self._wake.set()
        try:
            yield
        finally:
            with self._changing:
                self._viewers.remove(parts)

    def close(self) -> None:
        """End the thread once it has rendered the current changes."""
        self._closing.set()
        self._wake.set()

    def _run(self) -> None:
        while True:
            began = time.monotonic()
            self._refresh()
            self._is_refreshed.set()
            self._has_figure.set()
            if self._closing.wait(max(0.0, began + _SECONDS_BETWEEN_REFRESHES - time.monotonic())):
                return
            if self._content.is_over or not self._viewers:
                self._wake.wait()
                self._wake.clear()

    def _refresh(self) -> None:
        with self._changing:
            viewers = list(self._viewers)
        wanted = None if None in viewers else {name for parts in viewers for name in parts or ()}
        try:
            for name, content in self._content.refresh(wanted):
                self._put(name, content)
        except Exception:  # noqa: BLE001  # The page keeps its parts, and the next refresh may succeed.
            _log.warning("page: a part could not be rendered", exc_info=True)

    def _put(self, name: str, content: Mapping[str, Any]) -> None:
        text = json.dumps(content, separators=(",", ":"))
        before = self._parts.get(name)
        if before is None or before.text != text:
            with self._changing:
                self._version += 1
                self._parts[name] = _Part(content, text, self._version)
            if content.get("figure") and not self._has_figure.is_set():
                self._has_figure.set()
                _lower_priority()


def _lower_priority() -> None:
    """Lower the priority of the current thread, so that a search can use all processors; only on Linux."""
    # On other systems, a priority belongs to the whole process.
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
