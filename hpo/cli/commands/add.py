"""`hpo add`: let a running or stopped search try a point of your own next."""

from collections.abc import Sequence

from hpo.cli.arguments import add_json, add_study, make_parser
from hpo.cli.output import show_json

_EXAMPLES = """\
  hpo add digits model.dropout=0.2 model.num_layers=2     what is left out has its default
  hpo add digits 'model={d_model: 64, num_heads: 4}'"""


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    parser = make_parser("add", __doc__, _EXAMPLES)
    add_study(parser)
    parser.add_argument("values", nargs="+", metavar="KEY=VALUE", help="values of what is searched")
    add_json(parser)
    given = parser.parse_args(arguments)

    from hpo.commands.steer import SteeredStudy
    from hpo.config.composing.overrides import read_values
    from hpo.study.files.folder import find_study

    folder = find_study(given.study)
    point = read_values(given.values)
    says = SteeredStudy(folder).add(point)
    print(f"study {given.study}: {says}")
    show_json({"study": given.study, "point": point, "says": says})
