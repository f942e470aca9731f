"""Our strategies as Ray Tune searchers: the whole-round law by hand, and real Tuners."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import ray
from ray import tune
from ray.tune.schedulers import ASHAScheduler, PopulationBasedTraining

from hpo.config.keys import flatten
from hpo.engine.strategies import make_strategy
from hpo.errors import ConfigError, SpaceError
from hpo.integrations.ray_tune import as_searcher
from hpo.testing.strategies import play
from hpo.trials.space.reader import space_from_dict
from hpo.trials.space.space import point_key
from tests.studies import REPOSITORY, SPACES, STRATEGIES


def searcher_of(strategy, metric="loss", mode="min"):
    return as_searcher(strategy, metric, mode).searcher


def make(name, tree=None, **changes):
    return make_strategy(STRATEGIES[name] | changes, space_from_dict(tree or SPACES["mixed"]), 0)


def loss_of(point):
    loss = (sum(point_key(point).encode()) % 13) / 13
    return None if loss < 0.1 else loss


def run(searcher, workers, order, ids=0):
    """Tune's side of the talk: as many trials as fit, finished in any order; returns the points in order."""
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
        result, error = bad if loss is None else ({"loss": loss, "config": {}}, False)
        searcher.on_trial_complete(trial_id, result=result, error=error)


@pytest.mark.parametrize(
    ("name", "workers"),
    [("grid", 3), *(("evolutionary_plain", n) for n in (1, 3, 100)), ("evolutionary", 1)],
)
def test_one_worker_or_a_strategy_of_rounds_gets_the_trials_of_our_own_search(name, workers):
    expected = [dict(trial.point) for trial in play(make(name), 10_000, loss_of)]
    points, waited = run(searcher_of(make(name)), workers, random.Random(workers))
    assert points == expected
    assert waited == (workers > 1)


@pytest.mark.parametrize("name", ["random", "shifting_window", "evolutionary"])
def test_several_workers_never_get_a_point_twice(name):
    points, _ = run(searcher_of(make(name)), 5, random.Random(5))
    assert len({point_key(point) for point in points}) == len(points) == make(name).space.size


def test_max_is_min_of_the_opposite():
    small, large = searcher_of(make("evolutionary")), searcher_of(make("evolutionary"), mode="max")
    for step in range(30):
        first, second = small.suggest(f"{step}"), large.suggest(f"{step}")
        assert first == second
        loss = loss_of(flatten(first)) or 2.0
        small.on_trial_complete(f"{step}", {"loss": loss})
        large.on_trial_complete(f"{step}", {"loss": -loss})


def test_a_searcher_that_is_restored_in_the_middle_of_a_generation_goes_on_with_the_same_points(tmp_path):
    whole, _ = run(searcher_of(make("evolutionary_plain")), 1, random.Random(0))
    begun = searcher_of(make("evolutionary_plain"))
    points = [flatten(begun.suggest(f"t{i}")) for i in range(6)]
    for i in (3, 0, 1, 2, 4, 5):
        loss = loss_of(points[i])
        begun.on_trial_complete(f"t{i}", None if loss is None else {"loss": loss}, error=loss is None)
    points += [flatten(begun.suggest("t6")), flatten(begun.suggest("t7"))]
    begun.save_to_dir(str(tmp_path))
    (state,) = tmp_path.iterdir()
    json.loads(state.read_text())
    restored = searcher_of(make("evolutionary_plain"))
    restored.restore_from_dir(str(tmp_path))
    for i in (7, 6):
        loss = loss_of(points[i])
        restored.on_trial_complete(f"t{i}", None if loss is None else {"loss": loss}, error=loss is None)
    rest, _ = run(restored, 1, random.Random(0), ids=8)
    assert points + rest == whole


def test_what_is_at_odds_with_the_tuner_is_refused():
    searcher = as_searcher(make("random"), "loss", "min")
    assert searcher.set_search_properties("loss", "min", {"epochs": 3, "nested": {"x": [1, 2]}})
    with pytest.raises(ConfigError, match="metric: the searcher has 'loss', but the TuneConfig has 'accuracy'"):
        searcher.set_search_properties("accuracy", None, {})
    for sampled in (tune.uniform(0, 1), tune.grid_search([1, 2])):
        with pytest.raises(SpaceError, match="param_space: must have only constants"):
            searcher.set_search_properties(None, None, {"nested": {"x": sampled}})
    with pytest.raises(ConfigError, match="mode: must be min or max, given 'minimize'"):
        as_searcher(make("random"), "loss", "minimize")


