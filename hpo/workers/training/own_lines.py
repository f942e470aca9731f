"""The MLflow run to which the objective's own code logs. The worker finds the run by its tags, or creates it.

Each run has exactly one creator. For a trial with one task, the worker creates the trial's run, and sends the run's id
to the driver before the first report. For a trial with several tasks, the tracker creates the trial's run, and each
worker creates a child run for its task.
"""

import contextlib
import fcntl
import json
import logging
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from typing_extensions import TypedDict

from hpo.config.secrets import Secrets, hide_secrets, reveal_secrets, values_of
from hpo.errors import first_line
from hpo.machine import environment, user_name
from hpo.trials.space.space import short_text
from hpo.trials.trial import Trial

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment

# Tags that identify the runs of a study.
STUDY_ID, TRIAL, TASK, KIND, PARENT = "hpo.study_id", "hpo.trial", "hpo.task", "hpo.kind", "mlflow.parentRunId"
# The tracker sets this tag when it closes a trial's run.
STATUS = "hpo.status"
# MLflow's client waits for minutes by default; these values make it fail early. A user with a slow server may set
# other values in the environment.
IMPATIENT = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10"}
_NO_TELEMETRY = "MLFLOW_DISABLE_TELEMETRY"
# `mlflow.set_experiment` sets this variable, and no public function unsets it. While it is set, as in a notebook that
# has called `set_experiment`, a training in the same process fails.
_CHOSEN_EXPERIMENT = "_active_experiment_id"
# Some MLflow stores cut names that are longer, others refuse them.
_MAX_RUN_NAME = 250


class OwnLines(TypedDict):
    """The location of a training's MLflow run.

    Attributes:
        uri: address of the tracking store, with secrets redacted.
        experiment: name of the experiment.
        artifacts: folder for the artifacts of a new experiment; it is used only if the store is a local file.
        study_id: id of the study.
        host: name of the driver's machine. If the store is a file, only the driver's machine can reach it.
        name: name of the training's run.
        task: name of the training within its trial; the training's run is a child of the trial's run. None = the
            training's run is the trial's run.
    """

    uri: str
    experiment: str
    artifacts: str
    study_id: str
    host: str
    name: str
    task: str | None


@dataclass(frozen=True)
class OwnRun:
    """The MLflow run of a training: its id (None = no run) and a warning for the user (None = no warning)."""

    id: str | None = None
    warning: str | None = None


def run_name(trial: Trial) -> str:
    """Return the name of a trial's run: its number and its values, such as `0007 lr=3e-4 num_layers=2`."""
    return f"{trial.number:04d} {short_text(trial.point)}"[:_MAX_RUN_NAME]


def origin_tags() -> dict[str, str]:
    """Return the tags that name the user and the source of a run."""
    return {"mlflow.user": user_name(), "mlflow.source.name": "hpo", "mlflow.source.type": "LOCAL"}


def client_of(uri: str) -> "MlflowClient":
    """Return a client of a tracking store.

    If the store is a SQLite file, the function holds a lock, so that only one process at a time creates the tables.
    """
    from mlflow import MlflowClient
    from sqlalchemy.engine import make_url

    if not uri.startswith("sqlite") or not (folder := Path(make_url(uri).database or "").parent).is_dir():
        return MlflowClient(uri)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        # Some file systems have no locks.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        return MlflowClient(uri)
    finally:
        os.close(descriptor)


def experiment_of(client: "MlflowClient", name: str, artifacts: Path) -> "Experiment":
    """Return the experiment with this name; create it if it is missing."""
    from mlflow.exceptions import MlflowException

    if (experiment := client.get_experiment_by_name(name)) is not None:
        return experiment
    # A server decides itself where it stores artifacts. Only a store on this machine uses our folder.
    location = artifacts.absolute().as_uri() if client.tracking_uri.startswith("sqlite") else None
    try:
        return client.get_experiment(client.create_experiment(name, artifact_location=location))
    except MlflowException:
        # Another process may have created the experiment in the meantime.
        if (experiment := client.get_experiment_by_name(name)) is None:
            raise
        return experiment


@contextlib.contextmanager
def own_run(given: OwnLines | None, trial: int, secrets: Secrets) -> Iterator[OwnRun]:
    """Yield the MLflow run of a training. At the end of the block, end the runs that the training left active.

    Within the block, MLflow's environment variables name the run. If the store cannot be reached, they name a run in a
    temporary folder, so that the training's calls of MLflow do not fail. The folder is deleted at the end.

    Args:
        given: where the run is; None = the training has no run.
        trial: number of the trial.
        secrets: values of secrets by name; the store's address in `given` contains only the names.
    """
    if given is None:
        yield OwnRun()
        return
    with contextlib.ExitStack() as stack:
        # MLflow reads this variable at import.
        stack.enter_context(environment({_NO_TELEMETRY: os.environ.get(_NO_TELEMETRY, "true")}))
        import mlflow

        before = mlflow.active_run()
        opened, variables, ends = _opened(given, trial, secrets, stack)
        stack.enter_context(environment(variables))
        stack.enter_context(_following(variables["MLFLOW_TRACKING_URI"]))
        if before is not None:
            active = f"MLflow's run {before.info.run_id} is already active in this process, so the objective logs to it"
            opened = OwnRun(opened.id, opened.warning or active)
        status = "FAILED"
        try:
            yield opened
            status = "FINISHED"
        except GeneratorExit:
            status = "KILLED"
            raise
        finally:
            with contextlib.suppress(mlflow.MlflowException, OSError):
                _end_active(before.info.run_id if before else None, status)
            if ends and opened.id is not None:
                with contextlib.suppress(mlflow.MlflowException, OSError), environment(_impatient()):
                    client = mlflow.MlflowClient(variables["MLFLOW_TRACKING_URI"])
                    client.set_terminated(opened.id, status)
                    client.update_run(opened.id, name=given["name"])


