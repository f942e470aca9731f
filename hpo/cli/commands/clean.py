"""`hpo clean`: free what no study needs: states, models that are not among the best, copies of data, leftovers."""

from collections.abc import Sequence

from hpo.cli.arguments import STUDY, add_json, add_study, make_parser
from hpo.cli.output import show_json

_EXAMPLES = """\
  hpo clean --dry-run               what each study under runs/ would free
  hpo clean digits reviews
  hpo clean --logs                  of all studies, the logs of trials that went well, too

Of a search that is not over nothing goes that `hpo resume` needs. Of one that is over, the model of the winner
stays, and those of the best trials (study.checkpoints); and its states where a larger budget goes on from them:
under asha, hyperband and successive_halving. Without states, `hpo extend` trains from the start; so does a larger
budget after --states, which may then try other points."""


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    parser = make_parser("clean", __doc__, _EXAMPLES)
    add_study(parser, "*", f"{STUDY} (default: all)")
    parser.add_argument("--dry-run", action="store_true", help="say what would go, and delete nothing")
    parser.add_argument(
        "--states",
        action="store_true",
        help="delete states that a larger budget goes on from, too, of studies that are done",
    )
    parser.add_argument("--logs", action="store_true", help="delete the logs of complete trials, too")
    add_json(parser)
    given = parser.parse_args(arguments)

    from hpo.commands.clean import clean_studies
    from hpo.study.files.folder import short_path
    from hpo.workers.store.packing import in_words

    cleaned = []
    for each in clean_studies(given.studies, states=given.states, logs=given.logs, dry_run=given.dry_run):
        cleaned.append(each)
        freed = ", ".join(f"{kind} {in_words(size)}" for kind, size in each.freed.items())
        said = "; ".join(filter(None, (freed, each.kept)))
        if said:
            print(f"{short_path(each.folder.path)}: {said}")
    freed_in_all = sum(each.bytes for each in cleaned)
    print(f"{in_words(freed_in_all)} {'would be freed' if given.dry_run else 'freed'}")
    studies = [
        {
            "study": each.folder.path.name,
            "folder": each.folder.path,
            "bytes": each.bytes,
            "freed": each.freed,
            "kept": each.kept,
        }
        for each in cleaned
        if each.folder.exists
    ]
    show_json({"dry_run": given.dry_run, "bytes": freed_in_all, "studies": studies})