def test_several_metrics_are_refused():
    searcher = as_searcher(make("random"))
    for several in (["loss", "size"], {"loss": "min", "size": "min"}):
        with pytest.raises(ConfigError, match=r"metric: must be the name of one metric, given .*size"):
            as_searcher(make("random"), several, "min")
        with pytest.raises(ConfigError, match="metric: must be the name of one metric"):
            searcher.set_search_properties(several, "min", {})


def test_metric_and_mode_may_come_from_the_tuner_and_must_come_from_somewhere():
    search = as_searcher(make("random"))
    with pytest.raises(ConfigError, match="metric, mode: must be given"):
        search.searcher.suggest("t0")
    assert search.set_search_properties("loss", "min", {"epochs": 1})
    assert search.metric == "loss"
    assert search.searcher.suggest("t0")


def test_a_paused_trial_that_is_ended_counts_with_its_last_result():
    searcher = searcher_of(make("random", {"x": [1, 2]}))
    for name in ("t0", "t1"):
        searcher.suggest(name)
        searcher.on_trial_result(name, {"loss": 3.0})
    searcher.on_trial_complete("t0")
    searcher.on_trial_complete("t1", error=True)
    searcher.save("state.json")
    assert [trial["score"] for trial in json.loads(Path("state.json").read_text())["history"]] == [3.0, None]


@pytest.fixture(scope="module")
def cluster():
    os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
    ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level="ERROR", configure_logging=False)
    yield
    ray.shutdown()


SPACE = {"x": {"low": 0.0, "high": 1.0}, "model": {"layers": [1, 2, 3, 4]}}


def train(config):
    start = 0
    checkpoint = tune.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder, open(f"{folder}/step") as file:  # noqa: PTH123
            start = int(file.read())
    for step in range(start + 1, 5):
        with open("step", "w") as file:  # noqa: PTH123
            file.write(str(step))
        loss = (config["x"] - 0.3) ** 2 + config["model"]["layers"] + config["offset"] / step
        tune.report({"loss": loss}, checkpoint=tune.Checkpoint.from_directory("."))


def fit(strategy, tmp_path, num_samples, scheduler=None):
    tuner = tune.Tuner(
        train,
        param_space={"offset": 1.0},
        tune_config=tune.TuneConfig(
            search_alg=as_searcher(strategy, "loss", "min"),
            scheduler=scheduler,
            metric="loss",
            mode="min",
            num_samples=num_samples,
            reuse_actors=True,
        ),
        run_config=tune.RunConfig(storage_path=str(tmp_path), name="run", verbose=0),
    )
    results = tuner.fit()
    assert not results.errors
    return results


# Ray leaves sockets and files to the garbage collector.
leaky = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.mark.slow("none")
@pytest.mark.nightly
@leaky
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
@pytest.mark.parametrize("scheduler", ["none", "asha", "pbt"])
def test_a_real_tuner(cluster, tmp_path, scheduler):
    schedulers = {
        "none": None,
        "asha": ASHAScheduler(max_t=4, grace_period=1, reduction_factor=2),
        "pbt": PopulationBasedTraining(
            time_attr="training_iteration", perturbation_interval=2, hyperparam_mutations={"x": tune.uniform(0, 1)}
        ),
    }
    strategy = make("evolutionary_plain", SPACE, population=4, surviving=0.5)
    results = fit(strategy, tmp_path, 6, schedulers[scheduler])
    assert len(results) == 6
    assert all(r.config["offset"] == 1.0 for r in results)
    if scheduler == "none":
        expected = play(strategy, 2, lambda p: (p["x"] - 0.3) ** 2 + p["model.layers"] + 1 / 4)
        assert {r.config["x"] for r in results} == {trial.point["x"] for trial in expected[:6]}


@pytest.mark.nightly
def test_the_example_runs():
    command = [sys.executable, str(REPOSITORY / "examples/ray_tuner.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "best loss" in done.stdout
