"""`hpo search`: create the study, or continue it if it exists unchanged, and run it to its budget."""

import argparse
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

from hpo.cli.arguments import make_parser, read_config

_EXAMPLES = """\
  hpo search                                        the default study: a Transformer on handwritten digits
  hpo search strategy=evolutionary study.name=evo study.trials=40
  hpo search data=text_classification data.train=train.tsv data.validation=dev.tsv data.test=test.tsv
  hpo search 'space.training.lr={low: 1e-5, high: 1e-2, log: true}' space.model.num_heads=[2,4]
  hpo search split.folds=5 dispatch.workers=4 dispatch.gpus_per_worker=0.5
  hpo search --config-dir my_conf study=forest      groups of your own: see README, "Bring your own trainer"
  hpo search --replay studies/digits                a published search again, trial by trial
  hpo search --cfg job                              print the configuration, run nothing"""


def run(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    parser = make_parser("search", __doc__, _EXAMPLES)
    parser.add_argument("--replay", metavar="STUDY", help="run this study's whole search again and compare its trials")
    replayed, others = _replayed(arguments)
    tree = read_config(parser, "search", others)
    if tree is None:
        return 0

    from hpo.cli.running import run_to_the_end
    from hpo.config import config_from_dict
    from hpo.study import prepare_study

    study = prepare_study(config_from_dict(tree))
    code = run_to_the_end(study)
    if replayed is None or code not in (0, 1):
        return code
    return _compare(replayed, study.folder.trials_path)


def _replayed(arguments: Sequence[str]) -> tuple[Path | None, Sequence[str]]:
    """Return the trials.csv of the study to replay, and the arguments that run it from its frozen configuration."""
    if not any(argument.partition("=")[0] == "--replay" for argument in arguments):
        return None, arguments
    only = argparse.ArgumentParser(prog="hpo search", add_help=False)
    only.add_argument("--replay", required=True)
    given, others = only.parse_known_args(arguments)

    from hpo.folder import find_study

    folder = find_study(given.replay)
    name = folder.config().study.name
    changes = ["--config", str(folder.config_path), f"study.name={name}-replay", "study.storage=null"]
    return folder.trials_path, [*changes, *others]


def _compare(recorded: Path, replayed: Path) -> int:
    """Tell which trials differ in anything but their times; return 1 where one does."""
    from hpo.trials_file import TIMES, Row, read_rows

    before, now = read_rows(recorded, ["number"]), read_rows(replayed, ["number"])
    nothing: Row = {}
    differing = [
        (place, sorted(k for k in {**old, **new} if k not in TIMES and old.get(k) != new.get(k)))
        for place, (old, new) in enumerate(zip_longest(before, now, fillvalue=nothing))
    ]
    different = [(place, keys) for place, keys in differing if keys]
    for place, keys in different[:10]:
        print(f"trial {place} differs in {', '.join(keys)}")
    if different:
        print(f"not replayed: {len(different)} of {max(len(before), len(now))} trials differ from {recorded}")
        return 1
    print(f"replayed: all {len(before)} trials are those of {recorded}")
    return 0
