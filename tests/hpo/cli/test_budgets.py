"""Budgets and the rule of the winner on the command line: given, reported, changed."""

import json
from pathlib import Path

import pytest

from tests.hpo.cli.commands import hpo, refused, searched
from tests.studies import dispatch_section, rows, toy_config


def tree(strategy="evolutionary", objective="toys:score", dispatch=None, **study):
    made = toy_config(strategy, trials=12, objective=objective)
    made["study"] |= study
    made["report"] |= {"figures": False}
    return made | ({"dispatch": dispatch} if dispatch else {})


def report():
    return json.loads(Path("runs/toy/report.json").read_text())


def test_the_first_budget_that_is_reached_is_named(capsys):
    searched(capsys, tree(stop_without_gain=3, trials=200, minutes=60.0))
    found = report()
    assert found["counts"]["ended_by"] == "stop_without_gain"
    assert found["study"]["budget"]["stop_without_gain"] == 3
    assert "ended by study.stop_without_gain" in Path("runs/toy/report.md").read_text()
    before = rows(Path("runs/toy/trials.csv"))
    assert 3 < len(before) < 30
    code, out, _ = hpo(capsys, "resume", "toy", "study.stop_without_gain=null", "study.trials=30")
    assert (code, "30 trials" in out, rows(Path("runs/toy/trials.csv"))[: len(before)]) == (0, True, before)


def test_a_target_ends_it_and_the_report_says_that_its_score_is_too_good(capsys):
    searched(capsys, tree("random", target=-2.0, trials=20, repeats=2))
    found, text = report(), Path("runs/toy/report.md").read_text()
    assert (found["counts"]["ended_by"], found["study"]["budget"]["target"]) == ("target", -2.0)
    assert found["counts"]["proposed"] < 20
    assert "a score has reached study.target=-2" in text
    assert "too optimistic: the winner's expected score is" in text


def test_minutes_are_those_of_the_simulated_workers(capsys):
    simulated = dispatch_section("simulated", workers=2).model_dump()
    code = "def score(task):\n    return {'score': task['config']['toy']['lr'], 'seconds': 60.0}\n"
    Path("slow_minutes.py").write_text(code)
    searched(capsys, tree("random", "slow_minutes:score", simulated, minutes=3.5, trials=50))
    assert len(rows(Path("runs/toy/trials.csv"))) == 8
    assert "4 minutes" in refused(capsys, "resume", "toy", "study.minutes=2")
    code, out, _ = hpo(capsys, "resume", "toy", "study.minutes=6")
    assert (code, "study toy: ended by study.minutes\n12 of 50 trials, 0 failed\n" in out) == (0, True), out


@pytest.mark.slow
def test_the_cheapest_within_one_standard_error_wins_if_configured(capsys):
    """The cost is the width; the scores of all are the same up to noise."""
    Path("noisy.py").write_text(
        "def score(task):\n    return {'score': task['seed'] % 1000 / 1e3}\n"
        "def describe_cost(config):\n    return float(config['toy']['width'])\n"
    )
    searched(capsys, tree("random", "noisy:score", repeats=4, winner="one_standard_error"))
    found, best = report(), max(rows(Path("runs/toy/trials.csv")), key=lambda row: float(row["score"]))
    assert found["chosen_by"].startswith("the lowest cost among the trials within one standard error")
    assert found["winner"]["point"]["toy.width"] < int(best["toy.width"])
