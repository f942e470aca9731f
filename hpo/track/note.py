"""The note on a study's page in a tracker: the winner, what was searched, the best five, how to reproduce it."""

import itertools
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping

from hpo.formatting import format_count, format_short
from hpo.report.part import markdown_table
from hpo.study.files.user_notes import read_notes
from hpo.study.study import PreparedStudy
from hpo.study.winner.choosing import why, why_none
from hpo.track.messages import goal_values
from hpo.track.views import FRONT, RUN_ID, TABLE, trial_page
from hpo.trials.goal import Goal
from hpo.trials.history import History
from hpo.trials.places import to_amount
from hpo.trials.score_format import score_format, with_spread
from hpo.trials.space.space import Point
from hpo.trials.trial import Trial

# A tracker keeps some thousand characters; with these bounds a note has less than 5,000 (tested).
_TOP = 5
_COLUMNS = 8
_CELL = 24
_POINT = 600
_CHOICE = 200
_NOTES = 3


def study_note(
    study: PreparedStudy, history: History, winner: Trial | None, is_running: bool, fresh: Trial | None = None
) -> str:
    """Return the note as Markdown, the most important first: trackers show only the first lines unfolded.

    Addresses are placeholders, which the tracker fills in. `history` holds the finished trials so far, and `fresh` the
    winner as trained again on fresh seeds, where these chose it.
    """
    head = (_winner_lines(study, history, winner, fresh), _what(study, history, is_running))
    again = [] if study.is_outside else [_again(study)]
    parts = (*head, _best(study, history), *again, _written(study))
    return "\n".join(line for part in parts for line in [*part, ""]).rstrip() + "\n"


def _winner_lines(study: PreparedStudy, history: History, winner: Trial | None, fresh: Trial | None) -> Iterator[str]:
    if winner is None:
        reason = _plain(_cut(why_none(history, study.goal) or "every trial failed so far", _POINT))
        yield f"**No winner:** {reason}." if len(history) else "**No trial is finished yet.**"
        return
    goal, by = study.goal, fresh or winner
    values = by.values(goal.metric)
    texts = _texts(goal, [*_best_trials(study, history), *([] if by is winner and goal.is_single else [by])])
    score, in_search = (
        ", ".join(f"{_name(goal, name)} {texts[name](value)}" for name, value in _numbers(trial, goal).items())
        for trial in (by, winner)
    )
    over = f" over {len(values)} trainings" if len(values) > 1 else ""
    if over and goal.is_single:
        mean, deviation = with_spread(texts[goal.metric], statistics.fmean(values), statistics.stdev(values))
        score, over = f"{_name(goal, goal.metric)} {mean}", f" ± {deviation}{over}"
    over += f" on fresh seeds ({in_search} in the search)" if fresh else ""
    trial = f"[trial {winner.number}]({trial_page(winner.number)})"
    # Of an opened page some lines are seen, three beside MLflow's assistant.
    again = f"again with `hpo reproduce {study.reference}`"
    yield f"**Winner: {trial}, {score}**{over}{study.how_far(winner)}; {again}"
    yield from ("", _point(winner.point))
    if len(goal.metrics) > 1:
        size, choice = format_count(len(history.front), "trial*"), _cut(why(study.config.study.choose), _CHOICE)
        yield from ("", f"Chosen as {_plain(choice)}. The front: [{size}]({FRONT}) that no other one dominates.")
    yield from _within_limits(study, history)
    test = study.folder.test_result()
    if test is not None and goal.metric in test["metrics"]:
        metrics = [name for name in texts if name in test["metrics"]]
        shown = ", ".join(f"{_name(goal, name)}: **{texts[name](test['metrics'][name])}**" for name in metrics)
        yield from ("", f"Test {shown} (trial {test['trial']}).")


def _within_limits(study: PreparedStudy, history: History) -> Iterator[str]:
    complete = [trial for trial in history if trial.state == "complete"]
    if study.goal.limits and complete:
        # Below an escaped < MLflow shows no table.
        texts = (str(limit).replace("<=", "≤").replace(">=", "≥") for limit in study.goal.limits[:_COLUMNS])
        limits = ", ".join(_plain(_cut(text, 2 * _CELL)) for text in texts)
        kept = f"{sum(trial.keeps_limits for trial in complete)} of {format_count(len(complete), 'complete trial*')}"
        yield from ("", f"Limits: {limits}; kept by {kept}.")


