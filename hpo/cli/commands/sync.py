"""`hpo sync`: send what MLflow does not have yet of a study; what it has is not changed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hpo.cli.arguments import add_json, add_overrides, add_study, make_parser
from hpo.cli.output import show_json
from hpo.errors import ConfigError

if TYPE_CHECKING:
    from hpo.commands.exchange import Sent

_EXAMPLES = """\
  hpo sync digits                                       to where it is tracked
  hpo sync digits track.uri=http://127.0.0.1:5000"""


def run(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code: 1 when MLflow cannot be reached, or has something else than the record."""
    parser = make_parser("sync", __doc__, _EXAMPLES)
    add_study(parser)
    add_overrides(parser, "track.uri=..., another place to send it to")
    add_json(parser)
    given = parser.parse_intermixed_args(arguments)
    for override in given.overrides:
        if not override.startswith("track."):
            key = override.partition("=")[0]
            raise ConfigError(f"{key}: has no effect on what is sent; give track.uri=... or nothing")

    from hpo.commands.exchange import send
    from hpo.config.sealing import hide_secrets

    sent = send(given.study, given.overrides)
    uri, recorded = sent.study.config.track.uri, len(sent.record.history())
    there: int | None = None
    missing: list[str] = []
    if sent.is_all:
        there, missing = _compared(sent)
    else:
        print(f"{recorded} trials could not be sent to {uri}")
    names = {"study": sent.study.config.study.name, "uri": hide_secrets(uri, {})}
    show_json({**names, "recorded": recorded, "there": there, "missing": missing})
    return 0 if there == recorded and not missing else 1


def _compared(sent: "Sent") -> tuple[int, list[str]]:
    """Return how many trials MLflow has, and which files of the report it lacks; print it."""
    from hpo.study.notes import Notes
    from hpo.track.make import tracking_uri
    from hpo.track.store import read_contents

    study, record, report = sent.study, sent.record, sent.report
    trials, files = read_contents(tracking_uri(study.config), Notes(record).study_id or "")
    uri, number = study.config.track.uri, len(record.history())
    missing = [path.name for path in report.paths if path.name not in files]
    if trials == number and not missing:
        print(f"{number} trials are in {uri}")
        return trials, missing
    print(f"{uri} has {trials} trials of this study, its record {number}")
    if trials > number:
        again = f"`hpo resume {study.reference} --as NEW`"
        print(f"a copy of this study has sent other trials to its run: {again} makes it a separate study")
    if missing:
        print(f"it lacks {', '.join(missing)}")
    return trials, missing
