"""`hpo logs`: what the trainings of a study printed, which is kept; with dispatch=local what Python code printed."""

from collections.abc import Sequence

from hpo.cli.arguments import add_study, make_parser

_EXAMPLES = """\
  hpo logs digits                   which trainings printed something, and their last lines
  hpo logs digits 3                 all that trial 3 printed
  hpo logs digits 3 --tail 50       the last 50 lines of each of its trainings"""


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    parser = make_parser("logs", __doc__, _EXAMPLES)
    add_study(parser)
    parser.add_argument("trial", metavar="TRIAL", nargs="?", type=int, help="its number; left out: a line per training")
    parser.add_argument("--tail", metavar="N", type=int, help="the last N lines of each (all)")
    given = parser.parse_args(arguments)
    if given.tail is not None and given.tail < 1:
        parser.error(f"argument --tail: must be 1 or more, given {given.tail}")

    from hpo.study.files.folder import find_study, short_path

    for path in find_study(given.study).logs(given.trial):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        if given.trial is None:
            last = next((line for line in reversed(lines) if line.strip()), "")
            print(f"{short_path(path)}  {len(lines)} lines  {last[:100]}")
            continue
        print(f"== {short_path(path)}")
        print("\n".join(lines if given.tail is None else lines[-given.tail :]))
