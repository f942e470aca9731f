"""Studies that are shown in an MLflow store of their own, for tests."""

import functools
import shutil
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path

import toy_words
from mlflow import MlflowClient

from hpo.report.write import write_report
from hpo.session.session import run_study
from hpo.study.opening import open_study, read_study
from hpo.study.results.run import StudyRun
from hpo.track.make import make_tracker
from hpo.track.names import metric_names
from hpo.track.projection import close_in_tracker, dropped_trials, open_in_tracker
from hpo.track.store import absolute_uri
from hpo.workers.dispatch.local import LocalDispatcher
from tests.studies import REPOSITORY, prepared, toy_config


@functools.cache
def _empty_store():
    """Return an MLflow database with its tables; making them takes seconds."""
    path = Path(tempfile.mkdtemp(prefix="hpo-store-")) / "mlflow.db"
    with warnings.catch_warnings(action="ignore"):
        MlflowClient(f"sqlite:///{path}").search_experiments()
    return path


def new_store(folder):
    """Put an empty MLflow store into the folder and return its address."""
    shutil.copy(_empty_store(), folder)
    return f"sqlite:///{folder}/mlflow.db"


def tracked_study(folder, trials=6, uri=None, strategy="evolutionary", experiment="tests", patience=60.0, **changes):
    """Return a study of the toy objective in a folder that has a store."""
    track = {"name": "mlflow", "uri": uri or f"sqlite:///{folder}/mlflow.db"}
    track |= {"experiment": experiment, "patience": patience}
    return prepared(folder / "study", toy_config(strategy, trials=trials, track=track, **changes))


def front_study(folder, trials=12, limit=4.0, **changes):
    """Return a study of two metrics and a limit; see `toy_data:sized`."""
    section = toy_config(trials=trials)["study"]
    section |= {"metrics": {"score": "maximize", "size": "minimize"}, "limits": {"seconds": limit}}
    return tracked_study(folder, objective="toy_data:sized", study=section, **changes)


def words_study(folder, trials, uri=None, name="reviews", **changes):
    """Return a study that keeps models: of good and bad reviews."""
    given = {"uri": uri or f"sqlite:///{folder}/mlflow.db", "name": "mlflow", "experiment": "tests"}
    tree = toy_config("evolutionary", space=toy_words.SPACE, trials=trials, objective="toy_words:run_fold", track=given)
    del tree["toy"]
    tree |= toy_words.CONFIG | changes
    tree["study"] |= {"name": name, "metric": "accuracy"}
    return prepared(folder / name, tree)


def run(study, dispatcher=None, has_figures=False):
    """Run a study in this process, with its tracker, and return the result."""
    study = replace(study, config=study.config.with_report({"figures": has_figures}))
    record, tracker = open_study(study), make_tracker(study)
    try:
        return run_study(study, record, dispatcher or LocalDispatcher(str(REPOSITORY)), tracker)
    finally:
        record.close()


def synchronise(study):
    """Send a study again, as `hpo sync` does."""
    record, tracker = read_study(study), make_tracker(study)
    study_run = StudyRun.of(study, record)
    open_in_tracker(study, study_run, tracker)
    close_in_tracker(study, study_run, tracker, write_report(study, study_run, has_page=False))
    record.close()
    return tracker.close()


def runs_of(study, uri=None):
    """Return the parent run and its children by trial number; there are no others in the experiment."""
    client = MlflowClient(absolute_uri(uri or study.config.track.uri))
    experiment = client.get_experiment_by_name(study.config.track.experiment).experiment_id
    found = client.search_runs([experiment], max_results=5000)
    (parent,) = [run for run in found if "mlflow.parentRunId" not in run.data.tags]
    children = [run for run in found if run.data.tags.get("mlflow.parentRunId") == parent.info.run_id]
    by_number = {int(run.data.tags["hpo.trial"]): run for run in children}
    assert len(by_number) == len(children) == len(found) - 1, "no trial has two runs"
    return parent, by_number


def assert_shows_the_record(study, uri=None, status="FINISHED"):
    """Assert that MLflow has what the record has: every trial once, every point of every curve once, all ended."""
    record = read_study(study)
    study_run = StudyRun.of(study, record)
    record.close()
    parent, children = runs_of(study, uri)
    assert parent.info.status == status
    assert sorted(children) == [trial.number for trial in study_run.trials]
    dropped = {*dropped_trials(study_run.searched)} - {trial.number for trial in study_run.further_trained}
    states = {"complete": "FINISHED", "failed": "FAILED", "stopped": "KILLED", "running": "KILLED"}
    for trial in study_run.trials:
        child = children[trial.number]
        assert child.info.status == ("KILLED" if trial.number in dropped else states[trial.state])
        assert child.data.params == {key: str(value) for key, value in trial.point.items()}
        assert child.data.metrics.get("score") == trial.score
        assert child.data.tags.get("hpo.error") == trial.error
        assert _curves(child, uri or study.config.track.uri) == _recorded_curves(trial, study.layout)
        if not study.goal.is_single and trial.state == "complete":
            assert child.data.tags["hpo.is_within_limits"] == str(trial.keeps_limits).lower()
            shown = {name: child.data.metrics[called] for name, called in metric_names(study.goal).items()}
            assert shown == {name: trial.mean(name) for name in study.goal.names}
    if len(study.goal.metrics) > 1:
        on_front = {number for number, child in children.items() if child.data.tags.get("hpo.is_on_front") == "true"}
        assert on_front == {trial.number for trial in study_run.front}


def _curves(child, uri):
    client, keys = MlflowClient(absolute_uri(uri)), [key for key in child.data.metrics if "/" in key]
    found = {key: client.get_metric_history(child.info.run_id, key) for key in keys if "/final_" not in key}
    return {key: sorted((each.step, each.value) for each in history) for key, history in found.items() if history}


def _recorded_curves(trial, layout):
    points = {}
    for index, outcome in trial.outcomes.items():
        for point in outcome.curve:
            for key in point.keys() - {"epoch", "epochs"}:
                points.setdefault(f"{layout.name(index)}/{key}", []).append((point["epoch"], point[key]))
    return points
