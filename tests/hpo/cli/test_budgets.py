"""Budgets, the rule of the winner, lanes, order and cost on the command line: given, said, changed and refused."""

import json
import sys
from pathlib import Path

import pytest
import yaml

import hpo as toolkit
from hpo.show.terminal import Terminal
from hpo.workers.dispatch.dispatcher import Gpus
from tests.hpo.cli.commands import QUICK, hpo, prints, refused, searched
from tests.studies import dispatch_section, prepared, rows, toy_config

pytestmark = pytest.mark.slow


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
    says = "study toy: ended by study.minutes\n12 of 50 trials, 0 failed\n"
    assert says in prints(capsys, "resume", "toy", "study.minutes=6")


def test_the_cheapest_within_one_standard_error_wins_if_configured(capsys):
    code = "def score(task):\n    return {'score': task['seed'] % 1000 / 1e3}\n"
    code += "def describe_cost(config):\n    return float(config['toy']['width'])\n"
    Path("noisy.py").write_text(code)
    searched(capsys, tree("random", "noisy:score", repeats=4, winner="one_standard_error"))
    found, best = report(), max(rows(Path("runs/toy/trials.csv")), key=lambda row: float(row["score"]))
    assert found["chosen_by"].startswith("the lowest cost among the trials within one standard error")
    assert found["winner"]["point"]["toy.width"] < int(best["toy.width"])


TREE = toy_config("evolutionary", trials=12)


def simulated(workers, **changes):
    dispatch = dispatch_section("simulated", workers=workers).model_dump()
    return TREE | {"study": TREE["study"] | changes, "dispatch": dispatch}


@pytest.mark.parametrize(("workers", "lanes", "words"), [
    (4, 4, "4 lanes, 4 workers (study.lanes=6 in a new study would keep the workers busier)\n"),
    (2, 4, "4 lanes, 2 workers\n"), (1, 1, "1 lane, 1 worker\n"),
    (20, 4, "7 of 20 workers will be idle, because the search has only 13 trainings\n"),
    (8, 4, "4 lanes, 8 workers: 4 workers will be idle; study.lanes=12 in a new study would keep all busy\n"),
])  # fmt: skip
def test_the_terminal_says_how_lanes_and_workers_fit(capsys, tmp_path, workers, lanes, words):
    Terminal().show_workers(prepared(tmp_path, simulated(workers, lanes=lanes, trials=13)), workers, Gpus())
    assert words in capsys.readouterr().out


def test_other_lanes_on_resume_are_refused(capsys):
    searched(capsys, TREE)
    before = rows(Path("runs/toy/trials.csv"))
    assert "study.lanes was 4 and is now 9" in refused(capsys, "resume", "toy", "study.lanes=9", "study.trials=20")
    assert "study.order was 'clock' and is now 'free'" in refused(capsys, "resume", "toy", "study.order=free")
    assert rows(Path("runs/toy/trials.csv")) == before


def test_a_search_of_free_order_on_simulated_workers_is_replayed_in_one_process_from_what_it_knew(capsys):
    searched(capsys, simulated(3, order="free"))
    learned = [row["learned"] for row in rows(Path("runs/toy/trials.csv"))]
    code, out, _ = hpo(capsys, "search", "--replay", "toy", "dispatch=local", "track=none")
    assert (code, "replayed: all 12 trials" in out, "would try other points" in out) == (0, True, True), out
    assert [row["learned"] for row in rows(Path("runs/toy-replay/trials.csv"))] == learned


COSTS = """
costs = iter([1.0, 1.0, {costs}])

def score(task):
    {body}
    return 1.0

def describe_cost(config):
    return {returned}
"""


def with_objective(costs="1.0", body="pass", returned="next(costs)"):
    """Return a study whose objective is a module of its own, since modules are imported once."""
    sys.modules.pop("costly", None)
    Path("costly.py").write_text(COSTS.format(costs=costs, body=body, returned=returned))
    Path("toy.yaml").write_text(yaml.safe_dump(toy_config("random", trials=3, objective="costly:score")))
    return "search", "--config", "toy.yaml"


@pytest.mark.parametrize("cost", ["0", "-1.0", "float('nan')", "float('inf')", "'much'"])
def test_a_cost_that_no_clock_can_count_is_refused_with_its_trial(capsys, cost):
    line = refused(capsys, *with_objective(cost))
    assert ("trial 1: costly" in line, "describe_cost must return a finite number above 0" in line) == (True, True)


@pytest.mark.parametrize(("body", "says"), [
    ("yield {'units': 3}; yield {'units': 3.5}", "at least 1 with every report, given 3.5 after 3"),
    ("yield {'units': 'all'}", "given 'all' after 0"),
    ("yield {'units': 4}; return {'score': 1.0, 'units': 2}", "end of the training must be at least 4, given 2"),
])  # fmt: skip
def test_units_that_shrink_are_a_failure_that_says_so(capsys, body, says):
    assert says in prints(capsys, *with_objective(body=body, returned="1.0"), code=1)


def test_a_point_that_the_objective_refuses_is_a_failed_trial_and_not_the_end(capsys):
    space = ["space=none", "+space.model.d_model=[16,24]", "+space.model.num_heads=[4,3]", "model.num_heads=4"]
    quick = [text for text in QUICK if not text.startswith(("space", "~space", "model.d_model", "study.trials"))]
    code, out, err = hpo(capsys, "search", *quick, *space, "strategy=grid", "study.trials=4", "split.folds=1")
    assert (code, "4 trials, 1 failed" in out, "num_heads" in out) == (0, True, True), out + err


def test_simulated_time_continues_where_a_search_has_ended(capsys):
    searched(capsys, simulated(2, trials=3))
    assert hpo(capsys, "resume", "toy", "study.trials=6")[0] == 0
    table = toolkit.load("toy").trials
    assert table["started"][3:].min() >= table["ended"][:3].max() > 0
