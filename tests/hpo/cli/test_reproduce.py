"""`hpo reproduce`: the recorded numbers again, from a folder alone; what changed since is said or refused.

What a report says is what a reproduction checks: every number that its trainings give, and the rest is named.
"""

import contextlib
import csv
import json
import re
import shutil
import sys
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest

import hpo as toolkit
from hpo.commands.replay import replay_of
from hpo.errors import StudyError
from hpo.report import reproduced
from hpo.study.files.folder import StudyFolder
from hpo.study.reproduce.again import Repetition, reproduce
from hpo.study.reproduce.recorded import read_files, read_recorded, recorded_winner
from hpo.study.reproduce.replay import compare_trials
from hpo.trials.table import read_rows
from tests.hpo.cli.commands import TABLE, TABLE_DATA, hpo, refused, searched
from tests.studies import STRATEGIES, prepared, run_toy, toy_config

GOAL = {
    "metrics": {"score": "maximize", "size": "minimize"},
    "limits": {"size": 4.5},
    # All sizes are on the front; of those within the limit neither the best score nor the least size.
    "choose": {"best": "score", "within": {"size": 2.5}},
}


def goals(objective="noisy"):
    """Return a study of two metrics and a limit, with three folds."""
    tree = toy_config("grid", {"toy": {"layers": [1, 2, 3, 4, 5]}}, 5, f"toy_goals:{objective}")
    return tree | {"study": tree["study"] | {"name": "goals", **GOAL}, "split": tree["split"] | {"folds": 3}}


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A folder with `made`, with three folds and two repeats, whose scores depend on their seeds; and `goals`."""
    folder = tmp_path_factory.mktemp("both")
    tree = toy_config("random", trials=4, objective="toy_data:noisy")
    tree |= {"study": tree["study"] | {"name": "made", "repeats": 2}, "split": tree["split"] | {"folds": 3}}
    with contextlib.chdir(folder):
        run_toy(folder / "runs" / "made", tree)
        run_toy(folder / "runs" / "goals", goals())
    return folder


@pytest.fixture
def study(both):
    """Put copies of both into the working directory; return the folder of `made`."""
    shutil.copytree(both / "runs", "runs")
    return Path("runs/made")


def report_of(folder):
    return json.loads((folder / "report.json").read_text())


def changed(folder, key, value):
    """Change one value of the report; return it as a file of its own, too."""
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


def change_rows(path, number, **cells):
    """Write other cells into the row of a trial."""
    with path.open(newline="") as file:
        rows = [row | (cells if row["number"] == str(number) else {}) for row in csv.DictReader(file)]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def test_the_winner_comes_out_the_same_to_the_last_bit(capsys, study):
    code, out, err = hpo(capsys, "reproduce", "made")
    assert (code, err) == (0, "")
    assert "bitwise equal scores" in out
    assert out.count("difference +0\n") == 6
    assert "reproduced: all 6 trainings, and " in out
    # What does not follow from the trainings is named.
    (line,) = (line for line in out.splitlines() if line.startswith("not checked: "))
    assert "top," in line.split()
    code, out, _ = hpo(capsys, "reproduce", "made", "--trial", "all")
    (line,) = (line for line in out.splitlines() if line.startswith("not checked: "))
    assert (code, "top" in line) == (0, False)


@pytest.mark.slow
def test_all_trials_some_folds_and_a_published_copy_alone(capsys, study):
    code, out, _ = hpo(capsys, "report", "made", "--publish")
    assert (code, "studies/made/trials.csv" in out) == (0, True)
    assert not (Path("studies/made") / "study.db").exists()
    shutil.rmtree("runs")
    code, out, _ = hpo(capsys, "reproduce", "studies/made", "--trial", "all", "--folds", "0,2")
    assert (code, "all 16 trainings" in out) == (0, True)
    code, out, _ = hpo(capsys, "reproduce", "studies/made", "--folds", "1")
    assert (code, "compared with the recorded values" in out) == (0, True)
    code, out, _ = hpo(capsys, "reproduce", "studies/made/report.json", "--trial", "2", "--folds", "1")
    assert (code, out.count("trial 2  fold_1_repeat_")) == (0, 2)


def test_the_winner_comes_out_of_the_report_alone(capsys, study):
    shutil.copy(study / "report.json", "mailed.json")
    winner = report_of(study)["winner"]["number"]
    shutil.rmtree("runs")
    code, out, err = hpo(capsys, "reproduce", "mailed.json")
    assert (code, err) == (0, "")
    assert "required: bitwise equal scores" in out
    assert out.count(f"trial {winner}  fold_") == 6
    assert f"the number of a complete trial ({winner})" in refused(capsys, "reproduce", "mailed.json", "--trial", "77")
    Path("mailed.json").write_text('{"format": 1}')
    assert "has no winner to train again" in refused(capsys, "reproduce", "mailed.json")


def test_a_file_that_was_changed_after_the_report_is_refused(capsys, study):
    for name in ("trials.csv", "config.yaml", "environment.json", "best.yaml"):
        before = (study / name).read_text()
        (study / name).write_text(before.replace("0", "2", 1))
        assert "differs from the file that the report was written with" in refused(capsys, "reproduce", "made")
        (study / name).write_text(before)


def test_a_score_that_does_not_come_out_ends_in_exit_code_1(capsys, study):
    (study / "report.json").unlink()
    score = float(read_rows(study / "trials.csv", ("number",))[0]["fold_0_repeat_0"])
    change_rows(study / "trials.csv", 0, fold_0_repeat_0=str(score - 0.5))
    code, out, _ = hpo(capsys, "reproduce", "made", "--trial", "0")
    assert code == 1
    assert out.count("<-- not reproduced") == 1
    assert "not reproduced: 1 of 6 trainings differ" in out
    assert hpo(capsys, "reproduce", "made", "--trial", "0", "--tolerance", "0.9")[0] == 0


@pytest.mark.slow
def test_another_version_is_said_first_and_widens_what_is_demanded(capsys, study):
    path = study / "environment.json"
    environment = json.loads(path.read_text())
    environment["packages"]["numpy"] = "1.0.0"
    path.write_text(json.dumps(environment))
    # As it would have been written there.
    assert hpo(capsys, "report", "made")[0] == 0
    code, out, _ = hpo(capsys, "reproduce", "made", "--folds", "0")
    lines = out.splitlines()
    assert (code, lines[0]) == (0, "what changed:")
    assert "packages: numpy was 1.0.0, is " in lines[1]
    assert "required: differences up to 2.0%" in out


@pytest.mark.slow
def test_code_that_changed_is_told_first_and_demands_no_less(capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(Path.cwd()))
    Path("own_train.py").write_text("def run_fold(task):\n    return {'score': task['config']['toy']['lr']}\n")
    searched(capsys, toy_config(trials=1, objective="own_train:run_fold"))
    assert "what changed: nothing" in hpo(capsys, "reproduce", "toy")[1]
    Path("own_train.py").write_text("def run_fold(task):\n    return {'score': task['config']['toy']['lr'] * 1.01}\n")
    del sys.modules["own_train"]
    shutil.rmtree("__pycache__", ignore_errors=True)
    shutil.copy("runs/toy/report.json", "mailed.json")
    for study in ("toy", "mailed.json"):
        code, out, _ = hpo(capsys, "reproduce", study)
        lines = out.splitlines()
        assert (code, lines[0]) == (1, "what changed:")
        assert re.fullmatch(r"  code: own_train\.py was [0-9a-f]+ and is now [0-9a-f]+", lines[1])
        assert "required: bitwise equal scores" in out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "name", "value", "says"),
    [
        ("revisions", "strategy random", 7, "code: revision of strategy random was 7 and is now 1"),
        ("toolkit", "files", "0123", "toolkit: its files were edited (hash 0123, now "),
        ("toolkit", "commit", "abc", None),
    ],
)
def test_other_revisions_and_files_of_the_toolkit_are_told_and_demand_no_less(capsys, study, part, name, value, says):
    changed(study, f"study.code.{part}.{name}", value)
    code, out, _ = hpo(capsys, "reproduce", "made", "--folds", "0")
    assert (code, "bitwise equal scores" in out) == (0, True)
    # A commit with the same files is no other code.
    assert ("toolkit" in out or "revision" in out, (says or "") in out) == (says is not None, True)


@pytest.mark.slow
def test_a_trial_that_was_continued_is_trained_from_the_start(capsys):
    halving = STRATEGIES["successive_halving"] | {"counts": "trials"}
    run_toy(Path("runs/toy"), toy_config(halving, trials=7, objective="toys:continued"))
    code, out, _ = hpo(capsys, "reproduce", "toy")
    assert (code, "trial 6  fold_0" in out) == (0, True)
    assert hpo(capsys, "reproduce", "toy", "--trial", "all")[0] == 0


@pytest.mark.slow
def test_data_in_another_place_are_found_and_other_data_are_said(capsys):
    """Those of a table, which no split knows."""
    shutil.copy(TABLE, "table.csv")
    assert hpo(capsys, "search", *TABLE_DATA, "track=none", "study.name=looked", "study.trials=4")[0] == 0
    Path("elsewhere").mkdir()
    shutil.move("table.csv", "elsewhere/table.csv")
    assert "table.csv" in refused(capsys, "reproduce", "looked")
    code, out, _ = hpo(capsys, "reproduce", "looked", "data.path=elsewhere/table.csv")
    assert (code, "what changed: nothing" in out) == (0, True), out
    with Path("elsewhere/table.csv").open("a") as table:
        table.write("\n")
    code, out, _ = hpo(capsys, "reproduce", "looked", "data.path=elsewhere/table.csv")
    assert (code, "data: table.csv was " in out) == (0, True)
    for wrong in ("model.layers=2", "data.path", "data.path="):
        assert hpo(capsys, "reproduce", "looked", wrong)[0] == 2


@pytest.mark.parametrize(
    ("file", "key"),
    [
        ("mailed.json", "winner.score"),
        *(("made", f"winner.{key}") for key in ("score", "n", "standard_deviation")),
        *(("made", key) for key in ("top.0.score", "best_so_far.trials.-1.score", "best_so_far.seconds.-1.score")),
    ],
)
def test_a_number_that_its_trainings_do_not_give_is_said_and_ends_in_exit_code_1(capsys, study, file, key):
    key = key.replace("-1", str(len(report_of(study)["best_so_far"]["trials"]) - 1))
    changed(study, key, lambda value: value + 1)
    code, out, _ = hpo(capsys, "reproduce", file)
    assert code == 1
    assert f"report.json: {key} is " in out
    assert out.count("<-- not reproduced") == 1
    assert "not reproduced: 0 of 6 trainings differ, and 1 of " in out


@pytest.mark.parametrize(
    ("key", "value", "arguments", "says"),
    [
        ("winner.values.fold_1_repeat_0", 7.5, (), "is 7.5, the trainings give "),
        ("winner.score", 0.93, ("--folds", "1"), "is 0.93, the recorded values give "),
        # What a tolerance allows for trainings it does not for a headline.
        ("winner.score", lambda score: score * 1.001, ("--tolerance", "0.1"), "is "),
    ],
)
def test_a_number_that_does_not_follow_from_the_folds_is_said(capsys, study, key, value, arguments, says):
    changed(study, key, value)
    code, out, _ = hpo(capsys, "reproduce", "made", *arguments)
    assert (code, f"report.json: {key} {says}" in out) == (1, True)


NO_NUMBER = "must be a finite number below 1e300, given"


@pytest.mark.parametrize(
    ("given", "key", "value", "says"),
    [
        ("mailed.json", "format", 99, "its format is 99, not 1: it was made by a later version"),
        ("made", "study.seed", 7, "study.seed is 7, but the configuration of the study has 0"),
        ("mailed.json", "winner.amount", 10**301, f"winner.amount {NO_NUMBER} 1000"),
        ("made", "winner.number", 77, "winner.number is 77, but no complete trial has this number"),
    ],
)
def test_what_contradicts_the_study_is_refused_by_name(capsys, study, given, key, value, says):
    changed(study, key, value)
    # The format is compared first, by the path of the file.
    file = given if key == "format" else "report.json"
    assert f"error: {file}: {says}" in refused(capsys, "reproduce", given)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("winner.values", lambda values: values | {"fold_9": 0.5}, "winner.values.fold_9 is no task of the study"),
        ("winner.point", lambda point: point | {"toy.depth": 9}, "winner.point is not the point of trial"),
        ("metric.direction", "minimize", "metric.direction is 'minimize'"),
        ("study.budget.trials", 400, "study.budget.trials is 400, but the configuration of the study has 4"),
        ("strategy.name", "tpe", "strategy.name is 'tpe', but the configuration of the study has 'random'"),
        ("fixed.toy.always", 9, "fixed.toy.always is 9, but the configuration"),
        ("space_size", 7, "space_size is 7, but the study has "),
        ("data.split.folds.1.train", 7, "data.split.folds.1.train is 7, but the study has "),
        ("data.size", 7, "data.size is 7, but the study has "),
        ("winner.run.trial", 77, "winner.run.trial is 77"),
        ("config.toy.always", 9, "config.toy.always is 9, but the configuration of the study has "),
        ("top.1.point", {}, "top.1.point is not the point of trial "),
        ("winner.score", float("nan"), f"winner.score {NO_NUMBER} nan"),
        ("winner.score", True, f"winner.score {NO_NUMBER} True"),
        ("counts.proposed", 10**301, f"counts.proposed {NO_NUMBER} 1000"),
        ("cost.wall_seconds", float("inf"), f"cost.wall_seconds {NO_NUMBER} inf"),
        ("winner.values.fold_0_repeat_0", "nan", f"winner.values.fold_0_repeat_0 {NO_NUMBER} 'nan'"),
        ("winner.values.fold_0_repeat_0", 1e308, f"winner.values.fold_0_repeat_0 {NO_NUMBER} 1e+308"),
        ("winner.values.fold_0_repeat_0", None, f"winner.values.fold_0_repeat_0 {NO_NUMBER} None"),
        ("winner.values", {}, "winner.values.fold_"),
        ("winner.values", None, "winner.values.fold_"),
    ],
)
def test_what_a_report_repeats_in_another_way_or_is_no_number_is_refused(recorded, key, value, says):
    report = deepcopy(dict(recorded.files.report))
    put(report, key, value)
    with pytest.raises(StudyError, match=re.escape(f"report.json: {says}")):
        refuse(recorded, report)


@pytest.mark.slow
def test_no_number_of_a_report_is_silently_false(recorded):
    """Each is refused, differs from what was compared, or is below a key that is named as not checked."""
    # Another number of the format is refused when the file is read.
    every = [(key, value) for key, value in reproduced.leaves(recorded.files.report) if key != "format"]
    numbers = [(key, value) for key, value in every if reproduced.is_number(value)]
    assert len(numbers) > 100
    layout, row = recorded.study.layout, recorded.winner
    values = {layout.name(index): float(row[layout.name(index)]) for index in range(layout.size)}
    trainings = [Repetition(int(row["number"]), name, value, value, None) for name, value in values.items()]
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
        named = reproduced.unchecked(edited, figures)
        assert {"of_a_later_version", "study.of_a_later_version"} <= {*named}
        if all(figure.holds for figure in figures) and not any(f"{key}.".startswith(f"{name}.") for name in named):
            silent.append(key)
    assert silent == []
    assert len(named) < 20


@pytest.fixture(scope="module")
def recorded(both):
    """Read the study once."""
    return replace(read_recorded(read_files(StudyFolder(both / "runs" / "made"))), is_same_study=True)


def refuse(recorded, report):
    """Return the study with another report, where that contradicts nothing."""
    reproduced.refuse_contradictions(report, recorded.study.config)
    edited = replace(recorded, files=replace(recorded.files, report=report))
    reproduced.refuse_other_study(edited)
    return edited


@pytest.mark.parametrize("text", ["nan", "1e999", "1e308", ""])
def test_what_is_no_score_in_trials_csv_is_refused(recorded, text):
    row = {**recorded.winner, "fold_0_repeat_0": text}
    with pytest.raises(StudyError, match=r"trials.csv: trial \d+: fold_0_repeat_0 must be a finite number, given "):
        reproduce(replace(recorded, rows=[row], winner=row), "best", None, print)


def test_from_python_a_number_that_differs_is_a_row_and_the_unchecked_are_named(study):
    changed(study, "winner.score", 0.93)
    found = toolkit.reproduce("made", progress=False)
    assert not found.is_reproduced
    assert list(found.table[~found.table["holds"]]["name"]) == ["report.json: winner.score"]
    assert "cost" in found.not_checked


@pytest.mark.slow
def test_the_checklist_says_whether_a_reproduction_was_tried_and_what_it_found(capsys, study):
    def says():
        assert hpo(capsys, "report", "made", "--checklist")[0] == 0
        lines = {(study / name).read_text() for name in ("checklist.md", "report.md", "report.html")}
        plain = [re.sub(r"`|</?code>", "", text) for text in lines]
        (found,) = {re.search(r"Reproduction: (.*?)\.(?:\n|</p>)", text)[1] for text in plain}
        return found.partition("; changed since: ")[0]

    assert says() == "not tried (hpo reproduce made)"
    winner = report_of(study)["winner"]["number"]
    assert hpo(capsys, "reproduce", "made")[0] == 0
    assert re.fullmatch(rf"tried on [\d-]{{10}}: all 6 trainings of trial {winner} equal to the last bit", says())
    changed(study, "winner.score", 0.93)
    assert hpo(capsys, "reproduce", "made", "--trial", "all", "--folds", "1")[0] == 1
    assert says().endswith("equal to the last bit; 1 different number in the report")
    assert "all 8 trainings of 4 trials, on fold 1 alone" in says()
    (study / "reproduction.json").write_text("{}")
    assert "reproduction.json: the file is not a result of `hpo reproduce`; remove" in refused(capsys, "report", "made")


@pytest.mark.slow
def test_a_finding_is_noted_only_where_the_study_was_made(capsys, monkeypatch, study):
    shutil.copy(study / "report.json", "mailed.json")
    assert hpo(capsys, "report", "made", "--publish")[0] == 0
    for name in ("mailed.json", "studies/made"):
        assert hpo(capsys, "reproduce", name)[0] == 0
    monkeypatch.setenv("XDG_STATE_HOME", str(Path("state").absolute()))
    assert hpo(capsys, "reproduce", "made", "--trust")[0] == 0
    assert not list(Path.cwd().rglob("reproduction.json"))


@pytest.fixture
def several(study):
    """Return the folder of the study of two metrics and a limit."""
    return study.with_name("goals")


def test_with_several_metrics_the_chosen_one_is_found_and_compared_in_all(capsys, several):
    winner = report_of(several)["winner"]
    number = winner["number"]
    assert winner["point"] == {"toy.layers": 3}
    code, out, err = hpo(capsys, "reproduce", "goals")
    assert (code, out.count(f"trial {number}  mean size"), out.count("mean ")) == (0, 1, 2), out + err
    # What the report says of further metrics is compared, too.
    changed(several, "winner.scores.size.mean", lambda mean: mean + 0.5)
    code, out, _ = hpo(capsys, "reproduce", "goals")
    assert (code, "report.json: winner.scores.size.mean is " in out) == (1, True), out
    code, out, _ = hpo(capsys, "reproduce", "mailed.json")
    assert (code, out.count("mean size")) == (1, 1), out
    # Without its report it is the same one, by the recorded losses, excess and choice.
    (several / "report.json").unlink()
    code, out, _ = hpo(capsys, "reproduce", "goals")
    assert (code, out.count(f"trial {number}  ")) == (0, 4), out
    change_rows(several / "trials.csv", number, size="3.1")
    code, out, _ = hpo(capsys, "reproduce", "goals")
    assert (code, out.count("<-- not reproduced")) == (1, 1)
    assert f"trial {number}  mean size  recorded 3.1 " in out
    assert "not reproduced: 1 of 3 trainings differ" in out
    # Some folds have no mean of all.
    assert "mean size" not in hpo(capsys, "reproduce", "goals", "--folds", "0,1")[1]


def test_what_is_measured_on_the_machine_is_not_compared(capsys, several, monkeypatch):
    monkeypatch.setattr("toy_goals.describe_method", lambda config: {"measured": ["size"]}, raising=False)
    number = report_of(several)["winner"]["number"]
    change_rows(several / "trials.csv", number, size="3.2")
    (several / "report.json").unlink()
    with monkeypatch.context() as without:
        without.delattr("toy_goals.describe_method")
        code, out, _ = hpo(capsys, "reproduce", "goals", "--trial", str(number))
    assert code == 1
    assert "of the objective return 'measured': ['size']" in out
    code, out, err = hpo(capsys, "reproduce", "goals", "--trial", str(number))
    assert (code, "mean size" in out) == (0, False), out + err
    assert "not compared, because they depend on the machine: size" in out


def test_where_there_is_no_winner_it_says_why_and_what_to_give(capsys, several):
    number = report_of(several)["winner"]["number"]
    changed(several, "winner", {"missing": "there is no winner: no finalist keeps the limits"})
    err = refused(capsys, "reproduce", "goals")
    assert "trial: there is no winner: no finalist keeps the limits; give the number of a complete trial (0, 1, " in err
    assert hpo(capsys, "reproduce", "goals", "--trial", str(number))[0] == 0
    (several / "report.json").unlink()
    for number, size in enumerate((9, 8, 7, 6, 8)):
        change_rows(several / "trials.csv", number, size=str(size))
    err = refused(capsys, "reproduce", "goals")
    assert "there is no winner: no trial keeps the limits (size <= 4.5); the nearest is trial 3: score " in err


def test_a_replay_takes_the_goal_and_compares_all_metrics(several):
    asked = replay_of("goals", ["track=none", "dispatch=local"], True)
    assert {name: asked.tree["study"][name] for name in GOAL} == GOAL
    shutil.copytree(several, "runs/other")
    assert compare_trials(asked, Path("runs/other/trials.csv")) == (5, {})
    # What follows from the scores is not compared beside them.
    change_rows(Path("runs/other/trials.csv"), 1, size="7.5", is_on_front="False", excess="1")
    assert compare_trials(asked, Path("runs/other/trials.csv")) == (5, {1: ["size"]})


def test_the_winner_alone_is_trained_for_all_metrics(capsys):
    run_toy(Path("runs/made"), goals("pair"))
    config = prepared(Path("runs/made"), goals("pair")).config.study
    row = recorded_winner(read_rows(Path("runs/made/trials.csv"), ("number",)), {}, config)
    code, out, err = hpo(capsys, "train", "--config", "runs/made/best.yaml")
    assert code == 0, err
    assert f"score = {float(row['fold_0']):.6g}\nsize = 3." in out


@pytest.mark.slow
def test_an_extension_has_the_chosen_one_first(capsys, several):
    code, out, err = hpo(capsys, "extend", "goals", "--best", "2", "toy.momentum=0.9", "dispatch=local")
    assert code == 0, out + err
    assert f"trials {report_of(several)['winner']['number']}, " in out
    extended = report_of(Path("runs/goals-extended"))
    assert extended["config"]["study"]["metrics"] == GOAL["metrics"]
    assert extended["winner"]["number"] == 0
