"""Pages of MLflow's UI: their addresses, which a note has placeholders for, and the table of a study's trials.

By default the UI shows neither scores nor hyperparameters. It stores saved views as JSON in tags of the experiment, and
so do we. Source: the front end of MLflow 3.17, which reads `mlflow.sharedViewState.*` (envelope, state, chart cards).
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from hpo.track.messages import TrackerMessage

# Without it a new browser shows chats and judges instead of runs and models.
_KIND = "workflowType=machine_learning"
# The table of all experiments.
EXPERIMENTS = f"#/experiments?{_KIND}"
# Placeholders in a note for what only MLflow's process knows; they are replaced when the note is stored.
RUN_ID, TABLE = "@@run@@", "@@table@@"
# The key of the view of the front is that of all trials, with which its address ends, and this.
_FRONT = "-front"
FRONT = TABLE + _FRONT

# Of a trial's run in a study of several metrics: true or false.
FRONT_TAG = "hpo.is_on_front"
VIEW_PREFIX = "mlflow.sharedViewState."
# Limit of an experiment's tag in older servers; today's is four times as large.
_MAX_VALUE = 5000
_MAX_COLUMNS = 12
_METRICS = ("score_standard_deviation", "trial", "round", "seconds", "num_parameters")

_OURS = {"deleted": False, "isGenerated": False}

# Makes the UI offer runs, models and charts instead of chats and judges.
EXPERIMENT_TAGS = {
    "mlflow.experimentKind": "custom_model_development",
    "mlflow.experiment.primaryMetric.name": "score",
    "mlflow.note.content": "Each run is a study of hyperparameters; the runs under it are its trials.",
}


def trial_page(number: int) -> str:
    """Return the placeholder for the address of a trial's page."""
    return f"@@trial {number}@@"


def fill_in(note: str, run_id: str, table: str, page: Mapping[int, str]) -> str:
    """Return the note with its placeholders replaced; trials without a page get an empty link."""
    note = note.replace(RUN_ID, run_id).replace(TABLE, table)
    return re.sub(r"@@trial (\d+)@@", lambda match: page.get(int(match[1]), "#"), note)


def run_page(experiment_id: str, run_id: str) -> str:
    """Return the address of a run's page."""
    return f"#/experiments/{quote(experiment_id)}/runs/{quote(run_id)}?{_KIND}"


def table_page(experiment_id: str, study_id: str) -> str:
    """Return the address of the table of a study's trials; see `saved_views`."""
    return f"#/experiments/{quote(experiment_id)}/runs?{_KIND}&viewStateShareKey={quote(study_id)}"


def view_keys(study_id: str) -> set[str]:
    """Return the names of the tags of an experiment that `saved_views` may give for a study."""
    return {VIEW_PREFIX + study_id, VIEW_PREFIX + study_id + _FRONT}


def saved_views(message: TrackerMessage, parent: str) -> dict[str, str]:
    """Return the tags that hold the views of the study that a message opens: its trials, and the front, if it has one.

    The message's `metrics` are columns and charts, the leading one first, `flags` columns of tags.
    """
    of_study = f"tags.`mlflow.parentRunId` = '{parent}'"
    key = VIEW_PREFIX + message["study_id"]
    views = {key: _view(message, "trials", of_study)}
    if FRONT_TAG in message["flags"]:
        views[key + _FRONT] = _view(message, "front", f"{of_study} and tags.`{FRONT_TAG}` = 'true'")
    return views


def _view(message: TrackerMessage, name: str, condition: str) -> str:
    when = int(message["time"] * 1000)
    metrics, keys = message["metrics"], message["columns"]
    # Every column occurs three times, and a key may be long.
    for count in range(len(metrics) + _MAX_COLUMNS, 0, -1):
        columns = metrics[:count], keys[: max(0, count - len(metrics))]
        state = json.dumps(_state(message, condition, *columns))
        envelope = {"name": f"{message['name']}: {name}", "createdAt": when, "updatedAt": when, "state": state}
        value = json.dumps(envelope)
        if len(value) <= _MAX_VALUE:
            break
    return value


def _state(message: TrackerMessage, condition: str, metrics: Sequence[str], keys: Sequence[str]) -> dict[str, Any]:
    goal, others = ([f"metrics.`{name}`" for name in names] for names in (metrics, _METRICS))
    flags, params = [f"tags.`{flag}`" for flag in message["flags"]], [f"params.`{key}`" for key in keys]
    # A metric may be called as one of ours that says the same.
    columns = list(dict.fromkeys([*goal, *flags, *others, *params]))
    cards = _cards(metrics, keys, message["curves"])
    return {
        "searchFilter": condition,
        "orderByKey": goal[0],
        "orderByAsc": message["direction"] == "minimize",
        "selectedColumns": columns,
        "columnOrder": columns,
        "runsHiddenMode": "SHOW_ALL",
        # Keeps the order of sections in this list, instead of sorting by name.
        "isAccordionReordered": True,
        "compareRunSections": [{"uuid": "hpo", "name": "Study", "display": True, "isReordered": False, **_OURS}],
        "compareRunCharts": [
            {"uuid": f"hpo-{place}", "metricSectionId": "hpo", **_OURS, **card} for place, card in enumerate(cards)
        ],
    }


def _cards(metrics: Sequence[str], keys: Sequence[str], curves: Sequence[str]) -> list[dict[str, Any]]:
    """Return the charts: the first two metrics, each over the trial's number, all columns, the learning curves."""
    pairs = [(metrics[0], metrics[1])] if len(metrics) > 1 else []
    pairs += [("trial", name) for name in metrics]
    # The last of the metrics gives the lines their colours.
    lines = {"selectedParams": list(keys), "selectedMetrics": list(metrics[::-1])}
    return [
        *({"type": "SCATTER", "xaxis": _axis(x), "yaxis": _axis(y), "runsCountToCompare": 100} for x, y in pairs),
        {"type": "PARALLEL", **lines, "showAllRuns": True},
        *({"type": "LINE", "metricKey": key, "selectedMetricKeys": [key], "xAxisKey": "step"} for key in curves),
    ]


def _axis(metric: str) -> dict[str, str]:
    return {"key": metric, "type": "METRIC"}
