"""`hpo list`: the studies under runs/, or in another folder: state, trials, best, strategy, data, size, date."""

from collections.abc import Sequence
from pathlib import Path

from hpo.cli.arguments import add_json, make_parser
from hpo.cli.output import show_json
from hpo.errors import printable
from hpo.show.tables import show_table

_EXAMPLES = """\
  hpo list                                                    all studies under runs/, the newest first
  hpo list --where 'state=running or state=interrupted'
  hpo list --where 'strategy=evolutionary and score>0.9' --sort -score
  hpo list --where 'data~digits and date>=2026-11 and test!=none'
  hpo list --in studies                                       those that were published
  hpo list --json                                             for programs

fields: {fields}
operators: =, !=, <, <=, >, >=, ~ (contains); and, or, not; none is a missing value; size is in bytes"""

_COLUMNS = ("study", "state", "done", "best", "metric", "strategy", "data", "test", "size", "date")
# On a narrow terminal these are left out, the first one first.
_LEAST = ("size", "data", "strategy", "test", "date")


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    from hpo.commands.show import FIELDS, list_studies
    from hpo.show.lines import list_texts
    from hpo.study.files.folder import RUNS

    parser = make_parser("list", __doc__, _EXAMPLES.format(fields=", ".join(FIELDS)))
    what = f"where they are (default: {RUNS})"
    parser.add_argument("--in", dest="folder", metavar="DIR", default=str(RUNS), help=what)
    parser.add_argument("--where", metavar="CONDITION", help="which of them; see below")
    parser.add_argument("--sort", metavar="FIELD", help="by which field; -FIELD from high to low (default: -date)")
    add_json(parser)
    given = parser.parse_args(_joined(arguments))
    studies = list_studies(Path(given.folder), given.where, given.sort)
    if given.json:
        show_json({"in": Path(given.folder).absolute(), "studies": [view.to_dict() for view in studies]})
        return
    if not studies:
        print(f"no study in {given.folder}{' fits' if given.where else ': start one with `hpo search`'}")
        return
    show_table(_COLUMNS, ([*list_texts(view).values()] for view in studies), least=_LEAST)
    for view in studies:
        if view.state in ("failed", "unreadable"):
            print(printable(f"{view.study}: {view.error}"))


def _joined(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with `--sort -score`, which argparse takes for two options, as one."""
    words = list(arguments)
    if "--sort" in words[:-1]:
        place = words.index("--sort")
        words[place : place + 2] = [f"--sort={words[place + 1]}"]
    return words
