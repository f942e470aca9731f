"""What people of Ray Tune type: functions that report, its dimensions, and our strategies as searchers of its Tuner."""

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import ray
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from ray import tune

import hpo
from hpo.config.keys import flatten
from hpo.errors import ConfigError, SpaceError
from hpo.integrations.exchange.ray_folder import read_ray
from hpo.integrations.ray_tune import as_searcher
from hpo.testing.strategies import play
from hpo.trials.space.peers import of_peer
from hpo.trials.space.space import point_key
from tests.hpo.commands.searched import found, outcome_of
from tests.hpo.integrations.test_optuna import make
from tests.studies import refuses

LR = {"lr": (0.1, 1.0)}


def losses(config, trial):
    for epoch, loss in enumerate([3.0, 1.0, 2.0]):
        trial.report({"loss": loss + config["lr"], "epoch": epoch, "accuracy": loss / 10})


@pytest.mark.parametrize(
    ("score", "direction", "loss"),
    [(None, "minimize", 1.0), ("best", "minimize", 1.0), ("last", "minimize", 2.0), (None, "maximize", 3.0)],
)
def test_a_function_that_returns_nothing_is_scored_by_what_it_reported(score, direction, loss):
    study = found(losses, space=LR, metric="loss", direction=direction, score=score, trials=2)
    assert (study.best.score, outcome_of(study).metrics["accuracy"]) == (loss + study.best.config["lr"], loss / 10)
    assert study.reproduce().is_reproduced


@pytest.mark.slow
def test_which_report_counts_decides_the_study():
    names = [found(losses, space=LR, metric="loss", score=score, trials=1).name for score in (None, "last", "best")]
    assert names == ["losses", "losses-2", "losses"]
    with pytest.raises(hpo.HpoError, match=r"score: must be 'best' or 'last', given 'lst'; did you mean 'last'"):
        found(losses, space=LR, metric="loss", score="lst")


def test_nothing_returned_and_nothing_reported_says_what_to_do():
    failed = found(lambda config, trial: None, trials=1)
    assert "return the score, or report it: trial.report(score=...)" in failed.trials["error"][0]
    with pytest.raises(hpo.HpoError, match="no number as 'score'; it reported: loss; report 'score', or set `metric`"):
        found(lambda config, trial: trial.report(loss=0.1))


def test_a_refusal_of_argparse_is_the_reason_of_the_failure():
    def train(config):
        parser = argparse.ArgumentParser()
        parser.add_argument("--scale", required=True)
        return float(parser.parse_args([]).scale)

    assert "the following arguments are required: --scale" in found(train, trials=1).trials["error"][0]


async def with_reports(config, trial):
    for epoch in range(4):
        await asyncio.sleep(0)
        trial.report(epoch=epoch, score=config["lr"])
    return config["lr"]


@pytest.mark.slow
def test_a_coroutine_is_run_also_where_a_loop_runs_already_as_in_a_notebook_and_is_stopped_at_a_report():
    async def cell():
        return found(with_reports, space=LR, trials=2)

    study = asyncio.run(cell())
    assert study.best.score == max(study.trials["lr"])
    settings = {"study.stop_rule": "median", "study.lanes": 1}
    assert set(found(with_reports, space=LR, trials=12, settings=settings).trials["state"]) == {"complete", "stopped"}


@pytest.mark.parametrize(("given", "read"), [
    (tune.uniform(0, 1), {"low": 0.0, "high": 1.0}),
    (tune.loguniform(1e-5, 1e-1), {"low": 1e-5, "high": 0.1, "log": True}),
    (tune.quniform(0, 1, 0.25), {"low": 0.0, "high": 1.0, "step": 0.25}),
    (tune.randint(1, 9), {"low": 1, "high": 8, "integer": True}),
    (tune.qrandint(0, 8, 2), {"low": 0, "high": 8, "step": 2}),
    (tune.lograndint(1, 65), {"low": 1, "high": 64, "integer": True, "log": True}),
    (tune.choice([32, 16, "all"]), {"choices": [32, 16, "all"]}),
    (FloatDistribution(0, 1), {"low": 0.0, "high": 1.0}),
    (IntDistribution(1, 8), {"low": 1, "high": 8, "integer": True}),
    (FloatDistribution(1e-5, 0.1, log=True), {"low": 1e-5, "high": 0.1, "log": True}),
    (FloatDistribution(0.1, 1.1, step=0.5), {"low": 0.1, "high": 1.1, "step": 0.5}),
    (IntDistribution(1, 7, step=2), {"low": 1, "high": 7, "step": 2}),
    (IntDistribution(1, 64, log=True), {"low": 1, "high": 64, "integer": True, "log": True}),
    (CategoricalDistribution(["a", None, 1]), {"choices": ["a", None, 1]}),
])  # fmt: skip
def test_a_dimension_of_tune_or_optuna_is_read(given, read):
    assert of_peer(given, "space.lr") == read


