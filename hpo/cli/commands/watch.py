"""`hpo watch`: follow a study while it runs, or all studies, in a page of the browser that changes with them."""

import argparse
import os
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from hpo.cli.arguments import make_parser
from hpo.errors import ConfigError

_EXAMPLES = """\
  hpo watch digits --page                  the report's page, live: the best so far, curves, workers, failures
  hpo watch --page                         all studies under runs/, each a click away
  hpo watch --page --in /data/runs         those of another folder
  hpo watch digits --page --no-browser     only print the address, which holds the token that lets in"""


def run(arguments: Sequence[str]) -> int:
    """Run the command until it is interrupted; return its exit code."""
    given = _parse(arguments)

    from hpo.page.server import serve_pages
    from hpo.study.files.folder import RUNS, find_study

    study = None if given.study is None else find_study(given.study)
    try:
        serve_pages(study, Path(given.where or RUNS), given.port, lambda address: _show(address, given.browser))
    except KeyboardInterrupt:
        # As it is meant to end.
        sys.stderr.write("\n")
    return 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = make_parser("watch", __doc__, _EXAMPLES)
    add = parser.add_argument
    add("study", metavar="STUDY", nargs="?", help="its name under runs/, or its folder; left out: all studies")
    add("--page", action="store_true", help="serve a page, on the loopback address, for who has its token")
    add("--in", dest="where", metavar="DIR", help="the folder with the studies (runs)")
    add("--port", type=int, default=0, help="where it listens (a free one)")
    add("--no-browser", dest="browser", action="store_false", help="only print the address")
    given = parser.parse_args(arguments)
    if not given.page:
        raise ConfigError("--page: is missing; `hpo watch STUDY --page` serves the live page")
    if given.study is not None and given.where is not None:
        raise ConfigError("--in: has no effect with a study, which its name or folder says; leave one of them out")
    if not 0 <= given.port <= 65535:
        raise ConfigError(f"--port: must be 1 to 65535, given {given.port}; leave it out for a free one")
    return given


def _show(address: str, in_browser: bool) -> None:
    """Print the address; if there is a screen, open it."""
    print(address, flush=True)
    if in_browser and (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or sys.platform == "darwin"):
        webbrowser.open(address)
