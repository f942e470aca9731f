"""`hpo logs`: what the trainings of a study printed, which is kept; with dispatch=local what Python code printed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hpo.cli.arguments import add_json, add_study, make_parser
from hpo.cli.output import show_json

_EXAMPLES = """\
  hpo logs digits                   which trainings printed something, and their last lines
  hpo logs digits 3                 all that trial 3 printed
  hpo logs digits 3 --tail 50       the last 50 lines of each of its trainings
  hpo logs digits 3 --json          for programs"""


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    parser = make_parser("logs", __doc__, _EXAMPLES)
    add_study(parser)
    parser.add_argument("trial", metavar="TRIAL", nargs="?", type=int, help="its number; left out: a line per training")
    parser.add_argument("--tail", metavar="N", type=int, help="the last N lines of each (default: all)")
    add_json(parser)
    given = parser.parse_args(arguments)
    if given.tail is not None and given.tail < 1:
        parser.error(f"argument --tail: must be 1 or more, given {given.tail}")

    from hpo.study.files.folder import find_study, short_path
    from hpo.study.view.logs import logs_of

    study = find_study(given.study)
    logs = [_log(path, given.trial is None, given.tail) for path in logs_of(study, given.trial)]
    if given.json:
        show_json({"study": study.path.name, "folder": study.path, "logs": logs})
        return
    for log in logs:
        path = short_path(log["path"])
        if given.trial is None:
            print(f"{path}  {log['lines']} lines  {log['last'][:100]}")
        else:
            print(f"== {path}\n{log['text']}")


def _log(path: Path, is_listed: bool, tail: int | None) -> dict[str, Any]:
    """Return what a training printed, or of a list its last line; and which training that was."""
    _, trial, task = path.stem.split("_", 2)
    from hpo.study.view.logs import read_log

    lines = read_log(path).splitlines()
    log = {"trial": int(trial), "task": task, "path": path, "lines": len(lines)}
    if is_listed:
        return {**log, "last": next((line for line in reversed(lines) if line.strip()), "")}
    return {**log, "text": "\n".join(lines if tail is None else lines[-tail:])}
