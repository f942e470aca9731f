"""The numbers of report.json, computed again by hand: from trials.csv with pandas, from the inputs, from the record."""

import json
import math
import statistics
from pathlib import Path

import numpy as np
import optuna


def of_trials(trials):
    complete, failed = trials[trials.state == "complete"], trials[trials.state == "failed"]
    assert len(failed) > 0
    reasons = failed.error.str.replace(r"^fold [\d, ]+: ", "", regex=True).value_counts()
    top = complete.sort_values(["score", "number"], ascending=[False, True]).head(5)
    keys = [column for column in trials if column.startswith("toy.") and trials[column].dtype.kind in "if"]
    sizes = trials.num_parameters.dropna().sort_values().tolist()
    return {
        **{"counts.budget": 26, "counts.tasks_per_trial": sum(column.startswith("fold_") for column in trials)},
        **{"counts.proposed": len(trials), "counts.complete": len(complete), "counts.failed": len(failed)},
        **dict.fromkeys(("counts.stopped", "counts.tasks_saved", "counts.running", "imported"), 0),
        **{f"counts.failures.{reason}": count for reason, count in reasons.items()},
        **{"num_parameters.smallest": sizes[0], "num_parameters.largest": sizes[-1]},
        "num_parameters.median": sizes[(len(sizes) - 1) // 2],
        **{f"top[{k}].{name}": value for name in ("number", "score") for k, value in enumerate(top[name])},
        **{f"top[{k}].point.{key}": value for key in keys for k, value in enumerate(top[key])},
        **{"baselines.default.score": trials.score[0], "baselines.default.number": 0},
        **{f"baselines.default.values.{name}": trials[name][0] for name in trials if name.startswith("fold_")},
        "baselines.random.this_study": True,
    }


def of_winner(trials, number):
    row = trials[trials.number == number].iloc[0]
    values = [row[column] for column in trials if column.startswith("fold_")]
    point = {key: row[key] for key in trials if key.startswith("toy.") and not isinstance(row[key], str)}
    assert row["toy.layers"] not in (1, 5), "choose another seed, with which the winner is not at an end"
    ends = [row["toy.width"]] if row["toy.width"] in (8, 64) else []
    return {
        **dict.fromkeys(("winner.number", "winner.run.trial", "curves.trial"), number),
        **{f"winner.point.{key}": value for key, value in point.items()},
        **{f"winner.values.fold_{k}": value for k, value in enumerate(values)},
        **{"winner.score": statistics.fmean(values), "winner.standard_deviation": statistics.stdev(values)},
        **{"winner.round": row["round"], "winner.num_parameters": row.num_parameters, "winner.n": len(values)},
        **{f"at_the_end[{k}].value": value for k, value in enumerate(ends)},
    }


def of_best_so_far(trials):
    complete = trials[trials.state == "complete"]
    steps = {}
    for name, ordered in (("trials", complete), ("seconds", complete.sort_values(["ended", "number"]))):
        improved = ordered[ordered.score > ordered.score.cummax().shift(fill_value=-math.inf)]
        for k, row in enumerate(improved.itertuples()):
            steps |= {f"best_so_far.{name}[{k}].trial": row.number, f"best_so_far.{name}[{k}].score": row.score}
            steps |= {f"best_so_far.{name}[{k}].seconds": row.ended} if name == "seconds" else {}
    return steps


def recorded(folder):
    return optuna.load_study(study_name=None, storage=f"sqlite:///{folder / 'study.db'}")


def of_cost(trials, folder):
    study = recorded(folder)
    fresh = [note for key, note in study.user_attrs.items() if key.startswith("finalist_")]
    wall = max(note["started"] + note["seconds"] for note in fresh) - study.trials[0].user_attrs["fold_0"]["started"]
    total = trials.seconds.sum() + sum(note["seconds"] for note in fresh)
    cost = {"training_seconds": total, "wall_seconds": wall, "workers_seen": 1, "device_hours": total / 3600}
    cost |= {"seconds_per_trial_mean": trials.seconds.mean(), "seconds_per_trial_median": trials.seconds.median()}
    cost |= dict.fromkeys(("idle_share", "overhead_share"), 1 - total / wall)
    return {f"cost.{name}": value for name, value in cost.items()}


def of_record(folder, number):
    """What trials.csv does not hold, read from the record by Optuna itself."""
    study = recorded(folder)
    curves = {f"fold_{k}": study.trials[number].user_attrs[f"fold_{k}"]["curve"] for k in range(3)}
    points = [(f"{task}[{k}]", point) for task, curve in curves.items() for k, point in enumerate(curve)]
    found = {f"curves.tasks.{place}.{name}": value for place, point in points for name, value in point.items()}
    outcomes = [[trial.user_attrs[f"fold_{k}"] for k in range(3)] for trial in study.trials]
    units = [sum(outcome["units"] for outcome in each) for each in outcomes]
    costs = np.log([trial.user_attrs["cost"] * done for trial, done in zip(study.trials, units, strict=True)])
    seconds = np.log([sum(outcome["seconds"] for outcome in each) for each in outcomes])
    sigma = np.std(seconds - costs, ddof=1)
    prediction = {"sigma": sigma, "factor": np.exp(sigma), "correlation": np.corrcoef(costs, seconds)[0, 1]}
    return found | {f"cost.prediction.{name}": value for name, value in prediction.items()}


def of_test(folder, chosen_by):
    test = json.loads((Path(folder) / "test.json").read_text())
    winner, default = test["metrics"]["score"], test["default"]["metrics"]["score"]
    against = {"default": default, "winner": winner, "gain": winner - default}
    found = {f"overtuning.default_on_test.{name}": value for name, value in against.items()}
    return found | {"overtuning.gap": chosen_by - winner}


def area(points, reference=1.1):
    """The area that points of two losses dominate, by strips from the left."""
    total, height = 0.0, reference
    for x, y in sorted(points):
        if y < height:
            total += (reference - x) * (height - y)
            height = y
    return total
