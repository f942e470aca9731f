"""Evolutionary search inside a Ray Tune run, with ASHA stopping poor trials: `python examples/ray_tuner.py`."""

import tempfile
from typing import Any

import ray
from ray import tune
from ray.tune.schedulers import ASHAScheduler

from hpo.integrations.defaults import default_strategy
from hpo.integrations.ray_tune import as_searcher

SPACE = {"model": {"layers": [1, 2, 3, 4, 5, 6]}, "lr": {"low": 1e-4, "high": 1.0, "log": True}}


def train(config: dict[str, Any]) -> None:
    """Report a made-up loss after each of four epochs; it is lowest at lr 0.01 and four layers."""
    for epoch in range(1, 5):
        loss = abs(config["lr"] - 0.01) + (config["model"]["layers"] - 4) ** 2 + config["offset"] / epoch
        tune.report({"loss": loss})


def main() -> None:
    """Search with 8 trials and print the best."""
    ray.init(address="local", include_dashboard=False)
    strategy = default_strategy("evolutionary", SPACE, seed=0, settings={"population": 4, "surviving": 0.5})
    with tempfile.TemporaryDirectory() as folder:
        tuner = tune.Tuner(
            train,
            param_space={"offset": 1.0},
            tune_config=tune.TuneConfig(
                search_alg=as_searcher(strategy, metric="loss", mode="min"),
                scheduler=ASHAScheduler(max_t=4),
                metric="loss",
                mode="min",
                num_samples=8,
            ),
            run_config=tune.RunConfig(storage_path=folder, verbose=0),
        )
        best = tuner.fit().get_best_result()
    print(f"best loss {best.metrics['loss']:.3f} with {best.config}")


if __name__ == "__main__":
    main()
