"""`hpo note`: write beside a study what only a person knows, or tag it; without either: what was written."""

from collections.abc import Sequence

from hpo.cli.arguments import add_json, add_study, make_parser
from hpo.cli.output import show_json
from hpo.errors import printable

_EXAMPLES = """\
  hpo note digits "the learning rates above 0.01 were a mistake"
  hpo note digits --tag phase=final --tag paper      also while it runs; `--tag phase=` removes the tag
  hpo note digits                                    what was written"""


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    parser = make_parser("note", __doc__, _EXAMPLES)
    add_study(parser)
    parser.add_argument("text", metavar="TEXT", nargs="*", help="what it says; it is shown in the report and in MLflow")
    parser.add_argument(
        "--tag", metavar="KEY=VALUE", action="append", default=[], help="a tag; without =VALUE its value is true"
    )
    add_json(parser)
    given = parser.parse_intermixed_args(arguments)

    from hpo.commands.kept import KeptStudy
    from hpo.study.files.folder import find_study

    study = KeptStudy(find_study(given.study))
    if given.text or given.tag:
        study.note(" ".join(given.text), dict(map(_tag, given.tag)))
    if given.json:
        notes = [note.model_dump() for note in study.notes]
        show_json({"study": study.folder.name, "folder": study.folder, "tags": study.tags, "notes": notes})
        return
    for note in study.notes:
        said = [note.text] if note.text else []
        said += [f"{key}={value}" for key, value in note.tags.items()]
        print(printable(f"{note.time}  {note.user}  {', '.join(said)}"))


def _tag(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    return key, value if equals else "true"
