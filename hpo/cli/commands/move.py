"""`hpo move`: put a study's folder into another directory, also on another file system, where it goes on."""

from collections.abc import Sequence

from hpo.cli.arguments import add_json, add_study, make_parser
from hpo.cli.output import show_json

_EXAMPLES = """\
  hpo move digits /scratch/studies        then `hpo report /scratch/studies/digits`
  hpo resume digits --as other            a study keeps its name; this copies it under another

To another file system it is copied, compared by checksums, and then removed here; after a crash the same command goes
on. Relative paths in its configuration go on meaning places below the working directory."""


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    parser = make_parser("move", __doc__, _EXAMPLES)
    add_study(parser)
    parser.add_argument("directory", metavar="DIRECTORY", help="where its folder is put; it is made")
    add_json(parser)
    given = parser.parse_args(arguments)

    from hpo.commands.study import Study
    from hpo.study.files.folder import find_study, short_path
    from hpo.study.keeping.moving import relative_places

    folder = find_study(given.study)
    places = relative_places(folder.config())
    moved = Study(folder).move(given.directory).folder
    print(f"moved to {short_path(moved)}")
    if places:
        words = " ".join(f"{key}={place}" for key, place in places.items())
        print(f"from another working directory it needs: hpo resume {moved} {words}")
    show_json({"study": moved.name, "folder": moved, "relative": places})
