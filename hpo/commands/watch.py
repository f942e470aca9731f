"""`watch`: follows a running search in a terminal or in the browser, or all studies in the browser."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from hpo.commands.arguments import StudyOrMirror, Word, refuse_without_effect
from hpo.commands.serve import Server, say, started, until_interrupted
from hpo.errors import ConfigError, printable
from hpo.study.files.folder import RUNS, find_study
from hpo.study.files.status import Status
from hpo.study.view.view import StudyView

# Seconds to wait for the folder of a search that has just started, and still imports its libraries.
_DEFAULT_WAIT = 5.0


class Watched:
    """Follows a study until its search ends: `show` prints to a terminal, `views` yields views for programs."""

    def __init__(self, study: str, wait: float) -> None:
        self._study, self._wait = study, wait
        self._last: Status | None = None

    def show(self) -> None:
        """Show the search in this terminal."""
        from hpo.show.watching import watch_at_terminal
        from hpo.study.view.reader import open_reader

        with open_reader(self._study, self._wait) as reader:
            self._last = watch_at_terminal(reader)

    def views(self) -> Iterator[StudyView]:
        """Yield the view of the study now, and again after each change."""
        from hpo.study.view.reader import open_reader

        before = None
        with open_reader(self._study, self._wait) as reader:
            for snapshot in reader.follow():
                self._last = snapshot.status
                if snapshot != before:
                    before = snapshot
                    yield reader.view(snapshot)

    @property
    def exit_code(self) -> int:
        """The exit code: 0 if the search has ended with a winner, else 1."""
        return 0 if self._last and self._last.state == "ended" and self._last.best is not None else 1


def watch(
    study: StudyOrMirror | None = None,
    *,
    wait: Annotated[float | None, Word("SECONDS")] = None,
    page: bool = False,
    in_: Annotated[str | Path | None, Word("DIR")] = None,
    port: int | None = None,
    browser: bool = True,
) -> Watched | Server:
    """Follow one running search in this terminal or in a live page, or follow all studies in a live page.

    Args:
        wait: the seconds to wait until the study exists, for example while its job is queued (default: 5).
        page: serve a live page on the loopback address, protected by a token.
        in_: with --page, the folder of the studies (default: runs).
        port: with --page, the port to listen on (default: a free port).
        browser: with --page, open the page in a browser; --no-browser only prints the address.

    Raises:
        hpo.HpoError: the study does not exist, the port is in use, or an option has no effect.

    Examples:
        hpo watch digits                         the display of the search, in any terminal, until it ends
        hpo watch s3://bucket/digits             a search on another machine, from its mirror (updated once a minute)
        hpo watch digits --json                  one line of JSON per change
        hpo watch digits --page                  the live page: best trial, curves, workers, failures
        hpo watch digits --wait 3600             wait up to an hour for a queued job to start
        hpo watch --page                         all studies under runs/, with links to their pages
        hpo watch --page --in /data/runs         the studies of another folder
        hpo watch digits --page --no-browser     only print the address, which contains the token
    """
    if wait is not None and not wait >= 0:
        raise ConfigError(f"--wait: must be 0 or more seconds, given {wait:g}")
    if "://" in str(study):
        refuse_without_effect({"--wait": wait, "--page": page}, "with a URL, only with a study in a folder")
    seconds = _DEFAULT_WAIT if wait is None else wait
    if page:
        if study is None:
            refuse_without_effect({"--wait": wait}, "without a study")
        return _page_server(None if study is None else str(study), in_, port, browser, seconds)
    if study is None:
        raise ConfigError("STUDY: is missing; `hpo list` lists the studies, and `hpo watch --page` shows all of them")
    refuse_without_effect({"--in": in_, "--port": port, "--no-browser": not browser}, "without --page")
    return Watched(str(study), seconds)


def _page_server(study: str | None, in_: str | Path | None, port: int | None, browser: bool, wait: float) -> Server:
    if study is not None:
        refuse_without_effect({"--in": in_}, "if STUDY is given, because STUDY may be a folder")
    if port is not None and not 1 <= port <= 65535:
        raise ConfigError(f"--port: must be 1 to 65535, given {port}; leave it out to use a free port")

    from hpo.show.page.server import PageServer
    from hpo.study.view.reader import open_reader

    folder = None
    if study is not None:
        with open_reader(study, wait) as view:
            view.wait_until_created(lambda text: say(printable(text)))
        folder = find_study(study)
    server = PageServer(folder, Path(in_ or RUNS), port or 0)
    opens = server.address if browser else ""
    return Server(server.address, _wait=until_interrupted(server.run), _close=server.close, _opens=opens)


@dataclass(frozen=True)
class LivePage(Server):
    """The live page of a study; a notebook shows it in the cell."""

    height: int = 800

    def _repr_html_(self) -> str:
        style = f"width: 100%; height: {self.height}px; border: 1px solid #8884"
        return f'<iframe src="{self.address}" style="{style}" title="live page of the study"></iframe>'


def open_page(study: str, height: int) -> LivePage:
    """Serve a study's live page, as `hpo watch --page` does, and return when the page answers."""
    return LivePage(**vars(started(["watch", study, "--page"], {})), height=height)
