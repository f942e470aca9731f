"""Imports the result folders of Ray Tune, from their JSON files and never from pickles."""

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from hpo.config.documents import parse_json, read_json
from hpo.config.keys import flatten, within
from hpo.errors import DataError, nearest
from hpo.integrations.exchange.imported import Imported, attempt
from hpo.trials.reported_values import number
from hpo.trials.trial import Direction, Trial


def read_ray(folder: Path, metric: str, direction: Direction) -> Imported:
    """Return the finished trials of a Ray Tune experiment. A trial's score is the last value of the metric.

    A trial is complete if it ended by itself, or if a scheduler stopped it. A trial counts as failed if it ended with
    an error, or if it is complete and has no value of the metric. All other trials are left out. Nested hyperparameters
    get dotted keys. Hyperparameters with lists or empty mappings as values are left out.

    Args:
        folder: the folder of the experiment.
        metric: the name of the score; nested names are joined with dots or slashes.
        direction: whether a higher or a lower score is better.

    Raises:
        DataError: there are no trials, or no trial has the metric.
        DocumentError: a `params.json` or the saved experiment state is not valid JSON.
    """
    if not folder.is_dir():
        raise DataError(f"ray: there is no folder {folder}; give the folder of the experiment")
    trial_folders = sorted(path.parent for path in folder.glob("*/params.json"))
    if not trial_folders:
        raise DataError(f"ray: {folder} has no trial with a params.json; give the folder of the experiment")
    states = dict(_states(folder))
    path_of_metric = metric.replace("/", ".")
    attempts: list[Trial] = []
    metrics: set[str] = set()
    configs = [flatten(read_json(path / "params.json", "ray")) for path in trial_folders]
    left_out = dict.fromkeys(_of_several_kinds({key for params in configs for key in params}))
    for path, params in zip(trial_folders, configs, strict=True):
        left_out |= {key: None for key, value in params.items() if not isinstance(value, int | float | str | None)}
        point = {key: value for key, value in params.items() if key not in left_out}
        result = _last_result(path, path_of_metric)
        ending = _ending(path, states, result)
        metrics |= result.keys()
        if ending != "unfinished":
            error = _error(path) if ending == "failed" else None
            seconds = number(result.get("time_total_s")) or 0.0
            scores = [result.get(path_of_metric)]
            attempts.append(attempt(len(attempts), point, {metric: direction}, scores, seconds, error))
    if attempts and metrics and path_of_metric not in metrics:
        numbers = sorted(key for key in metrics if not key.startswith("config."))
        raise DataError(
            f"metric: no result has '{metric}'{nearest(metric, numbers)}; the results have {', '.join(numbers)}"
        )
    unfinished = len(trial_folders) - len(attempts)
    return Imported(attempts, metric, direction, str(folder), unfinished, tuple(left_out))


def _of_several_kinds(keys: Collection[str]) -> list[str]:
    """Return the keys whose values are mappings in only some trials, and the keys inside these mappings."""
    kinds = [key for key in keys if any(other.startswith(f"{key}.") for other in keys)]
    return sorted(key for key in keys if any(within(key, each) for each in kinds))


def _ending(path: Path, states: Mapping[str, str], result: Mapping[str, Any]) -> str:
    state = states.get(path.name)
    if state == "TERMINATED":
        return "complete"
    if state == "ERROR" or (path / "error.txt").exists():
        return "failed"
    # Ray saves the states only every few seconds. If Ray was killed, they may be older than the trial's results.
    return "complete" if result.get("done") is True else "unfinished"


def _states(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield, for each trial, the name of the trial's folder and the last saved status of the trial."""
    saved = sorted(folder.glob("experiment_state-*.json"))
    if not saved:
        return
    for entry in read_json(saved[-1], "ray").get("trial_data", []):
        # Each entry is a pair of JSON texts: the trial, and its events.
        is_pair = isinstance(entry, list) and isinstance(entry[0], str)
        trial = parse_json(entry[0], f"ray: {saved[-1]}") if is_pair else None
        if isinstance(trial, dict) and "relative_logdir" in trial:
            yield str(trial["relative_logdir"]), str(trial.get("status"))


def _last_result(path: Path, metric: str) -> dict[str, Any]:
    """Return the last result that has the metric, as values by dotted key.

    If there are later results, their values are added, and replace the values with the same keys. If no result has the
    metric, return the latest value of each key in all results. A slash in a key becomes a dot.
    """
    file = path / "result.json"
    # A killed driver may leave half a character.
    text = file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
    lines = [line for line in text.split("\n") if line.strip()]
    last: dict[str, Any] = {}
    while lines and metric not in last:
        try:
            result = flatten(json.loads(lines.pop()))
            last = {key.replace("/", "."): value for key, value in result.items()} | last
        except (ValueError, RecursionError, AttributeError):
            # A killed driver may leave a partial line.
            continue
    return last


def _error(path: Path) -> str:
    """Return the last line of the traceback in the folder of a failed trial; `failed` if there is no traceback."""
    file = path / "error.txt"
    lines = file.read_text(encoding="utf-8", errors="replace").split("\n") if file.exists() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "failed")
