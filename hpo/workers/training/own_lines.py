"""The MLflow run that a training logs to by itself. At the start its worker finds the run by its tags or creates it.

Each run has one creator. For a trial with one task the worker creates the run and names it before the first report.
For a trial with several tasks the tracker creates the trial's run, and each worker creates the run of its task.
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
from hpo.machine import user_name
from hpo.trials.space.space import short_text
from hpo.trials.trial import Trial

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment

# Tags that identify the runs of a study.
STUDY_ID, TRIAL, TASK, KIND, PARENT = "hpo.study_id", "hpo.trial", "hpo.task", "hpo.kind", "mlflow.parentRunId"
# The tracker sets this tag when it closes a trial's run.
STATUS = "hpo.status"
# MLflow's client waits for minutes by default. A user with a slow server may set these variables.
IMPATIENT = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10"}
_NO_TELEMETRY = "MLFLOW_DISABLE_TELEMETRY"
# `mlflow.set_experiment` sets this variable, and no public function unsets it. If a notebook has called
# `set_experiment`, a training in its process would fail.
_CHOSEN_EXPERIMENT = "_active_experiment_id"
# Some MLflow stores cut longer names, others refuse them.
_MAX_RUN_NAME = 250


class OwnLines(TypedDict):
    """Where the run of a training is.

    Attributes:
        uri: address of the tracking store, with secrets redacted.
        experiment: name of the experiment.
        artifacts: folder for artifacts of a new experiment in a store on this machine.
        study_id: id of the study.
        host: name of the machine that can reach a store that is a file.
        name: name of the run.
        task: name of the training within its trial; its run is a child of the trial's. None = it uses the trial's run.
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
    """The run of a training: its id (None = no run), and a warning for the user."""

    id: str | None = None
    warning: str | None = None


def run_name(trial: Trial) -> str:
    """Return a trial's number and short point, such as `0007 lr=3e-4 num_layers=2`."""
    return f"{trial.number:04d} {short_text(trial.point)}"[:_MAX_RUN_NAME]


def origin_tags() -> dict[str, str]:
    """Return the tags for the user and the source of a run."""
    return {"mlflow.user": user_name(), "mlflow.source.name": "hpo", "mlflow.source.type": "LOCAL"}


def client_of(uri: str) -> "MlflowClient":
    """Return a client of a store. A lock lets one process at a time create a file's tables; MLflow has no such lock."""
    from mlflow import MlflowClient

    folder = Path(uri.partition(":///")[2]).parent
    if not uri.startswith("sqlite") or not folder.is_dir():
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
    # A server has its own place for artifacts, so only a store on this machine gets our folder.
    location = artifacts.absolute().as_uri() if client.tracking_uri.startswith("sqlite") else None
    try:
        return client.get_experiment(client.create_experiment(name, artifact_location=location))
    except MlflowException:
        # Another process may have created the experiment since.
        if (experiment := client.get_experiment_by_name(name)) is None:
            raise
        return experiment


@contextlib.contextmanager
def own_run(given: OwnLines | None, trial: int, secrets: Secrets) -> Iterator[OwnRun]:
    """Yield the run of a training, and end the active runs afterwards.

    Within the block, MLflow's environment variables name the run. If the store cannot be reached, the training logs to
    a temporary folder that is deleted at the end, so that its calls do not fail.

    Args:
        given: where the run is; None = the training has none.
        trial: number of the trial.
        secrets: values of the redacted secrets in the address.
    """
    if given is None:
        yield OwnRun()
        return
    with contextlib.ExitStack() as stack:
        # MLflow reads this variable at import.
        stack.enter_context(_environment({_NO_TELEMETRY: os.environ.get(_NO_TELEMETRY, "true")}))
        import mlflow

        before = mlflow.active_run()
        opened, variables, ends = _opened(given, trial, secrets, stack)
        stack.enter_context(_environment(variables))
        stack.enter_context(_following(variables["MLFLOW_TRACKING_URI"]))
        if before is not None:
            active = f"MLflow's run {before.info.run_id} is active in this process: the objective logs to that run"
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
                with contextlib.suppress(mlflow.MlflowException, OSError), _environment(_impatient()):
                    client = mlflow.MlflowClient(variables["MLFLOW_TRACKING_URI"])
                    client.set_terminated(opened.id, status)
                    client.update_run(opened.id, name=given["name"])


