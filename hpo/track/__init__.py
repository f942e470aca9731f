"""The trackers by name, and how one is made from a configuration."""

from urllib.parse import urlparse

from hpo.config import TrackSection
from hpo.errors import TrackError
from hpo.track.mlflow_tracker import MlflowTracker
from hpo.track.protocol import Tracker
from hpo.trials import TaskGrid

__all__ = ["Tracker", "make_tracker", "refuse_bad_uri"]

_SCHEMES = ("sqlite", "http", "https", "postgresql", "mysql", "databricks")


def refuse_bad_uri(settings: TrackSection) -> None:
    """Raise TrackError for an address that MLflow cannot write to."""
    scheme = urlparse(settings.uri).scheme.partition("+")[0]
    if settings.name == "mlflow" and scheme not in _SCHEMES:
        raise TrackError(
            f"track.uri: must begin with one of {', '.join(_SCHEMES)}, given {settings.uri!r}; "
            f"MLflow keeps no runs in plain folders any more, use sqlite:///mlflow.db"
        )


def make_tracker(settings: TrackSection, metric: str, grid: TaskGrid) -> Tracker | None:
    """Return the tracker that `settings.name` names, started; None for `none`."""
    refuse_bad_uri(settings)
    return MlflowTracker(settings, metric, grid) if settings.name == "mlflow" else None
