"""Shifting-window search inside an Optuna study: `python examples/optuna_study.py`."""

import optuna

from hpo.integrations.defaults import default_strategy
from hpo.integrations.optuna import as_sampler

SPACE = {
    "lr": {"low": 1e-5, "high": 1.0, "log": True},
    "layers": [1, 2, 3, 4, 5, 6],
    "nonlinearity": {"choices": ["relu", "gelu"]},
}


def objective(trial: optuna.Trial) -> float:
    """Return a made-up loss that is lowest at lr 0.01, four layers and gelu."""
    lr = trial.suggest_float("lr", 1e-5, 1.0, log=True)
    layers = trial.suggest_int("layers", 1, 6)
    nonlinearity = trial.suggest_categorical("nonlinearity", ["relu", "gelu"])
    return abs(lr - 0.01) + (layers - 4) ** 2 + (nonlinearity == "relu")


def main() -> None:
    """Search with 40 trials, two at a time, and print the best."""
    strategy = default_strategy("shifting_window", SPACE, seed=0)
    study = optuna.create_study(sampler=as_sampler(strategy))
    study.optimize(objective, n_trials=40, n_jobs=2)
    print(f"{len(study.trials)} trials, best {study.best_value:.3f} with {study.best_params}")


if __name__ == "__main__":
    main()
