"""`hpo reproduce` and `hpo search --replay`: recorded numbers again; what changed or is not checked is said."""

import contextlib
import json
import re
import shutil
import sys
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from hpo.commands.replay import replay_of
from hpo.engine.strategies.evolutionary import Evolutionary
from hpo.errors import StudyError
from hpo.report import reproduced
from hpo.study.reproduce.again import Repetition, reproduce
from hpo.study.reproduce.recorded import read_files, read_recorded
from hpo.study.reproduce.replay import compare_trials
from hpo.trials.table import read_rows
from tests import tracked
from tests.hpo.cli.commands import TABLE, TABLE_DATA, change_row, hpo, main, printed, prints, refused, searched
from tests.studies import STRATEGIES, StudyFolder, prepared, refuses, rows, run_toy, toy_config

GOAL = {
    "metrics": {"score": "maximize", "size": "minimize"},
    "limits": {"size": 4.5},
    "choose": {"best": "score", "within": {"size": 2.5}},
    **{"finalists": 1, "finalist_repeats": 1},
}
FRESH = {"finalists": 2, "finalist_repeats": 1}
GOALS = Path("runs/goals")
NO_NUMBER = "must be a finite number below 1e300, given"


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A folder with `made`, whose scores depend on their seeds; and `goals`, with two metrics and a limit."""
    folder = tmp_path_factory.mktemp("both")
    made = toy_config("random", trials=4, objective="toy_data:noisy")
    goals = toy_config("grid", {"toy": {"layers": [1, 2, 3, 4, 5]}}, 5, "toy_goals:noisy")
    with contextlib.chdir(folder):
        for name, tree, study in (("made", made, {"repeats": 2} | FRESH), ("goals", goals, GOAL)):
            tree |= {"study": tree["study"] | {"name": name, **study}, "split": tree["split"] | {"folds": 3}}
            tracked.run(prepared(folder / "runs" / name, tree))
    return folder


@pytest.fixture
def study(both):
    shutil.copytree(both / "runs", "runs")
    return Path("runs/made")


def report_of(folder):
    return json.loads((folder / "report.json").read_text())


def changed(folder, key, value):
    report = report_of(folder)
    put(report, key, value)
    for path in (folder / "report.json", Path("mailed.json")):
        path.write_text(json.dumps(report))


def put(tree, key, value):
    """Write a value, or what a function makes of the one before, at a dotted key; names may have dots themselves."""
    for name in tree if isinstance(tree, dict) else map(str, range(len(tree))):
        place = name if isinstance(tree, dict) else int(name)
        if key == name:
            tree[place] = value(deepcopy(tree[place])) if callable(value) else value
        elif key.startswith(f"{name}."):
            put(tree[place], key.removeprefix(f"{name}."), value)


@pytest.mark.slow
def test_the_winner_comes_out_the_same_to_the_last_bit_and_what_was_not_checked_is_named(capsys, study):
    code, out, err = hpo(capsys, "reproduce", "made")
    assert (code, err, out.count("difference +0\n"), out.count("  fresh_")) == (0, "", 9, 3)
    assert ("bitwise equal scores" in out, "reproduced: all 9 trainings, and " in out) == (True, True)
    assert "\nnot checked: " in out


@pytest.mark.slow
def test_all_trials_some_folds_and_a_published_copy_alone(capsys, study):
    assert hpo(capsys, "report", "made", "--publish")[0] == 0
    shutil.rmtree("runs")
    assert "all 16 trainings" in prints(capsys, "reproduce", "studies/made", "--trial", "all", "--folds", "0,2")
    assert "not with the new trainings" in prints(capsys, "reproduce", "studies/made", "--folds", "1")
    out = prints(capsys, "reproduce", "studies/made/report.json", "--trial", "2", "--folds", "1")
    assert out.count("trial 2  fold_1_repeat_") == 2


def test_the_winner_comes_out_of_the_report_alone(capsys, study):
    shutil.copy(study / "report.json", "mailed.json")
    winner = report_of(study)["winner"]["number"]
    shutil.rmtree("runs")
    code, out, err = hpo(capsys, "reproduce", "mailed.json")
    assert (code, err, out.count(f"trial {winner}  fold_"), out.count("  fresh_")) == (0, "", 6, 3)
    assert "required: bitwise equal scores" in out
    for which in ("77", "all"):
        says = f"trial: must be 'best' or {winner}, given '{which}'; a report alone has only the winner"
        assert says in refused(capsys, "reproduce", "mailed.json", "--trial", which)
    Path("mailed.json").write_text('{"format": 1}')
    assert "has no winner to train again" in refused(capsys, "reproduce", "mailed.json")


def test_a_file_that_was_changed_after_the_report_is_refused(capsys, study):
    for name in ("trials.csv", "config.yaml", "environment.json", "best.yaml"):
        before = (study / name).read_text()
        (study / name).write_text(before.replace("0", "2", 1))
        assert "has changed since the report was written" in refused(capsys, "reproduce", "made")
        (study / name).write_text(before)


def test_a_score_that_does_not_come_out_ends_in_exit_code_1(capsys, study):
    (study / "report.json").unlink()
    score = float(read_rows(study / "trials.csv", ("number",))[0]["fold_0_repeat_0"])
    change_row(study / "trials.csv", 0, fold_0_repeat_0=str(score - 0.5))
    assert "not reproduced: 1 of 6 trainings differ" in prints(capsys, "reproduce", "made", "--trial", "0", code=1)
    assert hpo(capsys, "reproduce", "made", "--trial", "0", "--tolerance", "0.9")[0] == 0


@pytest.mark.slow
def test_code_that_changed_is_told_first_and_demands_no_less(capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(Path.cwd()))
    Path("own_train.py").write_text("def run_fold(task):\n    return {'score': task['config']['toy']['lr']}\n")
    searched(capsys, toy_config(trials=1, objective="own_train:run_fold"))
    assert "what changed: nothing" in hpo(capsys, "reproduce", "toy")[1]
    Path("own_train.py").write_text("def run_fold(task):\n    return {'score': task['config']['toy']['lr'] * 1.01}\n")
    del sys.modules["own_train"]
    shutil.rmtree("__pycache__", ignore_errors=True)
    code, out, _ = hpo(capsys, "reproduce", "toy")
    assert (code, "required: bitwise equal scores" in out) == (1, True)
    assert re.match(r"what changed:\n  code: own_train\.py was [0-9a-f]+ and is now [0-9a-f]+\n", out)


@pytest.mark.parametrize(("key", "value", "says", "required"), [
    ("environment.packages.numpy", "1.0.0", "packages: numpy was 1.0.0, is ", "differences up to 2.0%"),
    ("study.code.revisions.strategy random", 7, "code: revision of strategy random was 7 and is", "bitwise"),
    ("study.code.toolkit.files", "0123", "toolkit: its files were edited (hash 0123, now ", "bitwise"),
    # A commit with the same files is no other code.
    ("study.code.toolkit.commit", "abc", "nothing", "bitwise"),
])  # fmt: skip
def test_what_changed_is_said_first_and_only_other_versions_widen_the_demand(capsys, study, key, value, says, required):
    changed(study, key, value)
    out = prints(capsys, "reproduce", "mailed.json", "--folds", "0")
    assert (out.startswith("what changed:"), f"required: {required}" in out) == (True, True)
    assert says in "".join(out.splitlines()[:2])


@pytest.mark.slow
def test_a_trial_that_was_continued_is_trained_from_the_start(capsys):
    halving = STRATEGIES["successive_halving"] | {"counts": "trials"}
    run_toy(Path("runs/toy"), toy_config(halving, trials=7, objective="toys:continued"))
    assert "trial 6  fold_0" in prints(capsys, "reproduce", "toy")
    assert hpo(capsys, "reproduce", "toy", "--trial", "all")[0] == 0


@pytest.mark.slow
def test_data_in_another_place_are_found_and_other_data_are_said(capsys):
    shutil.copy(TABLE, "table.csv")
    assert hpo(capsys, "search", *TABLE_DATA, "track=none", "study.name=looked", "study.trials=2")[0] == 0
    Path("elsewhere.csv").write_text(Path("table.csv").read_text() + "\n")
    assert "data: table.csv was " in prints(capsys, "reproduce", "looked", "data.path=elsewhere.csv")
    Path("table.csv").rename("elsewhere.csv")
    assert "what changed: nothing" in prints(capsys, "reproduce", "looked", "data.path=elsewhere.csv")


@pytest.mark.parametrize(("words", "key", "value", "says"), [
    (["mailed.json"], "winner.score", lambda score: score + 1, "is "),
    (["made"], "top.0.score", lambda score: score + 1, "is "),
    (["made"], "winner.values.fold_1_repeat_0", 7.5, "is 7.5, the trainings give "),
    (["mailed.json"], "winner.fresh.score", 7.5, "is 7.5, the trainings give "),
    (["goals"], "winner.fresh.scores.size.mean", 7.5, "is 7.5, the trainings give "),
    (["made", "--folds", "1"], "winner.score", 0.93, "is 0.93, the recorded values give "),
    (["made", "--tolerance", "0.1"], "winner.score", lambda score: score * 1.001, "is "),
])  # fmt: skip
def test_a_number_that_its_trainings_do_not_give_is_said_with_exit_code_1(capsys, study, words, key, value, says):
    changed(GOALS if "goals" in words else study, key, value)
    out = prints(capsys, "reproduce", *words, code=1)
    assert (f"report.json: {key} {says}" in out, "not reproduced: 0 of " in out) == (True, True), out


def test_what_contradicts_the_study_is_refused_by_name(capsys, study):
    changed(study, "study.seed", 7)
    for name in ("made", "mailed.json"):
        says = "report.json: study.seed is 7, but the configuration of the study has 0"
        assert says in refused(capsys, "reproduce", name)
    changed(study, "study.seed", 0)
    changed(study, "winner.number", 77)
    assert "winner.number is 77, but no complete trial has this number" in refused(capsys, "reproduce", "made")


@pytest.mark.parametrize(("key", "value", "says"), [
    ("winner.values", lambda values: values | {"fold_9": 0.5}, "winner.values.fold_9 is no task of the study"),
    ("winner.point", lambda point: point | {"toy.depth": 9}, "winner.point is not the point of trial"),
    ("space_size", 7, "space_size is 7, but the study has "),
    ("strategy.name", "tpe", "strategy.name is 'tpe', but the configuration of the study has 'random'"),
    ("winner.score", True, f"winner.score {NO_NUMBER} True"),
    ("winner.score", float("nan"), f"winner.score {NO_NUMBER} nan"),
    ("cost.wall_seconds", float("inf"), f"cost.wall_seconds {NO_NUMBER} inf"),
    ("winner.values.fold_0_repeat_0", "nan", f"winner.values.fold_0_repeat_0 {NO_NUMBER} 'nan'"),
    ("winner.values", {}, "winner.values.fold_"),
    ("finalists.0.fresh_values", lambda values: values[1:], "finalists: trial 1 must have 3 fresh_values, one"),
    ("finalists.0.number", 3, "finalists: trial 1 must have 3 fresh_values, one per fold and fresh seed, given None"),
])  # fmt: skip
def test_what_a_report_repeats_in_another_way_or_is_no_number_is_refused(recorded, key, value, says):
    report = deepcopy(dict(recorded.files.report))
    put(report, key, value)
    refuses(StudyError, re.escape(f"report.json: {says}"), refuse, recorded, report)


@pytest.mark.slow
def test_no_number_of_a_report_is_silently_false(recorded):
    # Another number of the format is refused when the file is read.
    every = [(key, value) for key, value in reproduced.leaves(recorded.files.report) if key != "format"]
    numbers = [(key, value) for key, value in every if reproduced.is_number(value)]
    assert len(numbers) > 100
    layout, row = recorded.study.layout, recorded.winner
    values = {layout.name(index): float(row[layout.name(index)]) for index in range(layout.size)}
    trainings = [Repetition(int(row["number"]), name, value, value, None) for name, value in values.items()]
    fresh, _ = recorded.fresh_scores(int(row["number"]))
    trainings += [replace(trainings[0], name=f"fresh_{k}", recorded=x, is_fresh=True) for k, x in enumerate(fresh)]
    silent = []
    for key, value in numbers:
        report = deepcopy(dict(recorded.files.report)) | {"of_a_later_version": [{"at": 1}]}
        put(report, key, value + 1)
        report["study"]["of_a_later_version"] = 3
        try:
            edited = refuse(recorded, report)
        except StudyError:
            continue
        figures = reproduced.reported_numbers(edited, trainings)
        named = [name.removeprefix("other numbers of ") for name in reproduced.unchecked(edited, figures)]
        assert {"of_a_later_version", "study.of_a_later_version"} <= {*named}
        if all(figure.holds for figure in figures) and not any(f"{key}.".startswith(f"{name}.") for name in named):
            silent.append(key)
    assert silent == []
    assert len(named) < 20


@pytest.fixture(scope="module")
def recorded(both):
    return replace(read_recorded(read_files(StudyFolder(both / "runs" / "made"))), is_same_study=True)


def refuse(recorded, report):
    reproduced.refuse_contradictions(report, recorded.study.config)
    edited = replace(recorded, files=replace(recorded.files, report=report))
    reproduced.refuse_other_study(edited)
    return edited


@pytest.mark.parametrize("text", ["nan", "1e308", ""])
def test_what_is_no_score_in_trials_csv_is_refused(recorded, text):
    row = {**recorded.winner, "fold_0_repeat_0": text}
    with pytest.raises(StudyError, match=r"trials.csv: trial \d+: fold_0_repeat_0 must be a finite number, given "):
        reproduce(replace(recorded, rows=[row], winner=row), "best", None, print)


@pytest.mark.slow
def test_a_finding_is_noted_only_where_the_study_was_made(capsys, monkeypatch, study):
    shutil.copy(study / "report.json", "mailed.json")
    assert hpo(capsys, "report", "made", "--publish")[0] == 0
    for name in ("mailed.json", "studies/made"):
        assert hpo(capsys, "reproduce", name, "--folds", "0")[0] == 0
    monkeypatch.setenv("XDG_STATE_HOME", str(Path("state").absolute()))
    assert hpo(capsys, "reproduce", "made", "--trust", "--folds", "0")[0] == 0
    assert not list(Path.cwd().rglob("reproduction.json"))


@pytest.mark.slow
def test_the_checklist_says_whether_a_reproduction_was_tried_and_what_it_found(capsys, study):
    def says():
        assert hpo(capsys, "report", "made", "--checklist")[0] == 0
        text = (study / "checklist.md").read_text().replace("`", "")
        return re.search(r"Reproduction: (.*?)\.\n", text)[1].partition("; changed since: ")[0]

    assert says() == "not tried (hpo reproduce made)"
    winner = report_of(study)["winner"]["number"]
    assert hpo(capsys, "reproduce", "made")[0] == 0
    assert re.fullmatch(rf"tried on [\d-]{{10}}: all 9 trainings of trial {winner} returned the recorded .*", says())
    changed(study, "winner.score", 0.93)
    assert hpo(capsys, "reproduce", "made", "--trial", "all", "--folds", "1")[0] == 1
    assert says().endswith("the recorded values bit for bit; 1 different number in the report")
    (study / "reproduction.json").write_text("{}")
    assert "reproduction.json: the file is not a result of `hpo reproduce`; remove" in refused(capsys, "report", "made")


def test_with_several_metrics_the_chosen_one_is_found_and_compared_in_all(capsys, study):
    assert report_of(GOALS)["winner"]["point"] == {"toy.layers": 3}
    changed(GOALS, "winner.scores.size.mean", lambda mean: mean + 0.5)
    assert "report.json: winner.scores.size.mean is " in prints(capsys, "reproduce", "goals", code=1)
    (GOALS / "report.json").unlink()
    code, out, _ = hpo(capsys, "reproduce", "goals")
    assert (code, out.count("trial 0  "), out.count("trial 0  mean size")) == (0, 4, 1), out
    change_row(GOALS / "trials.csv", 0, size="3.1")
    out = prints(capsys, "reproduce", "goals", code=1)
    assert "not reproduced: 1 of 3 trainings differ" in out.partition("trial 0  mean size  recorded 3.1 ")[2]


def test_what_is_measured_on_the_machine_is_not_compared(capsys, study, monkeypatch):
    change_row(GOALS / "trials.csv", 0, size="3.2")
    (GOALS / "report.json").unlink()
    assert "objective's describe_method: {'measured': ['size']}" in prints(capsys, "reproduce", "goals", code=1)
    monkeypatch.setattr("toy_goals.describe_method", lambda config: {"measured": ["size"]}, raising=False)
    code, out, err = hpo(capsys, "reproduce", "goals")
    assert (code, "mean size" in out) == (0, False), out + err
    assert "metrics that depend on the machine are not compared: size" in out


def test_where_there_is_no_winner_it_says_why_and_what_to_give(capsys, study):
    changed(GOALS, "winner", {"missing": "there is no winner: no finalist keeps the limits"})
    err = refused(capsys, "reproduce", "goals")
    assert "trial: there is no winner: no finalist keeps the limits; give the number of a complete trial (0, 1, " in err
    (GOALS / "report.json").unlink()
    for number, size in enumerate((9, 8, 7, 6, 8)):
        change_row(GOALS / "trials.csv", number, size=str(size))
    err = refused(capsys, "reproduce", "goals")
    assert "there is no winner: no trial keeps the limits (size <= 4.5); the nearest is trial 3: score " in err


def test_a_replay_takes_the_goal_and_compares_all_metrics(study):
    asked = replay_of("goals", ["track=none", "dispatch=local"], True)
    assert {name: asked.tree["study"][name] for name in GOAL} == GOAL
    shutil.copytree(GOALS, "runs/other")
    assert compare_trials(asked, Path("runs/other/trials.csv")) == (5, {})
    change_row(Path("runs/other/trials.csv"), 1, size="7.5", is_on_front="False", excess="1")
    assert compare_trials(asked, Path("runs/other/trials.csv")) == (5, {1: ["size"]})


TREE = toy_config("evolutionary", trials=9)
ARGUMENTS = ("search", "--replay", "toy", "track=none")


@pytest.fixture(scope="module")
def evolved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    with contextlib.chdir(folder):
        Path("toy.yaml").write_text(yaml.safe_dump(TREE))
        assert main(["search", "--config", "toy.yaml"]) == 0
    return folder


@pytest.fixture
def toy(evolved):
    shutil.copytree(evolved / "runs", "runs")
    return Path("runs/toy")


@pytest.mark.slow
def test_a_search_comes_out_the_same_and_a_second_replay_says_that_it_trains_nothing(capsys, toy):
    report = json.loads((toy / "report.json").read_text())
    report["study"]["code"]["revisions"]["strategy evolutionary"] = 7
    (toy / "report.json").write_text(json.dumps(report))
    code, out, err = hpo(capsys, *ARGUMENTS, "dispatch=simulated", "dispatch.workers=3")
    assert f"code: revision of strategy evolutionary was 7 and is now {Evolutionary.REVISION}" in err
    assert (code, f"replayed: all 9 trials are the same as in {toy / 'trials.csv'}" in out) == (0, True)
    assert "runs/toy-replay exists: only missing trials" in prints(capsys, *ARGUMENTS, "dispatch=local")
    replayed, _ = printed(capsys, *ARGUMENTS, "dispatch=local")
    assert replayed["replay"] == {"of": str(toy.absolute()), "trials": 9, "tolerance": 0, "differing": {}}
    for more in (["strategy=grid"], ["--config", "toy.yaml"]):
        refused(capsys, *ARGUMENTS, *more)


@pytest.mark.slow
def test_a_trial_that_differs_is_named_and_the_exit_code_is_1(capsys, toy):
    change_row(toy / "trials.csv", 3, state="failed")
    code, _, err = hpo(capsys, *ARGUMENTS, "dispatch=local")
    assert (code, "trials.csv: has changed since the report was written" in err) == (2, True)
    (toy / "report.json").unlink()
    out = prints(capsys, *ARGUMENTS, "dispatch=local", code=1)
    assert ("trial 3 differs in state" in out, "not the same: 1 of 9" in out) == (True, True)


@pytest.mark.slow
def test_the_trials_that_a_published_search_imported_go_with_it(capsys, toy):
    toy.rename("runs/first")
    searched(capsys, TREE | {"study": TREE["study"] | {"imports": "first", "seed": 7}})
    assert hpo(capsys, "report", "toy", "--publish")[0] == 0
    shutil.rmtree("runs")
    code, out, _ = hpo(capsys, "search", "--replay", "studies/toy", "dispatch=local", "track=none")
    assert (code, "replayed: all 9 trials" in out) == (0, True), out
    assert "9 of 9 finished trials of studies/toy/imports.csv are imported" in out


@pytest.mark.slow
def test_on_another_machine_scores_may_differ_a_little_and_points_not_at_all(capsys, toy):
    path, place = toy / "trials.csv", toy / "environment.json"
    (toy / "report.json").unlink()
    place.write_text(json.dumps({**json.loads(place.read_text()), "processor": "another"}))
    third, fourth = (float(row["score"]) for row in rows(path)[3:5])
    change_row(path, 3, score=str(third * 1.01))
    out = prints(capsys, *ARGUMENTS, "dispatch=local")
    assert ("what changed: processor: was another" in out, "required: scores within 2.0%" in out) == (True, True)
    change_row(path, 4, score=str(fourth * 1.03))
    change_row(path, 5, **{"toy.width": "77"})
    code, out, _ = hpo(capsys, *ARGUMENTS, "dispatch=local")
    assert (code, "trial 4 differs in score" in out, "trial 5 differs in toy.width" in out) == (1, True, True), out
