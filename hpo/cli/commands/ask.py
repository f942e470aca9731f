"""`hpo ask`: a further trial of a study that is trained elsewhere; exit code 1 when there is none now."""

from collections.abc import Mapping, Sequence
from typing import Any

from hpo.cli.arguments import add_json, add_study, make_parser
from hpo.cli.output import show_json
from hpo.errors import printable

_EXAMPLES = """\
  hpo search objective=outside study.name=lab study.metric=accuracy study.trials=40 \\
    'space.lr={low: 1e-5, high: 0.1, log: true}' space.layers=[2,4,8]       makes the study
  hpo ask lab                       a trial: its number, and the values to train with
  hpo ask lab --json                the same for programs, with the whole configuration
  hpo ask lab --open                which trials were asked for and not told"""


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    parser = make_parser("ask", __doc__, _EXAMPLES)
    add_study(parser)
    parser.add_argument("--open", action="store_true", help="list what was asked for and not told; ask for nothing")
    add_json(parser)
    given = parser.parse_args(arguments)

    from hpo.commands.session import open_briefly

    with open_briefly(given.study) as session:
        found = session.open_trials if given.open else [session.ask()]
        trials, changes = [trial.to_dict() for trial in found], [trial.changes for trial in found]
    if given.json:
        study = {"study": session.name}
        show_json(study | ({"open": trials} if given.open else trials[0]))
        return
    for trial, changed in zip(trials, changes, strict=True):
        _show(trial, changed)
    if trials:
        values = " ".join(f"{name}=VALUE" for name in trials[0]["metrics"])
        print(printable(f"then: hpo tell {given.study} {trials[0]['trial']} {values}"))
    else:
        print("no trial is open")


def _show(trial: Mapping[str, Any], changed: Mapping[str, Any]) -> None:
    """Print a trial's number and values, with what its scale changes; how far it is trained, where that is said."""
    amount, trained = trial["amount"], trial["trained"]
    further = f" from {trained}, where trial {trial['continues']} ended" if trained else ""
    print(f"trial {trial['trial']}{'' if amount is None else f', to be trained to {amount}{further}'}")
    for key, value in {**trial["point"], **changed}.items():
        print(printable(f"  {key} = {value}"))
