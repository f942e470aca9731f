"""`hpo tell`: what came of a trial that was asked for, or a point of its learning curve."""

import json
import sys
from collections.abc import Sequence
from typing import Any

from hpo.cli.arguments import add_json, add_study, make_parser
from hpo.cli.output import show_json
from hpo.errors import ConfigError, printable

_EXAMPLES = """\
  hpo tell lab 3 0.93                       its score
  hpo tell lab 3 accuracy=0.93 latency=12   by name; seconds=... is how long it took
  ./train --lr 0.01 | hpo tell lab 3 -      JSON from standard input: a number, a list, or an object
  hpo tell lab 3 --error "out of memory"    it failed
  hpo tell lab 3 --step 5 accuracy=0.71     a point of its learning curve; the answer is go on, or stop
  hpo tell lab 3                            the best of what was reported, which ends it"""


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    parser = make_parser("tell", __doc__, _EXAMPLES)
    add_study(parser)
    parser.add_argument("trial", metavar="TRIAL", type=int, help="its number")
    what = "the score, or NAME=NUMBER for each metric; - is JSON from standard input"
    parser.add_argument("values", metavar="VALUE", nargs="*", help=what)
    parser.add_argument("--error", metavar="TEXT", help="why it failed")
    parser.add_argument("--step", metavar="N", type=float, help="report a point of its learning curve, at this epoch")
    add_json(parser)
    given = parser.parse_intermixed_args(arguments)
    if given.step is not None and (given.error is not None or not given.values):
        parser.error("argument --step: goes with the values at that epoch, and not with --error")
    result = _result(given.values)

    from hpo.commands.session import open_briefly

    with open_briefly(given.study) as session:
        said: dict[str, Any] = {"study": session.name, "trial": given.trial}
        if given.step is None:
            said |= session.tell(given.trial, result, error=given.error)
        else:
            trial = session.open_trial(given.trial)
            trial.report(result, step=int(given.step) if given.step.is_integer() else given.step)
            said["should_stop"] = trial.should_stop
    if given.json:
        show_json(said)
    elif given.step is not None:
        print("stop" if said["should_stop"] else "go on")
    else:
        came = said["error"] or ("" if said["score"] is None else f"{said['score']:g}")
        print(printable(f"trial {given.trial}: {said['state']} {came}"))


def _result(values: Sequence[str]) -> Any:
    """Return the values of a command line as Python has them; None for none."""
    if not values:
        return None
    if list(values) == ["-"]:
        try:
            return json.load(sys.stdin)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"VALUE: standard input must be JSON: {error}") from error
    if len(values) == 1 and "=" not in values[0]:
        return _number(values[0], values[0])
    pairs = [text.partition("=") for text in values]
    return {name: _number(number, text) for (name, _, number), text in zip(pairs, values, strict=True)}


def _number(text: str, given: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"VALUE: must be a number, NAME=NUMBER or -, given {given!r}") from None
