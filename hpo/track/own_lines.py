"""Decides whether a study's trainings log to MLflow themselves, and describes the runs that they log to."""

import os
import re
from pathlib import Path

from hpo.study.study import PreparedStudy
from hpo.track.store import absolute_uri
from hpo.workers.objective.path import ObjectivePath
from hpo.workers.objective.source_files import RUN, files_with_imports, imports_module
from hpo.workers.training.own_lines import OwnLines

# An objective that calls one of these chooses its own store or experiment; MLflow then refuses our run.
_CHOOSES = re.compile(rb"\bset_(experiment|tracking_uri)\b")


def own_lines_of(study: PreparedStudy, study_id: str) -> OwnLines | None:
    """Return the store and experiment for trainings that log to MLflow themselves; None if they do not.

    The setting `track.own_lines` decides whether trainings log; see `_logs` if the setting is null. The fields `name`
    and `task` of the result are empty, because they differ from task to task.
    """
    track = study.config.track
    if track.name != "mlflow" or not (_logs(study) if track.own_lines is None else track.own_lines):
        return None
    return {
        "uri": absolute_uri(track.uri),
        "experiment": track.experiment,
        "artifacts": str(Path("mlartifacts").absolute()),
        "study_id": study_id,
        "host": os.uname().nodename,
        "name": "",
        "task": None,
    }


def _logs(study: PreparedStudy) -> bool:
    """Return whether the user's code imports mlflow, but chooses neither a store nor an experiment."""
    objective = study.objective
    if (pickled := objective.pickled) is not None:
        files = [path for module in pickled.modules for path in files_with_imports(module).values()]
        has_import = b"mlflow" in pickled.data or imports_module(files, "mlflow")
        return has_import and not any(map(_CHOOSES.search, [pickled.data, *(file.read_bytes() for file in files)]))
    if objective.revision is None:
        files = [*files_with_imports(ObjectivePath.of(objective.path).module).values()]
    else:
        # The code of a program, with its imports.
        names = [name.removesuffix(RUN) for name in study.code.files] if study.code else []
        files = [path for path in map(Path, names) if path.suffix == ".py" and path.is_file()]
    return imports_module(files, "mlflow") and not any(_CHOOSES.search(file.read_bytes()) for file in files)
