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

    from hpo.config.sealing import hidden

    name, copied, left_out = export(given.study, given.optuna, given.name)
    unfinished = f" ({left_out} unfinished left out)" if left_out else ""
    print(f"{copied} trials{unfinished}: study '{name}' in {hidden(given.optuna, {})}")
    return 0


def export(study: str, url: str, name: str | None = None) -> tuple[str, int, int]:
    """Copy a study; return its name there, and the numbers of trials copied and left out."""
    from hpo.config.keys import flatten
    from hpo.engine.record.recovery import refuse_broken_record
    from hpo.engine.space.reader import space_from_dict
    from hpo.engine.trials.trial import TaskLayout
    from hpo.integrations.exchange.optuna_storage import export_study
    from hpo.study.folder import find_study
    from hpo.study.opening import stored

    folder = find_study(study)
    config = folder.config()
    name = name or config.study.name
    space = space_from_dict(config.space, flatten(config.objective_config))
    source = stored(config, folder, space, TaskLayout())
    # A copy of a record that has lost trials would silently lack them.
    refuse_broken_record(source)
    return name, *export_study(source.url, source.name, url, name)
