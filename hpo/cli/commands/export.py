"""`hpo export`: copy a study into another Optuna storage, for optuna-dashboard and `optuna.load_study`."""

from collections.abc import Sequence

from hpo.cli.arguments import add_json, add_study, make_parser
from hpo.cli.output import show_json

_EXAMPLES = """\
  hpo export digits --optuna sqlite:///shared.db
  hpo export digits --optuna postgresql://user:password@host/optuna --name digits-2026"""


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    parser = make_parser("export", __doc__, _EXAMPLES)
    add_study(parser)
    parser.add_argument("--optuna", required=True, metavar="URL", help="the storage, such as sqlite:///shared.db")
    parser.add_argument("--name", metavar="NAME", help="the study's name there (default: its own)")
    add_json(parser)
    given = parser.parse_args(arguments)

    from hpo.commands.exchange import export_study
    from hpo.config.sealing import hide_secrets

    name, copied, left_out = export_study(given.study, given.optuna, given.name)
    url = hide_secrets(given.optuna, {})
    unfinished = f" ({left_out} unfinished left out)" if left_out else ""
    print(f"{copied} trials{unfinished}: study '{name}' in {url}")
    show_json({"study": name, "url": url, "trials": copied, "left_out": left_out})
