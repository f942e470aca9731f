"""`hpo train`: train one configuration on the first fold of the split, no search."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from hpo.cli.arguments import add_config, make_parser, read_config, show_config

_EXAMPLES = """  hpo train
  hpo train model.num_layers=3 training.lr=0.001 training.seed=7
  hpo train --config runs/digits/best.yaml          the winner of a study, as its first fold was trained"""


def run(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code: 1 when the training failed."""
    parser = make_parser("train", __doc__, _EXAMPLES)
    add_config(parser)
    given = parser.parse_intermixed_args(arguments)
    tree = read_config("train", given)
    if given.cfg:
        show_config(tree)
        return 0

    from hpo.study.train_once import train_once

    folder, outcome = train_once(tree, show)
    if outcome.error:
        print(f"failed: {outcome.error}")
        return 1
    for name, value in outcome.metrics.items():
        print(f"{name} = {value:.6g}")
    print(f"{outcome.seconds:.1f} s; everything is in {folder}")
    return 0


def show(message: Mapping[str, Any]) -> None:
    """Print a point of the learning curve, or a warning."""
    if "point" not in message:
        print(f"warning: {message.get('warning')}", file=sys.stderr, flush=True)
        return
    point = message["point"]
    values = [(name, value) for name, value in point.items() if name not in ("epoch", "epochs")]
    numbers = [f"{name} {value:.4g}" for name, value in values]
    epoch = f"epoch {point['epoch']}" if "epoch" in point else ""
    print(f"{epoch}{'/' + str(point['epochs']) if 'epochs' in point else ''}  {'  '.join(numbers)}", flush=True)
