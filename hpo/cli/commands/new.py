"""`hpo new`: write a module to train and its configuration, which run as they stand, to be made your own."""

from collections.abc import Sequence

from hpo.cli.arguments import make_parser

_EXAMPLES = """  hpo new forest                                    forest.py and my_conf/study/forest.yaml
  hpo search --config-dir my_conf study=forest      run it as it stands"""


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    parser = make_parser("new", __doc__, _EXAMPLES)
    parser.add_argument("name", help="of the module and the study")
    name = parser.parse_args(arguments).name

    from hpo.interface.starter import FOLDER, new

    written = new(name)
    print(f"wrote {' and '.join(map(str, written))}\nnext:   hpo search --config-dir {FOLDER} study={name}")
