"""The cases of overhead.py: ours, Ray Tune's and Optuna's, with an objective that returns at once."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.dispatch.measurement import Clock, FinishTimes, Measurement, count
from benchmarks.shared.printing import expect
from hpo.study.opening import open_study
from hpo.trials.goal import Goal

WORKERS = 2
KEYS = tuple("abcdef")

# In a module of its own in the case's folder, as a user's would be: workers import it by name.
OBJECTIVE = """
def run_fold(task):
    return {"score": sum(task["config"]["x"].values())}
"""


def measure_ours(trials: int, dispatch: str, record: bool, mlflow: bool) -> Measurement:
    """Run a study with the public functions that `hpo search` uses."""
    from hpo.config.study_config import config_from_dict
    from hpo.engine.loop import search
    from hpo.session.session import run_study
    from hpo.study.preparing.preparation import prepare_study
    from hpo.track.make import make_tracker
    from hpo.trials.record.record import memory_record
    from hpo.workers.dispatch.dispatcher import Setup, make_dispatcher

    study = prepare_study(config_from_dict(study_tree(trials, dispatch, mlflow)))
    clock = Clock()
    dispatcher = make_dispatcher(Setup(settings=study.config.dispatch))
    warm_up(dispatcher, study.task_builder())
    startup_seconds = clock.read(1).seconds
    store = open_study(study) if record else memory_record(Goal({"score": "maximize"}), study.layout)
    finished = FinishTimes()
    clock.restart()
    if record:
        # The tracker is closed by run_study, which waits until everything is in MLflow.
        tracker = make_tracker(study)
        run_study(study, store, dispatcher, tracker, [finished])
    else:
        search(study.rules(), store, dispatcher, trials, [finished])
    measured = clock.read(trials, startup_seconds)
    dispatcher.close()
    store.close()
    expect("complete trials", sum(trial.state == "complete" for trial in store.history()), trials)
    if record:
        expect("rows in the record", count(study.folder.database_path, "trials WHERE state = 'COMPLETE'"), trials)
    if mlflow:
        expect("runs in MLflow", count(Path("mlflow.db"), "runs WHERE status = 'FINISHED'"), trials + 1)
        expect("scores in MLflow", count(Path("mlflow.db"), "metrics WHERE key = 'score'"), trials)
    return replace(measured, tenths=finished.tenths())


def study_tree(trials: int, dispatch: str, mlflow: bool) -> dict[str, Any]:
    """Return the configuration of our study: the published one, with an objective of six floats."""
    from hpo.config.composing.compose import compose_config

    return compose_config(
        "search",
        [
            *("objective=instant:run_fold", "model=none", "data=none", "training=none", "space=none"),
            *(f"+space.x.{key}={{low: 0.0, high: 1.0}}" for key in KEYS),
            *(f"+x.{key}=0.5" for key in KEYS),
            *("study.name=instant", f"study.trials={trials}", "study.metric=score", "study.direction=maximize"),
            *("strategy=random", f"study.lanes={WORKERS}", f"dispatch={dispatch}"),
            *(("track=mlflow", "track.uri=sqlite:///mlflow.db") if mlflow else ("track=none",)),
            *((f"dispatch.workers={WORKERS}",) if dispatch == "ray" else ()),
        ],
    )


def warm_up(dispatcher: Any, tasks: Any) -> None:
    """Let every worker run one task, so that no process starts while the clock runs."""
    from hpo.trials.trial import Trial

    task = tasks.tasks_of(Trial(0, 0, dict.fromkeys((f"x.{key}" for key in KEYS), 0.5)))[0]
    for _ in range(dispatcher.slots):
        dispatcher.submit(task)
    answers = 0
    while answers < dispatcher.slots:
        answers += sum(report.outcome is not None for report in dispatcher.wait())


def measure_tune(trials: int, reuse_actors: bool) -> Measurement:
    """Run Ray Tune with its defaults, on a Ray that was started as ours is.

    As with ours, the clock starts when every worker has answered once.
    """
    os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
    from hpo.workers.dispatch.ray.cluster import RayCluster

    clock = Clock()
    cluster = RayCluster(None, None, 1)
    startup_seconds = clock.read(1).seconds
    from ray import tune  # After the start: Ray reads how it is locked when it is imported.

    clock.restart()

    class WhenWorkersAreUp(tune.Callback):
        completed = 0

        def on_trial_complete(self, *_: Any, **__: Any) -> None:
            nonlocal startup_seconds
            self.completed += 1
            if self.completed == WORKERS:
                startup_seconds += clock.read(1).seconds
                clock.restart()

    def objective(config: Mapping[str, float]) -> dict[str, float]:
        return {"score": sum(config.values())}

    results = tune.Tuner(
        tune.with_resources(objective, {"cpu": 1}),
        param_space={key: tune.uniform(0.0, 1.0) for key in KEYS},
        tune_config=tune.TuneConfig(
            metric="score",
            mode="max",
            num_samples=trials + WORKERS,
            max_concurrent_trials=WORKERS,
            reuse_actors=reuse_actors,
        ),
        run_config=tune.RunConfig(storage_path=str(Path("tune").absolute()), verbose=0, callbacks=[WhenWorkersAreUp()]),
    ).fit()
    measured = clock.read(trials, startup_seconds)
    expect("results of Tune", sum("score" in (result.metrics or {}) for result in results), trials + WORKERS)
    cluster.close()
    return measured


def measure_optuna(trials: int) -> Measurement:
    """Run Optuna's own loop on SQLite with its default engine, in this process."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        storage="sqlite:///optuna.db", sampler=optuna.samplers.RandomSampler(seed=0), direction="maximize"
    )
    clock = Clock()
    study.optimize(lambda trial: sum(trial.suggest_float(key, 0.0, 1.0) for key in KEYS), n_trials=trials)
    measured = clock.read(trials)
    expect("rows of Optuna", count(Path("optuna.db"), "trials WHERE state = 'COMPLETE'"), trials)
    return measured


@dataclass(frozen=True)
class Case:
    """A row of the table: its name, how it is measured, and its share of `--trials`."""

    title: str
    measure: Callable[[int], Measurement]
    share: float = 1.0


def ours(dispatch: str, record: bool = True, mlflow: bool = False) -> Callable[[int], Measurement]:
    """Return the measurement of one of our combinations."""
    return partial(measure_ours, dispatch=dispatch, record=record, mlflow=mlflow)


CASES = {
    "local-memory": Case("ours local, nothing kept", ours("local", record=False)),
    "local-record": Case("ours local, record", ours("local")),
    "local-mlflow": Case("ours local, record + MLflow", ours("local", mlflow=True)),
    "ray-memory": Case("ours on Ray, nothing kept", ours("ray", record=False)),
    "ray-record": Case("ours on Ray, record", ours("ray")),
    "ray-mlflow": Case("ours on Ray, record + MLflow", ours("ray", mlflow=True)),
    "tune-reuse": Case("Ray Tune, reuse_actors=True", partial(measure_tune, reuse_actors=True)),
    "tune-default": Case("Ray Tune, default", partial(measure_tune, reuse_actors=False), 1 / 100),
    "optuna": Case("Optuna optimize, SQLite", measure_optuna),
    "ray-record-long": Case("ours on Ray, record, 10 x the trials", ours("ray"), 10),
}
REFERENCE, LONG = "ray-record", "ray-record-long"
