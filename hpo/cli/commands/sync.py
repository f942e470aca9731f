"""`hpo sync`: send what MLflow does not have yet of a study; what it has is not changed."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from hpo.cli.arguments import add_overrides, add_study, make_parser
from hpo.study.opening import read_study

if TYPE_CHECKING:
    from hpo.engine.record.record import Record
    from hpo.report.write import WrittenReport
    from hpo.study.study import Study


def run(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code: 1 when MLflow cannot be reached, or has something else than the record."""
    parser = make_parser("sync", __doc__, "  hpo sync digits track.uri=http://127.0.0.1:5000")
    add_study(parser)
    add_overrides(parser, "track.uri=...")
    given = parser.parse_intermixed_args(arguments)
    sent = send(given.study, given.overrides)
    if not sent.is_all:
        print(f"{len(sent.record.history())} trials could not be sent to {sent.study.config.track.uri}")
        return 1
    return _tell(sent)


class Sent(NamedTuple):
    """What was sent of a study, and whether MLflow took all of it."""

    study: "Study"
    record: "Record"
    report: "WrittenReport"
    is_all: bool


def send(name: str, overrides: Sequence[str] = ()) -> Sent:
    """Send what MLflow does not have of a study, and wait for it."""
    from hpo.cli.config.compose import compose_config
    from hpo.config.study_config import config_from_dict
    from hpo.report.write import write_report
    from hpo.study.folder import find_study
    from hpo.study.preparation import load_study
    from hpo.study.winner.verdict import read_verdict
    from hpo.track import make_tracker
    from hpo.track.projection import close_in_tracker, open_in_tracker

    path = str(find_study(name).config_path)
    overrides = ["track.name=mlflow", *overrides]
    study = load_study(name, config_from_dict(compose_config("search", overrides, config_file=path)))
    with study.folder.lock():
        record = read_study(study)
        tracker = make_tracker(study.config, study.layout, study.folder.path)
        assert tracker is not None
        open_in_tracker(study, record, tracker)
        verdict = read_verdict(study, record)
        report = write_report(study, record, verdict)
        close_in_tracker(study, record, tracker, verdict, report)
        # The command waits without a limit while data still arrives.
        return Sent(study, record, report, tracker.close(math.inf))


def _tell(sent: Sent) -> int:
    """Print what MLflow has; return 1 if that differs from the record."""
    from hpo.study.notes import Notes
    from hpo.track import tracking_uri
    from hpo.track.mlflow.contents import read_contents

    study, record, report = sent.study, sent.record, sent.report
    contents = read_contents(tracking_uri(study.config), Notes(record).study_id or "")
    uri, number = study.config.track.uri, len(record.history())
    missing = [path.name for path in report.paths if path.name not in contents.files]
    if contents.trials == number and not missing:
        print(f"{number} trials are in {uri}")
        return 0
    print(f"{uri} has {contents.trials} trials of this study, its record {number}")
    if contents.trials > number:
        again = f"`hpo resume {study.reference} --as NEW`"
        print(f"a copy of this study has sent other trials to its run: {again} makes it a separate study")
    if missing:
        print(f"it lacks {', '.join(missing)}")
    return 1
