"""`hpo reproduce`: train recorded trials again and compare; exit code 1 when they differ."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hpo.cli.arguments import add_data, add_json, add_study, add_trust, data_places, make_parser
from hpo.cli.output import show_json
from hpo.cli.searching import add_progress
from hpo.errors import ConfigError, printable

if TYPE_CHECKING:
    from hpo.commands.reproduce import Finding
    from hpo.study.reproduce.again import Repetition
    from hpo.study.reproduce.recorded import Recorded

_EXAMPLES = """\
  hpo reproduce digits                          the winner, on all its folds
  hpo reproduce digits --trial 3 --folds 0,1
  hpo reproduce studies/digits --trial all      a published study: nothing but its folder is needed
  hpo reproduce studies/digits/report.json
  hpo reproduce studies/reviews data.path=here/reviews.csv   the data lie elsewhere now
  hpo reproduce runs:/0123456789abcdef          from MLflow alone (a study's run, or a trial's)"""


def run(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code."""
    parser = make_parser("reproduce", __doc__, _EXAMPLES)
    add_study(parser, what="its name under runs/, a folder, a report.json, or runs:/RUN_ID")
    add_data(parser)
    parser.add_argument("--trial", default="best", metavar="N", help="a trial's number, all, or best (default: best)")
    parser.add_argument("--folds", metavar="K,K", help="only these folds (default: all)")
    parser.add_argument("--tolerance", type=float, metavar="X", help="largest difference, as a share of the recorded")
    add_trust(parser)
    parser.add_argument("--uri", default="sqlite:///mlflow.db", help="MLflow's address, for runs:/RUN_ID")
    add_progress(parser)
    add_json(parser)
    given = parser.parse_intermixed_args(arguments)

    from hpo.commands.reproduce import train_recorded

    finding = train_recorded(
        given.study,
        given.trial,
        folds=_folds(given.folds),
        tolerance=given.tolerance,
        data=data_places(given.data),
        trust=given.trust,
        uri=given.uri,
        begin={"auto": _begin, "json": _begin_lines, "none": lambda *_: lambda _: None}[given.progress],
    )
    code = _conclude(finding, given.folds is not None)
    show_json(_as_json(given.study, finding))
    return code


def _as_json(study: str, finding: "Finding") -> dict[str, Any]:
    """Return what was found, for programs."""
    tolerance = finding.tolerance
    numbers = [
        {"trial": one.trial, "key": one.key, "said": one.said, "recorded": one.recorded, "given": one.given}
        for one in finding.differing
    ]
    return {
        "study": study,
        "is_reproduced": not finding.missed and not finding.differing,
        "tolerance": tolerance,
        "trainings": [vars(one) | {"holds": one.holds(tolerance)} for one in finding.repetitions],
        "report_numbers": len(finding.figures),
        "differing_numbers": numbers,
        "not_compared": list(finding.measured),
        "not_checked": list(finding.unchecked),
    }


def _begin_lines(recorded: "Recorded", tolerance: float) -> "Callable[[Repetition], None]":
    """Print the same as JSON lines."""
    from hpo.show.json_lines import tell

    tell("begun", changes=recorded.files.changes, tolerance=tolerance)
    return lambda one: tell("training", **vars(one), holds=one.holds(tolerance))


def _begin(recorded: "Recorded", tolerance: float) -> "Callable[[Repetition], None]":
    """Print what has changed and what is demanded; return what prints each training."""
    print("what changed:" if recorded.files.changes else "what changed: nothing")
    for change in recorded.files.changes:
        print(f"  {printable(change)}")
    print("demanded: " + ("the same to the last bit" if tolerance == 0 else f"differences up to {tolerance:.1%}"))

    def tell(repetition: "Repetition") -> None:
        now, before = repetition.reproduced, repetition.recorded
        says = f"failed: {repetition.error}" if now is None else f"{now:.6g}  difference {now - before:+.2g}"
        verdict = "" if repetition.holds(tolerance) else "  <-- not reproduced"
        what = f"mean {repetition.name}" if repetition.is_mean else repetition.name
        head = f"trial {repetition.trial}  {what}  recorded {before:.6g}"
        print(printable(f"{head}  reproduced {says}{verdict}"), flush=True)

    return tell


def _conclude(finding: "Finding", has_some_folds: bool) -> int:
    """Print what of the report holds, and the verdict; return the exit code."""
    if has_some_folds and finding.figures:
        print("numbers of report.json: worked out from the recorded values, since only some folds were trained")
    for figure in finding.differing:
        is_trained = figure.given == figure.recorded and not has_some_folds
        gives = "the trainings give" if is_trained else "the recorded values give"
        text = f"report.json: {figure.key} is {figure.said!r}, {gives} {figure.recorded!r}"
        print(printable(f"{text}  <-- not reproduced"))
    if differing := sorted({one.name for one in finding.missed if one.is_mean and one.reproduced is not None}):
        names = ", ".join(differing)
        print(
            f"{names}: if the machine that trains decides it, as it does a latency, let describe_method of the "
            f"objective return 'measured': {differing}, and it is not compared"
        )
    if finding.measured:
        print(f"not compared: {', '.join(finding.measured)}, measured on the machine that trains")
    if finding.unchecked:
        print(f"not checked: {', '.join(finding.unchecked)} of report.json")
    trainings, figures = len(finding.trainings), len(finding.figures)
    if finding.missed or finding.differing:
        says = f"{finding.num_differing} of {trainings} trainings differ"
        says += f", and {len(finding.differing)} of {figures} numbers of report.json" if finding.differing else ""
        print(f"not reproduced: {says}")
        return 1
    names = ", ".join(dict.fromkeys(one.name for one in finding.means))
    means = f", the mean of {names}" if names else ""
    held = f"all {trainings} trainings" if trainings > 1 else "the training"
    print(f"reproduced: {held}{means}" + (f", and {figures} numbers of report.json" if figures else ""))
    return 0


def _folds(text: str | None) -> list[int] | None:
    parts = [] if text is None else text.split(",")
    if not all(part.strip().isdigit() for part in parts):
        raise ConfigError(f"--folds: must be numbers of folds such as 0,1, given {text!r}")
    return [int(part) for part in parts] or None
