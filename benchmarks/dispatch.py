"""Speed: what a trial costs beyond its training, ours beside Ray Tune and Optuna, all measured in one run.

Every case runs alone in a fresh process and a fresh folder, the cases take turns, and of `--repeats` turns the
fastest counts: whatever else runs on the machine can only add time. The objective returns at once, so that what is
left is the price of searching: proposing, dispatching, recording, tracking and reporting. See README.md beside this
file for what each column means.
"""

import argparse
import itertools
import json
import math
import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

WORKERS = 2
KEYS = tuple("abcdef")

# In a module of its own in the case's folder, as a user's would be: workers import it by name.
OBJECTIVE = """
def run_fold(task):
    return {"score": sum(task["config"]["x"].values())}
"""


@dataclass(frozen=True)
class Measurement:
    """What one case cost.

    Attributes:
        trials: how many were timed.
        seconds: wall time of these trials, until everything is where it belongs (record, MLflow, report).
        startup_seconds: until every worker had answered once; not part of `seconds`.
        driver_seconds: CPU time of this process within `seconds`.
        children_seconds: CPU time of the processes that it waited for, which is the one that writes to MLflow.
        peak_bytes: the most memory that this process held at any time.
        tenths: milliseconds a trial in each tenth of the trials, in the order of finishing; empty for peers.
    """

    trials: int
    seconds: float
    startup_seconds: float
    driver_seconds: float
    children_seconds: float
    peak_bytes: int = 0
    tenths: list[float] = field(default_factory=list)

    @property
    def milliseconds(self) -> float:
        """Wall time a trial, with what is done once a study: the report and its page."""
        return 1000 * self.seconds / self.trials

    @property
    def search_milliseconds(self) -> float:
        """Wall time a trial up to the last one; nan where it was not noted."""
        return statistics.fmean(self.tenths) if self.tenths else math.nan


class Clock:
    """Wall and CPU time since `restart`."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begin anew."""
        self._began = self._now()

    def read(self, trials: int, startup_seconds: float = 0.0) -> Measurement:
        """Return what was used since then."""
        wall, driver, children = (now - then for now, then in zip(self._now(), self._began, strict=True))
        return Measurement(trials, wall, startup_seconds, driver, children)

    @staticmethod
    def _now() -> tuple[float, float, float]:
        own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.perf_counter(), own.ru_utime + own.ru_stime, children.ru_utime + children.ru_stime


def measure_ours(trials: int, dispatch: str, record: bool, mlflow: bool) -> Measurement:
    """Run a study with the public functions that `hpo search` uses."""
    from hpo.config import config_from_dict
    from hpo.dispatch import make_dispatcher
    from hpo.record import memory_record
    from hpo.run import run_study
    from hpo.search import search
    from hpo.study import prepare_study
    from hpo.track import make_tracker

    study = prepare_study(config_from_dict(study_tree(trials, dispatch, mlflow)))
    clock = Clock()
    dispatcher = make_dispatcher(study.config.dispatch)
    warm_up(dispatcher, study.task_builder())
    startup_seconds = clock.read(1).seconds
    store = study.open() if record else memory_record("score", "maximize", study.grid)
    finished = FinishTimes()
    clock.restart()
    if record:
        # The tracker is closed by run_study, which waits until everything is in MLflow.
        tracker = make_tracker(study.config, study.grid)
        run_study(study, store, dispatcher, tracker, [finished])
    else:
        search(study.strategy, store, dispatcher, study.task_builder().tasks_of, trials, [finished])
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
    """Return the configuration of our study, every value that matters as in conf/."""
    return {
        "study": {"name": "instant", "seed": 0, "trials": trials, "metric": "score", "direction": "maximize"}
        | {"checkpoints": 1, "storage": None, "repeats": 1, "finalists": 0, "finalist_repeats": 1, "imports": None},
        "objective": "instant:run_fold",
        "space": {"x": {key: {"low": 0.0, "high": 1.0} for key in KEYS}},
        "strategy": {"name": "random", "round_size": 1000},
        "split": {"folds": None, "seed": 0, "test_fraction": 0.1, "validation_fraction": 0.1, "stratify": True}
        | {"race_after": None, "race_level": 0.05},
        "dispatch": {"name": dispatch, "workers": WORKERS if dispatch == "ray" else 1, "threads": 1}
        | {"cpus_per_worker": 1.0, "gpus_per_worker": 0.0, "gpus": None, "retries": 2, "timeout_seconds": None}
        | {"address": None},
        "track": {"name": "mlflow" if mlflow else "none", "uri": "sqlite:///mlflow.db", "experiment": "hpo"},
        "x": dict.fromkeys(KEYS, 0.5),
    }


