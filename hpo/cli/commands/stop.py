"""`hpo stop`: end a search once its running trials have ended, at once, or one of its trials, from any terminal."""

from collections.abc import Sequence

from hpo.cli.arguments import add_json, add_study, make_parser
from hpo.cli.output import show_json

_EXAMPLES = """\
  hpo stop digits                  begins no further trial, and ends when those that run have ended
  hpo stop digits --now            as Ctrl-C: states are saved, and unfinished trials go on with `hpo resume digits`
  hpo stop digits --trial 7        this trial alone, where it is; the search goes on without it"""


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    parser = make_parser("stop", __doc__, _EXAMPLES)
    add_study(parser)
    parser.add_argument("--now", action="store_true", help="do not wait for the running trials")
    parser.add_argument("--trial", type=int, metavar="NUMBER", help="stop this trial alone")
    add_json(parser)
    given = parser.parse_args(arguments)

    from hpo.commands.steer import SteeredStudy
    from hpo.study.files.folder import find_study

    says = SteeredStudy(find_study(given.study)).stop(given.trial, now=given.now)
    print(f"study {given.study}: {says}")
    show_json({"study": given.study, "trial": given.trial, "says": says})
