"""`hpo show`: one study at a glance, running or not: state, best, what runs now, failures, cautions; or one trial."""

import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hpo.cli.arguments import STUDY_OR_MIRROR, add_json, add_study, make_parser
from hpo.cli.output import show_json
from hpo.errors import printable
from hpo.trials.places import how_far
from hpo.trials.score_format import beside_search

_EXAMPLES = """\
  hpo show digits                   also while it runs; nothing of it is run, created or changed
  hpo show studies/digits_grid      one that was published
  hpo show digits --trial 7         its configuration, scores, curves, logs and seeds
  hpo show s3://bucket/digits       as of its last copy there (study.mirror), from any machine
  hpo show digits --json            for programs"""

_MOST_COLUMNS, _MOST_LINES = 100, 3
# In which what is said of one thing begins, or farther right where a name is longer.
_COLUMN = 12
_BLOCKS, _PLAIN = "▁▂▃▄▅▆▇█", "_.-~=+*#"
_CURVE = 40  # columns of a learning curve
_MOST_VALUES, _MOST_CAUTIONS, _MOST_LOGS, _MOST_DETAILS = 10, 5, 3, 4

# What is said of something, by its name.
_Says = Iterator[tuple[str, str]]


def run(arguments: Sequence[str]) -> None:
    """Run the command."""
    parser = make_parser("show", __doc__, _EXAMPLES)
    add_study(parser, what=STUDY_OR_MIRROR)
    parser.add_argument("--trial", type=int, metavar="NUMBER", help="show this trial")
    add_json(parser)
    given = parser.parse_args(arguments)

    from hpo.study.view.reader import open_reader

    says: Callable[[Mapping[str, Any]], _Says] = _says_of_study if given.trial is None else _says_of_trial
    with open_reader(given.study) as view:
        if given.trial is None:
            from hpo.interface.looking.glance import Glance

            shown = Glance.of(view).to_dict()
        else:
            from hpo.interface.looking.one_trial import show_trial

            shown = show_trial(view, given.trial)
    if given.json:
        show_json(shown)
        return
    last, said = "", [*says(shown)]
    column = max([_COLUMN, *(len(what) + 2 for what, _ in said)])
    for what, text in said:
        _print("" if what == last else what, text, column)
        last = what


def _print(what: str, text: str, column: int) -> None:
    """Print what is said of something, on up to three lines where it is long; it may come from a stranger."""
    columns = min(shutil.get_terminal_size((_MOST_COLUMNS, 0)).columns, _MOST_COLUMNS) - column
    lines = textwrap.wrap(
        printable(text.lstrip()),
        max(columns, column),
        initial_indent=" " * (len(text) - len(text.lstrip())),
        subsequent_indent="    ",
        max_lines=_MOST_LINES,
        placeholder=" ...",
        break_on_hyphens=False,
    )
    for line in lines:
        print(f"{what:<{column}}{line}".rstrip())
        what = ""


def _says_of_study(study: Mapping[str, Any]) -> _Says:
    from hpo.formatting import format_count

    copied = f", as of its copy of {study['copied']}" if study["copied"] else ""
    yield "study", f"{study['study']}: {study['says']}{copied}"
    if study["fault"] and study["fault"] != study["says"].partition(": ")[2]:
        yield "fault", study["fault"]
    if study["objective"] and study["metrics"]:
        points = f", {study['points']:,} points" if study["points"] else ""
        data = f"; data {study['data']}" if study["data"] else ""
        limits = f", {' and '.join(study['limits'])}" if study["limits"] else ""
        goal = ", ".join(f"{name} ({direction})" for name, direction in study["metrics"].items())
        scales = f" at {study['scales']} scales" if study["scales"] else ""
        space = f"{format_count(study['hyperparameters'], 'hyperparameter*')}{scales}{points}"
        yield "searches", f"{goal}{limits}; {study['strategy']} over {space}; objective {study['objective']}{data}"
    yield from _says_of_progress(study)
    if (best := study["best"]) is not None:
        front = f", of {study['on_front']} on the front" if study["on_front"] else ""
        far = how_far(best.get("amount"), best.get("reached"))
        values = beside_search(_values(best["scores"]), _values(best["search_scores"]))
        yield "best", f"{values}: trial {best['trial']}{far}{front}"
        yield from (("best", line) for line in _point_lines(best.get("point", {}), best.get("default")))
    elif study["why_none"]:
        yield "best", f"none: {study['why_none']}"
    if study["test"]:
        yield "test", _values(study["test"])
    for key, value in study["tags"].items():
        yield "tags", f"{key} = {value}"
    for task in study["running"]:
        place = f"worker {task['worker']}: trial {task['trial']}, {task['task']}, {_time(task['seconds'])} so far"
        point = {name: value for name, value in task["point"].items() if name in ("epoch", *study["metrics"])}
        reported = f"; {_values(point or task['point'])}, {_time(task['seconds_silent'])} ago" if task["point"] else ""
        where = f"; {_where(task)}" if task["process"] else ""
        yield "running", f"{place}{reported or ', nothing reported yet'}{where}"
    for failure in study["failures"]:
        yield "failed", f"trial {failure['trial']}: {failure['error']}"
        yield from (("failed", f"  printed: {_short(path)}") for path in failure["logs"][:_MOST_LOGS])
    for caution in study["cautions"][:_MOST_CAUTIONS]:
        yield "cautions", caution
    if (more := len(study["cautions"]) - _MOST_CAUTIONS) > 0:
        yield "cautions", f"and {more} more, in its report"
    width = max((len(step["command"]) for step in study["next"]), default=0)
    for step in study["next"]:
        yield "next", f"{step['command']:<{width}}   {step['does']}"


