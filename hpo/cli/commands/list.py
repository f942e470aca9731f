"""`hpo list`: the studies under runs/, or in another folder: state, trials, best, strategy, data, size, date."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hpo.cli.arguments import add_json, make_parser
from hpo.cli.output import show_json
from hpo.cli.tables import show_table
from hpo.errors import printable

_EXAMPLES = """\
  hpo list                                                    all studies under runs/, the newest first
  hpo list --where 'state=running or state=interrupted'
  hpo list --where 'strategy=evolutionary and score>0.9' --sort -score
  hpo list --where 'data~digits and date>=2026-11 and test!=none'
  hpo list --in studies                                       those that were published
  hpo list --json                                             for programs

fields: {fields}
operators: =, !=, <, <=, >, >=, ~ (contains); and, or, not; none is a missing value; size is in bytes"""

_COLUMNS = ("study", "state", "done", "best", "metric", "strategy", "data", "test", "size", "date")
# On a narrow terminal these are left out, the first one first.
_LEAST = ("size", "data", "strategy", "test", "date")
_UNITS = ("B", "kB", "MB", "GB", "TB")


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    from hpo.interface.looking.studies import FIELDS, list_studies
    from hpo.study.files.folder import RUNS

    parser = make_parser("list", __doc__, _EXAMPLES.format(fields=", ".join(FIELDS)))
    what = f"where they are (default: {RUNS})"
    parser.add_argument("--in", dest="folder", metavar="DIR", default=str(RUNS), help=what)
    parser.add_argument("--where", metavar="CONDITION", help="which of them; see below")
    parser.add_argument("--sort", metavar="FIELD", help="by which field; -FIELD from high to low (default: -date)")
    add_json(parser)
    given = parser.parse_args(_joined(arguments))
    studies = list_studies(Path(given.folder), given.where, given.sort)
    if given.json:
        show_json({"in": Path(given.folder).absolute(), "studies": studies})
        return
    if not studies:
        print(f"no study in {given.folder}{' fits' if given.where else ': start one with `hpo search`'}")
        return
    show_table(_COLUMNS, map(_cells, studies), least=_LEAST)
    for study in studies:
        if study["state"] in ("failed", "unreadable"):
            print(printable(f"{study['name']}: {study['error']}"))


def _joined(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with `--sort -score`, which argparse takes for two options, as one."""
    words = list(arguments)
    if "--sort" in words[:-1]:
        place = words.index("--sort")
        words[place : place + 2] = [f"--sort={words[place + 1]}"]
    return words


def _cells(study: Mapping[str, Any]) -> list[str]:
    state = study["state"]
    if study["process"] is not None:
        state += f" ({study['process']}, since {study['since'][11:16]})"
        state += f", {study['following']}" if study["following"] else ""
    metric = f"{study['metric']} ({study['direction'][:3]})" if study["metric"] else ""
    return [
        study["name"],
        state,
        f"{study['done']}/{study['budget']}" if study["budget"] else "",
        _number(study["score"]),
        metric,
        study["strategy"] or "",
        study["data"] or "",
        _number(study["test"]),
        _size(study["size"]),
        study["date"][:16].replace("T", " "),
    ]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _size(count: int) -> str:
    """Return a number of bytes as people write it, with two digits: 340 kB, 1.2 GB."""
    power = min(int(math.log10(max(count, 1)) // 3), len(_UNITS) - 1)
    shown = count / 1000**power
    return f"{shown:.1f} {_UNITS[power]}" if power and shown < 10 else f"{shown:.0f} {_UNITS[power]}"
