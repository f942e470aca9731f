"""Makes the tracker that `track.name` names: MLflow, or none."""

from urllib.parse import urlparse

from hpo.config.secrets import reveal_secrets, values_of
from hpo.config.study_config import StudyConfig
from hpo.errors import TrackError
from hpo.study.study import PreparedStudy
from hpo.track.store import refuse_bad_store
from hpo.track.tracker import MlflowProcess, MlflowTracker

__all__ = ["MlflowTracker", "make_tracker", "refuse_bad_uri", "tracking_uri"]

_SCHEMES = ("sqlite", "http", "https", "postgresql", "mysql", "mssql", "databricks")


def refuse_bad_uri(config: StudyConfig) -> None:
    """Raise TrackError if `track.uri` has a scheme that MLflow cannot write to, or names an unusable SQLite file.

    See `refuse_bad_store` for SQLite files. Do not connect to servers. If `track.name` is not `mlflow`, check nothing.
    """
    if config.track.name != "mlflow":
        return
    uri = tracking_uri(config)
    # For MLflow, the word alone is the workspace of the default profile.
    scheme = "databricks" if uri == "databricks" else urlparse(uri).scheme.partition("+")[0]
    if scheme not in _SCHEMES:
        raise TrackError(
            f"track.uri: must begin with one of {', '.join(_SCHEMES)}, given {config.track.uri!r}; "
            f"MLflow does not store runs in plain folders; use sqlite:///mlflow.db"
        )
    if scheme == "sqlite":
        refuse_bad_store(uri, config.track.experiment)


def make_tracker(study: PreparedStudy) -> MlflowTracker | None:
    """Start and return the tracker of a study; return None if `track.name` is `none`.

    A lock in the study's folder allows one writer at a time. TrackError: see `refuse_bad_uri`.
    """
    config = study.config
    refuse_bad_uri(config)
    if config.track.name != "mlflow":
        return None
    lock_path = study.folder.path.absolute() / "mlflow.lock"
    return MlflowTracker(study, MlflowProcess(tracking_uri(config), config.track, lock_path))


def tracking_uri(config: StudyConfig) -> str:
    """Return the tracking store's address, with the secrets in the address filled in."""
    uri: str = reveal_secrets(config.track.uri, values_of(config.track.uri, config.secrets, "track.uri"))
    return uri
