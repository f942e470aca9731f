"""`hpo watch`: follow a running search, in this terminal or in a page of the browser; or all studies, in a page."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from hpo.cli.arguments import STUDY_OR_MIRROR, add_json, add_study, make_parser
from hpo.cli.browser import open_page
from hpo.cli.output import show_json
from hpo.errors import ConfigError, printable

_EXAMPLES = """\
  hpo watch digits                         the display of the search, in any terminal, until it ends
  hpo watch s3://bucket/digits             by its mirror, from any machine: as of the last copy, one a minute
  hpo watch digits --json                  a line of JSON for every change
  hpo watch digits --page                  the report's page, live: the best so far, curves, workers, failures
  hpo watch --page                         all studies under runs/, each a click away
  hpo watch --page --in /data/runs         those of another folder
  hpo watch digits --page --no-browser     only print the address, which holds the token that lets in"""


# For a search that was started a moment ago, which imports what it needs before it makes its folder.
_PATIENCE_SECONDS = 5.0


def run(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code: in a terminal 0 when the search has ended with a winner, else 1."""
    given = _parse(arguments)
    if given.page:
        _serve(given)
        return 0

    from hpo.show.watching import watch_at_terminal
    from hpo.study.view.reader import open_reader

    with open_reader(given.study, _PATIENCE_SECONDS) as reader:
        if not given.json:
            status = watch_at_terminal(reader)
        else:
            before = None
            for look in reader.follow():
                status = look.status
                if look != before:
                    before = look
                    show_json(reader.view(look).to_dict())
    return 0 if status.state == "ended" and status.best is not None else 1


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = make_parser("watch", __doc__, _EXAMPLES)
    add, of_pages = parser.add_argument, {"where": "--in", "port": "--port"}
    add_study(parser, "?", what=STUDY_OR_MIRROR)
    add("--page", action="store_true", help="serve a page, on the loopback address, for who has its token")
    add("--in", dest="where", metavar="DIR", help="with --page: the folder with the studies (default: runs)")
    add("--port", type=int, help="with --page: where it listens (default: a free one)")
    add("--no-browser", dest="browser", action="store_false", help="with --page: only print the address")
    add_json(parser)
    given = parser.parse_args(arguments)
    if not given.page:
        if given.study is None:
            raise ConfigError("STUDY: is missing; `hpo list` names them, and `hpo watch --page` shows all of them")
        for name, option in of_pages.items():
            if getattr(given, name) is not None:
                raise ConfigError(f"{option}: has no effect without --page; leave it out")
        return given
    if given.json:
        raise ConfigError("--json: has no effect with --page; leave one of them out")
    if given.study is not None and given.where is not None:
        raise ConfigError("--in: has no effect with a study, which its name or folder says; leave one of them out")
    if not 0 <= (given.port or 0) <= 65535:
        raise ConfigError(f"--port: must be 1 to 65535, given {given.port}; leave it out for a free one")
    return given


def _serve(given: argparse.Namespace) -> None:
    from hpo.show.page.server import serve_pages
    from hpo.study.files.folder import RUNS, find_study
    from hpo.study.view.reader import open_reader

    study = None
    if given.study is not None:
        with open_reader(given.study, _PATIENCE_SECONDS) as view:
            view.wait_until_created(lambda text: print(printable(text), file=sys.stderr, flush=True))
        study = find_study(given.study)
    try:
        serve_pages(study, Path(given.where or RUNS), given.port or 0, lambda address: _show(address, given.browser))
    except KeyboardInterrupt:
        # As it is meant to end.
        sys.stderr.write("\n")


def _show(address: str, in_browser: bool) -> None:
    """Print the address; if there is a screen, open it."""
    print(address, flush=True)
    if in_browser:
        open_page(address)