def _opened(
    given: OwnLines, trial: int, secrets: Secrets, stack: contextlib.ExitStack
) -> tuple[OwnRun, dict[str, str], bool]:
    """Return the run, the environment variables that name it, and whether the worker (not the tracker) ends it."""
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    uri = reveal_secrets(given["uri"], values_of(given["uri"], secrets, "track.uri"))
    here, lost = os.uname().nodename, "the objective's own MLflow logs are lost; the training continues"
    if uri.startswith("sqlite") and here != given["host"]:
        warning = f"track.uri: {uri} is a file on {given['host']}; {here} cannot reach it, so {lost}"
        return OwnRun(warning=f"{warning}; give the address of a server"), _in_scratch(given, stack), False
    try:
        with environment(_impatient()), _quiet():
            client = client_of(uri)
            experiment = experiment_of(client, given["experiment"], Path(given["artifacts"])).experiment_id
            run_id, ends = _found(client, experiment, trial, given)
    except (MlflowException, SQLAlchemyError, OSError, ImportError) as error:
        # An object's memory address would make every warning different.
        reason = re.sub(r" object at 0x[0-9a-f]+", "", first_line(error))
        warning = hide_secrets(f"MLflow at {uri} cannot be reached ({reason})", secrets)
        return OwnRun(warning=f"{warning}: {lost}"), _in_scratch(given, stack), False
    return OwnRun(run_id), _variables(uri, experiment, run_id, given), ends


def _found(client: "MlflowClient", experiment: str, trial: int, given: OwnLines) -> tuple[str, bool]:
    """Find or create the run. Return its id, and whether the worker (not the tracker) ends it."""
    of_study = {STUDY_ID: given["study_id"]}
    of_trial = {**of_study, TRIAL: str(trial), KIND: "trial"}
    tags, above = of_trial, {**of_study, KIND: "study"}
    if given["task"] is not None:
        tags, above = {**of_trial, KIND: "task", TASK: given["task"]}, of_trial

    def search(wanted: Mapping[str, str]) -> "list[tuple[str, bool]]":
        condition = " and ".join(f"tags.`{name}` = '{value}'" for name, value in wanted.items())
        runs = client.search_runs([experiment], condition, order_by=["attributes.start_time"], max_results=1)
        return [(run.info.run_id, STATUS in run.data.tags) for run in runs]

    for run_id, is_closed in search(tags):
        client.update_run(run_id, status="RUNNING")
        return run_id, is_closed or given["task"] is not None
    # If the tracker has not created the parent run yet, it sets this run's parent later.
    tags = {**tags, **origin_tags()}
    for run_id, _ in search(above):
        tags[PARENT] = run_id
    run = client.create_run(experiment, tags=tags, run_name=given["name"])
    return str(run.info.run_id), given["task"] is not None


def _end_active(outer: str | None, status: str) -> None:
    """End the runs that the training left active, except `outer`; the next training would otherwise log to them."""
    import mlflow

    while (active := mlflow.active_run()) is not None and active.info.run_id != outer:
        mlflow.end_run(status)


def _variables(uri: str, experiment: str, run_id: str, given: OwnLines) -> dict[str, str]:
    # Any further run that the training starts becomes a child of this run.
    context = json.dumps({PARENT: run_id, STUDY_ID: given["study_id"]})
    return {
        "MLFLOW_TRACKING_URI": uri,
        "MLFLOW_EXPERIMENT_ID": experiment,
        "MLFLOW_EXPERIMENT_NAME": given["experiment"],
        "MLFLOW_RUN_ID": run_id,
        "MLFLOW_RUN_CONTEXT": context,
    }


def _in_scratch(given: OwnLines, stack: contextlib.ExitStack) -> dict[str, str]:
    """Create a run in a temporary store, and return the environment variables that name this run.

    Without this run, MLflow would create one, and draw its name from the training's random generator.
    """
    from mlflow import MlflowClient

    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="hpo-mlflow-", ignore_cleanup_errors=True))
    uri, allowed = f"{Path(folder).as_uri()}/runs", {"MLFLOW_ALLOW_FILE_STORE": "true"}
    with environment(allowed):
        client = MlflowClient(uri)
        experiment = client.create_experiment(given["experiment"])
        run_id = client.create_run(experiment, run_name=given["name"]).info.run_id
    return _variables(uri, experiment, run_id, given) | allowed


def _impatient() -> dict[str, str]:
    return {name: os.environ.get(name, value) for name, value in IMPATIENT.items()}


@contextlib.contextmanager
def _following(uri: str) -> Iterator[None]:
    """Within the block, let MLflow use the store at `uri`, even if a notebook has chosen another store."""
    import mlflow

    fluent, chosen = mlflow.tracking.fluent, mlflow.get_tracking_uri()
    experiment = getattr(fluent, _CHOSEN_EXPERIMENT, None)
    if chosen != uri:
        mlflow.set_tracking_uri(uri)
    if experiment is not None:
        setattr(fluent, _CHOSEN_EXPERIMENT, None)
    try:
        yield
    finally:
        if chosen != uri:
            mlflow.set_tracking_uri(chosen)
        if experiment is not None:
            setattr(fluent, _CHOSEN_EXPERIMENT, experiment)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence MLflow's messages about the tables of a new store."""
    before = logging.root.manager.disable
    logging.disable(max(before, logging.INFO))
    try:
        yield
    finally:
        logging.disable(before)
