"""A study of several metrics and a limit, made again: its chosen one, all metrics, its search, its winner alone."""

import csv
import json
import shutil
from pathlib import Path

import pytest

from hpo.commands.replay import replay_of
from hpo.study.reproduce.recorded import recorded_winner
from hpo.study.reproduce.replay import compare_trials
from hpo.trials.table import read_rows
from tests.hpo.cli.commands import hpo
from tests.studies import prepared, run_toy, toy_config

GOAL = {
    "metrics": {"score": "maximize", "size": "minimize"},
    "limits": {"size": 4.5},
    # All sizes are on the front; of those within the limit neither the best score nor the least size.
    "choose": {"best": "score", "within": {"size": 2.5}},
}


def config(objective="noisy"):
    tree = toy_config("grid", {"toy": {"layers": [1, 2, 3, 4, 5]}}, 5, f"tests.toy_goals:{objective}")
    return tree | {"study": tree["study"] | {"name": "made", **GOAL}, "split": tree["split"] | {"folds": 3}}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "runs" / "made"
    run_toy(folder, config())
    return folder


@pytest.fixture
def place(made, tmp_path, monkeypatch):
    """Go where a copy of the study lies; return its folder."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(made, tmp_path / "runs" / "made")).relative_to(tmp_path)


def test_what_is_measured_on_the_machine_is_not_compared(capsys, place, monkeypatch):
    monkeypatch.setattr("tests.toy_goals.describe_method", lambda config: {"measured": ["size"]}, raising=False)
    number = str(report_of(place)["winner"]["number"])
    change_rows(place / "trials.csv", number, size="3.2")
    (place / "report.json").unlink()
    with monkeypatch.context() as without:
        without.delattr("tests.toy_goals.describe_method")
        code, out, _ = hpo(capsys, "reproduce", "made", "--trial", number)
    assert code == 1
    assert "of the objective return 'measured': ['size']" in out
    code, out, err = hpo(capsys, "reproduce", "made", "--trial", number)
    assert (code, "mean size" in out) == (0, False), out + err
    assert "not compared, because they depend on the machine: size" in out


def change_rows(path, number, **cells):
    """Write other cells into the row of a trial."""
    with path.open(newline="") as file:
        rows = [row | (cells if row["number"] == number else {}) for row in csv.DictReader(file)]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def report_of(folder):
    return json.loads((folder / "report.json").read_text())


def test_the_chosen_one_is_found_and_compared_in_all_metrics(capsys, place):
    winner = report_of(place)["winner"]
    assert winner["point"] == {"toy.layers": 3}
    code, out, _ = hpo(capsys, "reproduce", "made")
    assert (code, out.count(f"trial {winner['number']}  mean size"), out.count("mean ")) == (0, 1, 2), out
    # Without its report it is the same one, by the recorded losses, excess and choice.
    (place / "report.json").unlink()
    code, out, _ = hpo(capsys, "reproduce", "made")
    assert (code, out.count(f"trial {winner['number']}  ")) == (0, 4), out
    number = str(winner["number"])
    change_rows(place / "trials.csv", number, size="3.1")
    code, out, _ = hpo(capsys, "reproduce", "made")
    assert (code, out.count("<-- not reproduced")) == (1, 1)
    assert f"trial {number}  mean size  recorded 3.1 " in out
    assert "not reproduced: 1 of 3 trainings differ" in out
    # Some folds have no mean of all.
    assert "mean size" not in hpo(capsys, "reproduce", "made", "--folds", "0,1")[1]


def test_without_a_report_none_that_exceeds_a_limit_is_the_winner(place):
    study, rows = prepared(place, config()).config.study, read_rows(place / "trials.csv", ("number",))
    chosen = recorded_winner(rows, {}, study)
    assert chosen["toy.layers"] == "3"
    by_score = study.model_copy(update={"choose": "first_within_limits"})
    assert recorded_winner(rows, {}, by_score)["toy.layers"] == "4"
    single = study.model_copy(update={"metrics": None})
    assert recorded_winner(rows, {}, single)["toy.layers"] == "4"
    assert recorded_winner([row | {"size": "9"} for row in rows], {}, study) is None


def test_where_there_is_no_winner_it_says_why_and_what_to_give(capsys, place):
    report = report_of(place)
    winner, report["winner"] = report["winner"], {"missing": "there is no winner: no finalist keeps the limits"}
    (place / "report.json").write_text(json.dumps(report))
    code, _, err = hpo(capsys, "reproduce", "made")
    assert (code, err.count("\n")) == (2, 1), err
    assert "trial: there is no winner: no finalist keeps the limits; give the number of a complete trial (0, 1, " in err
    assert hpo(capsys, "reproduce", "made", "--trial", str(winner["number"]))[0] == 0
    (place / "report.json").unlink()
    for number, size in enumerate((9, 8, 7, 6, 8)):
        change_rows(place / "trials.csv", str(number), size=str(size))
    code, _, err = hpo(capsys, "reproduce", "made")
    assert (code, err.count("\n")) == (2, 1), err
    assert "there is no winner: no trial keeps the limits (size <= 4.5); the nearest is trial 3: score " in err


@pytest.mark.parametrize(("shift", "code"), [(0.0, 0), (0.5, 1)])
def test_what_a_report_says_of_further_metrics_is_compared(capsys, place, shift, code):
    report = report_of(place)
    row = recorded_winner(read_rows(place / "trials.csv", ("number",)), {}, prepared(place, config()).config.study)
    scores = {"score": {"mean": float(row["score"])}, "size": {"mean": float(row["size"]) + shift}}
    report["winner"]["scores"] = scores
    for path in (place / "report.json", Path("mailed.json")):
        path.write_text(json.dumps(report))
    seen, out, _ = hpo(capsys, "reproduce", "made")
    assert (seen, "report.json: winner.scores.size.mean is " in out) == (code, bool(code)), out
    seen, out, _ = hpo(capsys, "reproduce", "mailed.json")
    assert (seen, out.count("mean size")) == (code, 1), out


def test_a_replay_takes_the_goal_and_compares_all_metrics(place):
    asked = replay_of("made", ["track=none", "dispatch=local"], True)
    assert {name: asked.tree["study"][name] for name in GOAL} == GOAL
    other = place.parent / "other"
    shutil.copytree(place, other)
    assert compare_trials(asked, other / "trials.csv") == (5, {})
    # What follows from the scores is not compared beside them.
    change_rows(other / "trials.csv", "1", size="7.5", is_on_front="False", excess="1")
    assert compare_trials(asked, other / "trials.csv") == (5, {1: ["size"]})


def test_the_winner_alone_is_trained_for_all_metrics(capsys):
    run_toy(Path("runs/made"), config("pair"))
    row = recorded_winner(report_rows := read_rows(Path("runs/made/trials.csv"), ("number",)), {}, config_study("pair"))
    code, out, err = hpo(capsys, "train", "--config", "runs/made/best.yaml")
    assert (code, len(report_rows)) == (0, 5), err
    assert f"score = {float(row['fold_0']):.6g}\nsize = 3." in out


def config_study(objective):
    return prepared(Path("runs/made"), config(objective)).config.study


@pytest.mark.slow
def test_an_extension_has_the_chosen_one_first(capsys, place):
    code, out, err = hpo(capsys, "extend", "made", "--best", "2", "toy.momentum=0.9", "dispatch=local")
    assert code == 0, out + err
    assert f"trials {report_of(place)['winner']['number']}, " in out
    extended = report_of(Path("runs/made-extended"))
    assert extended["config"]["study"]["metrics"] == GOAL["metrics"]
    assert extended["winner"]["number"] == 0
