"""The winner's configuration, to train it alone."""

from hpo.engine.trials.trial import Trial, training_seed
from hpo.study.study import Study


def best_config(study: Study, winner: Trial) -> dict[str, object]:
    """Return the winner's configuration for `hpo train`, which trains it like the winner's first fold."""
    config = study.config
    tree = config.trial_config(winner.point)
    section = config.to_dict()["study"]
    seed = training_seed(config.study.seed, winner.key, 0)
    return {
        **tree,
        "training": {**tree.get("training", {}), "seed": seed},
        "split": config.split.model_dump() | {"folds": study.num_folds},
        "objective": config.objective,
        "study": {name: section[name] for name in ("name", "metric", "direction", "score") if name in section},
        "dispatch": {name: getattr(config.dispatch, name) for name in ("threads", "processes_per_task")},
    }
