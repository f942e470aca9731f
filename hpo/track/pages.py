"""Addresses of the pages of MLflow's UI; a note has placeholders for those that only MLflow's process knows."""

import re
from collections.abc import Mapping
from urllib.parse import quote

# Without it a new browser shows chats and judges instead of runs and models.
_KIND = "workflowType=machine_learning"
# The table of all experiments.
EXPERIMENTS = f"#/experiments?{_KIND}"
# Placeholders in a note, which are replaced when the note is stored.
RUN_ID, TABLE = "@@run@@", "@@table@@"
# The key of the view of the front is that of all trials, with which its address ends, and this.
ON_FRONT = "-front"
FRONT = TABLE + ON_FRONT
# The key of the view of all studies of an experiment.
STUDIES = "hpo-studies"


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


def experiment_page(experiment_id: str) -> str:
    """Return the address of the table of all runs of an experiment, in MLflow's own columns."""
    return f"#/experiments/{quote(experiment_id)}/runs?{_KIND}"


def view_page(experiment_id: str, key: str) -> str:
    """Return the address of a saved view, as a table: of a study's trials, its key is the study's id."""
    return f"{experiment_page(experiment_id)}&viewStateShareKey={quote(key)}"


def charts_page(view: str) -> str:
    """Return the address of the charts of a saved view, of which this is the table."""
    return f"{view}&compareRunsMode=CHART"