@pytest.mark.parametrize(("given", "says"), [
    (tune.randn(), "cannot be Ray's Normal; give hpo.log"),
    (tune.qloguniform(1e-3, 1.0, 1e-3), "cannot be a logarithmic range with a step"),
    (tune.grid_search([1, 2]), "cannot be Ray's grid_search; give the list of values, and strategy="),
])  # fmt: skip
def test_a_dimension_that_no_space_has_is_refused(given, says):
    refuses(hpo.HpoError, f"^space.net.lr: {says}", found, lambda config: 1.0, space={"net": {"lr": given}})


OWN_RAY = """
import sys

import hpo
import ray


def search(name, objective=lambda config: float(sys.argv[1]), **given):
    given |= {"trials": 2, "direction": "maximize", "settings": {"track": "none"}}
    return hpo.search(objective, {"lr": (0.1, 1.0)}, name=name, **given).trials["score"].tolist()


if __name__ == "__main__":
    ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level="ERROR")
    for name in ("first", "second"):
        assert search(name) == [0.25] * 2
        assert ray.is_initialized()
    # In a task of Ray, the arguments of the process are Ray's.
    within = ray.remote(num_cpus=1)(lambda: search("within", lambda config: 0.25, progress=False))
    assert ray.get(within.remote()) == [0.25] * 2
    ray.shutdown()
    assert search("after", progress=False) == [0.25] * 2
    assert not ray.is_initialized()
"""


