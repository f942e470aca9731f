"""`hpo extend`: train the best trials of a study further, or longer from the start, as a study of its own."""

from collections.abc import Sequence

from hpo.cli.arguments import add_overrides, add_study, make_parser

_EXAMPLES = """  hpo extend digits training.epochs=60
  hpo extend digits --best 3 training.epochs=60 study.name=longer study.finalists=3
  hpo extend digits --best 1 training.weight_decay=0.1    the winner with another value, beside the old one
  hpo extend digits --trial 6 --trial 9            trials that were stopped, to their end
  hpo extend halved --best 4                       the best four of halving's rungs, to their end
  hpo extend reviews training.epochs=60 data.path=there.csv     the data lie elsewhere now

The new study has the points, folds and seeds of the old one's best trials; its report sets the scores side by side, and
`hpo resume`, `hpo test` and `hpo reproduce` work as with every study. A training goes on from its state where that is
kept (of halving's last rungs, and where an objective's CONTINUES_WITH allows the change); else it begins anew."""


def run(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    parser = make_parser("extend", __doc__, _EXAMPLES)
    add_study(parser)
    parser.add_argument("--best", type=int, default=5, metavar="N", help="how many trials, the best first (5)")
    parser.add_argument("--trial", type=int, action="append", default=[], metavar="N", help="this one; may be repeated")
    add_overrides(
        parser, "what is trained differently, such as training.epochs=60; study.name=..., dispatch.workers=..."
    )
    given = parser.parse_intermixed_args(arguments)

    from hpo.cli.running import run_at_terminal
    from hpo.config.composing.compose import compose_config
    from hpo.config.study_config import config_from_dict
    from hpo.study.basis.configurations import moved_sources
    from hpo.study.extension import chosen, extension_of
    from hpo.study.folder import find_study
    from hpo.study.opening import read_study
    from hpo.study.preparation import load_study, prepare_study
    from hpo.study.winner.verdict import read_verdict

    path = find_study(given.study).config_path
    changed = config_from_dict(compose_config("search", given.overrides, config_file=str(path)))
    moved = moved_sources(find_study(given.study).config().to_dict(), changed.to_dict())
    study = load_study(given.study, elsewhere={key: place for key, (_, place) in moved.items()})
    record = read_study(study)
    trials = chosen(study, read_verdict(study, record).history, given.best, given.trial)
    record.close()
    config = extension_of(study, trials, changed)
    extended = prepare_study(config, study.objective.kept)
    extends = config.study.extends
    assert extends is not None
    continued = sum(trial.continues for trial in extends.trials)
    how = f"{continued} from their states, {len(extends.trials) - continued} anew"
    print(f"extends {extends.study}: trials {', '.join(str(trial.number) for trial in extends.trials)} ({how})")
    return run_at_terminal(extended)