def warm_up(dispatcher: Any, tasks: Any) -> None:
    """Let every worker run one task, so that no process is being started when the clock is."""
    from hpo.trials import Trial

    task = tasks.tasks_of(Trial(0, 0, dict.fromkeys((f"x.{key}" for key in KEYS), 0.5)))[0]
    for _ in range(dispatcher.slots):
        dispatcher.submit(task)
    answers = 0
    while answers < dispatcher.slots:
        answers += sum(report.outcome is not None for report in dispatcher.wait())


class FinishTimes:
    """An observer that notes when each trial is finished."""

    def __init__(self) -> None:
        self._times = [time.perf_counter()]

    def trial_opened(self, trial: Any) -> None:
        """Nothing to note."""

    def reported(self, trial: Any, report: Any) -> None:
        """Nothing to note."""

    def trial_finished(self, trial: Any) -> None:  # noqa: ARG002
        """Note the time."""
        self._times.append(time.perf_counter())

    def tenths(self) -> list[float]:
        """Return the milliseconds a trial in each tenth of the trials, in the order of finishing."""
        last = len(self._times) - 1
        marks = [last * tenth // 10 for tenth in range(11)]
        return [
            1000 * (self._times[end] - self._times[start]) / max(end - start, 1)
            for start, end in itertools.pairwise(marks)
        ]


def measure_tune(trials: int, reuse_actors: bool) -> Measurement:
    """Run Ray Tune with its defaults, on a Ray that was started as ours is.

    As with ours, the clock starts when every worker has answered once.
    """
    os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
    from hpo.dispatch.ray_cluster import RayCluster

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


def count(database: Path, what: str) -> int:
    """Return how many rows a SQLite file holds: a speed counts only when the work was done."""
    with closing(sqlite3.connect(database)) as connection:
        return int(connection.execute(f"SELECT count(*) FROM {what}").fetchone()[0])


def expect(what: str, there: int, expected: int) -> None:
    """Refuse a measurement of work that was not done."""
    if there != expected:
        raise SystemExit(f"{what}: {there} where {expected} were expected")


@dataclass(frozen=True)
class Case:
    """A row of the table: what it is called, how it is measured, and with what share of `--trials`."""

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


def run_case(name: str, trials: int) -> Measurement:
    """Measure one case in this process, in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="hpo-bench-") as folder:
        os.chdir(folder)
        Path("instant.py").write_text(OBJECTIVE)
        sys.path.insert(0, folder)
        measured = CASES[name].measure(trials)
        os.chdir("/")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return replace(measured, peak_bytes=peak * (1 if sys.platform == "darwin" else 1024))


def measure_apart(name: str, trials: int) -> Measurement:
    """Measure one case in a fresh process, so that its memory and its imports are its own."""
    command = [sys.executable, __file__, "--case", name, "--trials", str(trials)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{name} failed:\n{done.stdout}{done.stderr}")
    # Libraries may print, too; the measurement is the last line.
    return Measurement(**json.loads(done.stdout.splitlines()[-1]))


def run_all(names: Sequence[str], trials: int, repeats: int) -> dict[str, list[Measurement]]:
    """Measure the cases in turn, `repeats` times."""
    measured: dict[str, list[Measurement]] = {name: [] for name in names}
    for repeat in range(repeats):
        for name in names:
            # More trials than workers: Tune's clock starts when as many as these are done.
            one = measure_apart(name, max(round(trials * CASES[name].share), 2 * WORKERS))
            measured[name].append(one)
            print(f"turn {repeat + 1} of {repeats}: {name} {one.milliseconds:.2f} ms a trial", file=sys.stderr)
    return measured


def fastest(several: Sequence[Measurement]) -> Measurement:
    """Return the turn that other users of the machine disturbed least, with the peak memory of all turns."""
    best = min(several, key=lambda one: one.milliseconds)
    return replace(best, peak_bytes=max(one.peak_bytes for one in several))


def header(arguments: argparse.Namespace) -> list[str]:
    """Return what the figures depend on: command, date, hardware and versions."""
    from hpo.environment import describe_environment

    environment = describe_environment()
    packages = ("optuna", "ray", "mlflow")
    versions = [f"{name} {version(name)}" for name in (*packages, "sqlalchemy", "hpo-transformer")]
    load = "/".join(f"{value:.1f}" for value in os.getloadavg())
    return [
        f"command   python benchmarks/dispatch.py {' '.join(sys.argv[1:])}".rstrip(),
        f"date      {time.strftime('%Y-%m-%d %H:%M UTC', time.gmtime())}",
        f"hardware  {environment['cpus']} x {environment['processor']}, {environment['memory_bytes'] / 2**30:.0f} GiB, "
        f"{environment['platform']}; load before {load}",
        f"versions  python {environment['python']}, {', '.join(versions)}, sqlite {sqlite3.sqlite_version}, "
        f"commit {(environment['commit'] or 'unknown')[:7]}{' + changes' if environment['is_dirty'] else ''}",
        f"setting   {WORKERS} workers, {len(KEYS)} float hyperparameters, random search, "
        f"fastest of {arguments.repeats} turns",
    ]


def table(measured: Mapping[str, Sequence[Measurement]]) -> Table:
    """Return the table, as Markdown."""
    shown = Table(box=box.MARKDOWN)
    shown.add_column("case", no_wrap=True)
    columns = (
        "trials",
        "ms a trial",
        "of it search",
        "slowest turn",
        "x ours on Ray",
        "driver CPU ms",
        "MLflow CPU ms",
    )
    for column in (*columns, "start-up s", "driver peak MB"):
        shown.add_column(column, justify="right")
    reference = fastest(measured[REFERENCE]).milliseconds
    for name, several in measured.items():
        best = fastest(several)
        shown.add_row(
            CASES[name].title,
            f"{best.trials:,}",
            f"{best.milliseconds:,.2f}",
            f"{best.search_milliseconds:,.2f}" if best.tenths else "",
            f"{max(one.milliseconds for one in several):,.2f}",
            f"{best.milliseconds / reference:,.2f}",
            f"{1000 * best.driver_seconds / best.trials:,.2f}",
            f"{1000 * best.children_seconds / best.trials:,.2f}" if name.endswith("mlflow") else "",
            f"{best.startup_seconds:.1f}" if best.startup_seconds > 0.1 else "",
            f"{best.peak_bytes / 1e6:,.0f}",
        )
    return shown


def targets(measured: Mapping[str, Sequence[Measurement]]) -> list[str]:
    """Return one line a target: what is asked, what was measured, and whether it holds."""
    milliseconds = {name: fastest(several).milliseconds for name, several in measured.items()}
    alone, tracked = milliseconds[REFERENCE], milliseconds["ray-mlflow"]
    peak = max(fastest(several).peak_bytes for name, several in measured.items() if name.startswith("ray")) / 1e6
    reuse, default = milliseconds["tune-reuse"] / alone, milliseconds["tune-default"] / alone
    rows = [
        ("ours on Ray with the record: at most 10 ms", f"{alone:.2f} ms", alone <= 10),
        ("... and MLflow: at most 25 ms", f"{tracked:.2f} ms", tracked <= 25),
        ("... and MLflow, the goal: at most 15 ms", f"{tracked:.2f} ms", tracked <= 15),
        ("at least 5 x faster than Tune with reused actors", f"{reuse:.1f} x", reuse >= 5),
        ("at least 100 x faster than Tune's default", f"{default:.0f} x", default >= 100),
        ("the driver's memory on Ray: under 500 MB", f"{peak:.0f} MB", peak < 500),
    ]
    if LONG in measured:
        # Of the search alone: what is done once a study would hide a search that slows down.
        growth = fastest(measured[LONG]).search_milliseconds / fastest(measured[REFERENCE]).search_milliseconds
        rows.append(("10 x the trials: a trial at most 1.2 x dearer", f"{growth:.2f} x", growth <= 1.2))
    return [f"{'holds ' if holds else 'MISSED'}  {asked}: {found}" for asked, found, holds in rows]


def main() -> None:
    """Measure one case as JSON (`--case`), or all of them as a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=1000, help="of the cases with one share; default 1000")
    parser.add_argument("--repeats", type=int, default=3, help="turns, of which the fastest counts; default 3")
    parser.add_argument("--long", action="store_true", help="also 10 x the trials, for ours on Ray with the record")
    parser.add_argument("--quick", action="store_true", help="100 trials, one turn: whether everything runs")
    parser.add_argument("--case", choices=CASES, help="one case in this process, printed as JSON")
    arguments = parser.parse_args()
    if arguments.case:
        print(json.dumps(asdict(run_case(arguments.case, arguments.trials))))
        return
    if arguments.quick:
        arguments.trials, arguments.repeats = 100, 1
    lines = header(arguments)
    measured = run_all([n for n in CASES if n != LONG or arguments.long], arguments.trials, arguments.repeats)
    console = Console(width=180, highlight=False)
    console.print("\n".join(lines), markup=False)
    console.print()
    console.print(table(measured))
    if LONG in measured:
        shown = " ".join(f"{value:.2f}" for value in fastest(measured[LONG]).tenths)
        console.print(f"{CASES[LONG].title}: ms a trial by tenth: {shown}\n", markup=False)
    console.print("\n".join(targets(measured)), markup=False)


if __name__ == "__main__":
    main()
