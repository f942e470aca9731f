"""`hpo extend`: train the best trials of a study further, longer or larger, as a study of its own."""

from collections.abc import Sequence

from hpo.cli.arguments import add_json, add_overrides, add_study, make_parser
from hpo.cli.searching import add_progress, run_and_show

_EXAMPLES = """\
  hpo extend digits training.epochs=60
  hpo extend digits --best 3 training.epochs=60 study.name=longer study.finalists=3
  hpo extend digits --best 1 training.weight_decay=0.1    the winner with another value, beside the old one
  hpo extend digits --trial 6 --trial 9                   trials that were stopped, to their end
  hpo extend halved --best 4                              the best four of halving's rungs, to their end
  hpo extend reviews training.epochs=60 data.path=there.csv       the data lie elsewhere now
  hpo extend small --climb model.d_model=512 model.feed_forward_width=1024 study.trials=4    search at a larger scale

The new study has the points, folds and seeds of the old one's best trials; its report sets the scores side by side, and
`hpo resume`, `hpo test` and `hpo reproduce` work as with every study. A training goes on from its state where that is
kept (of halving's last rungs, and where an objective's CONTINUES_WITH allows the change); else it begins anew.
With --climb the new study is a ladder that knows the trials of the old one, and searches around its best."""


def run(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    parser = make_parser("extend", __doc__, _EXAMPLES)
    add_study(parser)
    parser.add_argument("--best", type=int, metavar="N", help="how many trials, the best first (default: 5)")
    parser.add_argument("--trial", type=int, action="append", default=[], metavar="N", help="this one; may be repeated")
    what = "search at what is changed, in windows around the best, instead of training the best there"
    parser.add_argument("--climb", action="store_true", help=what)
    what = "what is trained differently, such as training.epochs=60; study.name=..., dispatch.workers=..."
    add_overrides(parser, what)
    add_progress(parser)
    add_json(parser)
    given = parser.parse_intermixed_args(arguments)

    from hpo.commands.resume import prepare_to_extend
    from hpo.report.words import point_text
    from hpo.study.files.folder import find_study

    study = prepare_to_extend(find_study(given.study), given.overrides, given.best, given.trial, climb=given.climb)
    section = study.config.study
    if section.extends is None:
        changes = point_text((section.scales or [{}])[-1])
        # One that exists goes on, and its record knows how many.
        known = f"{len(study.imports.trials)} trials are known, " if study.imports.trials else ""
        print(f"climbs from {section.imports}: {known}{section.trials} at {changes}")
    else:
        trials = section.extends.trials
        continued = sum(trial.continues for trial in trials)
        how = f"{continued} from their states, {len(trials) - continued} anew"
        print(f"extends {section.extends.study}: trials {', '.join(str(trial.number) for trial in trials)} ({how})")
    return run_and_show(study, given)
