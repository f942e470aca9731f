"""Addresses of pages of MLflow's UI, relative to its root, and the placeholders for them in a note."""

import re
from collections.abc import Mapping
from urllib.parse import quote

# Without it a new browser shows chats and judges instead of runs and models.
_KIND = "workflowType=machine_learning"
# The table of all experiments.
EXPERIMENTS = f"#/experiments?{_KIND}"
# Placeholders in a note for what only MLflow's process knows; they are replaced when the note is stored.
RUN_ID, TABLE = "@@run@@", "@@table@@"


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
    """Return the address of the table of a study's trials; see `hpo.track.mlflow.views`."""
    return f"#/experiments/{quote(experiment_id)}/runs?{_KIND}&viewStateShareKey={quote(study_id)}"
