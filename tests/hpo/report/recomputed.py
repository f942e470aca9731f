"""The numbers of report.json, computed again by hand: from trials.csv with pandas, from the inputs, from the record."""

import json
import math
import statistics
from fractions import Fraction
from pathlib import Path

import numpy as np
import optuna


def of_trials(trials):
    complete, failed = trials[trials.state == "complete"], trials[trials.state == "failed"]
    assert len(failed) > 0
    reasons = failed.error.str.replace(r"^fold [\d, ]+: ", "", regex=True).value_counts()
    top = complete.sort_values(["score", "number"], ascending=[False, True]).head(5)
    keys = [column for column in trials if column.startswith("toy.")]
    sizes = trials.num_parameters.dropna().sort_values().tolist()
    return {
        "counts.budget": 26,
        "counts.tasks_per_trial": sum(column.startswith("fold_") for column in trials),
        "counts.proposed": len(trials),
        "counts.complete": len(complete),
        "counts.failed": len(failed),
        "counts.stopped": 0,
        "counts.tasks_saved": 0,
        "counts.running": 0,
        **{f"counts.failures.{reason}": count for reason, count in reasons.items()},
        "imported": 0,
        "num_parameters.smallest": sizes[0],
        "num_parameters.median": sizes[(len(sizes) - 1) // 2],
        "num_parameters.largest": sizes[-1],
        **{
            f"top[{k}].{name}": getattr(row, name)
            for k, row in enumerate(top.itertuples())
            for name in ("number", "score")
        },
        **{
            f"top[{k}].point.{key}": value
            for k, row in enumerate(top[keys].to_dict("records"))
            for key, value in row.items()
            if not isinstance(value, str)
        },
        "baselines.default.number": 0,
        "baselines.default.score": trials.score[0],
        **{f"baselines.default.values.{name}": trials[name][0] for name in trials if name.startswith("fold_")},
        "baselines.random.this_study": True,
    }


def of_winner(trials, number):
    row = trials[trials.number == number].iloc[0]
    values = [row[column] for column in trials if column.startswith("fold_")]
    mean, deviation, n = of_values(values)
    keys = [column for column in trials if column.startswith("toy.")]
    point = {key: row[key] for key in keys if not isinstance(row[key], str)}
    layers = int(row["toy.layers"])
    assert layers not in (1, 5), "another seed, please: the winner would lie at an end"
    ends = [key for key, bounds in {"toy.width": (8, 64)}.items() if row[key] in bounds]
    return {
        "winner.number": number,
        "winner.run.trial": number,
        "curves.trial": number,
        "winner.round": row["round"],
        **{f"winner.point.{key}": value for key, value in point.items()},
        **{f"winner.values.fold_{k}": value for k, value in enumerate(values)},
        "winner.score": mean,
        "winner.n": n,
        "winner.standard_deviation": deviation,
        "winner.num_parameters": row.num_parameters,
        **{f"at_the_end[{k}].value": row[key] for k, key in enumerate(ends)},
    }


def of_values(values):
    """Mean, standard deviation and number."""
    return statistics.fmean(values), statistics.stdev(values), len(values)


def of_best_so_far(trials):
    complete = trials[trials.state == "complete"]
    steps = {}
    for name, ordered in (("trials", complete), ("seconds", complete.sort_values(["ended", "number"]))):
        improved = ordered[ordered.score > ordered.score.cummax().shift(fill_value=-math.inf)]
        for k, row in enumerate(improved.itertuples()):
            steps |= {f"best_so_far.{name}[{k}].trial": row.number, f"best_so_far.{name}[{k}].score": row.score}
            if name == "seconds":
                steps[f"best_so_far.{name}[{k}].seconds"] = row.ended
    return steps


def of_expected(trials):
    """Both estimators in exact fractions, as the papers write them."""
    scores = sorted(Fraction(score) for score in trials.score.dropna())
    size, steps = len(scores), {}
    for k, n in enumerate(range(1, size // 2 + 1)):
        biased = [Fraction(i, size) ** n - Fraction(i - 1, size) ** n for i in range(1, size + 1)]
        unbiased = [Fraction(math.comb(i - 1, n - 1), math.comb(size, n)) for i in range(1, size + 1)]
        for name, weights in (("biased", biased), ("unbiased", unbiased)):
            mean = sum(w * v for w, v in zip(weights, scores, strict=True))
            variance = sum(w * (v - mean) ** 2 for w, v in zip(weights, scores, strict=True))
            steps |= {
                f"expected_performance.{name}.budgets[{k}]": n,
                f"expected_performance.{name}.means[{k}]": float(mean),
                f"expected_performance.{name}.spreads[{k}]": math.sqrt(variance),
            }
    return steps


def of_cost(trials):
    wall = trials.ended.max() - trials.started.min()
    idle = 1 - trials.seconds.sum() / wall
    return {
        "cost.training_seconds": trials.seconds.sum(),
        "cost.seconds_per_trial_mean": trials.seconds.mean(),
        "cost.seconds_per_trial_median": trials.seconds.median(),
        "cost.wall_seconds": wall,
        "cost.workers_seen": 1,
        "cost.device_hours": trials.seconds.sum() / 3600,
        # One worker: whenever it was idle, none was at work.
        "cost.idle_share": idle,
        "cost.overhead_share": idle,
    }


def of_data():
    """Ninety examples in three classes, by hand: nine to test, and of the others a third to each fold."""
    data = {"data.size": 90, "data.split.seed": 0, "data.split.duplicates.test in development": 0}
    data["data.split.is_test_within_reach"] = True
    for part, size in (("development", 81), ("test", 9)):
        data |= {f"data.split.parts.{part}.size": size, f"data.split.parts.{part}.fraction": size / 90}
        data |= {f"data.split.parts.{part}.labels.{label}": size // 3 for label in range(3)}
    for fold in range(3):
        data |= {f"data.split.folds[{fold}].train": 54, f"data.split.folds[{fold}].validation": 27}
    return data


def of_record(folder, number):
    """What trials.csv does not hold, read from the record by Optuna itself."""
    study = optuna.load_study(study_name=None, storage=f"sqlite:///{folder / 'study.db'}")
    trial = study.trials[number]
    curves = {f"fold_{k}": trial.user_attrs[f"fold_{k}"]["curve"] for k in range(3)}
    found = {
        f"curves.tasks.{task}[{k}].{name}": value
        for task, curve in curves.items()
        for k, point in enumerate(curve)
        for name, value in point.items()
    }
    complete = [t for t in study.trials if t.value is not None]
    evaluator = optuna.importance.PedAnovaImportanceEvaluator(target_quantile=max(0.1, 5 / len(complete)))
    shares = optuna.importance.get_param_importances(study, evaluator=evaluator, normalize=True)
    found |= {f"importance.values.{key}": share for key, share in shares.items()}
    return found | of_prediction(study) | of_finalists(study, number)


def of_prediction(study):
    """Costs and seconds by NumPy, summed over the folds of each trial."""
    outcomes = [
        [t.user_attrs[name] for name in t.user_attrs if name.startswith("fold_") and not name.endswith("_host")]
        for t in study.trials
    ]
    costs = [t.user_attrs["cost"] * sum(o["units"] for o in own) for t, own in zip(study.trials, outcomes, strict=True)]
    costs, seconds = np.log(costs), np.log([sum(o["seconds"] for o in own) for own in outcomes])
    sigma = np.std(seconds - costs, ddof=1)
    correlation = np.corrcoef(costs, seconds)[0, 1]
    return {
        f"cost.prediction.{k}": v
        for k, v in zip(("sigma", "factor", "correlation"), (sigma, np.exp(sigma), correlation), strict=True)
    }


def of_finalists(study, number):
    """The two best of the search on fresh seeds: the mean and spread of what was noted of each, and of the winner."""
    noted = {key: kept for key, kept in study.user_attrs.items() if key.startswith("finalist_")}
    best = sorted((t for t in study.trials if t.value is not None), key=lambda t: (-t.value, t.number))[:2]
    found = {}
    for k, trial in enumerate(best):
        own = {
            int(key.rpartition("_")[2]): v for key, v in noted.items() if key.startswith(f"finalist_{trial.number}_")
        }
        fresh = [own[repeat]["metrics"]["score"] for repeat in sorted(own)]
        found |= {
            f"finalists[{k}].number": trial.number,
            f"finalists[{k}].search_score": trial.value,
            f"finalists[{k}].fresh_score": statistics.fmean(fresh),
            f"finalists[{k}].fresh_standard_deviation": statistics.stdev(fresh),
            **{f"finalists[{k}].fresh_values[{j}]": value for j, value in enumerate(fresh)},
        }
        if trial.number == number:
            names = ("score", "standard_deviation", "n")
            found |= {f"winner.fresh.{name}": value for name, value in zip(names, of_values(fresh), strict=True)}
            found |= {f"winner.fresh.values[{j}]": value for j, value in enumerate(fresh)}
    return found


def of_test(folder, chosen_by):
    """The winner and the default on the test part, against the score on fresh seeds that chose the winner."""
    test = json.loads((Path(folder) / "test.json").read_text())
    winner, default = test["metrics"]["score"], test["default"]["metrics"]["score"]
    return {
        "overtuning.gap": chosen_by - winner,
        "overtuning.default_on_test.default": default,
        "overtuning.default_on_test.winner": winner,
        "overtuning.default_on_test.gain": winner - default,
    }


def area(points, reference=1.1):
    """The area that points of two losses dominate, by strips from the left."""
    total, height = 0.0, reference
    for x, y in sorted(points):
        if y < height:
            total += (reference - x) * (height - y)
            height = y
    return total
