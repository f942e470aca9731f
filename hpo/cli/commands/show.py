"""`hpo show`: one study at a glance, running or not: state, best, what runs now, failures, cautions; or one trial."""

from collections.abc import Sequence

from hpo.cli.arguments import STUDY_OR_MIRROR, add_json, add_study, make_parser
from hpo.cli.output import show_json

_EXAMPLES = """\
  hpo show digits                   also while it runs; nothing of it is run, created or changed
  hpo show studies/digits_grid      one that was published
  hpo show digits --trial 7         its configuration, scores, curves, logs and seeds
  hpo show s3://bucket/digits       as of its last copy there (study.mirror), from any machine
  hpo show digits --json            for programs"""


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    parser = make_parser("show", __doc__, _EXAMPLES)
    add_study(parser, what=STUDY_OR_MIRROR)
    parser.add_argument("--trial", type=int, metavar="NUMBER", help="show this trial")
    add_json(parser)
    given = parser.parse_args(arguments)

    from hpo.show.details import print_study, print_trial
    from hpo.study.view.reader import open_reader

    with open_reader(given.study) as reader:
        if given.trial is None:
            view = reader.view()
            show_json(view.to_dict())
            print_study(view)
            return
        from hpo.study.view.one_trial import show_trial

        trial = show_trial(reader, given.trial)
        show_json(trial)
        print_trial(trial)
