"""Every number of report.json comes out again from trials.csv, from the inputs, or from the record, by other means."""

import csv
import hashlib
import json
import subprocess
import sys
from fractions import Fraction
from itertools import combinations, product
from math import comb

import numpy as np
import pytest
import yaml
from pydantic import TypeAdapter

from hpo.report.sections.curves import describe_expected, expected_performance, unbiased_weights
from hpo.report.sections.report import ReportJson, report_schema
from hpo.report.write import write_report
from hpo.session.session import run_study
from hpo.study.opening import open_study
from hpo.study.results.run import StudyRun
from hpo.study.winner.scoring import open_test
from hpo.workers.dispatch.local import LocalDispatcher
from tests.hpo.report import recomputed as again
from tests.hpo.report.made_up import TOY_SPACE
from tests.studies import REPOSITORY, STRATEGIES, environment, prepared, run_toy, toy_config

SPACE = TOY_SPACE | {"first": ["default"]}
# What is not computed: copied from the inputs, and compared with them below.
COPIED = ("study.seed", "study.budget.", "study.code.", "environment.", "fixed.", "strategy.", "space[", "first[")
COPIED += ("format", "test.", "config.")
# test_importance.py compares contributions and shares with their definition, the tests below curves of the best,
# tests/hpo/study/test_expected.py what is expected with the truth; the split is that of workers/test_splits.py, and
# fresh scores are those of test_finalists.py and test_front.py.
ELSEWHERE = ("importance.", "winner.expected.", "baselines.default.gain.", "expected_performance.", "data.")
ELSEWHERE += ("finalists[", "winner.fresh.")


def leaves(value, path=""):
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from leaves(item, f"{path}[{place}]")
    elif isinstance(value, int | float):
        yield path, value


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    tree = toy_config("random", SPACE, trials=26, objective="toy_data:paced")
    path = tmp_path_factory.mktemp("runs") / "toy"
    tree |= {"split": tree["split"] | {"folds": 3}, "study": tree["study"] | {"finalists": 2, "seed": 1}}
    study = prepared(path, tree)
    record = open_study(study)
    run_study(study, record, LocalDispatcher(str(REPOSITORY)), None)
    open_test(study, StudyRun.of(study, record), again=False)
    write_report(study, StudyRun.of(study, record))
    record.close()
    return path


def test_the_schema_in_the_documents_is_the_one_that_is_kept():
    documented = json.loads((REPOSITORY / "docs" / "reference" / "report.schema.json").read_text())
    assert documented == report_schema(), "write it again: hpo report --schema > docs/reference/report.schema.json"


@pytest.mark.slow
def test_every_number_is_recomputed(folder, report, trials):
    winner, fresh = report["winner"]["number"], report["winner"]["fresh"]["score"]
    recomputed = again.of_trials(trials) | again.of_winner(trials, winner) | again.of_best_so_far(trials)
    recomputed |= again.of_cost(trials, folder) | again.of_record(folder, winner) | again.of_test(folder, fresh)
    recomputed |= {f"fields[{place}].number": place + 1 for place in range(25)}
    TypeAdapter(ReportJson).validate_python(report)
    found = {path: value for path, value in leaves(report) if not path.startswith((*COPIED, *ELSEWHERE))}
    assert found.keys() == recomputed.keys()
    # trials.csv rounds times to milliseconds.
    timed = ("cost.", "best_so_far.seconds[")
    for path, value in found.items():
        tolerance = {"abs": 5e-3, "rel": 0.05} if path.startswith(timed) else {"rel": 1e-12, "abs": 1e-12}
        assert value == pytest.approx(recomputed[path], **tolerance), path


