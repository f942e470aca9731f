"""The note on a study's page in a tracker: the winner, what was searched, the best five, how to reproduce it."""

import statistics
from collections.abc import Callable, Iterable, Iterator

from hpo.engine.space.space import Point, short_value
from hpo.engine.trials.digits import score_format
from hpo.engine.trials.history import History
from hpo.engine.trials.trial import Trial
from hpo.report.blocks import markdown_table
from hpo.report.words import count_text
from hpo.study.study import PreparedStudy
from hpo.track.mlflow.pages import RUN_ID, TABLE, trial_page

# A tracker keeps some thousand characters; with these bounds a note has less than 5,000 (tested).
_TOP = 5
_COLUMNS = 8
_CELL = 24
_POINT = 600


def study_note(study: PreparedStudy, history: History, winner: Trial | None, is_running: bool) -> str:
    """Return the note as Markdown, the most important first: trackers show only the first lines unfolded.

    Addresses are placeholders, which the tracker fills in. `history` holds the finished trials so far.
    """
    head = (_winner_lines(study, history, winner), _what(study, history, is_running))
    parts = (*head, _best(study, history), _again(study))
    return "\n".join(line for part in parts for line in [*part, ""]).rstrip() + "\n"


def _winner_lines(study: PreparedStudy, history: History, winner: Trial | None) -> Iterator[str]:
    if winner is None:
        yield "**No winner:** every trial failed so far." if len(history) else "**No trial is finished yet.**"
        return
    metric = study.config.study.metric
    values = winner.values(metric)
    assert winner.score is not None
    text = _format(history)
    spread = f" ± {text(statistics.stdev(values))} over {len(values)} trainings" if len(values) > 1 else ""
    trial = f"[trial {winner.number}]({trial_page(winner.number)})"
    score = f"{_plain(metric)} {text(winner.score)}**{spread}{study.how_far(winner)}"
    yield f"**Winner: {trial}, {score}: {_point(winner.point)}"
    test = study.folder.test_result()
    if test is not None and metric in test["metrics"]:
        yield ""
        yield f"Test {_plain(metric)}: **{text(test['metrics'][metric])}** (trial {test['trial']})."


def _what(study: PreparedStudy, history: History, is_running: bool) -> Iterator[str]:
    config = study.config.study
    states = {state: sum(trial.state == state for trial in history) for state in ("failed", "stopped")}
    others = [f"{count} {state}" for state, count in states.items() if count]
    done = study.done(history) + (f" ({', '.join(others)})" if others else "")
    when = " when this was written" if is_running else ""
    yield (
        f"Search by `{study.config.strategy['name']}` in {count_text(len(study.space.dimensions), 'hyperparameter*')}, "
        f"seed {config.seed}: [{done}]({TABLE}){when}. Metric: {_plain(config.metric)}, {config.direction}d, "
        f"the mean over {_trainings(study)}. {_data(study)} The score of every trial, and the best so far, are charts "
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
    best = history.leaders(_TOP)
    if not best:
        return
    keys = study.space.keys[:_COLUMNS]
    lasts = [key.rpartition(".")[2] for key in keys]
    names = lasts if len(set(lasts)) == len(lasts) else keys
    head = ["best trials", _spaced(_plain(study.config.study.metric)), *(_spaced(_cell(name)) for name in names)]
    yield from markdown_table(head, (_best_row(trial, keys, _format(history)) for trial in best))


def _format(history: History) -> Callable[[float], str]:
    return score_format(trial.score for trial in history.leaders(_TOP))


def _best_row(trial: Trial, keys: Iterable[str], text: Callable[[float], str]) -> list[str]:
    assert trial.score is not None
    values = [short_value(trial.point[key]) if key in trial.point else "" for key in keys]
    amount = "" if trial.amount is None else f" to {trial.amount}"
    numbers = [f"{text(trial.score)}{amount}", *(_cell(value) for value in values)]
    return [f"[{trial.number}]({trial_page(trial.number)})", *map(_spaced, numbers)]


def _again(study: PreparedStudy) -> Iterator[str]:
    # MLflow has no space below a table.
    yield from ("&nbsp;", "", "To reproduce the winner, from MLflow alone or where the study is:", "")
    yield from ("```", f"hpo reproduce runs:/{RUN_ID}", f"hpo reproduce {study.reference}", "```")


def _point(point: Point) -> str:
    text = ", ".join(f"{key}={short_value(value)}" for key, value in point.items())
    return f"`{_cut(text, _POINT).replace('`', chr(39))}`"


def _spaced(text: str) -> str:
    """Return a cell with space before it: MLflow shows tables without space between columns."""
    return f"&emsp;{text}"


def _cell(text: str) -> str:
    return _plain(_cut(text, _CELL))


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _plain(text: str) -> str:
    """Return the text with Markdown's special characters escaped."""
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>#" else letter for letter in " ".join(text.split()))
