"""Serves live pages on the loopback address, for reading only; every address contains the server's token."""

import asyncio
import gc
import secrets
import socket
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from hpo.errors import HpoError, TrackError
from hpo.show.page.content import StudyContent
from hpo.show.page.studies import StudiesContent
from hpo.show.page.watch import Watch
from hpo.study.files.folder import StudyFolder
from hpo.study.view.logs import logs_of, read_log

HOST = "127.0.0.1"
_HOSTS = (HOST, "localhost")
_READING = ("GET", "HEAD")
# The longest time that a page waits for its first figure; if the figure takes longer, it comes as an event.
_SECONDS_FOR_FIRST = 1.0
_SECONDS_BETWEEN = 0.25
# A page shows the end of a log, which says why a trial failed.
_MOST_LOG_BYTES = 1 << 20
# Security headers that cannot be written into a page; the policy inside the page covers loading and framing.
_HEADERS = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff"}


class Pages:
    """The pages of one study, or of all studies of a folder. The first request for a page starts the page's `Watch`."""

    def __init__(self, study: StudyFolder | None, where: Path) -> None:
        self._study, self._where = study, where
        self._watches: dict[str, Watch] = {}
        # Several threads answer requests, and a page must have only one watch.
        self._making = threading.Lock()

    def folder(self, name: str) -> StudyFolder:
        """Return the folder of a study; an empty name means the study that this server was started for.

        Raise HTTPException 404 if there is no such study.
        """
        if not name and self._study is not None:
            return self._study
        folder = StudyFolder(self._where / name)
        # A name in a route has no slash, but dots or a link could lead outside of the folder.
        if self._study is not None or name in ("", ".", "..") or folder.path.is_symlink() or not folder.exists:
            raise HTTPException(404, f"there is no study {name!r} under {self._where}")
        return folder

    def watch(self, name: str) -> Watch:
        """Return the `Watch` of a study's page. An empty name means the first page of this server."""
        with self._making:
            if name not in self._watches:
                is_all = not name and self._study is None
                self._watches[name] = Watch(StudiesContent(self._where) if is_all else StudyContent(self.folder(name)))
            return self._watches[name]

    def close(self) -> None:
        """Close the `Watch` of each page."""
        for watch in self._watches.values():
            watch.close()


def application(pages: Pages, token: str) -> Starlette:
    """Return the application with its routes: a page, its events, a study's report, and a trial's log."""

    # Starlette runs functions without `async` in threads, so that a slow disk delays only one answer.
    def page(request: Request) -> Response:
        return HTMLResponse(pages.watch(_name(request)).page(_SECONDS_FOR_FIRST), headers=_HEADERS)

    async def events(request: Request) -> Response:
        watch = await asyncio.to_thread(pages.watch, _name(request))
        since = request.headers.get("last-event-id") or request.query_params.get("since", "")
        see = request.query_params.get("see")
        parts = None if see is None else frozenset(see.split(","))
        stream = _events(request, watch, int(since) if since.isdecimal() else 0, parts)
        return StreamingResponse(stream, media_type="text/event-stream", headers=_HEADERS)

    def report(request: Request) -> Response:
        path = _own_files(pages.folder(_name(request))).path / "report.html"
        if not path.is_file():
            raise HTTPException(404, "there is no report yet; `hpo report` writes one")
        return FileResponse(path, headers=_HEADERS)

    def log(request: Request) -> Response:
        folder = _own_files(pages.folder(_name(request)))
        try:
            paths = logs_of(folder, request.path_params["trial"])
        except HpoError as error:
            raise HTTPException(404, str(error)) from error
        texts = [f"== {path.name}\n{read_log(path, _MOST_LOG_BYTES)}" for path in paths]
        return PlainTextResponse("\n".join(texts), headers=_HEADERS)

    places: Mapping[str, Callable[[Request], Any]] = {
        "": page,
        "events": events,
        "report": report,
        "log/{trial:int}": log,
    }
    roots = (f"/{token}/", f"/{token}/studies/{{name}}/")
    routes = [Route(root + place, answer, methods=["GET"]) for root in roots for place, answer in places.items()]
    guards = [
        Middleware(TrustedHostMiddleware, allowed_hosts=list(_HOSTS), www_redirect=False),
        Middleware(_Guard, token),
    ]
    return Starlette(routes=routes, middleware=guards, exception_handlers={HTTPException: _refuse})


class _Guard:
    """Refuses requests that would write, requests from other sites' pages, and requests without the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            request = Request(scope)
            token = request.url.path.split("/")[1]
            origin = request.headers.get("origin")
            if not secrets.compare_digest(token.encode(), self._token.encode()):
                reason = "use the whole printed address, with its token"
            elif request.method not in _READING:
                reason = "the page is read-only"
            elif origin is not None and origin != f"http://{request.headers.get('host')}":
                reason = "the request comes from another site"
            else:
                await self._app(scope, receive, send)
                return
            await PlainTextResponse(f"refused: {reason}\n", 403)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


async def _events(request: Request, watch: Watch, seen: int, parts: frozenset[str] | None) -> AsyncIterator[str]:
    """Yield the changes of a page since its version `seen` as server-sent events.

    `parts` are the parts of the page that the viewer sees; None = all parts. Until this generator ends, the server
    refreshes the parts.
    """
    with watch.viewed(parts):
        yield "retry: 2000\n\n"
        while not await request.is_disconnected():
            version, is_over, text = watch.since(seen)
            if version != seen or is_over:
                yield f"id: {version}\ndata: {text}\n\n"
            if is_over:
                return
            seen = version
            await asyncio.sleep(_SECONDS_BETWEEN)


def _name(request: Request) -> str:
    name: str = request.path_params.get("name", "")
    return name


def _own_files(folder: StudyFolder) -> StudyFolder:
    """Return the folder; raise HTTPException 404 if a link in the folder leads out of the folder."""
    try:
        folder.refuse_links()
    except HpoError as error:
        raise HTTPException(404, str(error)) from error
    return folder


async def _refuse(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return PlainTextResponse(f"{error.detail}\n", error.status_code, headers=_HEADERS)


class PageServer:
    """A server of pages. The server listens as soon as it is created, and answers requests during `run`.

    If the server cannot listen on the port, its creation raises TrackError.
    """

    def __init__(self, study: StudyFolder | None, where: Path, port: int) -> None:
        self._token, self._pages = secrets.token_urlsafe(16), Pages(study, where)
        self._listener = _listen(port)
        # Read the study while the browser starts.
        self._pages.watch("")

    @property
    def address(self) -> str:
        """The address of the server's first page, including the token."""
        return f"http://{HOST}:{self._listener.getsockname()[1]}/{self._token}/"

    def run(self) -> None:
        """Serve until the process is interrupted."""
        import uvicorn

        # Collect garbage less often: with 10,000 trials, it would take a fifth of a figure's drawing time.
        gc.set_threshold(100_000, 20, 100)
        config = uvicorn.Config(
            application(self._pages, self._token),
            log_level="critical",
            access_log=False,
            server_header=False,
            lifespan="off",
            # Wait only a second for event streams, because they do not end by themselves.
            timeout_graceful_shutdown=1,
        )
        uvicorn.Server(config).run(sockets=[self._listener])

    def close(self) -> None:
        """Close the pages and the socket."""
        self._pages.close()
        self._listener.close()


def _listen(port: int) -> socket.socket:
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen()
    except OSError as error:
        listener.close()
        raise TrackError(f"--port: cannot listen on {HOST}:{port}: {error.strerror}; choose another port") from error
    return listener
