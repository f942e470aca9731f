"""Trains an objective of a trainer's integration as a worker does."""

from hpo.workers.objective.plain_function import RunningTrial

TASK = {"trial": 0, "fold": 0, "repeat": 0, "seed": 2**40 + 3, "threads": 1, "data_dir": None, "metric": "loss"}
TASK |= {"train": None, "validation": None, "amount": None, "trained": 0, "checkpoint_dir": None, "resume_dir": None}


def finished(objective, folder, state="state", **task):
    """Return the curve and the result of `objective(trial)`, whose model is kept in `folder / "kept"`."""
    task |= {"checkpoint_dir": str(folder / "kept"), "resume_dir": state and str(folder / state)}
    trial, curve = RunningTrial(TASK | task), []
    running = trial.run(lambda: objective(trial))
    while True:
        try:
            curve.append(next(running))
        except StopIteration as stop:
            return curve, stop.value


def equal(one, other):
    return one.keys() == other.keys() and all(bool((one[name] == other[name]).all()) for name in one)
