"""`hpo export`: copy a study into another Optuna storage, for optuna-dashboard and `optuna.load_study`."""

from collections.abc import Sequence

from hpo.cli.arguments import add_study, make_parser

_EXAMPLES = """\
  hpo export digits --optuna sqlite:///shared.db
  hpo export digits --optuna postgresql://user:password@host/optuna --name digits-2026"""


def run(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    parser = make_parser("export", __doc__, _EXAMPLES)
    add_study(parser)
    parser.add_argument("--optuna", required=True, metavar="URL", help="the storage, such as sqlite:///shared.db")
    parser.add_argument("--name", metavar="NAME", help="the study's name there (default: its own)")
    given = parser.parse_args(arguments)

    from hpo.exchange.optuna_storage import export_study
    from hpo.folder import find_study
    from hpo.record_storage import sqlite_url
    from hpo.sealing import hidden, opened, values_of

    folder = find_study(given.study)
    config = folder.config()
    study = config.study
    storage = opened(study.storage, values_of(study.storage, config.secrets, "study.storage"))
    source = storage or sqlite_url(folder.database_path)
    name = given.name or study.name
    copied, left_out = export_study(source, study.name, given.optuna, name)
    unfinished = f" ({left_out} unfinished left out)" if left_out else ""
    print(f"{copied} trials{unfinished}: study '{name}' in {hidden(given.optuna, {})}")
    return 0
