"""Keeps a page current while somebody looks: one thread for each, however many look."""

import hashlib
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

_log = logging.getLogger(__name__)

_SECONDS_BETWEEN_LOOKS = 2.0


class PageContent(Protocol):
    """What a page shows; only the thread of its watch looks."""

    is_over: bool

    def refresh(self, wanted: Collection[str] | None) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the parts that have changed; what takes long only if it is wanted, None = all."""
        ...

    def page(self, version: int, html: Mapping[str, Any]) -> str:
        """Return the whole page."""
        ...


@dataclass(frozen=True)
class _Part:
    """A part as it is sent, and the version of the page in which it came."""

    content: Mapping[str, Any]
    text: str
    digest: bytes
    version: int


class Watch:
    """A page, whose version rises with each part that changes."""

    def __init__(self, content: PageContent) -> None:
        self._content = content
        self._parts: dict[str, _Part] = {}
        self._version = 0
        # What each of those who look sees; None = all of the page.
        self._viewers: list[Collection[str] | None] = []
        self._changing, self._closing = threading.Lock(), threading.Event()
        self._wake, self._has_looked, self._has_picture = (threading.Event() for _ in range(3))
        self._thread = threading.Thread(target=self._look_on, daemon=True)
        self._thread.start()

    def page(self, seconds: float) -> str:
        """Return the whole page as it is, after its first picture, or so many seconds; what is missing follows."""
        self._wake.set()
        self._has_picture.wait(seconds)
        with self._changing:
            version, parts = self._version, dict(self._parts)
        return self._content.page(version, {name: part.content.get("html") for name, part in parts.items()})

    def since(self, version: int) -> tuple[int, bool, str]:
        """Return the version, whether nothing more comes, and the parts that have changed since a version, as JSON."""
        with self._changing:
            is_over = self._content.is_over and self._has_looked.is_set()
            changed = [f"{json.dumps(n)}:{part.text}" for n, part in self._parts.items() if part.version > version]
            text = f'{{"over":{json.dumps(is_over)},"changed":{{{",".join(changed)}}}}}'
            return self._version, is_over, text

    @contextmanager
    def viewed(self, parts: Collection[str] | None = None) -> Iterator[None]:
        """Keep these parts of the page current while this is entered, None = all of them."""
        with self._changing:
            self._viewers.append(parts)
            if self._content.is_over:
                # Somebody may have gone on with it.
                self._has_looked.clear()
        self._wake.set()
        try:
            yield
        finally:
            with self._changing:
                self._viewers.remove(parts)

    def close(self) -> None:
        """End the thread, after what it draws."""
        self._closing.set()
        self._wake.set()

    def _look_on(self) -> None:
        while True:
            began = time.monotonic()
            self._look()
            self._has_looked.set()
            self._has_picture.set()
            if self._closing.wait(max(0.0, began + _SECONDS_BETWEEN_LOOKS - time.monotonic())):
                return
            if self._content.is_over or not self._viewers:
                self._wake.wait()
                self._wake.clear()

    def _look(self) -> None:
        with self._changing:
            viewers = list(self._viewers)
        wanted = None if None in viewers else {name for parts in viewers for name in parts or ()}
        try:
            for name, content in self._content.refresh(wanted):
                self._put(name, content)
        except Exception:  # noqa: BLE001  # The page stays as it is, and the next look may succeed.
            _log.warning("page: a part could not be made", exc_info=True)

    def _put(self, name: str, content: Mapping[str, Any]) -> None:
        text = json.dumps(content, separators=(",", ":"))
        digest = hashlib.sha256(text.encode()).digest()
        before = self._parts.get(name)
        if before is None or before.digest != digest:
            with self._changing:
                self._version += 1
                self._parts[name] = _Part(content, text, digest, self._version)
            if content.get("figure") and not self._has_picture.is_set():
                self._has_picture.set()
                _give_way()


def _give_way() -> None:
    """Let a search that needs all processors have them from now on: on Linux each thread has its own priority."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
