"""`hpo import`: take over the finished trials of a study made elsewhere, for `study.imports=NAME` to learn from."""

from collections.abc import Sequence

from hpo.cli.arguments import add_json, make_parser
from hpo.cli.output import show_json
from hpo.errors import ConfigError, printable

_EXAMPLES = """\
  hpo import old --optuna sqlite:///old.db --study transformer --rename lr=training.lr
  hpo import sweep --ray ~/ray_results/train_2026 --metric val_loss --direction minimize
  hpo import table --csv results.csv --metric dev_bleu --keys training.lr,model.num_layers
  hpo search study.name=new study.imports=old"""


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    parser = make_parser("import", __doc__, _EXAMPLES)
    parser.add_argument("name", metavar="NAME", help="the folder under runs/ that is made")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--optuna", metavar="URL", help="an Optuna storage: sqlite:///old.db, journal://old.log")
    source.add_argument("--ray", metavar="FOLDER", help="the folder of a Ray Tune experiment (its JSON files are read)")
    source.add_argument("--csv", metavar="FILE", help="a table with a header and one row per trial")
    parser.add_argument("--study", metavar="OTHER", help="with --optuna: the study's name there")
    parser.add_argument("--metric", metavar="NAME", help="with --ray: the result, with --csv: the column of the score")
    parser.add_argument(
        "--direction",
        choices=["maximize", "minimize"],
        help="with --ray, --csv: which way is better; needed but for names such as val_loss",
    )
    parser.add_argument("--keys", metavar="A,B", help="with --csv: the columns of hyperparameters")
    parser.add_argument(
        "--rename", metavar="OLD=NEW,...", help="what hyperparameters and metrics are called in the new study"
    )
    add_json(parser)
    given = parser.parse_args(arguments)

    from hpo.commands.exchange import take_over

    sources = {name: getattr(given, name) for name in ("optuna", "ray", "csv")}
    options = {name: getattr(given, name) for name in ("study", "metric", "direction")}
    options["keys"] = [key.strip() for key in given.keys.split(",")] if given.keys else None
    path, imported = take_over(given.name, sources, options, _new_names(given.rename or ""))
    unfinished = f", {imported.num_unfinished} unfinished left out" if imported.num_unfinished else ""
    goal = ", ".join(f"{name} ({direction})" for name, direction in imported.metrics.items())
    print(f"{len(imported.attempts)} trials, {imported.num_failed} failed{unfinished}: {path}")
    print(f"metric: {printable(goal)}")
    if imported.left_out:
        print(f"left out, since they hold more than one value: {', '.join(imported.left_out)}")
    if imported.constraints:
        names = printable(", ".join(imported.constraints))
        print(
            f"constraints, which are not taken as limits: {names}; limits are on metrics: study.limits={{METRIC: ...}}"
        )
    print(f"learn from them: hpo search study.imports={given.name} ...")
    show_json(
        {
            "name": given.name,
            "table": path.absolute(),
            "trials": len(imported.attempts),
            "failed": imported.num_failed,
            "unfinished": imported.num_unfinished,
            "left_out": imported.left_out,
            "constraints": imported.constraints,
        }
    )


def _new_names(given: str) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in given.split(",") if pair.strip()]
    for old, _, new in pairs:
        if not old.strip() or not new.strip():
            raise ConfigError(f"--rename: must be OLD=NEW, several with commas, given '{given}'")
    return {old.strip(): new.strip() for old, _, new in pairs}
