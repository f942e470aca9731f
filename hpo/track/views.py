"""Makes saved views of MLflow's UI for one study, several studies, or all studies.

A saved view has charts, and a table whose columns this module chooses. Without a saved view, the UI shows neither
scores nor hyperparameters. This module stores saved views in the same form as the UI: as JSON in tags of the
experiment.

Source: the front end of MLflow 3.17, which reads the tags `mlflow.sharedViewState.*`. The JSON of a tag has the name,
the times and the state of a view. The state has the search condition, the columns with their order and widths, and the
charts. The state may be compressed (zlib and base64).
"""

import base64
import colorsys
import json
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict
from urllib.parse import quote

from hpo.trials.trial import Direction

# Without this parameter, a new browser shows chats and judges instead of runs and models.
_KIND = "workflowType=machine_learning"
# The table of all experiments.
EXPERIMENTS = f"#/experiments?{_KIND}"
# Placeholders in a note; the tracker replaces them when it stores the note.
RUN_ID, TABLE = "@@run@@", "@@table@@"
# The key of the front's view is the key of the view of all trials plus this suffix.
ON_FRONT = "-front"
FRONT = TABLE + ON_FRONT
# The key of the view of all studies of an experiment.
STUDIES = "hpo-studies"


def trial_page(number: int) -> str:
    """Return a placeholder that is later replaced by the address of a trial's page."""
    return f"@@trial {number}@@"


def escape(text: str) -> str:
    """Return the text in one line, with single blanks, and with Markdown's special characters escaped."""
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>#" else letter for letter in " ".join(text.split()))


def fill_in(note: str, run_id: str, table: str, page: Mapping[int, str]) -> str:
    """Return the note with its placeholders replaced.

    Insert the run's id, the address `table` of the page with all trials, and the addresses of single trials. `page`
    maps a trial's number to the trial's address. If `page` has no address for a trial, insert the empty link `#`.
    """
    note = note.replace(RUN_ID, run_id).replace(TABLE, table)
    return re.sub(r"@@trial (\d+)@@", lambda match: page.get(int(match[1]), "#"), note)


def run_page(experiment_id: str, run_id: str) -> str:
    """Return the address of a run's page."""
    return f"#/experiments/{quote(experiment_id)}/runs/{quote(run_id)}?{_KIND}"


def view_page(experiment_id: str, key: str) -> str:
    """Return the address of the page that shows the saved view with this key as a table.

    The view of a study's trials has the study's id as its key.
    """
    return f"#/experiments/{quote(experiment_id)}/runs?{_KIND}&viewStateShareKey={quote(key)}"


def charts_page(view: str) -> str:
    """Return the address of a saved view's charts, given the address of the view's table."""
    return f"{view}&compareRunsMode=CHART"


# A tag of trials' runs in a study with several metrics: true or false.
FRONT_TAG = "hpo.is_on_front"
_PREFIX = "mlflow.sharedViewState."
# Limit of an experiment's tag in older servers; the limit of newer ones is four times as large.
_MAX_VALUE = 5000
LARGEST_VIEW = 4 * _MAX_VALUE
_MAX_COLUMNS = 12
_BOOKKEEPING = ("score_standard_deviation", "trial", "seconds", "num_parameters", "round")
# Widths are in pixels: a window of 1280 has room for 940, or 610 while MLflow's assistant is open.
_FIRST = {"attributes.`Run Name`": 120, "runDateAndNestInfo": 110}
_STUDIES = _FIRST | {
    **{"tags.`hpo.state`": 75, "metrics.`best_score`": 85, "tags.`hpo.goal`": 110, "tags.`hpo.strategy`": 95},
    **{"tags.`hpo.data`": 75, "tags.`hpo.trials`": 80, "metrics.`test_score`": 85, "metrics.`hours`": 80},
}
_WIDTH = 90
_OURS = {"deleted": False, "isGenerated": False}
# Turn off the UI's default smoothing of lines, because it makes a best score seem lower than it is.
_UNSMOOTHED = {"lineSmoothness": 0, "xAxisKey": "step", "selectedXAxisMetricKey": ""}
# Hues are the fractional parts of multiples of the golden ratio, which are well separated for any number of studies.
_GOLDEN = 0.618034
_FIRST_HUE = 0.58  # blue
COLOR_TAG = "mlflow.runColor"


