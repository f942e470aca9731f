"""MLflow's environment: no telemetry, no long waits, no progress bars."""

import os

# Overrides the user's own environment.
_ALWAYS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    # We report its failures ourselves, in one line instead of a traceback.
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "GIT_PYTHON_REFRESH": "quiet",
}
# A user with a slow server may set these. We repeat requests instead of MLflow, since we first check whether the
# previous one was carried out.
_DEFAULTS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
}


def mlflow_environment() -> dict[str, str]:
    """Return this process's environment with MLflow's variables."""
    return _DEFAULTS | os.environ | _ALWAYS
