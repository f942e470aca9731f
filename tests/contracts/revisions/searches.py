"""Simulated searches of every strategy, through all that decides a trial but real workers."""

import dataclasses
import functools
import hashlib
import json
import tempfile
from pathlib import Path

from hpo.config.study_config import config_from_dict
from hpo.engine.loop import search
from hpo.engine.strategies import make_strategy
from hpo.study.notes import Notes
from hpo.study.preparing.preparation import prepare_study
from hpo.study.results.run import StudyRun
from hpo.study.study import StudyFolder
from hpo.trials.record.record import memory_record
from hpo.workers.dispatch.simulated import SimulatedDispatcher
from tests.contracts.revisions.worlds import Scripted
from tests.studies import REPOSITORY, SPACES, STRATEGIES, searched_by, toy_config

BLOCK, LIBRARYS = 50, {"tpe": ("optuna",), "gp": ("optuna", "torch", "scipy"), "cma_es": ("optuna", "cmaes")}
"""Strategies that a library makes, with the libraries."""

OBJECTIVE, SCRIPTED = "tests.contracts.revisions.worlds", {"name": "scripted"}
_EXACT = ("number", "round", "amount", "continues", "trained", "state", "score", "excess", "cost")
_FRONT, _LIMITS = {"metrics": {"score": "maximize", "size": "minimize"}}, {"limits": {"latency": 8.0}}
_ACTS = {"nonlinearity": {"choices": ["relu", "gelu", "tanh"]}}
_NUMBERS = {"layers": {"values": [1, 2, 3, 4, 5, 6, 7, 8]}, "width": {"values": [4, 8, 16, 32, 64]}}
_LARGE = {"toy": {**_NUMBERS, **_ACTS, "always": {"low": 1, "high": 5, "points": 5}}}
_WIDE = {"toy": {**SPACES["continuous"]["toy"], **_ACTS}}
_FIRST = {"first": [{"toy.layers": 2, "toy.width": 8, "toy.nonlinearity": "tanh", "toy.always": 2}]}
_BOUNDED = {"require": ["toy.layers * toy.width <= 128"]}


def case(strategy="random", space=None, trials=100, folds=1, function=None, split=None, dispatch=None, **study):
    name, tree = strategy if isinstance(strategy, str) else "own", space or _LARGE
    is_whole = "low" not in json.dumps(tree) or tree is _LARGE
    function = function or ("seeded" if is_whole else "smooth")
    config = toy_config(strategy, searched_by(name, tree), trials, f"{OBJECTIVE}:{function}")
    config["study"] |= {"lanes": 4, **study}
    config["split"] = config["split"] | {"folds": folds, **(split or {})}
    return config