def tag_of(key: str) -> str:
    """Return the name of the experiment's tag that stores the saved view with this key."""
    return _PREFIX + key


def keys_of_study(study_id: str) -> tuple[str, str]:
    """Return the keys of a study's two saved views: of all its trials, and of the trials on its Pareto front."""
    return study_id, study_id + ON_FRONT


class TrialsTable(TypedDict):
    """The columns of a table of trials, and its charts.

    Attributes:
        metrics: the metrics of the goal; each has a column and a chart. The first is the leading metric. The rows are
            sorted by the leading metric, in `direction`.
        flags: tags for selecting trials, such as `FRONT_TAG`.
        keys: the hyperparameters.
        others: further metrics, about the cost of a training.
        curves: the metrics with a chart of learning curves; each chart has one line per trial.
    """

    metrics: Sequence[str]
    direction: Direction
    flags: Sequence[str]
    keys: Sequence[str]
    others: Sequence[str]
    curves: Sequence[str]


def study_views(study_id: str, name: str, seconds: float, table: TrialsTable, parent: str) -> dict[str, str]:
    """Return the experiment's tags that store the saved views of a study.

    The first view shows all trials of the study. With several metrics, a second view shows the trials on the Pareto
    front.
    """
    of_study = f"tags.`mlflow.parentRunId` = '{parent}'"
    trials, on_front = keys_of_study(study_id)
    views = {tag_of(trials): _short_view(f"{name}: trials", seconds, table, of_study)}
    if FRONT_TAG in table["flags"]:
        condition = f"{of_study} and tags.`{FRONT_TAG}` = 'true'"
        views[tag_of(on_front)] = _short_view(f"{name}: front", seconds, table, condition)
    return views


def studies_view(name: str, seconds: float, run_ids: Sequence[str] | None = None) -> str:
    """Return the content of a saved view of MLflow's run table, with one row per study, the latest study first.

    The view shows the studies whose runs have the ids `run_ids`; None = all studies of the experiment.
    """
    condition = "tags.`hpo.kind` = 'study'" if run_ids is None else _one_of(run_ids)
    cards = [{"type": "BAR", "metricKey": "best_score", "runsCountToCompare": 100}, _line("best_score")]
    order = {"orderByKey": "attributes.start_time", "orderByAsc": False}
    return envelope(name, seconds, {**order, **_state(condition, _STUDIES, cards, "Studies")})


def compared_view(name: str, seconds: float, table: TrialsTable, run_ids: Sequence[str]) -> str:
    """Return a saved view for MLflow's UI that lists the trials of several studies, the best trial first."""
    return _view(name, seconds, {**table, "keys": table["keys"][:_MAX_COLUMNS]}, _one_of(run_ids), "Trials")


def envelope(name: str, seconds: float, state: Mapping[str, Any]) -> str:
    """Return a saved view of MLflow's UI as JSON, in the form that MLflow's front end reads."""
    when = int(seconds * 1000)
    packed = base64.b64encode(zlib.compress(json.dumps(state).encode(), 9)).decode()
    return json.dumps({"name": name, "createdAt": when, "updatedAt": when, "state": f"deflate;{packed}"})


def opened(view: str) -> dict[str, Any]:
    """Return the `state` that `envelope` has packed into a saved view."""
    packed = json.loads(view)["state"].removeprefix("deflate;")
    state: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(packed)))
    return state


def color_of_study(place: int) -> str:
    """Return the color of a study's run, given the study's position among the studies of the experiment.

    Neighbouring positions have very different hues.
    """
    return _color((_FIRST_HUE + place * _GOLDEN) % 1, 0.5)


def color_of_trial(study: str, number: int) -> str:
    """Return the color of a trial's run: a shade of its study's color."""
    hue, _, _ = colorsys.rgb_to_hls(*(int(study[at : at + 2], 16) / 255 for at in (1, 3, 5)))
    return _color(hue, 0.35 + 0.35 * (number * _GOLDEN % 1))


