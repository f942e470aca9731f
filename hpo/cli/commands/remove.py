"""`hpo remove`: delete studies, with their runs in MLflow; says first what goes, and asks."""

import sys
from collections.abc import Sequence

from hpo.cli.arguments import add_json, add_study, make_parser
from hpo.cli.output import show_json
from hpo.errors import ConfigError, printable

_EXAMPLES = """\
  hpo remove digits
  hpo remove first second --yes     unasked, for scripts
  hpo remove digits --mirror        its copy at study.mirror, too
  hpo remove digits --keep-runs     MLflow keeps its runs"""


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    parser = make_parser("remove", __doc__, _EXAMPLES)
    add_study(parser, "+")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--mirror", action="store_true", help="remove its copy at study.mirror, too")
    parser.add_argument("--keep-runs", action="store_true", help="leave its runs in MLflow")
    add_json(parser)
    given = parser.parse_args(arguments)

    from hpo.commands.remove import remove, says_what_goes
    from hpo.formatting import format_count
    from hpo.study.keeping.removal import find_removal

    found = [find_removal(name) for name in given.studies]
    removals = [*{removal.folder.path: removal for removal in found}.values()]
    for removal in removals:
        for line in says_what_goes(removal, given.mirror, not given.keep_runs):
            print(printable(line) if not line.startswith("  ") else f"  {printable(line[2:])}")
    if not given.yes:
        if given.json or not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise ConfigError("remove: asks before it removes, and nobody can be asked here; give --yes")
        if input("remove it? (yes/no) ").strip().lower() not in ("y", "yes"):
            raise ConfigError("remove: the answer was no: nothing was removed")
    removed = []
    for removal in removals:
        gone = remove(removal, mirror=given.mirror, runs=not given.keep_runs)
        removed.append(vars(gone) | {"study": gone.folder.name})
        runs = f" and {format_count(gone.runs, 'run*')} in MLflow" if gone.runs else ""
        print(printable(f"removed {removal.folder}{runs}"))
    show_json({"removed": removed})
