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

VIEW_PREFIX = "mlflow.sharedViewState."
# Limit of an experiment's tag in older servers; today's is four times as large.
_MAX_VALUE = 5000
_MAX_COLUMNS = 12
_METRICS = ("score", "score_standard_deviation", "trial", "round", "seconds", "num_parameters")

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
    """Return the address of the table of a study's trials; see `trials_view`."""
    return f"#/experiments/{quote(experiment_id)}/runs?{_KIND}&viewStateShareKey={quote(study_id)}"


def trials_view(message: TrackerMessage, parent: str) -> tuple[str, str]:
    """Return the tag, as key and value, that holds the view of the trials of the study that a message opens."""
    when = int(message["time"] * 1000)
    # Every column occurs three times, and a key may be long.
    for count in range(_MAX_COLUMNS, -1, -1):
        state = json.dumps(_state(message, parent, message["columns"][:count]))
        envelope = {"name": f"{message['name']}: trials", "createdAt": when, "updatedAt": when, "state": state}
        value = json.dumps(envelope)
        if len(value) <= _MAX_VALUE:
            break
    return VIEW_PREFIX + message["study_id"], value


def _state(message: TrackerMessage, parent: str, keys: Sequence[str]) -> dict[str, Any]:
    metrics, params = [f"metrics.`{name}`" for name in _METRICS], [f"params.`{key}`" for key in keys]
    cards = _cards(keys, message["curves"])
    return {
        "searchFilter": f"tags.`mlflow.parentRunId` = '{parent}'",
        "orderByKey": "metrics.`score`",
        "orderByAsc": message["direction"] == "minimize",
        "selectedColumns": [*metrics, *params],
        "columnOrder": [*metrics, *params],
        "runsHiddenMode": "SHOW_ALL",
        # Keeps the order of sections in this list, instead of sorting by name.
        "isAccordionReordered": True,
        "compareRunSections": [{"uuid": "hpo", "name": "Study", "display": True, "isReordered": False, **_OURS}],
        "compareRunCharts": [
            {"uuid": f"hpo-{place}", "metricSectionId": "hpo", **_OURS, **card} for place, card in enumerate(cards)
        ],
    }


def _cards(keys: Sequence[str], curves: Sequence[str]) -> list[dict[str, Any]]:
    """Return the charts: the score over the trial's number, all hyperparameters, and the learning curves."""
    x, y = ({"key": name, "type": "METRIC"} for name in ("trial", "score"))
    return [
        {"type": "SCATTER", "xaxis": x, "yaxis": y, "runsCountToCompare": 100},
        {"type": "PARALLEL", "selectedParams": list(keys), "selectedMetrics": ["score"], "showAllRuns": True},
        *({"type": "LINE", "metricKey": key, "selectedMetricKeys": [key], "xAxisKey": "step"} for key in curves),
    ]