@functools.cache
def by_strategy():
    found = {}
    for name, settings in STRATEGIES.items():
        trials, is_ladder = 20 if name == "gp" else 100, name.startswith("ladder")
        cases = {"finite": case(name, trials=trials)}
        if name != "grid" and not is_ladder:
            cases["fractions"] = case(name, _WIDE, trials)
        if name != "gp":
            cases["conditions"] = case(name, SPACES["conditional"], trials)
        if not is_ladder and name != "cma_es":
            cases["limits"] = case(name, trials=trials if name == "gp" else trials // 2, **_LIMITS)
            cases |= {} if name == "gp" else {"a front": case(name, trials=trials // 2, **_FRONT)}
        found.setdefault(settings["name"], {}).update({f"{name}, {each}": tree for each, tree in cases.items()})
    for each, setting in (("progressive", {"rungs": "progressive"}), ("counted by trials", {"counts": "trials"})):
        found["asha"][f"asha, {each}"] = case("asha") | {"strategy": STRATEGIES["asha"] | setting}
    return found


@functools.cache
def of_the_search():
    amounts = SCRIPTED | {"amounts": True}
    scales, wide = {"scales": [{"toy.momentum": size} for size in (0.1, 0.2, 0.3)]}, case("grid")
    return {
        "a hold-out": case(SCRIPTED),
        "one lane": case(SCRIPTED, lanes=1, trials=60),
        "another seed": case(SCRIPTED, seed=5, trials=60),
        "fractions": case(SCRIPTED, _WIDE),
        "conditions": case(SCRIPTED, SPACES["conditional"]),
        "structures": case(SCRIPTED, SPACES["structured"]),
        "first points": case(SCRIPTED, _LARGE | _FIRST, trials=60),
        "constraints": case(SCRIPTED, _LARGE | _BOUNDED, trials=60),
        "folds": case(SCRIPTED, folds=3, trials=60),
        "unstratified folds": case(SCRIPTED, folds=3, trials=60, split={"stratify": False, "seed": 3}),
        "a race of folds": case(SCRIPTED, folds=5, trials=60, split={"race_after": 2}),
        "repeats": case(SCRIPTED, folds=2, repeats=2, trials=60),
        "the median rule": case(SCRIPTED, stop_rule="median"),
        "no gain": case(SCRIPTED, stop_without_gain=30),
        "free order": case(SCRIPTED, order="free", trials=60),
        "amounts": case(amounts),
        "amounts, folds": case(amounts, folds=2, trials=60),
        "a front": case(SCRIPTED, **_FRONT),
        "a front, weighed": case(SCRIPTED, **_FRONT, choose={"score": 0.7, "size": 0.3}),
        "limits": case(SCRIPTED, **_LIMITS),
        "the cheapest": case(SCRIPTED, folds=3, trials=60, winner="one_standard_error"),
        "scales": wide | {
            "space": _LARGE["toy"] and {"toy": {"layers": [1, 2, 3], "width": [8, 16]}},
            "study": wide["study"] | scales,
        },
    }  # fmt: skip


def run(tree):
    with tempfile.TemporaryDirectory() as folder:
        study = dataclasses.replace(_prepared(tree), folder=StudyFolder(Path(folder, "study")))
        record = memory_record(study.goal, study.layout)
        rules = study.rules(Notes(record).imports)
        # In free order what is known depends on measured seconds, unless there is one worker.
        workers = 1 if tree["study"]["order"] == "free" else 3
        trials = search(rules, record, SimulatedDispatcher(workers, str(REPOSITORY)), tree["study"]["trials"])
        return list(trials), StudyRun.of(study, record).winner


def _prepared(tree):
    """Return the study of a tree; one by the tests' own strategy is prepared with another, which that replaces."""
    if tree["strategy"]["name"] != SCRIPTED["name"]:
        return prepare_study(config_from_dict(tree))
    study = prepare_study(config_from_dict(tree | {"strategy": STRATEGIES["random"]}))
    own = make_strategy(tree["strategy"], study.space, tree["study"]["seed"], (Scripted.Settings, Scripted))
    return dataclasses.replace(study, strategy=own)


def rows(trials, winner):
    return [
        {name: getattr(trial, name) for name in _EXACT} | {
            "point": dict(trial.point), "learned": list(trial.learned), "other_losses": list(trial.other_losses),
            "wins": winner is not None and winner.number == trial.number,
            "outcomes": {
                str(index): {"metrics": dict(one.metrics), "curve": [dict(point) for point in one.curve],
                             "units": one.units, "stopped": one.stopped, "error": one.error}
                for index, one in sorted(trial.outcomes.items())
            },
        }
        for trial in trials
    ]  # fmt: skip


def summary(trials):
    """Return of every block of trials a hash of what is exact, and the sums of each fraction by its name."""
    blocks = []
    for start in range(0, len(trials), BLOCK):
        exact, sums = [], {}
        for place, row in enumerate(trials[start : start + BLOCK], start=1):
            exact.append(_split(row, "", place, sums))
        text = json.dumps(exact, sort_keys=True)
        sums = {name: float(f"{total:.10g}") for name, total in sums.items()}
        blocks.append({"exact": hashlib.sha256(text.encode()).hexdigest()[:12], "sums": sums})
    return blocks


def _split(value, name, place, sums):
    if isinstance(value, float):
        sums[name] = sums.get(name, 0.0) + place * value
        return None
    if isinstance(value, dict):
        return {key: _split(each, f"{name}.{key}".strip("."), place, sums) for key, each in value.items()}
    if isinstance(value, list):
        return [_split(each, name, place, sums) for each in value]
    if isinstance(value, str):
        # An error or a reason may write out a fraction.
        return value.partition(":")[0].rstrip("0123456789.e-")
    return value