def _says_of_progress(study: Mapping[str, Any]) -> _Says:
    from hpo.formatting import format_count

    trials = ", ".join(
        f"{number} {state}" for state, number in study["trials"].items() if number and state != "running"
    )
    unfinished, words = study["trials"].get("running", 0), {"running": "running", "open": "not told"}
    called = words.get(study["state"], "interrupted")
    open_ones = f"{', ' if trials else ''}{unfinished} {called}" if unfinished else ""
    minutes = f"; {_time(60 * study['minutes'])} of search" if study["minutes"] is not None else ""
    added = f"; {format_count(study['untried'], 'added point*')} not tried so far" if study["untried"] else ""
    if study["budget"]:
        yield "done", f"{study['done']} of {study['budget']} {study['counts']}: {trials}{open_ones}{minutes}{added}"


def _says_of_trial(trial: Mapping[str, Any]) -> _Says:
    score = ""
    if trial["score"] is not None:
        values, fresh = _values(trial["scores"] or {trial["metric"]: trial["score"]}), trial["fresh_scores"]
        score = f", {beside_search(_values(fresh), values) if fresh else values}"
    beyond = f", {trial['excess']:.3g} beyond the limits" if trial["excess"] else ""
    yield "trial", f"{trial['trial']} of study {trial['study']}: {trial['state']}{score}{beyond}"
    yield from (("point", line) for line in _point_lines(trial["point"], trial["default"], len(trial["point"])))
    if trial["amount"] is not None:
        further = f", further from trial {trial['continues']}" if trial["continues"] is not None else ""
        far = trial["reached"] if trial["state"] == "complete" else None
        yield "trained", f"{how_far(trial['amount'], far).removeprefix(', ').removeprefix('trained ')}{further}"
    if trial["started"] is not None:
        began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(trial["started"]))
        host = f" on {trial['host']}" if trial["host"] else ""
        yield "ran", f"from {began}{host}, {_time(trial['seconds'])} of training"
    if trial["stopped"]:
        yield "stopped", trial["stopped"]
    if trial["error"]:
        yield "failed", trial["error"]
    for task in trial["tasks"]:
        yield from _says_of_task(task)


def _says_of_task(task: Mapping[str, Any]) -> _Says:
    name, score = task["task"], f" {task['score']:.4g}" if task["score"] is not None else ""
    place = f", {_where(task)}" if task["process"] else ""
    attempt = f", attempt {task['attempt']}" if (task["attempt"] or 1) > 1 else ""
    seconds = f", {_time(task['seconds'])}" if task["seconds"] else ""
    yield name, f"{task['state']}{score}{seconds}, seed {task['seed']}{place}{attempt}"
    if len(values := [value for _, value in task["curve"]]) > 1:
        (first, start), (last, end) = task["curve"][0], task["curve"][-1]
        yield name, f"  {_chart(values)}  {start:.4g} at {first:g}, {end:.4g} at {last:g}"
    elif task["point"]:
        yield name, f"  {_values(task['point'])}"
    # Below the traceback stands what was printed last, as the log has it.
    for line in (task["details"] or "").partition("\nprinted last:\n")[0].splitlines()[-_MOST_DETAILS:]:
        yield name, f"  {line}"
    if task["log"]:
        yield name, f"  {_short(task['log'])}:"
        yield from ((name, f"    {line}") for line in task["printed_last"])


def _where(task: Mapping[str, Any]) -> str:
    """Return the process that trains, or has trained, as people read it; without a host that is not known."""
    from hpo.trials.record.host import Site

    return str(Site(task["host"], task["process"], task["gpus"])) if task["host"] else f"process {task['process']}"


def _point_lines(
    point: Mapping[str, Any], default: Mapping[str, Any] | None, most: int = _MOST_VALUES
) -> Iterator[str]:
    """Yield a line a value, which is marked where it is not the default."""
    shown = {key: _value(value) for key, value in [*point.items()][:most]}
    width, wide = (max(map(len, texts), default=0) for texts in (shown, shown.values()))
    for key, text in shown.items():
        there = (default or {}).get(key, point[key])
        other = f"   (default {_value(there)})" if there != point[key] else ""
        yield f"  {key:<{width}} = {text:<{wide if other else 0}}{other}"
    if len(point) > most:
        yield f"  and {len(point) - most} more"


def _chart(values: Sequence[float]) -> str:
    """Return a curve as a line of characters, from its lowest to its highest value."""
    signs = _BLOCKS if _can_print(_BLOCKS) else _PLAIN
    step = max(1.0, (len(values) - 1) / (_CURVE - 1))
    shown = [values[round(place * step)] for place in range(int((len(values) - 1) / step) + 1)]
    low, high = min(shown), max(shown)
    return "".join(
        signs[round((value - low) / (high - low) * (len(signs) - 1)) if high > low else 0] for value in shown
    )


def _can_print(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def _values(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in values.items())


def _value(value: Any) -> str:
    from hpo.formatting import format_short

    return f"{value:.4g}" if isinstance(value, float) else format_short(value)


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _short(path: Path) -> str:
    from hpo.study.files.folder import short_path

    return str(short_path(path))