@pytest.mark.nightly
def test_a_ray_of_the_users_own_is_used_and_left_alive():
    Path("own_ray.py").write_text(OWN_RAY)
    command = [sys.executable, "own_ray.py", "0.25"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("using the Ray that this process is connected to; Ray keeps running after the search") == 2
    assert done.stdout.count("\n2 workers") == 2


def searcher_of(strategy, mode="min"):
    return as_searcher(strategy, "loss", mode).searcher


def loss_of(point):
    loss = (sum(point_key(point).encode()) % 13) / 13
    return None if loss < 0.1 else loss


def run(searcher, workers, ids=0):
    """Play Tune: run as many trials as fit, which end in any order; return the points, and whether a worker waited."""
    order, sign = random.Random(workers), -1 if searcher.mode == "max" else 1
    points, running, waited = [], {}, False
    while True:
        answer = searcher.suggest(f"t{ids}") if len(running) < workers else None
        if answer == searcher.FINISHED:
            return points, waited
        if answer is not None:
            running[f"t{ids}"] = point = flatten(answer)
            points.append(point)
            ids += 1
            continue
        waited = waited or len(running) < workers
        trial_id = order.choice(list(running))
        loss = loss_of(running.pop(trial_id))
        # A failure comes as an error, or as a result without the metric, or with one that is no number.
        bad = order.choice([(None, True), ({"other": 1.0}, False), ({"loss": float("nan")}, False)])
        result, error = bad if loss is None else ({"loss": sign * loss, "config": {}}, False)
        searcher.on_trial_complete(trial_id, result=result, error=error)


ROUNDS = [("grid", 3, "min"), *(("evolutionary_plain", workers, "min") for workers in (1, 3, 100))]


@pytest.mark.parametrize(("name", "workers", "mode"), [*ROUNDS, ("evolutionary", 1, "min"), ("evolutionary", 1, "max")])
def test_one_worker_or_a_strategy_of_rounds_gets_the_trials_of_our_own_search(name, workers, mode):
    expected = [dict(trial.point) for trial in play(make(name), 10_000, loss_of)]
    assert run(searcher_of(make(name), mode), workers) == (expected, workers > 1)


@pytest.mark.parametrize("name", ["random", "shifting_window", "evolutionary"])
def test_several_workers_never_get_a_point_twice(name):
    points, _ = run(searcher_of(make(name)), 5)
    assert len({point_key(point) for point in points}) == len(points) == make(name).space.size


def test_a_searcher_that_is_restored_in_the_middle_of_a_generation_continues_with_the_same_points(tmp_path):
    def complete(searcher, numbers):
        for i in numbers:
            loss = loss_of(points[i])
            searcher.on_trial_complete(f"t{i}", None if loss is None else {"loss": loss}, error=loss is None)

    whole, _ = run(searcher_of(make("evolutionary_plain")), 1)
    begun, restored = (searcher_of(make("evolutionary_plain")) for _ in range(2))
    points = [flatten(begun.suggest(f"t{i}")) for i in range(6)]
    complete(begun, (3, 0, 1, 2, 4, 5))
    points += [flatten(begun.suggest("t6")), flatten(begun.suggest("t7"))]
    begun.save_to_dir(str(tmp_path))
    restored.restore_from_dir(str(tmp_path))
    complete(restored, (7, 6))
    rest, _ = run(restored, 1, ids=8)
    assert points + rest == whole


def test_what_contradicts_the_tuner_is_refused():
    searcher = as_searcher(make("random"), "loss", "min")
    assert searcher.set_search_properties("loss", "min", {"epochs": 3, "nested": {"x": [1, 2]}})
    for metric, constants, says in (
        ("accuracy", {}, "metric: the searcher has 'loss', but the TuneConfig has 'accuracy'"),
        (None, {"nested": {"x": tune.uniform(0, 1)}}, "param_space: must have only constants"),
        (None, {"x": tune.grid_search([1, 2])}, "param_space: must have only constants"),
        (["loss", "size"], {}, "metric: must be the name of one metric, given .*size"),
    ):
        refuses((ConfigError, SpaceError), says, searcher.set_search_properties, metric, None, constants)
    with pytest.raises(ConfigError, match=r"metric: must be the name of one metric, given .*size"):
        as_searcher(make("random"), {"loss": "min", "size": "min"}, "min")
    refuses(ConfigError, "mode: must be min or max, given 'minimize'", as_searcher, make("random"), "loss", "minimize")
    refuses(ConfigError, "metric, mode: must be given", as_searcher(make("random")).searcher.suggest, "t0")


def test_a_paused_trial_that_is_ended_counts_with_its_last_result_also_after_a_restore():
    searcher, restored = (searcher_of(make("random", {"x": [1, 2]})) for _ in range(2))
    for name in ("t0", "t1"):
        searcher.suggest(name)
        searcher.on_trial_result(name, {"loss": 3.0})
    searcher.save("state.json")
    restored.restore("state.json")
    restored.on_trial_complete("t0")
    restored.on_trial_complete("t1", error=True)
    restored.save("state.json")
    assert [trial["score"] for trial in json.loads(Path("state.json").read_text())["history"]] == [3.0, None]


def train(config):
    if config["model"]["layers"] == 3:
        raise RuntimeError("no luck")
    for step in range(1, 5):
        tune.report({"loss": (config["x"] - 0.3) ** 2 + config["model"]["layers"] + config["offset"] / step})


@pytest.fixture(scope="module")  # before a test changes the working directory, from which Ray's workers import
def cluster():
    os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
    before = signal.getsignal(signal.SIGINT)
    ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level="ERROR", configure_logging=False)
    yield
    ray.shutdown()
    # Tune leaves its own, by which a task's KeyboardInterrupt is told from a signal.
    signal.signal(signal.SIGINT, before)


# Ray leaves sockets and files to the garbage collector.
@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("cluster")
def test_a_real_tuner_runs_the_trials_of_our_own_search_and_its_folder_is_read(tmp_path):
    def loss_of(point):
        return None if point["model.layers"] == 3 else (point["x"] - 0.3) ** 2 + point["model.layers"] + 1 / 4

    space = {"x": {"low": 0.0, "high": 1.0}, "model": {"layers": [1, 2, 3, 4]}}
    strategy = make("evolutionary_plain", space, population=4, surviving=0.5)
    config = {"search_alg": as_searcher(strategy), "metric": "loss", "mode": "min"}
    config |= {"num_samples": 6, "reuse_actors": True}
    run_config = tune.RunConfig(storage_path=str(tmp_path), name="run", verbose=0)
    tuner = tune.Tuner(train, param_space={"offset": 1.0}, tune_config=tune.TuneConfig(**config), run_config=run_config)
    assert len(tuner.fit()) == 6
    expected = play(strategy, 2, loss_of)[:6]
    read = read_ray(tmp_path / "run", "loss", "minimize").attempts
    assert {(attempt.point["x"], attempt.score) for attempt in read} == {(t.point["x"], t.score) for t in expected}
    assert {"no luck" in str(attempt.error) for attempt in read if attempt.score is None} == {True}
