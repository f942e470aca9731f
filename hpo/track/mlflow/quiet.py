"""The environment that MLflow runs in: no telemetry, no long waits, no progress bars."""

import os

# What holds whatever the user's own environment says.
_ALWAYS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    # What it cannot do we say ourselves, in one line instead of a traceback.
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "GIT_PYTHON_REFRESH": "quiet",
}
# What a user with a slow server may set otherwise. A request is not repeated by MLflow but by us, who look first
# whether the one before was carried out after all.
_DEFAULTS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
}


def mlflow_environment() -> dict[str, str]:
    """Return this process's environment with what MLflow is to find in it."""
    return _DEFAULTS | os.environ | _ALWAYS
