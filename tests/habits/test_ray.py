"""What people of Ray Tune type."""

import argparse
import asyncio
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from ray import tune

import hpo
from hpo.trials.space.peers import of_peer
from tests.hpo.commands.searched import found, outcome_of


def losses(config, trial):
    for epoch, loss in enumerate([3.0, 1.0, 2.0]):
        trial.report({"loss": loss + config["lr"], "epoch": epoch, "accuracy": loss / 10})


LOSS = {"space": {"lr": (0.1, 1.0)}, "metric": "loss", "direction": "minimize"}


@pytest.mark.quick("last-*")
@pytest.mark.nightly
@pytest.mark.parametrize(("score", "loss"), [(None, 1.0), ("best", 1.0), ("last", 2.0)])
def test_a_function_that_returns_nothing_is_scored_by_what_it_reported(score, loss):
    study = found(losses, **LOSS, score=score)
    assert study.best.score == loss + study.best.config["lr"]
    assert outcome_of(study).metrics["accuracy"] == loss / 10
    assert study.reproduce().is_reproduced


@pytest.mark.nightly
def test_which_report_counts_decides_the_study():
    assert [found(losses, **LOSS, score=score).name for score in (None, "last", "best")] == [
        "losses",
        "losses-2",
        "losses",
    ]
    with pytest.raises(hpo.HpoError, match=r"score: must be 'best' or 'last', given 'lst'; did you mean 'last'"):
        found(losses, **LOSS, score="lst")


@pytest.mark.nightly
def test_a_higher_score_is_the_best_where_it_is_maximized():
    study = found(losses, space={"lr": (0.1, 1.0)}, metric="loss", direction="maximize")
    assert study.best.score == 3.0 + study.best.config["lr"]


@pytest.mark.nightly
def test_a_coroutine_is_run():
    async def train(config):
        await asyncio.sleep(0)
        return config["lr"]

    async def reports(config, trial):
        for epoch in range(3):
            await asyncio.sleep(0)
            trial.report(epoch=epoch, score=config["lr"] - epoch)

    for objective in (train, reports):
        study = found(objective, space={"lr": (0.1, 1.0)})
        assert study.best.score == study.best.config["lr"] == max(study.trials["lr"])


def test_a_coroutine_is_stopped_at_a_report():
    async def train(config, trial):
        for epoch in range(4):
            await asyncio.sleep(0)
            trial.report(epoch=epoch, score=config["lr"])
        return config["lr"]

    settings = {"study.stop_rule": "median", "study.lanes": 1}
    states = found(train, space={"lr": (0.1, 1.0)}, trials=12, settings=settings).trials["state"]
    assert set(states) == {"complete", "stopped"}


@pytest.mark.nightly
def test_a_coroutine_runs_where_a_loop_runs_already_as_in_a_notebook():
    async def train(config, trial):
        trial.report(score=config["lr"])

    async def cell():
        study = found(train, space={"lr": (0.1, 1.0)})
        return study, asyncio.get_running_loop()

    study, _ = asyncio.run(cell())
    assert study.trials["state"].tolist() == ["complete"] * 4


def test_an_asynchronous_generator_is_refused():
    async def train(config):
        yield {"score": config["lr"]}

    with pytest.raises(
        hpo.HpoError, match=r"objective: 'train' must not be an asynchronous generator; write `async def .*report"
    ):
        found(train)