def _color(hue: float, lightness: float) -> str:
    parts = colorsys.hls_to_rgb(hue, lightness, 0.65)
    return "#" + "".join(f"{round(255 * part):02x}" for part in parts)


def _short_view(name: str, seconds: float, table: TrialsTable, condition: str) -> str:
    """Return a saved view as JSON; leave out the last columns if the JSON would be too long for an experiment's tag."""
    metrics, keys = table["metrics"], table["keys"]
    for count in range(len(metrics) + _MAX_COLUMNS, 0, -1):
        short: TrialsTable = {**table, "metrics": metrics[:count], "keys": keys[: max(0, count - len(metrics))]}
        value = _view(name, seconds, short, condition, "Study")
        if len(value) <= _MAX_VALUE:
            break
    return value


def _view(name: str, seconds: float, table: TrialsTable, condition: str, section: str) -> str:
    order = {"orderByKey": f"metrics.`{table['metrics'][0]}`", "orderByAsc": table["direction"] == "minimize"}
    return envelope(name, seconds, {**order, **_state(condition, _columns(table), _cards(table), section)})


def _columns(table: TrialsTable) -> dict[str, int]:
    """Return the columns with their widths; the goal's metrics and the hyperparameters come before other metrics."""
    further = (*table["others"], *_BOOKKEEPING)
    first, last = ([f"metrics.`{name}`" for name in names] for names in (table["metrics"], further))
    tags, params = [f"tags.`{flag}`" for flag in table["flags"]], [f"params.`{key}`" for key in table["keys"]]
    # A metric may have the name of one of our own metrics; both then share a column.
    return _FIRST | dict.fromkeys([*first, *tags, *params, *last], _WIDTH)


def _state(
    condition: str, columns: Mapping[str, int], cards: Iterable[Mapping[str, Any]], section: str
) -> dict[str, Any]:
    return {
        "searchFilter": condition,
        "selectedColumns": [column for column in columns if column not in _FIRST],
        "columnOrder": [*columns],
        "columnWidths": columns,
        "runsHiddenMode": "SHOW_ALL",
        # Refresh the page while a study runs.
        "autoRefreshEnabled": True,
        "globalLineChartConfig": _UNSMOOTHED,
        # Keep the order of sections in this list instead of sorting by name.
        "isAccordionReordered": True,
        "compareRunSections": [{"uuid": "hpo", "name": section, "display": True, "isReordered": False, **_OURS}],
        "compareRunCharts": [
            {"uuid": f"hpo-{place}", "metricSectionId": "hpo", **_OURS, **card} for place, card in enumerate(cards)
        ],
    }


def _cards(table: TrialsTable) -> list[dict[str, Any]]:
    """Return the charts of a saved view.

    Scatter plots show the second metric over the leading metric, the leading metric over the cost, and each metric over
    the trial's number. Then come a chart of parallel coordinates, and the charts of the learning curves.
    """
    metrics, others = table["metrics"], table["others"]
    pairs = [(metrics[0], metrics[1])] if len(metrics) > 1 else []
    pairs += [("cost", metrics[0])] if "cost" in others else []
    pairs += [("trial", name) for name in metrics]
    # The last metric determines the colours of the lines, so the leading one comes last.
    lines = {"selectedParams": list(table["keys"]), "selectedMetrics": [*others, *metrics[::-1]]}
    return [
        *({"type": "SCATTER", "xaxis": _axis(x), "yaxis": _axis(y), "runsCountToCompare": 100} for x, y in pairs),
        {"type": "PARALLEL", **lines, "showAllRuns": True},
        *map(_line, table["curves"]),
    ]


def _line(metric: str) -> dict[str, Any]:
    chosen = {"metricKey": metric, "selectedMetricKeys": [metric], "xAxisKey": "step"}
    return {"type": "LINE", **chosen, "lineSmoothness": 0, "useGlobalLineSmoothing": False}


def _axis(metric: str) -> dict[str, str]:
    return {"key": metric, "type": "METRIC"}


def _one_of(run_ids: Sequence[str]) -> str:
    # MLflow refuses an empty list; no run has an empty id.
    listed = ",".join(f"'{run_id}'" for run_id in run_ids or [""])
    return f"attributes.run_id IN ({listed})"
