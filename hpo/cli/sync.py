"""`hpo sync`: send what MLflow does not have yet of a study; what it has is left as it is."""

import math
from collections.abc import Sequence

from hpo.cli.arguments import add_overrides, add_study, make_parser


def run(arguments: Sequence[str]) -> int:
    """Run the command; return its exit code: 1 when MLflow could not be reached."""
    parser = make_parser("sync", __doc__, "  hpo sync digits track.uri=http://127.0.0.1:5000")
    add_study(parser)
    add_overrides(parser, "track.uri=...")
    given = parser.parse_intermixed_args(arguments)

    from hpo.cli.compose import compose_config
    from hpo.config import config_from_dict
    from hpo.folder import find_study
    from hpo.preparation import load_study
    from hpo.report import write_report
    from hpo.track import make_tracker
    from hpo.tracking import close_in_tracker, open_in_tracker

    path = str(find_study(given.study).config_path)
    overrides = ["track.name=mlflow", *given.overrides]
    study = load_study(given.study, config_from_dict(compose_config("search", overrides, config_file=path)))
    with study.folder.lock():
        record = study.read()
        tracker = make_tracker(study.config, study.grid, study.folder.path)
        assert tracker is not None
        open_in_tracker(study, record, tracker)
        close_in_tracker(study, record, tracker, write_report(study, record))
        # Whoever asks for it waits as long as anything arrives.
        is_sent = tracker.close(math.inf)
    print(f"{len(record.history())} trials {'are in' if is_sent else 'could not be sent to'} {study.config.track.uri}")
    return 0 if is_sent else 1
