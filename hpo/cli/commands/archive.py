"""`hpo archive`: write a study into one file, with the SHA-256 of each of its files, or take it out of one again."""

from collections.abc import Sequence
from pathlib import Path

from hpo.cli.arguments import add_json, add_study, add_trust, make_parser
from hpo.cli.output import show_json

_EXAMPLES = """\
  hpo archive digits digits.tar.gz
  hpo archive --restore digits.tar.gz              into runs/digits, compared with its checksums
  hpo archive --restore digits.tar.gz --in /data   into /data/digits

A study that was not made on this machine asks before it may run, as from a mirror; --trust lets it, unasked."""


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    parser = make_parser("archive", __doc__, _EXAMPLES)
    add_study(parser, "?")
    parser.add_argument("file", metavar="FILE.tar.gz", nargs="?", help="the archive, which must not be there yet")
    parser.add_argument("--restore", metavar="FILE.tar.gz", help="take the study of an archive out of it")
    what = "with --restore: where its folder is put (default: runs)"
    parser.add_argument("--in", dest="directory", metavar="DIR", help=what)
    add_trust(parser, "with --restore")
    add_json(parser)
    given = parser.parse_args(arguments)
    if (given.restore is None) == (given.file is None) or (given.restore and given.study):
        parser.error("must be STUDY FILE.tar.gz, or --restore FILE.tar.gz")
    if given.restore is None and (given.directory or given.trust):
        parser.error("--in and --trust have no effect without --restore")

    from hpo.study.files.folder import RUNS, StudyFolder, find_study, short_path

    if given.restore is None:
        from hpo.commands.study import Study
        from hpo.workers.store.packing import in_words

        study = Study(find_study(given.study))
        file = study.archive(given.file).absolute()
        size = file.stat().st_size
        print(f"{short_path(study.folder)} is in {short_path(file)}, {in_words(size)}")
        values = {"study": study.folder.name, "folder": study.folder, "file": file, "bytes": size}
    else:
        from hpo.commands.archive import unarchive

        folder = unarchive(given.restore, given.directory or RUNS, trust=given.trust).folder
        print(f"{short_path(folder)} is back; go on with `{StudyFolder(folder).go_on}`")
        file = Path(given.restore).absolute()
        values = {"study": folder.name, "folder": folder, "file": file, "bytes": file.stat().st_size}
    show_json(values)
