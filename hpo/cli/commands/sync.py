"""`hpo sync`: send what MLflow does not have yet of a study; what it has is not changed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hpo.cli.arguments import add_overrides, add_study, make_parser
from hpo.errors import ConfigError

if TYPE_CHECKING:
    from hpo.interface.exchange import Sent


def run(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code: 1 when MLflow cannot be reached, or has something else than the record."""
    parser = make_parser("sync", __doc__, "  hpo sync digits track.uri=http://127.0.0.1:5000")
    add_study(parser)
    add_overrides(parser, "track.uri=...")
    given = parser.parse_intermixed_args(arguments)
    for override in given.overrides:
        if not override.startswith("track."):
            key = override.partition("=")[0]
            raise ConfigError(f"{key}: has no effect on what is sent; give track.uri=... or nothing")

    from hpo.interface.exchange import send

    sent = send(given.study, given.overrides)
    if not sent.is_all:
        print(f"{len(sent.record.history())} trials could not be sent to {sent.study.config.track.uri}")
        return 1
    return _tell(sent)


def _tell(sent: "Sent") -> int:
    """Print what MLflow has; return 1 if that differs from the record."""
    from hpo.study.notes import Notes
    from hpo.track import tracking_uri
    from hpo.track.mlflow.store import read_contents

    study, record, report = sent.study, sent.record, sent.report
    trials, files = read_contents(tracking_uri(study.config), Notes(record).study_id or "")
    uri, number = study.config.track.uri, len(record.history())
    missing = [path.name for path in report.paths if path.name not in files]
    if trials == number and not missing:
        print(f"{number} trials are in {uri}")
        return 0
    print(f"{uri} has {trials} trials of this study, its record {number}")
    if trials > number:
        again = f"`hpo resume {study.reference} --as NEW`"
        print(f"a copy of this study has sent other trials to its run: {again} makes it a separate study")
    if missing:
        print(f"it lacks {', '.join(missing)}")
    return 1
