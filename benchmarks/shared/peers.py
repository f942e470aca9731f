"""Samplers of Optuna's that search a table's rows, on simulated workers or one trial after the other."""

import contextlib
import itertools
import warnings
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from benchmarks.shared.tables import Ranks
from benchmarks.shared.workers import Enough, Workers
from hpo.trials.space.space import point_key
from hpo.trials.trial import Trial

# Asks in a row without a new point before a peer is given a new row. Fewer for the Gaussian process, whose time per ask
# grows with every repeated point that it is told.
PATIENCE = 20
GP_PATIENCE = 5


def distributions(values: Mapping[str, tuple[Any, ...]], unordered: Collection[str]) -> dict[str, Any]:
    """Return Optuna's space of a table, by the ranks of its values."""
    import optuna

    return {
        key: optuna.distributions.CategoricalDistribution(range(len(each)))
        if key in unordered
        else optuna.distributions.IntDistribution(0, len(each) - 1)
        for key, each in values.items()
    }


def one_by_one(
    sampler: Any,
    patience: int,
    values: Mapping[str, tuple[Any, ...]],
    unordered: Collection[str],
    losses: Mapping[Ranks, tuple[float, ...]],
    seed: int,
    trials: int,
    num_metrics: int = 1,
    limit: float | None = None,
    optimum: tuple[float, ...] | None = None,
) -> list[tuple[float, ...]]:
    """Return the losses of a sequential search of a table's rows by so many of the metrics, up to the optimum.

    `limit` is that of the last metric. A repeated or absent point is not counted; after `patience` of them in a row the
    sampler is told an untried row.
    """
    import optuna
    import torch

    torch.set_num_threads(1)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")  # Experimental samplers, categories that CMA-ES draws at random.
    space = distributions(values, unordered)
    study = optuna.create_study(directions=["minimize"] * num_metrics, sampler=sampler)
    rng = np.random.default_rng(seed)
    found: dict[Ranks, tuple[float, ...]] = {}
    uncounted = 0
    while len(found) < trials and optimum not in found.values():
        if uncounted == patience:
            untried = [ranks for ranks in losses if ranks not in found]
            ranks = untried[int(rng.integers(len(untried)))]
            point = dict(zip(space, ranks, strict=True))
            over = {} if limit is None else {"limit": losses[ranks][-1] - limit}
            made = optuna.trial.create_trial(
                params=point, distributions=space, values=list(losses[ranks][:num_metrics]), constraints=over
            )
            study.add_trial(made)
        else:
            trial = study.ask(space)
            ranks = tuple(int(trial.params[key]) for key in space)
            worst = np.max(list(found.values()), axis=0).tolist() if found else None
            known = losses.get(ranks, worst)
            if known is not None and limit is not None:
                trial.set_constraint("limit", known[-1] - limit)
            known = known and list(known[:num_metrics])
            study.tell(trial, known, state=optuna.trial.TrialState.FAIL if known is None else None)
        is_new = ranks in losses and ranks not in found
        uncounted = 0 if is_new else uncounted + 1
        if is_new:
            found[ranks] = losses[ranks]
    return list(found.values())


def with_optuna(
    sampler: Any,
    patience: int,
    values: Mapping[str, tuple[Any, ...]],
    unordered: Collection[str],
    losses: Mapping[Ranks, tuple[float, ...]],
    workers: Workers,
    seed: int,
) -> None:
    """Let a sampler search a table's rows until the workers have enough: one that is free gets the next new row.

    The sampler is told of a training when it ends; trainings that run are running trials to it. A proposal that is
    absent or a repeat takes no time; after `patience` of them in a row the worker gets an untried row.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(seed)
    space = distributions(values, unordered)
    objectives = len(next(iter(losses.values())))
    study = optuna.create_study(directions=["minimize"] * objectives, sampler=sampler)
    running: dict[int, tuple[optuna.Trial, Ranks]] = {}
    tried: dict[Ranks, tuple[float, ...] | None] = {}

    def ranks_of(trial: optuna.Trial) -> Ranks:
        return tuple(int(trial.params[key]) for key in space)

    def next_row() -> optuna.Trial | None:
        for _ in range(patience if len(tried) < len(losses) else 0):
            trial = study.ask(space)
            ranks = ranks_of(trial)
            if ranks in losses and ranks not in tried:
                return trial
            ended = [each for each in tried.values() if each is not None]
            known = tried.get(ranks) or (np.max(ended, axis=0).tolist() if ended else None)
            study.tell(trial, known, state=optuna.trial.TrialState.FAIL if known is None else None)
        untried = [ranks for ranks in losses if ranks not in tried]
        if not untried:
            return None
        study.enqueue_trial(dict(zip(space, untried[int(rng.integers(len(untried)))], strict=True)))
        return study.ask(space)

    with contextlib.suppress(Enough):
        for number in itertools.count():
            trial = next_row()
            if trial is not None:
                ranks = ranks_of(trial)
                tried[ranks] = None
                running[number] = trial, ranks
                point = {key: each[rank] for (key, each), rank in zip(values.items(), ranks, strict=True)}
                workers.submit(workers.tasks_of(Trial(number, number, point, key=point_key(point)))[0])
            elif not running:
                break
            while len(running) == workers.slots or (trial is None and running):
                for report in workers.wait():
                    ended, ranks = running.pop(report.task.trial)
                    tried[ranks] = losses[ranks]
                    study.tell(ended, losses[ranks])
