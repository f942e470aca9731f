"""`hpo new`: write a module to train and its configuration, which run as they stand, to be made your own."""

from collections.abc import Sequence

from hpo.cli.arguments import add_json, make_parser
from hpo.cli.output import show_json

_EXAMPLES = """\
  hpo new forest                                    forest.py and my_conf/study/forest.yaml
  hpo search --config-dir my_conf study=forest      run it as it stands"""


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    parser = make_parser("new", __doc__, _EXAMPLES)
    parser.add_argument("name", metavar="NAME", help="the name of the module and the study")
    add_json(parser)
    given = parser.parse_args(arguments)

    from hpo.commands.new import FOLDER, new

    name, written = given.name, new(given.name)
    print(f"wrote {' and '.join(map(str, written))}\nnext:   hpo search --config-dir {FOLDER} study={name}")
    show_json({"name": name, "files": [path.absolute() for path in written], "config_dir": FOLDER})
