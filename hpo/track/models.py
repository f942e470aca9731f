"""Registers the winner of a study as a model in MLflow with the alias `champion`; each model is registered once."""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

import mlflow.pyfunc
from mlflow import MlflowClient
from mlflow.entities import LoggedModel, LoggedModelOutput, LoggedModelStatus
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException
from mlflow.models import Model, ModelSignature
from mlflow.types import ColSpec, DataType, ParamSchema, ParamSpec, Schema

from hpo.track.mlflow_model import CHECKPOINT, DESCRIPTION
from hpo.track.runs import texts
from hpo.workers.store.packing import digest_of

ALIAS = "champion"
_DIGEST, _ALIAS_GIVEN = "hpo.digest", "hpo.alias"
_TYPES = {"integer": DataType.long, "number": DataType.double}


class Winner(TypedDict):
    """The model of a study's winner: the model's folder on this machine, its objective, and its required packages."""

    name: str
    trial: int
    point: Mapping[str, Any]
    description: str
    checkpoint_dir: str
    objective: str
    prediction: Mapping[str, Any]
    packages: list[str]


def register_champion(client: MlflowClient, experiment_id: str, parent: str, winner: Winner) -> str:
    """Register the winner's model once, under the run of its study; return the version of the model.

    Each version gets the alias `champion` only once. If a user moves the alias afterwards, later calls do not move it
    back.
    """
    digest = _digest(winner)
    version = _known_version(client, winner["name"], digest, parent)
    if version is None:
        model_id = _logged_model(client, experiment_id, parent, winner, digest)
        version = _new_version(client, winner, model_id, parent, digest)
    if _ALIAS_GIVEN not in version.tags:
        client.set_registered_model_alias(winner["name"], ALIAS, version.version)
        client.set_model_version_tag(winner["name"], version.version, _ALIAS_GIVEN, ALIAS)
    return str(version.version)


def _digest(winner: Winner) -> str:
    """Return a hash of the winner's trial number, objective and prediction, and of all files of the model."""
    content = hashlib.sha256(json.dumps([winner["trial"], winner["objective"], winner["prediction"]]).encode())
    root = Path(winner["checkpoint_dir"])
    for path in sorted(p for p in root.rglob("*") if p.is_file()):
        content.update(f"{path.relative_to(root)}\0{digest_of(path)}".encode())
    return content.hexdigest()


def _known_version(client: MlflowClient, name: str, digest: str, parent: str) -> ModelVersion | None:
    """Return the oldest version with this digest; delete the others, which repeated requests have created."""
    versions = client.search_model_versions(f"name = '{name}' and run_id = '{parent}'")
    same = sorted((v for v in versions if v.tags.get(_DIGEST) == digest), key=lambda version: int(version.version))
    for second in same[1:]:
        client.delete_model_version(name, second.version)
    return same[0] if same else None


def _logged_model(client: MlflowClient, experiment_id: str, parent: str, winner: Winner, digest: str) -> str:
    """Return the id of the model in MLflow; upload the model if MLflow does not have all files of the model."""
    for known in client.search_logged_models([experiment_id], f"source_run_id = '{parent}'"):
        if known.tags.get(_DIGEST) == digest:
            if known.status == LoggedModelStatus.READY:
                return str(known.model_id)
            client.delete_logged_model(known.model_id)
    model = client.create_logged_model(
        experiment_id,
        name=winner["name"].replace(".", "_"),
        source_run_id=parent,
        tags={_DIGEST: digest, "hpo.trial": str(winner["trial"])},
        params=texts(winner["point"]),
    )
    with tempfile.TemporaryDirectory(prefix="hpo-model-") as folder:
        _save(Path(folder), model, parent, winner)
        client.log_model_artifacts(model.model_id, str(Path(folder) / "whole"))
    client.finalize_logged_model(model.model_id, LoggedModelStatus.READY)
    client.log_outputs(parent, [LoggedModelOutput(model.model_id, step=0)])
    return str(model.model_id)


def _save(folder: Path, model: LoggedModel, parent: str, winner: Winner) -> None:
    """Write the model in MLflow's format into `folder/whole`."""
    data = folder / "model"
    shutil.copytree(winner["checkpoint_dir"], data / CHECKPOINT)
    description = {"objective": winner["objective"], "prediction": winner["prediction"], "trial": winner["trial"]}
    (data / DESCRIPTION).write_text(json.dumps(description, indent=2), encoding="utf-8")
    mlflow.pyfunc.save_model(
        path=str(folder / "whole"),
        mlflow_model=Model(
            artifact_path=model.artifact_location, model_uuid=model.model_id, run_id=parent, model_id=model.model_id
        ),
        # The loader is in our package, so the model needs no pickle and no code.
        loader_module="hpo.track.mlflow_model",
        data_path=str(data),
        signature=_signature(winner["prediction"]),
        # List the packages here, so that MLflow neither loads the model nor uses the network to find them out.
        pip_requirements=winner["packages"],
    )


def _new_version(client: MlflowClient, winner: Winner, model_id: str, parent: str, digest: str) -> ModelVersion:
    try:
        client.create_registered_model(winner["name"], description=f"The winners of study {winner['name']}.")
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    version = client.create_model_version(
        winner["name"],
        source=f"models:/{model_id}",
        run_id=parent,
        model_id=model_id,
        tags={_DIGEST: digest, "hpo.trial": str(winner["trial"])},
        description=f"Trial {winner['trial']}: {winner['description']}",
    )
    # Set the same tag as `mlflow.register_model`, so that the model's page links to its version.
    link = [{"name": winner["name"], "version": version.version}]
    client.set_logged_model_tags(model_id, {"mlflow.modelVersions": json.dumps(link)})
    return version


def _signature(prediction: Mapping[str, Any]) -> ModelSignature | None:
    """Return the types of a model's inputs, outputs and options; None unless the inputs are texts.

    For inputs that are rows of numbers, MLflow needs the length of a row, which is not known.
    """
    if prediction["inputs"] != "text":
        return None
    params = [
        ParamSpec(name, _TYPES[option["type"]], option["default"]) for name, option in prediction["options"].items()
    ]
    # A column without a name accepts lists of texts, and tables with any name of their first column.
    column = Schema([ColSpec(DataType.string)])
    return ModelSignature(inputs=column, outputs=column, **({"params": ParamSchema(params)} if params else {}))