def _opened(
    given: OwnLines, trial: int, secrets: Secrets, stack: contextlib.ExitStack
) -> tuple[OwnRun, dict[str, str], bool]:
    """Return the run, the variables that name it, and whether the worker ends it (True) or the tracker (False)."""
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    uri = reveal_secrets(given["uri"], values_of(given["uri"], secrets, "track.uri"))
    here, lost = os.uname().nodename, "the objective's own MLflow logs are lost; the training continues"
    if uri.startswith("sqlite") and here != given["host"]:
        warning = f"track.uri: {uri} is a file on {given['host']}, which {here} cannot reach: {lost}"
        return OwnRun(warning=f"{warning}; give the address of a server"), _in_scratch(given, stack), False
    try:
        with _environment(_impatient()), _quiet():
            client = client_of(uri)
            experiment = experiment_of(client, given["experiment"], Path(given["artifacts"])).experiment_id
            run_id, ends = _found(client, experiment, trial, given)
    except (MlflowException, SQLAlchemyError, OSError, ImportError) as error:
        # The address of an object would make every warning different.
        reason = re.sub(r" object at 0x[0-9a-f]+", "", first_line(error))
        warning = hide_secrets(f"MLflow at {uri} cannot be reached ({reason})", secrets)
        return OwnRun(warning=f"{warning}: {lost}"), _in_scratch(given, stack), False
    return OwnRun(run_id), _variables(uri, experiment, run_id, given), ends


def _found(client: "MlflowClient", experiment: str, trial: int, given: OwnLines) -> tuple[str, bool]:
    """Find or create the run; return its id and whether the worker ends it."""
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
    # The tracker may not have created the parent run yet. Then it sets the parent later.
    tags = {**tags, **origin_tags()}
    for run_id, _ in search(above):
        tags[PARENT] = run_id
    run = client.create_run(experiment, tags=tags, run_name=given["name"])
    return str(run.info.run_id), given["task"] is not None


def _end_active(outer: str | None, status: str) -> None:
    """End the runs that the training has left active; the next training would log to them."""
    import mlflow

    while (active := mlflow.active_run()) is not None and active.info.run_id != outer:
        mlflow.end_run(status)


def _variables(uri: str, experiment: str, run_id: str, given: OwnLines) -> dict[str, str]:
    # More runs that the training starts become children of its own run.
    context = json.dumps({PARENT: run_id, STUDY_ID: given["study_id"]})
    return {
        "MLFLOW_TRACKING_URI": uri,
        "MLFLOW_EXPERIMENT_ID": experiment,
        "MLFLOW_EXPERIMENT_NAME": given["experiment"],
        "MLFLOW_RUN_ID": run_id,
        "MLFLOW_RUN_CONTEXT": context,
    }


def _in_scratch(given: OwnLines, stack: contextlib.ExitStack) -> dict[str, str]:
    """Create a run in a temporary store and return the variables that name it.

    A store of plain files is created fastest. Without a run, MLflow would create one and draw its name from the
    training's random numbers. Then the training would differ from one whose store is reached.
    """
    from mlflow import MlflowClient

    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="hpo-mlflow-", ignore_cleanup_errors=True))
    uri, allowed = f"{Path(folder).as_uri()}/runs", {"MLFLOW_ALLOW_FILE_STORE": "true"}
    with _environment(allowed):
        client = MlflowClient(uri)
        experiment = client.create_experiment(given["experiment"])
        run_id = client.create_run(experiment, run_name=given["name"]).info.run_id
    return _variables(uri, experiment, run_id, given) | allowed


def _impatient() -> dict[str, str]:
    return {name: os.environ.get(name, value) for name, value in IMPATIENT.items()}


@contextlib.contextmanager
def _environment(variables: Mapping[str, str | None]) -> Iterator[None]:
    """Set these variables, unset those with the value None, and restore the old values afterwards."""
    before = {name: os.environ.get(name) for name in variables}
    _set(variables)
    try:
        yield
    finally:
        _set(before)


def _set(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@contextlib.contextmanager
def _following(uri: str) -> Iterator[None]:
    """Let MLflow use the environment variables, even if a notebook has chosen another store in this process."""
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