def _what(study: PreparedStudy, history: History, is_running: bool) -> Iterator[str]:
    config = study.config.study
    states = {state: sum(trial.state == state for trial in history) for state in ("failed", "stopped")}
    others = [f"{count} {state}" for state, count in states.items() if count]
    done = study.done(history) + (f" ({', '.join(others)})" if others else "")
    when = " when this was written" if is_running else ""
    goal = study.goal
    if len(goal.metrics) == 1:
        what = f"Metric: {_name(goal, goal.metric)}, {goal.direction}d, the mean"
    else:
        each = (f"{_name(goal, name)} ({way}d)" for name, way in itertools.islice(goal.metrics.items(), _COLUMNS))
        what = f"Metrics: {', '.join(each)}; the means"
    searched = format_count(len(study.space.dimensions) - bool(goal.target), "hyperparameter*")
    scales = f" at {goal.target} scales" if goal.target else ""
    yield (
        f"Search by `{study.config.strategy['name']}` in {searched}{scales}, "
        f"seed {config.seed}: [{done}]({TABLE}){when}. {what} "
        f"over {_trainings(study)}. {_data(study)} The score of every trial, and the best so far, are charts "
        "of this run (Model metrics)."
    )


def _trainings(study: PreparedStudy) -> str:
    folds = f"{study.num_folds} folds" if study.num_folds > 1 else "one hold-out"
    return folds + (f" times {study.layout.repeats} seeds" if study.layout.repeats > 1 else "")


def _data(study: PreparedStudy) -> str:
    if study.described.split is None:
        return f"The objective `{study.config.objective}` brings its own data."
    parts = [f"{name} {part['size']:,}" for name, part in study.described.parts.items()]
    return f"Data: {_plain(study.described.name or 'unnamed')} ({', '.join(parts)})."


def _best(study: PreparedStudy, history: History) -> Iterator[str]:
    best, goal = _best_trials(study, history), study.goal
    if not best:
        return
    texts = _texts(goal, best)
    keys = study.space.keys[: _COLUMNS + 1 - len(texts)]
    lasts = [key.rpartition(".")[2] for key in keys]
    names = lasts if len(set(lasts)) == len(lasts) else keys
    first = f"{len(best)} of the front" if len(goal.metrics) > 1 else "best trials"
    head = [first, *(_spaced(_name(goal, name)) for name in texts), *(_spaced(_cell(name)) for name in names)]
    yield from markdown_table(head, (_best_row(trial, keys, goal, texts) for trial in best))


def _best_trials(study: PreparedStudy, history: History) -> list[Trial]:
    """Return those of the table: the best, or of a front what adds most to it, the leading metric's best first."""
    leaders = [trial for trial in history.leaders(_TOP) if trial.keeps_limits]
    if len(study.goal.metrics) == 1:
        return leaders
    numbers = {trial.number for trial in leaders}
    return [trial for trial in history.front if trial.number in numbers]


def _numbers(trial: Trial, goal: Goal) -> dict[str, float]:
    """Return what a complete trial came to: the leading metric first, as many as have room."""
    return dict(itertools.islice(goal_values(trial, goal).items(), _COLUMNS))


def _texts(goal: Goal, compared: Iterable[Trial]) -> dict[str, Callable[[float], str]]:
    """Return by metric what writes its numbers, so that those that are compared are told apart."""
    numbers = [_numbers(trial, goal) for trial in compared]
    return {name: score_format(each[name] for each in numbers) for name in goal.names[:_COLUMNS]}


def _best_row(trial: Trial, keys: Iterable[str], goal: Goal, texts: Mapping[str, Callable[[float], str]]) -> list[str]:
    values = [format_short(trial.point[key]) if key in trial.point else "" for key in keys]
    amount = to_amount(trial.amount, trial.reached)
    score, *others = (texts[name](number) for name, number in _numbers(trial, goal).items())
    cells = [score + amount, *others, *map(_cell, values)]
    return [f"[{trial.number}]({trial_page(trial.number)})", *map(_spaced, cells)]


def _again(study: PreparedStudy) -> Iterator[str]:
    # MLflow has no space below a table.
    yield from ("&nbsp;", "", "To reproduce the winner, from MLflow alone or where the study is:", "")
    yield from ("```", f"hpo reproduce runs:/{RUN_ID}", f"hpo reproduce {study.reference}", "```")


def _written(study: PreparedStudy) -> Iterator[str]:
    """Say what people wrote last."""
    for note in [note for note in read_notes(study.folder) if note.text][-_NOTES:]:
        yield f"- {note.time[:10]} {_cell(note.user)}: {_plain(_cut(note.text, _CHOICE))}"


def _point(point: Point) -> str:
    text = ", ".join(f"{key}={format_short(value)}" for key, value in point.items())
    return f"`{_cut(text, _POINT).replace('`', chr(39))}`"


def _spaced(text: str) -> str:
    """Return a cell with space before it: MLflow shows tables without space between columns."""
    return f"&emsp;{text}"


def _name(goal: Goal, name: str) -> str:
    return _plain(name) if name == goal.metric else _cell(name)


def _cell(text: str) -> str:
    return _plain(_cut(text, _CELL))


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _plain(text: str) -> str:
    """Return the text with Markdown's special characters escaped."""
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>#" else letter for letter in " ".join(text.split()))