@pytest.mark.slow
def test_what_is_copied_is_what_was_given(folder, report):
    config = yaml.safe_load((folder / "config.yaml").read_text())
    assert report["config"] == config
    assert report["study"]["seed"] == config["study"]["seed"]
    assert report["study"]["budget"] == {"trials": 26, "repeats": 1, "hours": "not limited"}
    for key, value in json.loads((folder / "environment.json").read_text()).items():
        assert key == "format" or report["environment"][key] == value or not value
    assert report["strategy"].items() >= config["strategy"].items()
    point = {f"toy.{key}": config["toy"][key] for key in config["space"]["toy"]}
    assert ([d["key"] for d in report["space"]], report["first"]) == ([*point], [point])
    assert report["fixed"] == {f"toy.{key}": config["toy"][key] for key in ("momentum", "always")}
    assert report["test"] == json.loads((folder / "test.json").read_text())
    for name, digest in report["files"].items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    assert {"trials.csv", "config.yaml", "environment.json"} <= report["files"].keys()


@pytest.mark.slow
def test_another_process_with_other_hashes_writes_the_same_report_on_another_day(folder):
    names = ("report.json", "report.md", "report.html", "trials.csv", "best.yaml")
    before = {name: (folder / name).read_bytes() for name in names}
    code = f"""
import time, yaml
from pathlib import Path
from tests.studies import report_again
folder = Path({str(folder)!r})
time.time = lambda: 2e9
report_again(folder, yaml.safe_load((folder / "config.yaml").read_text()))
"""
    subprocess.run([sys.executable, "-c", code], check=True, env=environment() | {"PYTHONHASHSEED": "1"})
    assert {name: (folder / name).read_bytes() for name in names} == before


def test_what_was_trained_for_less_does_not_compete_for_the_best_so_far(tmp_path):
    tree = toy_config(STRATEGIES["successive_halving"] | {"counts": "trials"}, trials=7)
    run_toy(tmp_path / "halved", tree | {"objective": "toys:continued"})
    report = json.loads((tmp_path / "halved" / "report.json").read_text())
    winner = report["winner"]
    assert report["best_so_far"]["trials"][-1] == {"trial": winner["number"], "score": winner["score"]}
    assert winner["amount"] == 4
    # A trial that was trained further after the search is one trial.
    with (tmp_path / "halved" / "trials.csv").open() as file:
        seconds = [float(row["seconds"]) for row in csv.DictReader(file)]
    given = [report["cost"][f"seconds_per_trial_{name}"] for name in ("mean", "median")]
    assert given == pytest.approx([np.mean(seconds), np.median(seconds)], abs=6e-4)


SCORES = [0.3, 0.9, 0.1, 0.7, 0.5, 0.55, 0.2, 0.8]


@pytest.mark.parametrize(
    ("estimator", "samples"),
    [("biased", lambda n: product(SCORES, repeat=n)), ("unbiased", lambda n: combinations(SCORES, n))],
)
def test_it_is_the_mean_of_the_best_over_all_samples(estimator, samples):
    curve = expected_performance(SCORES, "maximize", estimator)
    assert curve["budgets"] == [1, 2, 3, 4]
    for n, mean, spread in zip(curve["budgets"], curve["means"], curve["spreads"], strict=True):
        best = [max(sample) for sample in samples(n)]
        assert mean == pytest.approx(np.mean(best))
        assert spread == pytest.approx(np.std(best))
    mirrored = expected_performance([-score for score in SCORES], "minimize", estimator)
    assert mirrored["means"] == pytest.approx([-mean for mean in curve["means"]])


@pytest.mark.parametrize("n", [1, 7, 500, 5000])
def test_ten_thousand_trials_are_no_trouble(n):
    weights = unbiased_weights(10_000, n)
    assert weights.sum() == pytest.approx(1.0, rel=1e-10)
    for i in (n, (n + 10_000) // 2, 10_000):
        exact = Fraction(comb(i - 1, n - 1), comb(10_000, n))
        assert weights[i - 1] == pytest.approx(float(exact), rel=1e-9, abs=1e-300)


def test_it_is_refused_where_draws_are_not_independent():
    for strategy in ("grid", "shifting_window", "evolutionary", "tpe", "hyperband"):
        assert "independent" in describe_expected(strategy, SCORES, "maximize", False)["missing"]
    missing = describe_expected("random", SCORES, "maximize", True)["missing"]
    assert "selected from another study" in missing
    assert "fewer than two" in describe_expected("random", [0.5], "maximize", False)["missing"]
    assert set(describe_expected("random", SCORES, "maximize", False)) == {"biased", "unbiased"}
