"""`hpo train`: train one configuration on the first fold of the split, no search."""

from collections.abc import Sequence

from hpo.cli.arguments import add_config, add_json, make_parser, show_config
from hpo.cli.output import show_json
from hpo.cli.searching import add_progress

_EXAMPLES = """\
  hpo train
  hpo train model.num_layers=3 training.lr=0.001 training.seed=7
  hpo train --config runs/digits/best.yaml          the winner of a study, as its first fold was trained"""


def run(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code: 1 when the training failed."""
    parser = make_parser("train", __doc__, _EXAMPLES)
    add_config(parser)
    add_progress(parser)
    add_json(parser)
    given = parser.parse_intermixed_args(arguments)

    from hpo.commands.given.settings import compose_given

    tree = compose_given("train", given.overrides, given.config_dir, given.config)
    if given.cfg:
        from hpo.study.train_once import check_tree

        check_tree(tree)
        show_config(tree)
        return 0

    from hpo.commands.train import print_point
    from hpo.show.json_lines import tell_message
    from hpo.study.train_once import train_once

    shows = {"auto": print_point, "json": tell_message, "none": lambda _: None}
    folder, outcome = train_once(tree, shows[given.progress])
    result = {"metrics": outcome.metrics, "seconds": outcome.seconds, "error": outcome.error}
    show_json({"folder": folder.absolute(), **result})
    if outcome.error:
        print(f"failed: {outcome.error}")
        return 1
    for name, value in outcome.metrics.items():
        print(f"{name} = {value:.6g}")
    print(f"{outcome.seconds:.1f} s; everything is in {folder}")
    return 0
