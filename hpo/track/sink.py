"""Writes studies to MLflow: one parent run per study, one child run per trial. Repeating a method call is harmless."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypedDict

import mlflow
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, RunTag

from hpo.track.models import Winner, register_champion
from hpo.track.runs import StudyRuns, find_experiment, milliseconds, show_studies, texts
from hpo.track.views import FRONT_TAG, TrialsTable, fill_in, run_page, study_views, view_page
from hpo.workers.training.own_lines import client_of

# Limits of MLflow's log_batch.
_MAX_METRICS, _MAX_PARAMS = 1000, 100
# Maximum length of a run's description. `texts` limits all other tags to 5,000 characters.
_MAX_NOTE = 7900

# The name of a method of `MlflowSink`, and its arguments by name.
Call = tuple[str, dict[str, Any]]
Numbers = Mapping[str, float]
Texts = Mapping[str, str]


class Point(TypedDict):
    """A point of a learning curve: its step, its metrics by name, and the time of its report."""

    step: int
    metrics: dict[str, float]
    time: float


class MlflowSink:
    """Writes a study to MLflow.

    The method `apply` executes a list of calls in order. Each call consists of the name of another public method of
    this class, and the keyword arguments for this method. Times are in seconds since the epoch.

    The sink finds runs by their tags. So a second sink, after a crash or in `hpo sync`, continues the runs of the first
    sink.
    """

    def __init__(self, uri: str, experiment: str, artifact_root: Path) -> None:
        # Set the URI for the whole process too: every client uses it to look up the sources of registered models.
        mlflow.set_tracking_uri(uri)
        self._client = client_of(uri)
        self._experiment_id = find_experiment(self._client, experiment, artifact_root)
        self._runs = StudyRuns(self._client, self._experiment_id)
        # Unsent metrics by run, then by key and step. Points of a second attempt replace those of the first.
        self._pending: dict[str, dict[tuple[str, int], Metric]] = {}
        # By run of a running trial, the key and step of each curve point in MLflow. A dead worker may have sent some.
        self._curves: dict[str, set[tuple[str, int]]] = {}
        # The progress, such as `3 of 16`.
        self._done = ""
        # The arguments of `open_trial` by trial number, for trials whose run exists already or is created by a worker.
        self._awaited: dict[int, dict[str, Any]] = {}
        self._is_unsure = self._was_unsure = False

    def apply(self, calls: Sequence[Call]) -> None:
        """Execute the calls, then send the metrics that the calls left pending, one batch per run."""
        if self._is_unsure:
            self._runs.find_again()
            self._was_unsure = True
        self._is_unsure = True
        self._pending.clear()
        for method, arguments in calls:
            getattr(self, method)(**arguments)
        for run_id in list(self._pending):
            self._flush(run_id)
        self._is_unsure = False

    def open_study(
        self,
        study_id: str,
        name: str,
        time: float,
        params: Mapping[str, Any],
        tags: Texts,
        note: str,
        datasets: Sequence[Mapping[str, Any]],
        table: TrialsTable,
    ) -> None:
        """Create the study's parent run; if it exists, continue it and replace its tags and its note.

        Parameters that the run already has stay unchanged.
        """
        self._runs.open(study_id, name, tags, time)
        self._done = tags["hpo.trials"]
        self._log_params(params)
        self._flush(self._runs.parent, tags)
        if datasets:
            self._client.log_inputs(self._runs.parent, [_dataset(**each) for each in datasets])
        show_studies(self._client, self._experiment_id, study_views(study_id, name, time, table, self._runs.parent))
        self._set_note(note)

    def open_trial(
        self, number: int, name: str, params: Mapping[str, Any], tags: Texts, time: float, has_own_lines: bool = False
    ) -> None:
        """Create or continue the child run of a trial.

        If the training itself logs to MLflow (`has_own_lines`), only store the arguments: a worker creates the run, and
        `adopt_run` takes the run over. If the run is already closed, do nothing.
        """
        if number in self._runs.closed:
            return
        is_new = number not in self._runs.trials
        if has_own_lines or not is_new:
            # Log the parameters in `close_trial`, because the training may log other values under these names, and
            # MLflow cannot change a parameter.
            self._awaited[number] = {"name": name, "params": params, "tags": tags, "time": time}
        if has_own_lines:
            return
        run_id = self._runs.open_trial(number, name, tags, time)
        if run_id not in self._curves:
            self._curves[run_id] = set() if is_new else self._known_points(run_id)
        if is_new:
            self._client.log_batch(run_id, params=[Param(key, value) for key, value in texts(params).items()])

    def adopt_run(self, number: int, task: str | None, run_id: str) -> None:
        """Take over a run that a worker created or found: the run of the trial, or the run of one of its tasks."""
        if task is not None:
            self._runs.adopt_task(number, run_id)
        elif number not in self._runs.closed:
            self._runs.adopt_trial(number, run_id, self._awaited[number]["tags"])
            self._curves[run_id] = self._known_points(run_id)

    def curve(self, number: int, step: int, metrics: Numbers, time: float) -> None:
        """Add a point to the learning curves of a running trial."""
        if number not in self._runs.closed:
            run_id = self._run_of(number)
            known = self._curves.get(run_id, ())
            self._add(run_id, {key: value for key, value in metrics.items() if (key, step) not in known}, time, step)

    def close_trial(
        self,
        number: int,
        status: str,
        metrics: Numbers,
        of_study: Numbers,
        done: str,
        tags: Texts,
        details: str,
        files: str | None,
        time: float,
    ) -> None:
        """Close a trial's run, and update metrics and progress of the study's run.

        `files` is a folder whose files are logged; None = log no files. `details` is the text of `error.txt`; if the
        text is empty, there is no such file.
        """
        is_closed = number in self._runs.closed
        if is_closed and not self._was_unsure:
            return
        run_id, self._done = self._run_of(number), done
        # Update the study's run even if the trial is closed or has no metrics: a failed batch may have closed only the
        # trial.
        self._add(self._runs.parent, of_study, time, number)
        if is_closed:
            return
        if (awaited := self._awaited.get(number)) is not None:
            # Keep the values that the training has logged, but replace the run's name.
            known = self._client.get_run(run_id).data.params
            params = [Param(key, value) for key, value in texts(awaited["params"]).items() if key not in known]
            self._client.log_batch(run_id, params=params)
            self._client.update_run(run_id, name=awaited["name"])
            self._add_last(run_id, metrics, time)
        else:
            self._add(run_id, metrics, time)
        if details:
            self._client.log_text(run_id, details, "error.txt")
        if files is not None:
            self._client.log_artifacts(run_id, files, "files")
        # The status tag comes last, so a run that has it is complete.
        self._flush(run_id, {**tags, "hpo.status": status})
        self._client.set_terminated(run_id, status, milliseconds(time))
        self._runs.closed.add(number)
        self._awaited.pop(number, None)
        self._curves.pop(run_id, None)

    def train_further(
        self, number: int, points: Sequence[Point], metrics: Numbers, of_study: Numbers, tags: Texts, time: float
    ) -> None:
        """Add the results of a further training to the closed run of a trial, and update the study's run.

        The further training continued the trial after the search.
        """
        run_id = self._runs.trials[number]
        for point in points:
            self._add(run_id, point["metrics"], point["time"], point["step"])
        self._add_last(run_id, metrics, time)
        self._add(self._runs.parent, of_study, time, number)
        self._flush(run_id, tags)

    def show_front(self, numbers: Sequence[int]) -> None:
        """Mark the closed trials in `numbers` as on the front, and all other closed trials as not on the front."""
        members, marked = set(numbers), self._runs.on_front
        for number in sorted(self._runs.closed):
            if marked.get(number) != (number in members):
                self._client.set_tag(self._runs.trials[number], FRONT_TAG, str(number in members).lower())
                marked[number] = number in members

    def stop_trials(self, numbers: Sequence[int]) -> None:
        """Mark the closed trials in `numbers` as stopped, because the search continued other trials of their rung.

        Remove the mark from all other trials.
        """
        now, marked = {number for number in numbers if number in self._runs.closed}, self._runs.stopped
        for number in now - marked:
            self._client.set_tag(
                self._runs.trials[number], "hpo.stopped", "the search continued other trials of this trial's rung"
            )
            self._set_status(number, "KILLED")
        for number in marked - now:
            self._set_status(number, "FINISHED")
            self._client.delete_tag(self._runs.trials[number], "hpo.stopped")
        self._runs.stopped = now

    def register_model(self, winner: Winner) -> None:
        """Register the winner's model."""
        version = register_champion(self._client, self._experiment_id, self._runs.parent, winner)
        self._client.set_tag(self._runs.parent, "hpo.model", f"models:/{winner['name']}/{version}")

    def show_results(
        self,
        best: Sequence[tuple[int, float, float]],
        metrics: Numbers,
        params: Mapping[str, Any],
        tags: Texts,
        artifacts: Sequence[str],
        time: float,
    ) -> None:
        """Write a study's results; `best` has one (step, score, time) per improvement of the best score."""
        for number, score, when in best:
            self._add(self._runs.parent, {"best_score": score}, when, number)
        self._add(self._runs.parent, {key: each for key, each in metrics.items() if key != "best_score"}, time)
        self._flush(self._runs.parent, tags)
        self._log_params(params)
        for path in artifacts:
            if Path(path).exists():
                self._client.log_artifact(self._runs.parent, path)

    def close_study(self, status: str, tags: Texts, note: str, time: float, error: str | None = None) -> None:
        """End the study's run and all other runs of the study; write the tags and the note of the study."""
        if self._was_unsure:
            self._runs.find_again()
        self._set_note(note)
        if error is not None:
            self._client.log_text(self._runs.parent, error, "error.txt")
            tags = {**tags, "hpo.error": error.strip().rpartition("\n")[2]}
        self._flush(self._runs.parent, tags)
        self._end(status, milliseconds(time))

    def abandon_study(self) -> None:
        """Mark the study as killed, because its driver died."""
        if self._runs.parent:
            self._flush(self._runs.parent, {"hpo.state": "interrupted"})
            self._end("KILLED")

    def _end(self, status: str, time: int | None = None) -> None:
        for number in self._runs.trials.keys() - self._runs.closed:
            self._client.set_terminated(self._runs.trials[number], "KILLED")
        # Also end runs of tasks whose workers died, and other runs that trainings have started.
        for run in list(self._runs.still_running()):
            self._client.set_terminated(run.info.run_id, "KILLED")
        self._client.set_terminated(self._runs.parent, status, time)

    def _run_of(self, number: int) -> str:
        """Return the id of a trial's run; create the run if the trial's worker has not created it."""
        if number not in self._runs.trials:
            # The worker may have died before it reported its run.
            self._runs.find_trials()
        if number not in self._runs.trials:
            awaited = self._awaited[number]
            self._runs.open_trial(number, awaited["name"], awaited["tags"], awaited["time"])
        return self._runs.trials[number]

    def _log_params(self, values: Mapping[str, Any]) -> None:
        """Log the parameters that the study's run does not have yet; in MLflow, a logged parameter cannot change."""
        params = [Param(key, value) for key, value in texts(values).items() if key not in self._runs.params]
        for start in range(0, len(params), _MAX_PARAMS):
            self._client.log_batch(self._runs.parent, params=params[start : start + _MAX_PARAMS])
        self._runs.params |= {param.key for param in params}

    def _set_note(self, note: str) -> None:
        pages = {number: run_page(self._experiment_id, run_id) for number, run_id in self._runs.trials.items()}
        text = fill_in(note, self._runs.parent, view_page(self._experiment_id, self._runs.study_id), pages)
        self._client.set_tag(self._runs.parent, "mlflow.note.content", text[:_MAX_NOTE])

    def _set_status(self, number: int, status: str) -> None:
        self._client.set_tag(self._runs.trials[number], "hpo.status", status)
        self._client.update_run(self._runs.trials[number], status=status)

    def _known_points(self, run_id: str) -> set[tuple[str, int]]:
        keys = self._client.get_run(run_id).data.metrics
        return {(key, point.step) for key in keys for point in self._client.get_metric_history(run_id, key)}

    def _add(self, run_id: str, metrics: Numbers, seconds: float, step: int = 0) -> None:
        points = {(key, step): Metric(key, value, milliseconds(seconds), step) for key, value in metrics.items()}
        self._pending.setdefault(run_id, {}).update(points)

    def _add_last(self, run_id: str, metrics: Numbers, seconds: float) -> None:
        """Add each metric at the last step that was logged for this metric, or at step 0 if no step was logged."""
        known = self._client.get_run(run_id).data.metrics
        for key, value in metrics.items():
            points = self._client.get_metric_history(run_id, key) if key in known else ()
            self._add(run_id, {key: value}, seconds, max((point.step for point in points), default=0))

    def _flush(self, run_id: str, tags: Texts = MappingProxyType({})) -> None:
        """Send an MLflow run's unsent metrics, then `tags`.

        If the run is the study's run, also send the tag `hpo.trials`, which says how many trials have ended.
        """
        metrics = list(self._pending.get(run_id, {}).values())
        tags = {"hpo.trials": self._done, **tags} if run_id == self._runs.parent else tags
        entries = [RunTag(key, value) for key, value in texts(tags).items()]
        for start in range(0, max(len(metrics), 1), _MAX_METRICS):
            chunk = metrics[start : start + _MAX_METRICS]
            is_last = start + _MAX_METRICS >= len(metrics)
            self._client.log_batch(run_id, metrics=chunk, tags=entries if is_last else ())
        self._pending.pop(run_id, None)
        if run_id in self._curves:
            self._curves[run_id].update((metric.key, metric.step) for metric in metrics)


def _dataset(name: str, digest: str, source: str, context: str, profile: Mapping[str, Any]) -> DatasetInput:
    described = {"source": json.dumps({"source": source}), "profile": json.dumps(profile)}
    return DatasetInput(Dataset(name, digest, "hpo", **described), [InputTag("mlflow.data.context", context)])
