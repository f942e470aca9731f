"""Budgets and the rule of the winner, as they are given, told and refused on the command line."""

import json
from pathlib import Path

import pytest
import yaml

from tests.hpo.cli.commands import hpo, refused, searched
from tests.studies import dispatch_section, rows, toy_config


def tree(strategy="evolutionary", objective="tests.toy:score", dispatch=None, **study):
    made = toy_config(strategy, trials=12, objective=objective)
    made["study"] |= study
    return made | ({"dispatch": dispatch} if dispatch else {})


def report():
    return json.loads(Path("runs/toy/report.json").read_text())


@pytest.mark.slow
def test_the_first_budget_that_is_reached_is_named(capsys):
    searched(capsys, tree(stop_without_gain=3, trials=200, minutes=60.0))
    found = report()
    assert found["counts"]["ended_by"] == "stop_without_gain"
    assert found["study"]["budget"]["stop_without_gain"] == 3
    assert "ended by study.stop_without_gain" in Path("runs/toy/report.md").read_text()
    before = rows(Path("runs/toy/trials.csv"))
    assert 3 < len(before) < 200
    code, out, _ = hpo(capsys, "resume", "toy", "study.stop_without_gain=null", "study.trials=60")
    assert (code, "60 trials" in out) == (0, True)
    assert [row["score"] for row in rows(Path("runs/toy/trials.csv"))][: len(before)] == [r["score"] for r in before]


@pytest.mark.slow
def test_a_target_ends_it_and_the_report_says_that_its_score_is_too_good(capsys):
    searched(capsys, tree("random", target=-2.0, trials=40, repeats=2))
    found, text = report(), Path("runs/toy/report.md").read_text()
    assert (found["counts"]["ended_by"], found["study"]["budget"]["target"]) == ("target", -2.0)
    assert found["counts"]["proposed"] < 40
    assert "a score has reached study.target=-2" in text
    assert "too optimistic: the winner's expected score is" in text
    code, out, _ = hpo(capsys, "resume", "toy", "study.target=null")
    assert (code, "40 of 40 trials" in out) == (0, True)


def test_minutes_are_those_of_the_simulated_workers(capsys):
    simulated = dispatch_section("simulated", workers=2).model_dump()
    config = tree("random", "slow_minutes:score", simulated, minutes=3.5, trials=50)
    code = "def score(task):\n    return {'score': task['config']['toy']['lr'], 'seconds': 60.0}\n"
    Path("slow_minutes.py").write_text(code)
    searched(capsys, config)
    assert len(rows(Path("runs/toy/trials.csv"))) == 8
    assert report()["study"]["budget"]["hours"] == "0.0583"
    assert "given 2; the study has already taken 4 minutes" in refused(capsys, "resume", "toy", "study.minutes=2")
    code, out, _ = hpo(capsys, "resume", "toy", "study.minutes=6")
    assert (code, "study toy: ended by study.minutes\n12 of 50 trials, 0 failed\n" in out) == (0, True), out


def test_a_training_beyond_its_limit_has_failed_with_what_it_reached(capsys):
    Path("slow_trials.py").write_text(
        "import time\n\ndef score(task):\n    for step in range(1, 200):\n        time.sleep(0.01)\n"
        "        yield {'epoch': step, 'score': 1.0}\n    return {'score': 1.0}\n"
    )
    config = tree("random", "slow_trials:score", trials=2, trial_minutes=0.001)
    Path("toy.yaml").write_text(yaml.safe_dump(config))
    assert hpo(capsys, "search", "--config", "toy.yaml")[0] == 1
    (first, _) = rows(Path("runs/toy/trials.csv"))
    assert (first["state"], "took longer than study.trial_minutes=0.001" in first["error"]) == ("failed", True)
    assert 3 < float(first["cost"]) < 100
    assert "study.trial_minutes was 0.001 and is now 1" in refused(capsys, "resume", "toy", "study.trial_minutes=1")


@pytest.mark.parametrize(
    "given",
    [
        *("study.minutes=0", "study.minutes=-1", "study.trial_minutes=0", "study.stop_without_gain=0"),
        *("study.winner=cheap", "study.target=high", "study.target={other: 1}", "study.target={}"),
    ],
)
def test_bad_budgets_are_refused(capsys, given):
    assert given.partition("=")[0] in refused(capsys, "search", given, "dispatch=local", is_silent=True)


@pytest.mark.slow
def test_the_cheapest_within_one_standard_error_wins_if_asked_and_the_caution_names_it(capsys):
    """The cost is the width; the scores of all are the same up to noise."""
    Path("noisy.py").write_text(
        "def score(task):\n    return {'score': task['seed'] % 1000 / 1e3}\n"
        "def describe_cost(config):\n    return float(config['toy']['width'])\n"
    )
    searched(capsys, tree("random", "noisy:score", repeats=4))
    best = report()
    assert best["chosen_by"].startswith("the best mean score")
    (caution,) = (text for text in best["cautions"] if "one standard error" in text)
    code, out, err = hpo(
        capsys, "search", "--config", "toy.yaml", "study.name=again", "study.winner=one_standard_error"
    )
    assert code == 0, out + err
    found = json.loads(Path("runs/again/report.json").read_text())
    assert found["chosen_by"].startswith("the lowest cost among the trials within one standard error")
    assert caution.endswith(f"; study.winner=one_standard_error takes {found['winner']['number']}")
    assert found["winner"]["point"]["toy.width"] < best["winner"]["point"]["toy.width"]
    assert not any("study.winner=one_standard_error takes" in text for text in found["cautions"])