@pytest.mark.nightly
def test_nothing_returned_and_nothing_reported_says_what_to_do():
    def train(config, trial):
        pass

    def other(config, trial):
        trial.report(loss=0.1)

    assert "return the score, or report it: trial.report(score=...)" in found(train).trials["error"][0]
    said = "reported no number as 'score'; it reported: loss; report 'score', or set `metric`"
    with pytest.raises(hpo.HpoError, match=said):
        found(other)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (tune.uniform(0, 1), {"low": 0.0, "high": 1.0}),
        (tune.loguniform(1e-5, 1e-1), {"low": 1e-5, "high": 0.1, "log": True}),
        (tune.quniform(0, 1, 0.25), {"low": 0.0, "high": 1.0, "step": 0.25}),
        (tune.randint(1, 9), {"low": 1, "high": 8, "integer": True}),
        (tune.qrandint(0, 8, 2), {"low": 0, "high": 8, "step": 2}),
        (tune.lograndint(1, 65), {"low": 1, "high": 64, "integer": True, "log": True}),
        (tune.choice([32, 16, "all"]), {"choices": [32, 16, "all"]}),
    ],
)
def test_a_dimension_of_tune_is_read(given, read):
    assert of_peer(given, "space.lr") == read


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (tune.randn(), "cannot be Ray's Normal; give hpo.log"),
        (tune.sample_from(lambda _: 1), "cannot be Ray's Function; give hpo.log"),
        (tune.qloguniform(1e-3, 1.0, 1e-3), "cannot be a step on a logarithmic scale"),
        (tune.grid_search([1, 2]), "cannot be Ray's grid_search; give the list of values, and strategy="),
    ],
)
def test_what_no_space_says_is_refused(given, says):
    with pytest.raises(hpo.HpoError, match=f"^space.net.lr: {says}"):
        found(lambda config: 1.0, space={"net": {"lr": given}})


OWN_RAY = """
import argparse

import hpo
import ray


def train(config):
    return config["lr"]


def search(name, **given):
    given |= {"trials": 3, "direction": "maximize", "settings": {"track": "none"}}
    return hpo.search(train, {"lr": (0.1, 1.0)}, name=name, **given).trials["state"].tolist()


def parsed(config):
    parser = argparse.ArgumentParser()
    parser.add_argument("--scale", type=float, required=True)
    return parser.parse_args().scale


if __name__ == "__main__":
    ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level="ERROR")
    for name in ("first", "second"):
        assert search(name) == ["complete"] * 3
        assert ray.is_initialized()
    given = {"trials": 2, "direction": "maximize", "settings": {"track": "none"}, "progress": False}
    assert hpo.search(parsed, {"lr": (0.1, 1.0)}, **given).best.score == 0.25
    within = ray.remote(num_cpus=1)(lambda: search("within", progress=False))
    assert ray.get(within.remote()) == ["complete"] * 3
    ray.shutdown()
    assert search("after", progress=False) == ["complete"] * 3
    assert not ray.is_initialized()
"""


@pytest.mark.nightly
def test_a_ray_of_the_users_own_is_used_and_left_alive():
    Path("own_ray.py").write_text(OWN_RAY)
    done = subprocess.run(
        [sys.executable, "own_ray.py", "--scale", "0.25"], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("using the Ray that this process is connected to; it keeps running afterwards") == 2
    assert done.stdout.count("\n2 workers") == 2


@pytest.mark.nightly
def test_a_refusal_of_argparse_is_the_reason_of_the_failure(monkeypatch):
    def train(config):
        parser = argparse.ArgumentParser()
        parser.add_argument("--scale", required=True)
        return float(parser.parse_args().scale)

    monkeypatch.setattr(sys, "argv", ["train.py"])
    assert "the following arguments are required: --scale" in found(train, trials=1).trials["error"][0]
    monkeypatch.setattr(sys, "argv", ["train.py", "--scale", "0.5"])
    assert found(train, trials=1, name="given").best.score == 0.5


def test_tuples_of_a_choice_stay_tuples():
    space = {"x": tune.choice([(1, 2), (3, 4)]), "y": tune.choice(["a", {1: 2}, np.array([1, 2])])}
    study = found(lambda config: config["x"].index(config["x"][0]) + isinstance(config["y"], np.ndarray), space=space)
    assert (study.best.score, type(study.best.config["x"]), study.best.config["y"]) == (1, tuple, [1, 2])
