"""The winner's configuration, to train it alone."""

from collections.abc import Mapping

from hpo.config.own_keys import plain_own
from hpo.engine.objective.path import ObjectivePath
from hpo.engine.trials.trial import Trial, training_seed
from hpo.study.study import Study


def best_config(study: Study, winner: Trial) -> dict[str, object]:
    """Return the winner's configuration for `hpo train`, which trains it like the winner's first fold."""
    config = study.config
    tree = config.trial_config(winner.point)
    frozen = config.to_dict()["study"]
    section = {name: frozen[name] for name in ("name", "metric", "direction", "score") if name in frozen}
    seed = {"seed": training_seed(config.study.seed, winner.key, 0)}
    if ObjectivePath.of(config.objective).form == "task" and isinstance(tree.get("training", {}), Mapping):
        tree["training"] = {**tree.get("training", {}), **seed}
    else:
        # All of the tree is the user's own.
        section |= seed
    return {
        **plain_own(tree),
        "split": config.split.model_dump() | {"folds": study.num_folds},
        "objective": config.objective,
        "study": section,
        "dispatch": {name: getattr(config.dispatch, name) for name in ("threads", "processes_per_task")},
    }
